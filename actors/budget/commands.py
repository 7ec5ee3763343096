"""What a budget can be told, and what can be due in it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from actors.budget.runes import Amounts, Limits, What
from actors.entity import Actor


class Open(msgspec.Struct, frozen=True):
    """Open an account."""

    scope: str
    limits: Limits = Limits()
    parent: str | None = None


class Reserve(msgspec.Struct, frozen=True):
    """Set something aside for a call."""

    key: str
    scope: str
    amounts: Amounts


class Settle(msgspec.Struct, frozen=True):
    """Count what a call used; None if nobody knows, then it is all that was set aside."""

    key: str
    used: Amounts | None = None


class Replenish(msgspec.Struct, frozen=True):
    """Raise the limits of an account."""

    scope: str
    amounts: Amounts
    actor: Actor = "user"


class Close(msgspec.Struct, frozen=True):
    """Close the account of an agent that is gone."""

    scope: str


class Warn(msgspec.Struct, frozen=True):
    """Say that a limit is near. Also an effect: it is due inward, whoever spent."""

    scope: str
    what: What


Command: TypeAlias = Open | Reserve | Settle | Replenish | Close | Warn

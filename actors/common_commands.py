"""Commands that several laws understand."""

from __future__ import annotations

import msgspec

from actors.entity import Actor


class Recover(msgspec.Struct, frozen=True):
    """Settle what is in doubt: the log says that something began, and not how it ended."""

    now: int = 0


class TimeUp(msgspec.Struct, frozen=True):
    """The deadline in the log has passed."""

    now: int
    text: str = ""
    """What there is by then, of an entity that keeps it."""


class Abandon(msgspec.Struct, frozen=True):
    """Come to an end: the actors of this entity kept crashing, and its parent decides for it."""

    reason: str


class Cancel(msgspec.Struct, frozen=True):
    """Stop at the next safe boundary and keep what there is."""

    reason: str
    actor: Actor = "user"
    """The cause: a user, or `system` for the runtime itself."""

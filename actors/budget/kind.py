"""A budget, as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from actors.budget import runes
from actors.budget.audits import Money
from actors.budget.lifecycle import ENTITY
from actors.kind import Kind

KIND: Final = Kind.of(
    ENTITY,
    prefix="budget",
    single=True,
    parents=("session",),
    in_table=False,  # the session's law knows it
    runes=(
        runes.Opened,
        runes.Reserved,
        runes.Settled,
        runes.Warning,
        runes.Exhausted,
        runes.Replenished,
        runes.Closed,
    ),
    invariants=(Money,),
    printed=False,
)

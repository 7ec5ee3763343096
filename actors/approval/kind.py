"""An approval, as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from actors.approval import runes
from actors.approval.lifecycle import ENTITY
from actors.kind import Kind

KIND: Final = Kind.of(
    ENTITY,
    prefix="apr",
    parents=("tool",),
    runes=(
        runes.Requested,
        runes.Awaiting,
        runes.Approved,
        runes.Rejected,
        runes.Executed,
        runes.Aborted,
    ),
)

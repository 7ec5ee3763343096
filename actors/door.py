"""Whether turns may begin in this process: that ends a while before the process does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from actors.hall import Offices

ASKED_BY_AN_AGENT: Final = "call_"
"""How messages begin that are the calls of other agents: parts of turns that run already."""


class Door:
    """Open until somebody closes it, from whichever thread."""

    def __init__(self) -> None:
        """Begin open."""
        self._is_open = True

    def close(self) -> None:
        """Let nothing more begin; what waits, waits for whoever opens the log next."""
        self._is_open = False

    def lets_in(self, message_id: str) -> bool:
        """Tell whether a message may become a turn: also then, if one that runs waits for it."""
        return self._is_open or message_id.startswith(ASKED_BY_AN_AGENT)


@dataclass(frozen=True, kw_only=True)
class OfficesWithDoor(Offices):
    """Offices that are closed in the end."""

    door: Door = field(default_factory=Door)


def lets_in(offices: Offices, message_id: str) -> bool:
    """Tell whether a message may become a turn here and now."""
    return not isinstance(offices, OfficesWithDoor) or offices.door.lets_in(message_id)

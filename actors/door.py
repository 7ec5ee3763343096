"""Whether turns may begin in this process: that ends a while before the process does."""

from __future__ import annotations

from typing import Final

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

"""Whether new turns may begin in this process; a process that drains admits none."""

from __future__ import annotations


class AdmissionGate:
    """Open until it is closed, from any thread."""

    def __init__(self) -> None:
        """Begin open."""
        self._is_open = True

    def close(self) -> None:
        """Admit no more turns: messages wait in the log until it is opened again."""
        self._is_open = False

    def admits(self, asked_in: str = "") -> bool:
        """Return True if a message may begin a turn; one asked within a running turn always may."""
        return self._is_open or bool(asked_in)

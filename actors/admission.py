"""Whether turns may begin in this process: that ends a while before the process does."""

from __future__ import annotations


class AdmissionGate:
    """Open until somebody closes it, from whichever thread."""

    def __init__(self) -> None:
        """Begin open."""
        self._is_open = True

    def close(self) -> None:
        """Let nothing more begin; what waits, waits for whoever opens the log next."""
        self._is_open = False

    def admits(self, asked_in: str = "") -> bool:
        """Tell whether a message may become a turn: also then, if it is asked in one that runs."""
        return self._is_open or bool(asked_in)

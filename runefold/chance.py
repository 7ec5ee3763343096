"""Ids and randomness from the operating system."""

from __future__ import annotations

import os
import random
import secrets
from typing import Final

_DRAWN_AT_ONCE: Final = 64
_stock: Final[list[str]] = []
"""Ids that were drawn and not given away. To ask the system for each would give the interpreter out
of hand each time, and whoever has it then keeps it for a while. A child of a fork has its own."""
os.register_at_fork(after_in_child=_stock.clear)


class SystemChance:
    """Ids that cannot be guessed, and pauses that differ between callers."""

    def __init__(self) -> None:
        """Begin with a seed of the system's."""
        self._random = random.SystemRandom()

    def id(self, prefix: str) -> str:
        """Return a new id: the prefix, an underscore and 16 hex digits."""
        while True:
            try:
                return f"{prefix}_{_stock.pop()}"
            except IndexError:
                drawn = secrets.token_hex(8 * _DRAWN_AT_ONCE)
                _stock.extend([drawn[at : at + 16] for at in range(0, len(drawn), 16)])

    def between(self, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        return self._random.uniform(low, high)

"""Ids and randomness from the operating system."""

from __future__ import annotations

import random
import secrets


class SystemChance:
    """Ids that nobody can guess, and pauses that nobody agrees on."""

    def __init__(self) -> None:
        """Begin with a seed of the system's."""
        self._random = random.SystemRandom()

    def id(self, prefix: str) -> str:
        """Return a new id: the prefix, an underscore and 16 hex digits."""
        return f"{prefix}_{secrets.token_hex(8)}"

    def between(self, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        return self._random.uniform(low, high)

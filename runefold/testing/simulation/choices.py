"""Chance as a list of choices: drawn from a seed and written down, or played again from a list."""

from __future__ import annotations

import hashlib
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Choices(Random):
    """Chooses who goes first, and remembers what it chose.

    >>> choices = Choices(7, disorder=100)
    >>> first = [choices.randrange(10) for _ in range(5)]
    >>> again = Choices(7, given=choices.chosen)
    >>> [again.randrange(10) for _ in range(5)] == first
    True
    >>> again.randrange(10)
    0
    """

    def __init__(
        self, seed: int, *, disorder: int = 100, given: Sequence[int] | None = None
    ) -> None:
        """Draw from `seed`, something other than the first `disorder` times in a hundred.

        With choices that are `given`, take those, and the first of all beyond their end.
        """
        super().__init__(f"order of {seed}")
        self._disorder = disorder / 100
        self._given = given
        self._digest = hashlib.blake2b(digest_size=16)
        self.chosen: list[int] = []
        """What was chosen, where there was a choice."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Choose one of `start` things, by its number."""
        assert stop is None
        assert step == 1
        if start <= 1:
            return 0
        number = self._next(start)
        self.chosen.append(number)
        self.note(b"%d of %d" % (number, start))
        return number

    def _next(self, count: int) -> int:
        at = len(self.chosen)
        if self._given is not None:
            return self._given[at] % count if at < len(self._given) else 0
        if self.random() >= self._disorder:
            return 0
        return int(self.random() * count)

    def note(self, what: bytes) -> None:
        """Take something that happened into the trace's hash."""
        self._digest.update(what)

    @property
    def trace(self) -> str:
        """A hash of everything that was chosen and noted."""
        return self._digest.hexdigest()

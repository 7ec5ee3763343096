"""May we restart? So many times within a period: more would only hide what is wrong. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Intensity(NamedTuple):
    """How many restarts are allowed within a period, and those that are still remembered.

    >>> few = Intensity(limit=1, period=10)
    >>> few = few.counting(now=100)
    >>> few.exceeded
    False
    >>> few.counting(now=110).exceeded
    True
    >>> few.counting(now=111).exceeded
    False
    """

    limit: int
    period: int
    """In the same unit as the times that are counted."""
    times: tuple[int, ...] = ()

    def counting(self, now: int) -> Intensity:
        """Count one more restart; those older than the period are forgotten."""
        # A clock that was set back leaves times that have not come yet: they would count too long.
        recent = (time for time in self.times if now - self.period <= time <= now)
        return self._replace(times=(*recent, now))

    @property
    def exceeded(self) -> bool:
        """Whether there were more than are allowed."""
        return len(self.times) > self.limit

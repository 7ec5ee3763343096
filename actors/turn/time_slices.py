"""Slices of wall time: a turn's clock, and how it pays for its time where a budget limits it.

The clock runs while the turn works, and stands while nothing but a human is waited for. Time passes
by itself, so it is set aside a slice at a time, each before it begins. A slice that has passed is
counted whole, and the next one begins where it ended; the end of the turn counts what has passed
until then. After a crash it is not known how much of a slice had passed: it counts whole, and as
estimated. Where no slice can be set aside any more, what is under way is cancelled, and the turn
ends at the next safe boundary.

A slice is a small part of the tightest limit. So a crash costs no more than that part; others that
work under the same limit do not wait for what one of them will not need; and a limit is never
passed, only reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from actors.budget.lifecycle import State as Budget
from actors.budget.lifecycle import afford, lineage, spoken_for
from actors.budget.runes import BUDGET_EXHAUSTED, Amounts
from actors.turn.runes import TimeReserved, TimeSettled

if TYPE_CHECKING:
    from runelog.rune import Rune

PARTS: Final = 20
"""Into so many slices a limit is divided."""
SHORTEST: Final = 1_000_000_000
"""No slice need be shorter, in nanoseconds, unless less is left."""


class TimeSlice(msgspec.Struct, frozen=True):
    """Time that is set aside in the budget and passes now."""

    key: str
    until: int
    """When all of it will have passed."""
    length: int


# -- commands and effects ----------------------------------------------------------------------


class Run(msgspec.Struct, frozen=True):
    """Let the clock run: set a slice of time aside, unless the budget has none."""

    now: int


class Stand(msgspec.Struct, frozen=True):
    """Let the clock stand, if a human is waited for."""

    now: int
    anyhow: bool = False
    """Also if the turn works: the process ends in order, and knows what time it is."""


class StartClock(msgspec.Struct, frozen=True):
    """The turn works and no time is set aside for it. Comes back as `Run`."""

    number: int


class Tick(msgspec.Struct, frozen=True):
    """Time passes outside of the process too: after a crash it is in doubt how much had passed."""

    key: str


class StopClock(msgspec.Struct, frozen=True):
    """A human is waited for: that is not the turn's time. Comes back as `Stand`."""

    key: str


class Halt(msgspec.Struct, frozen=True):
    """What is under way has to be cancelled, with this reason: there is no time for it."""

    reason: str


# -- rules -------------------------------------------------------------------------------------


def slice_length(budget: Budget, scope: str) -> int:
    """Return how much time may be set aside next; 0 if none is left, or if nothing limits it.

    >>> from actors.budget.lifecycle import Scope, State
    >>> from actors.budget.runes import Limits
    >>> slice_length(State(scopes=(Scope("agt_1", limits=Limits(wall=60 * SHORTEST)),)), "agt_1")
    3000000000
    """
    lengths = [
        min(max(limit // PARTS, SHORTEST), limit - spoken_for(account, "wall"))
        for account in lineage(budget, scope)
        if (limit := account.limits.wall) is not None
    ]
    return max(min(lengths, default=0), 0)


def begin_slice(
    before: TimeSlice | None, key: str, scope: str, now: int, budget: Budget
) -> list[Rune]:
    """Count the slice before, which has passed, and set the next one aside if there is room."""
    passed = [] if before is None else [_counted(before, before.length)]
    # Of nothing that is left, a little is asked for: that says which limit stands in the way.
    length = max(slice_length(budget, scope), 1)
    until = (now if before is None else before.until) + length
    reserved = TimeReserved(slice_id=key, until=until, account=scope, reserved=Amounts(wall=length))
    return [*passed, afford(budget, reserved) or reserved]


def end_slice(current: TimeSlice | None, now: int | None) -> list[Rune]:
    """Count what has passed of a slice; all of it if it is not known what time it is."""
    if current is None:
        return []
    if now is None:
        return [_counted(current, current.length, estimated=True)]
    passed = now - (current.until - current.length)
    return [_counted(current, min(max(passed, 0), current.length))]


def _counted(current: TimeSlice, wall: int, *, estimated: bool = False) -> TimeSettled:
    return TimeSettled(slice_id=current.key, charged=Amounts(wall=wall), estimated=estimated)


def clock_effects(
    current: TimeSlice | None,
    number: int,
    *,
    broke: bool,
    works: bool,
    goes_on: bool,
    ends: bool,
) -> list[StartClock | Tick | StopClock | Halt]:
    """Return what has to be done about a turn's clock; one that `ends` needs no more time."""
    if current is not None:
        return [Tick(current.key) if works else StopClock(current.key)]
    if broke:
        return [Halt(BUDGET_EXHAUSTED)] if goes_on else []
    return [StartClock(number)] if works and not ends else []

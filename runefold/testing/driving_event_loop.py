"""The event loop of an app whose runtime is on a manual scheduler: it drives the scheduler.

While all tasks of the app wait, actors run. (Async providers and tools run on another event loop,
`actors.scheduling.manual_event_loop`, which is driven by the scheduler.)
"""

from __future__ import annotations

import asyncio
import math
import selectors
from functools import partial
from typing import TYPE_CHECKING

from actors.errors import Unanswered
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Scheduler


class _Idle(selectors.DefaultSelector):
    """Used by a loop whose tasks all wait: takes a step of the scheduler before it blocks."""

    def __init__(self, go_on: Callable[[float | None], bool]) -> None:
        super().__init__()
        self._go_on = go_on

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what there is from outside; block for it only if nothing else can happen."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0) or self._go_on(timeout):
            return found
        return super().select(timeout)


class DrivingEventLoop(asyncio.SelectorEventLoop):
    """An event loop on the scheduler's clock: its timers and the alarms are of one time.

    While all of its tasks wait, the scheduler takes a step. When that has none left either, the
    clock is moved to what is due first. So nothing really waits, and every run is the same.
    """

    def __init__(self, scheduler: ManualScheduler) -> None:
        """Begin at zero, and drive the scheduler from now on."""
        self._scheduler = scheduler
        self._began = scheduler.clock.now()
        scheduler.driven = True
        super().__init__(_Idle(self._go_on))

    def time(self) -> float:
        """Return the seconds by which the clock was moved."""
        return (self._scheduler.clock.now() - self._began) / SECOND

    def close(self) -> None:
        """Close the loop, and leave the scheduler to others."""
        self._scheduler.driven = False
        super().close()

    def _go_on(self, timeout: float | None) -> bool:
        """Make one thing happen while the loop waits; return False if there is nothing."""
        scheduler = self._scheduler
        if scheduler.is_halted:
            # Its process is dead: no task may see what comes after that.
            msg = "nothing goes on any more"
            raise Unanswered(msg)
        timer = None
        if timeout is not None:
            timer = scheduler.clock.now() + max(1, math.ceil(timeout * SECOND))
        if scheduler.go_on(timer):
            return True
        if timer is None:
            return scheduler.give_up()
        scheduler.clock.move_to(timer)
        return True


def loop_for(scheduler: Scheduler) -> Callable[[], DrivingEventLoop] | None:
    """Return a factory of event loops for a scheduler; None if it goes on by itself."""
    return partial(DrivingEventLoop, scheduler) if isinstance(scheduler, ManualScheduler) else None

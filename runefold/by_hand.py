"""An event loop for a runtime that is driven by hand: who waits in it lets all others go on."""

from __future__ import annotations

import asyncio
import math
import selectors
from functools import partial
from typing import TYPE_CHECKING

from actors.clock import SECOND
from actors.errors import Unanswered
from actors.hand import HandScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Awaited, Scheduler


class _Idle(selectors.DefaultSelector):
    """Asked by a loop whose tasks all wait; looks first for somebody else who can go on."""

    def __init__(self, go_on: Callable[[float | None], bool]) -> None:
        super().__init__()
        self._go_on = go_on

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what there is from outside; wait for it only if nobody here can go on."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0) or self._go_on(timeout):
            return found
        return super().select(timeout)


class HandLoop(asyncio.SelectorEventLoop):
    """An event loop with the scheduler's time: its timers and the alarms are of one clock.

    While all of its tasks wait, the scheduler takes a step. When that has none left either, the
    clock is moved to whatever is due first. So nobody really waits, and every run is the same.
    """

    def __init__(self, scheduler: HandScheduler) -> None:
        """Begin at zero."""
        self._hand = scheduler
        self._began = scheduler.clock.now()
        self._waiting: dict[asyncio.Future[bool], Awaited] = {}
        super().__init__(_Idle(self._go_on))

    def time(self) -> float:
        """Return the seconds that the clock has been moved by."""
        return (self._hand.clock.now() - self._began) / SECOND

    async def until(self, awaited: Awaited) -> bool:
        """Wait until something is there; False if nothing more happens by itself."""
        if awaited.is_there():
            return True
        there: asyncio.Future[bool] = self.create_future()
        self._waiting[there] = awaited
        try:
            return await there
        finally:
            del self._waiting[there]

    def _go_on(self, timeout: float | None) -> bool:
        """Have one thing happen while the loop waits; tell whether there was any."""
        hand, now = self._hand, self._hand.clock.now()
        if hand.is_halted:
            # Its process is dead: no task is to see what comes after that.
            msg = "nothing goes on any more"
            raise Unanswered(msg)
        if hand.step() or hand.at_rest():
            self._tell()
            return True
        timer = None if timeout is None else now + max(1, math.ceil(timeout * SECOND))
        due = [when for when in (hand.clock.next_alarm, timer) if when is not None]
        if due:
            hand.clock.move_to(min(due))
            self._tell()
            return True
        return self._tell(in_vain=True)

    def _tell(self, *, in_vain: bool = False) -> bool:
        """Wake those whose time has come, or all of them; tell whether there were any."""
        woken = False
        for there, awaited in self._waiting.items():
            if not there.done() and (in_vain or awaited.is_there()):
                there.set_result(awaited.is_there())
                woken = True
        return woken


def loop_for(scheduler: Scheduler) -> Callable[[], HandLoop] | None:
    """Return what makes an event loop beside a scheduler; None if any loop will do."""
    return partial(HandLoop, scheduler) if isinstance(scheduler, HandScheduler) else None

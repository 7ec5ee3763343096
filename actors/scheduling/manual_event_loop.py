"""The event loop of a runtime on a manual scheduler: async providers and tools run on it.

The scheduler drives it: its rounds are steps among those of lanes and jobs. (The event loop of an
app, which drives the scheduler while its tasks wait, is `runefold.testing.driving_event_loop`.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from actors.scheduling.manual_scheduler import ManualScheduler


class ManualEventLoop(asyncio.SelectorEventLoop):
    """Takes one round for each step of its scheduler; its timers are alarms of that one's clock."""

    name: Final = "event loop"

    def __init__(self, scheduler: ManualScheduler) -> None:
        """Begin with nothing to do."""
        self._scheduler = scheduler
        self._began = scheduler.clock.now()
        self._in_line = True  # it cannot be, before it is complete
        super().__init__()
        self.set_exception_handler(_ignore)
        self._in_line = False

    def __del__(self) -> None:
        """Close it: a runtime that is killed by hand closes nothing."""
        if not self.is_closed():
            self.close()

    def _make_self_pipe(self) -> None:
        """Need none: nothing wakes it from outside, and it may be found by the collector."""

    def _close_self_pipe(self) -> None:
        """Have none."""

    def time(self) -> float:
        """Return the seconds by which the clock was moved."""
        return (self._scheduler.clock.now() - self._began) / SECOND

    def call_soon(  # type: ignore[override]  # its base takes any callback as well
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 -- as its base
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run something with the next step."""
        self._line_up()
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]  # as above
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 -- as its base
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run something with the next step; there is one thread only."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 -- as its base
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run something once the scheduler's clock was moved so far."""
        timer = super().call_at(when, callback, *args, context=context)
        # A nanosecond later than it may be: rounded, it must not be too early.
        self._scheduler.clock.at(self._began + round(when * SECOND) + 1, self._line_up)
        return timer

    def _line_up(self) -> None:
        if not self._in_line and not self.is_closed():
            self._in_line = True
            self._scheduler.line_up(self)

    def step(self) -> None:
        """Run what is ready now, also within a task of another loop that drives the scheduler."""
        if self.is_closed():
            return
        around = asyncio._get_running_loop()  # noqa: SLF001 -- meant for code that runs loops
        asyncio._set_running_loop(None)  # noqa: SLF001 -- as above
        try:
            super().call_soon(self.stop)
            self.run_forever()
        finally:
            asyncio._set_running_loop(around)  # noqa: SLF001 -- as above
            self._in_line = False
        if self._ready:  # type: ignore[attr-defined]  # what became ready in this round
            self._line_up()


def _ignore(_loop: asyncio.AbstractEventLoop, _context: dict[str, Any]) -> None:
    """Say nothing of tasks that are dropped: their process was killed by hand."""

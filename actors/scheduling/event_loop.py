"""The event loop that async providers and async tools of a runtime run on: one for all of them.

So what belongs to an event loop (an HTTP client, a semaphore, a pool of connections) works across
calls. It is a thread of the runtime's own, begun with the first async call, or the loop of the app.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from actors.operator_log import log
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW: Final = 0.1
"""Seconds that async code may hold the event loop up before operators are told."""


class EventLoopClosed(Exception):
    """The event loop is closed: nothing can be begun on it."""


class TimedSteps(Coroutine[Any, Any, None]):
    """A coroutine that is named in the operator's log when a step of it blocks the event loop."""

    def __init__(
        self,
        name: str,
        inner: Coroutine[Any, Any, None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Time what goes on within; seconds by the clock `now`."""
        self._name = name
        self._inner = inner
        self._now = now

    def __await__(self) -> Any:  # noqa: ANN401 -- a generator of what it waits for
        """Await it as part of another coroutine: the steps are those of that one."""
        return self._inner.__await__()

    def send(self, value: Any) -> Any:  # noqa: ANN401 -- as a coroutine has it
        """Take a step."""
        began = self._now()
        try:
            return self._inner.send(value)
        finally:
            self._took(self._now() - began)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401 -- as above
        """Take a step with an error, such as that it is cancelled."""
        began = self._now()
        try:
            return self._inner.throw(*error)
        finally:
            self._took(self._now() - began)

    def close(self) -> None:
        """End it where it is."""
        self._inner.close()

    def __del__(self) -> None:
        """End it if it is dropped before it began: the process was killed by hand."""
        self._inner.close()

    def _took(self, seconds: float) -> None:
        if seconds >= SLOW:
            log.warning("event_loop_blocked", by=self._name, seconds=round(seconds, 3))


class AsyncJob:
    """A task on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Coroutine[Any, Any, None]) -> None:
        """Begin before it is a task."""
        self._loop = loop
        self._run = run
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def begin(self) -> None:
        """Make it a task; on the event loop."""
        if self._cancelled:
            self._run.close()
            return
        self._task = self._loop.create_task(self._run)
        self._task.add_done_callback(_ended)

    def wake(self) -> None:
        """Cancel it: whatever it awaits raises `CancelledError`."""
        self._cancelled = True
        # If the loop is closed, so is this.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("work_failed", exc_info=error)


def begin(loop: asyncio.AbstractEventLoop, name: str, run: Coroutine[Any, Any, None]) -> AsyncJob:
    """Run a coroutine as a task of a loop; `EventLoopClosed` if that is closed."""
    job = AsyncJob(loop, TimedSteps(name, run))
    try:
        loop.call_soon_threadsafe(job.begin, context=contextvars.Context())
    except RuntimeError as error:
        run.close()
        msg = f"the event loop is closed, so {name} cannot begin: open the runtime with another"
        raise EventLoopClosed(msg) from error
    return job


class EventLoop:
    """The event loop of a runtime on real threads."""

    def __init__(self, given: asyncio.AbstractEventLoop | None = None) -> None:
        """Use the loop of the app, or begin one with the first call."""
        self._given = given
        self._own: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def threads(self) -> int:
        """How many threads it has begun."""
        return int(self._thread is not None)

    def begin(self, name: str, run: Coroutine[Any, Any, None]) -> AsyncJob:
        """Run a coroutine on the loop, from any thread."""
        return begin(self._given or self._started(), name, run)

    def is_here(self) -> bool:
        """Return True if this thread runs the loop."""
        if self._own is None and self._given is None:
            return False
        running = asyncio._get_running_loop()  # noqa: SLF001 -- the public one raises if there is none
        return running is not None and running in (self._given, self._own)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._own is None:
                self._own = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._live, args=(self._own,), name="runefold-async", daemon=True
                )
                self._thread.start()
            return self._own

    @staticmethod
    def _live(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            _wind_up(loop)

    def close(self) -> None:
        """End the loop, if it is ours: what still runs is cancelled, and its call is in doubt."""
        with self._lock:
            own, thread = self._own, self._thread
        if own is None or thread is None:
            return
        try:
            own.call_soon_threadsafe(own.stop)
        except RuntimeError:
            return  # it was closed before
        if thread is not threading.current_thread():
            thread.join(ENDS_WITHIN)


ENDS_WITHIN: Final = 5.0
"""How many seconds a close waits for what runs to take notice that it is cancelled."""


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left on a loop, as `asyncio.run` does, and close it."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    try:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def refuse_wait(instead: str) -> Refused:
    """Return the error of a call that would hold up the event loop it is made on."""
    msg = (
        "this thread runs the event loop of async providers and tools, which would stand still: "
        f"write `{instead}`, or call it with `await asyncio.to_thread(...)`"
    )
    return Refused(msg)

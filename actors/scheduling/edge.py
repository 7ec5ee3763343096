"""The edge, where callers outside of the actors wait with their threads.

What is asked at the edge is written once, as coroutines that wait by an `Edge`. `run` takes one to
its end for a caller that waits with its thread; tasks of an event loop await it, with an edge of
theirs (`runefold.observe.async_notify.AsyncEdge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actors.ports import Awaited, Scheduler

T = TypeVar("T")


class BlockingEdge:
    """Waits with the thread of the caller."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Wait as the scheduler does."""
        self._scheduler = scheduler

    def check(self) -> None:
        """Raise on the thread that runs the actors, and in a forked child."""
        self._scheduler.check_may_wait()

    async def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Wait for what an actor will answer; return True if it came in time."""
        return self._scheduler.wait(awaited, timeout)

    async def read(self, call: Callable[[], T]) -> T:
        """Read from the log, here."""
        return call()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Take a coroutine that waits by a `BlockingEdge` to its end: it never pauses."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    msg = "this coroutine waits for an event loop: await it there"
    raise AssertionError(msg)

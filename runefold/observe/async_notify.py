"""Wakes coroutines that wait for the log: one watch for all of them, while there are any.

The watch follows the log and notifies the waiters of the conversation that a rune is in. A waiter
costs no thread, and one that is cancelled leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

from actors.errors import Overloaded, Unanswered
from runelog.errors import Closed
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator

    from actors.ports import Scheduler
    from runelog.log import Log
    from runelog.rune import Envelope

T = TypeVar("T")

LINGER: Final = 0.5
"""Seconds that the watch goes on without a waiter: most wait again soon."""


class Waiter:
    """Waits in an event loop for runes of a conversation, or of any."""

    def __init__(
        self,
        conversation: str | None,
        kinds: Collection[str] | None,
        takes: Callable[[Envelope], bool] | None = None,
    ) -> None:
        """Wait for runes of all kinds, or of some, which are then kept until they are taken.

        Or for those that `takes` accepts; they are not kept.
        """
        self.conversation = conversation
        self._kinds = kinds
        self._takes = takes
        self._loop = asyncio.get_running_loop()
        self._notified = asyncio.Event()
        self._news: list[Envelope] = []
        self._failure: Exception | None = None

    # -- in the thread ------------------------------------------------------------------------

    def notify(self, item: Envelope | Gap) -> None:
        """Take notice of a rune."""
        if self._kinds is None or isinstance(item, Gap):
            # The event belongs to the loop; at worst it is set twice.
            if not self._notified.is_set() and self._is_due(item):
                self._call(self._notified.set)
        elif item.kind in self._kinds:
            self._call(lambda: self._take(item))

    def _is_due(self, item: Envelope | Gap) -> bool:
        return self._takes is None or isinstance(item, Gap) or self._takes(item)

    def fail(self, failure: Exception) -> None:
        """Raise this in the coroutine: no more runes will come."""
        self._call(lambda: self._fail(failure))

    def _call(self, call: Callable[[], object]) -> None:
        # No coroutine waits in a loop that is closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    # -- in the loop --------------------------------------------------------------------------

    def _take(self, item: Envelope) -> None:
        self._news.append(item)
        self._notified.set()

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self._notified.set()

    def clear(self) -> None:
        """Forget past notifications: the caller looks at the log now."""
        self._notified.clear()

    async def wait(self, seconds: float | None) -> bool:
        """Wait until it is notified; return True if it was, in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        except TimeoutError:
            return False
        if isinstance(self._failure, Unanswered):
            if seconds is not None:
                # No runes will come: as if it had waited in vain.
                return False
            raise self._failure
        return True

    async def news(self, seconds: float | None = None) -> list[Envelope]:
        """Wait for runes and take them, none if none came in time; raise if none will come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        self._notified.clear()
        news, self._news = self._news, []
        if not news and self._failure is not None:
            raise self._failure
        return news


class Watch:
    """Follows a log for coroutines."""

    def __init__(self, log: Log, scheduler: Scheduler) -> None:
        """Begin without a waiter; it is not polled until there is one."""
        self._log = log
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._waiters: dict[str | None, set[Waiter]] = {}
        self._cursor = 0
        """The position up to which waiters were notified."""
        self._runs = False
        self._needed = 0.0
        """When a coroutine waited last."""

    @property
    def waiting(self) -> int:
        """How many coroutines wait now."""
        with self._lock:
            return sum(map(len, self._waiters.values()))

    @contextlib.contextmanager
    def waiter(
        self,
        conversation: str | None,
        kinds: Collection[str] | None = None,
        takes: Callable[[Envelope], bool] | None = None,
    ) -> Iterator[Waiter]:
        """Wait for runes within the block."""
        waiter = Waiter(conversation, kinds, takes)
        with self._lock:
            self._waiters.setdefault(conversation, set()).add(waiter)
        try:
            self.keep()
            yield waiter
        finally:
            with self._lock:
                self._needed = time.monotonic()
                beside = self._waiters[conversation]
                beside.discard(waiter)
                if not beside:
                    del self._waiters[conversation]

    def keep(self) -> None:
        """Be polled from now on: waiters are notified of what is committed then."""
        with self._lock:
            if not self._runs:
                self._cursor = self._log.position
                self._scheduler.keep_polling(self)
                self._runs = True

    def poll(self, *, wait: bool) -> bool:
        """Notify waiters of what is there, or comes within a moment; return False if none waits."""
        try:
            for item in self._log.follow(None, self._cursor, wait=LINGER if wait else 0):
                self._notify(item)
                if self._is_idle(linger=wait):
                    break
            _ = self._log.position  # raises once it is closed
        except Exception as failure:  # noqa: BLE001 -- raised in every waiter
            self.fail(failure)
            return False
        with self._lock:
            self._runs = not self._is_idle(linger=wait)
            return self._runs

    def fail(self, failure: Exception) -> None:
        """Raise this in all coroutines that wait; later ones start polling again."""
        with self._lock:
            self._runs = False
            waiters = [each for beside in self._waiters.values() for each in beside]
        for each in waiters:
            each.fail(failure)

    def _is_idle(self, *, linger: bool) -> bool:
        """Return True if there was no waiter for a while: most wait again soon."""
        return not self._waiters and not (linger and time.monotonic() - self._needed < LINGER)

    def _notify(self, item: Envelope | Gap) -> None:
        with self._lock:
            if isinstance(item, Gap):
                waiters = [each for beside in self._waiters.values() for each in beside]
            else:
                waiters = [*self._waiters.get(item.conversation, ()), *self._waiters.get(None, ())]
        for each in waiters:
            each.notify(item)
        self._cursor = item.last if isinstance(item, Gap) else item.position

    def finish(self) -> None:
        """Notify of all there is before the log is closed: the next poll may come too late."""
        if self.waiting:
            with contextlib.suppress(Closed):
                for item in self._log.follow(None, self._cursor, wait=0):
                    self._notify(item)


async def aside(scheduler: Scheduler, name: str, call: Callable[[], T]) -> T:
    """Run a short call on a thread of the runtime, so that the loop goes on."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[], None]) -> None:
        if not done.done():
            give()

    def steps() -> Generator[int | None, None, None]:
        yield from ()
        try:
            value = call()
        except Exception as error:  # noqa: BLE001 -- raised where it is waited for
            failure = error
            give: Callable[[], None] = lambda: done.set_exception(failure)  # noqa: E731 -- one of two
        else:
            give = lambda: done.set_result(value)  # noqa: E731 -- as above
        with contextlib.suppress(RuntimeError):  # no coroutine waits in a closed loop
            loop.call_soon_threadsafe(settle, give)

    try:
        scheduler.work(name, steps())
    except Overloaded:
        return call()
    return await done

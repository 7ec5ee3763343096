"""Wakes coroutines that wait for the log: one watch for all of them, while there are any.

The watch follows the log and notifies the waiters of the conversation that a rune is in. A waiter
costs no thread, and one that is cancelled leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from actors.errors import Overloaded, Unanswered
from actors.process.answer import Answer
from runelog.errors import Closed
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator

    from actors.ports import Awaited, Scheduler
    from runefold.observe.feed import Feed
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


class Wakeups:
    """The events of one loop that are to be set, for all of which it is woken once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with none."""
        # The loop is the key under which this is kept, and may be dropped.
        self._loop = weakref.ref(loop)
        self._events: deque[asyncio.Event] = deque()
        self._is_woken = False

    def wake(self, event: asyncio.Event) -> None:
        """Set an event soon; from any thread."""
        self._events.append(event)
        # In this order: a loop that is just setting the others takes this one as well.
        if not self._is_woken and (loop := self._loop()) is not None:
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # no coroutine waits in a loop that is closed
                loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self._is_woken = False
        while self._events:
            self._events.popleft().set()


class Watch:
    """Follows a log for coroutines."""

    def __init__(self, log: Log, scheduler: Scheduler) -> None:
        """Begin without a waiter; it is not polled until there is one."""
        self._log = log
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._waiters: dict[str | None, set[Waiter]] = {}
        self._feeds: dict[str | None, weakref.WeakSet[Feed]] = {}
        """The feeds of followers, which belong to them: who is dropped needs not say so."""
        self._wakeups: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Wakeups] = (
            weakref.WeakKeyDictionary()
        )
        self.round = 0
        """Raised when it begins to look anew: what was committed before was handed to no feed."""
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
        with self.awaited(waiter := Waiter(conversation, kinds, takes)):
            yield waiter

    @contextlib.contextmanager
    def awaited(self, waiter: Waiter) -> Iterator[None]:
        """Have a waiter notified within the block."""
        conversation = waiter.conversation
        with self._lock:
            self._waiters.setdefault(conversation, set()).add(waiter)
        try:
            self.keep()
            yield
        finally:
            with self._lock:
                self._needed = time.monotonic()
                beside = self._waiters[conversation]
                beside.discard(waiter)
                if not beside:
                    del self._waiters[conversation]

    def hand_to(self, feed: Feed) -> None:
        """Hand what is committed from now on to a feed, as long as its follower has it."""
        with self._lock:
            self._feeds.setdefault(feed.conversation, weakref.WeakSet()).add(feed)
            for name in [name for name, feeds in self._feeds.items() if not feeds]:
                del self._feeds[name]

    def wake(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        """Set an event of a loop; those that are to be set at once wake the loop once."""
        wakeups = self._wakeups.get(loop)
        if wakeups is None:
            wakeups = self._wakeups[loop] = Wakeups(loop)
        wakeups.wake(event)

    def keep(self) -> None:
        """Be polled from now on: waiters are notified of what is committed then."""
        with self._lock:
            if not self._runs:
                self.round += 1
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
            names = [*self._waiters, *self._feeds]
            if not isinstance(item, Gap):
                names = [item.conversation, None]
            waiters: set[Waiter] = set()
            for name in names:
                waiters.update(self._waiters.get(name, ()), self._feeds.get(name, ()))
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
        return await asyncio.to_thread(call)
    return await done


class AsyncEdge:
    """Waits as tasks of event loops: no task holds its loop up, or a thread while it waits."""

    def __init__(self, scheduler: Scheduler, watch: Watch) -> None:
        """Begin without a task that waits."""
        self._scheduler = scheduler
        self._watch = watch
        self._driving: dict[asyncio.Event, Exception | None] = {}
        """What tasks wait for that drive a scheduler by hand."""
        self._polled = False

    def check(self) -> None:
        """Raise in a forked child."""
        self._scheduler.check_may_wait()

    async def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Wait for what an actor will answer; return True if it came in time.

        To wake a loop costs a write to a pipe, and a fight for the interpreter: all that is
        answered behind one commit, or while the loop is busy, wakes it once.
        """
        if not isinstance(awaited, Answer):
            # Rare, such as a session that falls asleep as it is asked.
            return await self.read(lambda: self._scheduler.wait(awaited, timeout))
        if awaited.is_there():
            return True
        arrived, loop = asyncio.Event(), asyncio.get_running_loop()

        def come() -> None:
            self._watch.wake(loop, arrived)

        awaited.then(come)
        try:
            async with asyncio.timeout(timeout):
                await (arrived.wait() if self._scheduler.goes_on else self._driven(arrived))
        except TimeoutError:
            return awaited.is_there()
        finally:
            awaited.forget(come)
        return True

    async def read(self, call: Callable[[], T]) -> T:
        """Read from the log on a thread of the runtime; return what `call` returns."""
        if not self._scheduler.goes_on:
            return call()  # by hand there is one thread only
        return await aside(self._scheduler, "read", call)

    # -- by hand ------------------------------------------------------------------------------

    async def _driven(self, arrived: asyncio.Event) -> None:
        """Wait, and have the scheduler go on meanwhile; raise if it has nothing left to do."""
        if not self._polled:
            self._polled = True
            self._scheduler.keep_polling(self)
        self._driving[arrived] = None
        try:
            await arrived.wait()
        finally:
            failure = self._driving.pop(arrived)
        if failure is not None:
            raise failure

    def poll(self, *, wait: bool) -> bool:
        """Return False if no task waits; what comes wakes the loop by itself."""
        del wait
        self._polled = bool(self._driving)
        return self._polled

    def fail(self, failure: Exception) -> None:
        """Raise this in all tasks that wait."""
        self._polled = False
        for arrived in self._driving:
            self._driving[arrived] = failure
            arrived.set()

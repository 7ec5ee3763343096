"""Wakes what waits in event loops for the log: one watch for all of them, while there are any.

A waiter hangs up a bell. The watch follows the log and rings the bells of the conversation that a
rune is of, so a waiter costs no thread, and one that is cancelled leaves nothing behind.
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
"""Seconds for which a thread stays for the next waiter."""


class Bell:
    """Rings in an event loop when there is news of a conversation, or of any."""

    def __init__(
        self,
        conversation: str | None,
        kinds: Collection[str] | None,
        takes: Callable[[Envelope], bool] | None = None,
    ) -> None:
        """Ring for all kinds of runes, or for some, which are then kept until they are taken.

        Or for those that it `takes`, of which none is kept.
        """
        self.conversation = conversation
        self._kinds = kinds
        self._takes = takes
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._news: list[Envelope] = []
        self._failure: Exception | None = None

    # -- in the thread ------------------------------------------------------------------------

    def ring(self, item: Envelope | Gap) -> None:
        """Say that something happened."""
        if self._kinds is None or isinstance(item, Gap):
            # Looked at from outside: at worst it is rung twice.
            if not self._rung.is_set() and self._is_due(item):
                self._call(self._rung.set)
        elif item.kind in self._kinds:
            self._call(lambda: self._take(item))

    def _is_due(self, item: Envelope | Gap) -> bool:
        return self._takes is None or isinstance(item, Gap) or self._takes(item)

    def fail(self, failure: Exception) -> None:
        """Say that nothing more is seen from here, and why."""
        self._call(lambda: self._fail(failure))

    def _call(self, call: Callable[[], object]) -> None:
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    # -- in the loop --------------------------------------------------------------------------

    def _take(self, item: Envelope) -> None:
        self._news.append(item)
        self._rung.set()

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self._rung.set()

    def hush(self) -> None:
        """Forget that it rang: whatever it rang for is looked at now."""
        self._rung.clear()

    async def rings(self, seconds: float | None) -> bool:
        """Wait until it rings; return True if it has, in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        if isinstance(self._failure, Unanswered):
            if seconds is not None:
                # Nothing happens any more: so long it would wait, and no longer.
                return False
            raise self._failure
        return True

    async def news(self) -> list[Envelope]:
        """Wait for news and take them; raise why none will come."""
        await self._rung.wait()
        self._rung.clear()
        news, self._news = self._news, []
        if not news and self._failure is not None:
            raise self._failure
        return news


class Watch:
    """Follows a log for what waits in event loops."""

    def __init__(self, log: Log, scheduler: Scheduler) -> None:
        """Begin without a waiter, and so without being polled."""
        self._log = log
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._bells: dict[str | None, set[Bell]] = {}
        self._cursor = 0
        """Up to where bells were rung."""
        self._runs = False
        self._needed = 0.0
        """When somebody waited last."""

    @property
    def waiting(self) -> int:
        """How many bells hang here now."""
        with self._lock:
            return sum(map(len, self._bells.values()))

    @contextlib.contextmanager
    def bell(
        self,
        conversation: str | None,
        kinds: Collection[str] | None = None,
        takes: Callable[[Envelope], bool] | None = None,
    ) -> Iterator[Bell]:
        """Hang up a bell for as long as the block takes."""
        bell = Bell(conversation, kinds, takes)
        with self._lock:
            self._bells.setdefault(conversation, set()).add(bell)
        try:
            self.keep()
            yield bell
        finally:
            with self._lock:
                self._needed = time.monotonic()
                beside = self._bells[conversation]
                beside.discard(bell)
                if not beside:
                    del self._bells[conversation]

    def keep(self) -> None:
        """Be polled from now on: what is committed then is rung for."""
        with self._lock:
            if not self._runs:
                self._cursor = self._log.position
                self._scheduler.keep_polling(self)
                self._runs = True

    def poll(self, *, wait: bool) -> bool:
        """Ring for what there is, or comes within a moment; return False if none waits."""
        try:
            for item in self._log.follow(None, self._cursor, wait=LINGER if wait else 0):
                self._ring(item)
                if self._is_idle(linger=wait):
                    break
            _ = self._log.position  # raises once it is closed
        except Exception as failure:  # noqa: BLE001 -- every waiter has to be told
            self.fail(failure)
            return False
        with self._lock:
            self._runs = not self._is_idle(linger=wait)
            return self._runs

    def fail(self, failure: Exception) -> None:
        """Raise this in all that wait; they can be polled for again."""
        with self._lock:
            self._runs = False
            bells = [bell for beside in self._bells.values() for bell in beside]
        for bell in bells:
            bell.fail(failure)

    def _is_idle(self, *, linger: bool) -> bool:
        """Return True if there was no waiter for a while: most wait again soon."""
        return not self._bells and not (linger and time.monotonic() - self._needed < LINGER)

    def _ring(self, item: Envelope | Gap) -> None:
        with self._lock:
            if isinstance(item, Gap):
                bells = [bell for beside in self._bells.values() for bell in beside]
            else:
                bells = [*self._bells.get(item.conversation, ()), *self._bells.get(None, ())]
        for bell in bells:
            bell.ring(item)
        self._cursor = item.last if isinstance(item, Gap) else item.position

    def finish(self) -> None:
        """Ring for all there is before the log is closed: the next poll may come too late."""
        if self.waiting:
            with contextlib.suppress(Closed):
                for item in self._log.follow(None, self._cursor, wait=0):
                    self._ring(item)


async def aside(scheduler: Scheduler, name: str, call: Callable[[], T]) -> T:
    """Do something short on a thread of the runtime's own, so that the loop goes on."""
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
        with contextlib.suppress(RuntimeError):  # nobody waits in a loop that is closed
            loop.call_soon_threadsafe(settle, give)

    try:
        scheduler.work(name, steps())
    except Overloaded:
        return call()
    return await done

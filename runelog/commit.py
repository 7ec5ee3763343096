"""Group commit: appends of all threads, in one order, synced together.

An append is checked, numbered and queued under one lock. Then whoever waits for durability and
finds nobody committing commits everything queued, for all: one transaction, one sync. A single
thread therefore never waits for another, and many threads share the cost. Appends that nobody waits
for are committed by a thread of the log's own a few milliseconds later.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from runelog.checks import check_append
from runelog.desks import Desks, Index
from runelog.errors import Busy, Closed, Fault, Fenced, LogFailed
from runelog.files import sound_disk
from runelog.index import NUMBER
from runelog.inscribe import Desk, inscribe
from runelog.line import Item, Line, encoded
from runelog.rune import Appended
from runelog.segment import MapFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runelog.codec import Codec
    from runelog.inscribe import Armed
    from runelog.rune import Change
    from runelog.segment import Environment

    class Home(Index, Protocol):
        """What the writer needs of the log it writes for."""

        def next_segment(self, need: int) -> Environment:
            """Seal the active segment and begin one with room for `need` bytes."""
            ...

        def announce(self, position: int) -> None:
            """Tell those who follow that everything up to `position` is committed."""
            ...


ROLL_AT: Final = 0.8
"""A segment is rolled when this part of its map is used: transactions need room to copy pages."""
FLUSH_AFTER: Final = 0.01
"""How long an append that nobody waits for may stay in memory; well under the promised 20 ms."""
MIN_CROWD: Final = 4
"""From so many waiting threads on, a commit waits for the others a little."""
MAX_GATHER: Final = 0.001


class Writer:
    """The one writer of a log."""

    def __init__(self, home: Home, codec: Codec, clock: Callable[[], int], armed: Armed) -> None:
        """Go on writing where `armed` says the log ends."""
        self._home = home
        self._codec = codec
        self._clock = clock
        self._env = armed.env
        self._epoch = NUMBER.pack(armed.epoch)
        self._next = armed.position + 1
        self._time = armed.time
        self._used = armed.env.used
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._stale = threading.Condition(self._lock)
        self._gathered = threading.Condition(self._lock)
        self._queue = Line()
        self._crowd = 0
        """How many were waiting when the last commit was done, those it served included."""
        self._pace = 0.0
        """How long the last commit took."""
        self._leading = False
        self._paused = False
        self._desks = Desks(home)
        self._failure: Exception | None = None
        self._closing = False
        self._flusher: threading.Thread | None = None

    # -- queueing -----------------------------------------------------------------------------

    def append(
        self, conversation: str, changes: Sequence[Change], *, durable: bool, timeout: float | None
    ) -> Appended:
        """Queue an append; wait until it is durable if asked to."""
        check_append(conversation, changes)
        item = encoded(self._codec, conversation, changes)
        with self._lock:
            self._admit(item, timeout)
            desk = self._desks.take(conversation)
            versions = self._desks.check_versions(desk, changes)
            self._env.reserve(self._queue.cost + item.cost)
            self._enter(item, desk, versions)
            if not durable:
                self._start_flusher()
                if len(self._queue) == 1:
                    self._stale.notify()
            else:
                item.gate = threading.Lock()
                item.gate.acquire()
                if not self._leading:
                    self._lead()
                elif len(self._queue) == self._crowd:
                    self._gathered.notify()
        if durable:
            self._settle(item)
        return Appended(
            conversation,
            item.first,
            item.first + len(item.bodies) - 1,
            item.position,
            item.time,
        )

    def _admit(self, item: Item, timeout: float | None) -> None:
        """Wait for room in the queue and in the segment. Holds the lock, and may let go of it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._check()
            full = self._queue.is_full(item)
            limit = self._env.map_size * ROLL_AT
            crowded = self._used + self._queue.cost + item.cost > limit
            if not full and not crowded and not self._paused:
                return
            if not self._leading and (full or self._queue):
                self._lead()
            elif not self._leading:
                if self._next_is_no_better(item, limit):
                    return
                self._roll(item.cost)
            else:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    msg = f"{len(self._queue):,} appends are waiting to be written: try again later"
                    raise Busy(msg)
                self._idle.wait(left)

    def _next_is_no_better(self, item: Item, limit: float) -> bool:
        """Tell whether the segment is as good as empty and has room all the same."""
        return self._used < limit / 16 and self._used + item.cost < self._env.map_size * 0.9

    def _enter(self, item: Item, desk: Desk, versions: dict[str, int]) -> None:
        """Give the append its place: from here on it is ordered, and only a failure loses it."""
        item.desk = desk
        item.first = desk.head + 1
        item.position = self._next
        item.time = self._time = max(self._time, self._clock())
        desk.head += len(item.bodies)
        desk.pending += 1
        self._next += len(item.bodies)
        for entity, stretches in item.touched.items():
            for _, count in stretches:
                versions[entity] += count
        self._queue.join(item)

    def _check(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        if self._closing:
            msg = "this log has been closed: open it again"
            raise Closed(msg)

    # -- committing ---------------------------------------------------------------------------

    def _settle(self, item: Item) -> None:
        """Wait until the append is on disk, committing it if nobody else does."""
        assert item.gate is not None
        while not item.done:
            try:
                item.gate.acquire()
            except BaseException:
                # Interrupted while waiting: the append stays queued, and somebody must commit it.
                with self._lock:
                    item.gate = None
                    self._start_flusher()
                    self._stale.notify()
                raise
            if not item.done:
                with self._lock:
                    if not item.done and not self._leading:
                        self._lead()
        if item.error is not None:
            raise type(item.error)(*item.error.args) from item.error

    def _lead(self) -> None:
        """Commit what is queued, for everyone. Holds the lock, and lets go of it meanwhile."""
        self._gather()
        items = self._queue.take()
        self._leading = True
        self._lock.release()
        failure: Exception | None = None
        committed = False
        begun = time.monotonic()
        try:
            try:
                self._write(items)
            except MapFull:
                self._undo(items)
                with self._lock:
                    self._paused = True  # for the reason given in _roll
                self._env = self._home.next_segment(sum(item.cost for item in items))
                self._desks.forget_segment()
                self._write(items)
            committed = True
        except (Fenced, LogFailed) as error:
            failure = error
        except Exception as error:  # noqa: BLE001 -- whatever it was, these runes are in doubt: the log fails
            failure = LogFailed(f"a commit failed, its outcome is unknown: {error!r}")
            failure.__cause__ = error
        finally:
            self._lock.acquire()
            self._leading = self._paused = False
            self._pace = time.monotonic() - begun
            if failure is not None:
                self._fail(failure, items)
            elif committed:
                self._finish(items)
            else:  # interrupted in the middle, and undone: somebody else commits these
                self._undo(items)
                self._queue.put_back(items)
            self._hand_over()

    def _gather(self) -> None:
        """Give those who were just served a moment to come again, and to share this sync.

        Without it, many threads fall into two camps that wait for each other's commits.
        """
        if self._crowd < MIN_CROWD or len(self._queue) >= self._crowd:
            return
        self._leading = True
        try:
            self._gathered.wait(min(self._pace / 2, MAX_GATHER))
        finally:
            self._leading = False

    def _undo(self, items: list[Item]) -> None:
        """Go back to what is on disk, after a transaction that was not committed."""
        for desk in {item.desk.id: item.desk for item in items}.values():
            desk.forget()
            desk.record = self._home.head(desk.id)

    def _finish(self, items: list[Item]) -> None:
        self._used = self._env.used
        for item in items:
            item.finish()
            item.desk.finished()
        self._queue.served(items)
        self._crowd = sum(item.gate is not None for item in (*items, *self._queue.items))
        if items:
            last = items[-1]
            self._home.announce(last.position + len(last.bodies) - 1)

    def _fail(self, failure: Exception, items: list[Item]) -> None:
        """Nothing is acknowledged any more; what was being committed has an unknown outcome."""
        self._failure = failure
        for item in (*items, *self._queue.take()):
            item.error = failure
            item.finish()

    def _hand_over(self) -> None:
        """Wake whoever goes on: those waiting for room, and one of those waiting for a commit."""
        self._idle.notify_all()
        waiting = self._queue.first_waiting()
        if waiting is not None:
            waiting.wake()
        elif self._queue:
            self._start_flusher()
            self._stale.notify()

    def _write(self, items: list[Item]) -> None:
        with self._env.batch() as batch:
            if batch.get("meta", b"epoch") != self._epoch:
                msg = (
                    "another process has taken this log over: "
                    "nothing more can be written through this handle"
                )
                raise Fenced(msg)
            inscribe(batch, self._home, items)

    # -- rolling, flushing, closing -----------------------------------------------------------

    def _roll(self, need: int) -> None:
        """Begin the next segment. Called with the lock held and nothing queued or under way."""
        # Nobody is admitted meanwhile: to reserve room in a segment that is being sealed changes it
        # behind its digest and, once it is closed, changes whichever file has its descriptor.
        self._leading = self._paused = True
        self._lock.release()
        env = None
        failure: Exception | None = None
        try:
            with sound_disk("beginning the next segment", LogFailed):
                env = self._home.next_segment(need)
        except Fault as error:
            failure = error
            raise
        finally:
            self._lock.acquire()
            self._leading = self._paused = False
            if failure is not None:
                self._fail(failure, [])
            if env is not None:
                self.use(env)
            self._hand_over()

    def use(self, env: Environment, position: int | None = None) -> None:
        """Go on in another segment, behind `position`. Nothing may be queued or under way."""
        self._env = env
        if position is not None:
            self._next = position + 1
        self._used = env.used
        self._desks.forget_segment()

    def roll(self, need: int = 0) -> None:
        """Commit what is queued and begin the next segment."""
        with self._lock:
            self._drain()
            self._check()
            self._roll(need)

    def _drain(self) -> None:
        while (self._queue or self._leading) and self._failure is None:
            if self._leading:
                self._idle.wait()
            else:
                self._lead()

    def flush(self) -> None:
        """Wait until everything appended so far is durable."""
        with self._lock:
            self._check()
            self._drain()
            self._check()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep everybody from committing while segments are rewritten."""
        with self._lock:
            self._drain()
            self._check()
            self._leading = self._paused = True
        failure: Exception | None = None
        try:
            with sound_disk("writing segments anew", LogFailed):
                yield
        except Fault as error:
            failure = error
            raise
        finally:
            with self._lock:
                self._leading = self._paused = False
                if failure is not None:
                    self._fail(failure, [])
                self._hand_over()

    def forget(self, conversation: str) -> None:
        """Look a conversation up anew at its next append."""
        with self._lock:
            self._desks.forget(conversation)

    def _start_flusher(self) -> None:
        if self._flusher is None:
            self._flusher = threading.Thread(
                target=self._flush_forever, name="runelog-flush", daemon=True
            )
            self._flusher.start()

    def _flush_forever(self) -> None:
        with self._lock:
            while not self._closing:
                if not self._queue:
                    self._stale.wait()
                    continue
                if self._failure is not None:
                    return
                due = self._queue.since + FLUSH_AFTER - time.monotonic()
                if due > 0 or self._leading:
                    self._stale.wait(max(due, FLUSH_AFTER / 2))
                else:
                    self._lead()

    def close(self) -> Exception | None:
        """Commit what is queued and take no more; return what made the log fail, if it did."""
        with self._lock:
            if not self._closing:
                self._drain()
                self._closing = True
                self._stale.notify_all()
                self._idle.notify_all()
        if self._flusher is not None:
            self._flusher.join()
        return self._failure

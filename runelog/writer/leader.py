"""Group commit: all queued appends in one transaction with one sync.

A thread that waits for durability while no other commits is the leader: it commits everything
queued. A single thread therefore never waits for another, and many threads share the cost. Appends
that no thread waits for are committed by a thread of the log's own a few milliseconds later.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from runelog.errors import Closed, Fault, Fenced, LogFailed, LogFull
from runelog.files import sound_disk
from runelog.index.records import NUMBER, PLACE
from runelog.lmdb.environment import MapFull
from runelog.writer.append_cache import AppendCache, Index
from runelog.writer.commit_queue import Bell, CommitQueue, LazyCondition
from runelog.writer.segment_writer import SegmentWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.index.unwritten import UnwrittenIndex
    from runelog.lmdb.environment import Batch, Environment
    from runelog.writer.commit_queue import PendingAppend
    from runelog.writer.segment_writer import ActiveSegment

    class Home(Index, Protocol):
        """What the writer needs of the log it writes for."""

        def unwritten(self) -> UnwrittenIndex:
            """Return what the tables of the active segment's index do not hold."""
            ...

        def prepare(self) -> Iterator[None]:
            """Prepare the next segment while appends go on, a little in each step."""
            ...

        def vouch(self) -> None:
            """Have the next open know that the catalog is sound."""
            ...

        def next_segment(self, need: int) -> Environment:
            """Seal the active segment and begin one with room for `need` bytes."""
            ...

        def announce(self, position: int, items: list[PendingAppend]) -> None:
            """Deliver what is committed to followers, everything up to `position` now."""
            ...

        def fail(self, failure: Exception) -> None:
            """Tell followers that nothing more will be committed."""
            ...


ROLL_BYTES: Final = 16 << 20
"""A segment is rolled when more than this is used: all of an active segment is read by an open
after a kill."""
MOST_PAUSE: Final = 0.05
"""The longest pause after a step of a roll, or after maintenance, in seconds."""
FLUSH_AFTER: Final = 0.01
"""How long an append that is not waited for may stay in memory; the promise is 20 ms."""
AHEAD: Final = 4 << 20
"""How many bytes a commit reserves beyond its own."""
AWAKE: Final = 0.5
"""How many seconds after the last append the log's own thread still looks by itself."""
MIN_CROWD: Final = 4
"""From so many waiting threads on, a commit waits for the others a little."""
MAX_GATHER: Final = 0.001


class Leader:
    """Commits the queue of appends, and pauses while segments are changed."""

    def __init__(self, home: Home, armed: ActiveSegment) -> None:
        """Go on writing where `armed` says the log ends."""
        self._home = home
        self._epoch = NUMBER.pack(armed.epoch)
        self._next = armed.position + 1
        self._time = armed.time
        self._used = armed.env.used
        self._rolls_beside = False
        """Whether a caller of `rolling` begins new segments, so that appends need not."""
        self._go_on_in(armed.env)
        self._lock = threading.Lock()
        self._idle = LazyCondition(self._lock)
        self._stale = Bell(self._lock)
        self._gathered = threading.Condition(self._lock)
        self._queue = CommitQueue()
        self._crowd = 0
        """How many were waiting when the last commit was done, those it served included."""
        self._pace = 0.0
        """How long the last commit took."""
        self._committed = armed.position
        self._leading = False
        self._holds = 0
        """How many callers keep new appends out: to roll, to do maintenance, to close."""
        self._maintenance = 0
        """The thread that is doing maintenance now."""
        self._cache = AppendCache(home)
        self._failure: Exception | None = None
        self._lost: dict[str, Exception] = {}
        """Errors of appends that were not waited for, by conversation, until they are reported."""
        self._flushing: list[tuple[int, threading.Lock]] = []
        """The threads that wait for everything up to a position, each with a lock of its own."""
        self._kept_waiting = False
        """Whether an append had to wait for the maintenance that was last begun."""
        self._closing = False
        self._flusher: threading.Thread | None = None
        self._urgent = False
        self._asleep = False
        """Whether the log's own thread must be woken if something is queued."""
        self._main = threading.main_thread().ident

    def _check(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        if self._closing:
            msg = "this log has been closed: open it again"
            raise Closed(msg)

    # -- committing ---------------------------------------------------------------------------

    def _lead(self) -> None:
        """Commit what is queued. Called with the lock held, which is released meanwhile."""
        if MIN_CROWD <= self._crowd > len(self._queue.items):
            self._gather()
        items = self._queue.take()
        self._leading = True
        self._lock.release()
        outcome: Exception | None = None
        committed = False
        begun = time.monotonic()
        try:
            try:
                self._write(items)
            except MapFull:
                self._write_behind(items)
            committed = True
        except (Fenced, LogFailed, LogFull) as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 -- whatever it was, these runes are in doubt
            outcome = LogFailed(f"a commit failed, its outcome is unknown: {error!r}")
            outcome.__cause__ = error
        finally:
            self._lock.acquire()
            self._leading = False
            self._pace = time.monotonic() - begun
            if outcome is None and (committed or self._is_there(items)):
                self._finish(items)
            elif isinstance(outcome, LogFull):
                self._turn_away(outcome, items)
            elif outcome is not None:
                self._fail(outcome, items)
            else:  # interrupted in the middle, and undone: another thread commits these
                self._undo(items)
                self._queue.put_back(items)
            self._hand_over()

    def _write_behind(self, items: list[PendingAppend]) -> None:
        """Write appends into the next segment, as this one turned out to be full."""
        self._undo(items)
        need = sum(item.cost for item in items)
        with self._lock:
            self._holds += 1  # for the reason given in _alone
        try:
            self._write_index()
            self._go_on_in(self._home.next_segment(need))
        finally:
            with self._lock:
                self._holds -= 1
        self._cache.forget_segment()
        self._reserve(need)
        self._write(items)

    def _is_there(self, items: list[PendingAppend]) -> bool:
        """Return True if a commit that was interrupted, by Ctrl-C as a rule, has happened."""
        if not items:
            return False
        with self._env.view() as view:
            return view.get("runes", PLACE.pack(items[-1].position)) is not None

    def _push(self) -> None:
        """Commit what is queued; by the log's own thread if this one may be interrupted."""
        if self._is_interruptible():
            self._urge()
            self._idle.wait()
        else:
            self._lead()

    def _is_interruptible(self) -> bool:
        # It does not commit: what Ctrl-C leaves half done there, others would have to mend.
        return threading.get_ident() == self._main

    def _urge(self) -> None:
        """Wake the log's own thread to commit now."""
        if self._flusher is None:
            self._start_flusher()
        self._urgent = True
        self._stale.ring()

    def _gather(self) -> None:
        """Wait a moment for threads that were just served to append again and share this sync.

        Without it, many threads fall into two camps that wait for each other's commits.
        """
        self._leading = True
        try:
            self._gathered.wait(min(self._pace / 2, MAX_GATHER))
        finally:
            self._leading = False

    def _undo(self, items: list[PendingAppend]) -> None:
        """Go back to what is on disk, after a transaction that was not committed."""
        for cached in {item.cached.id: item.cached for item in items}.values():
            cached.forget()
            cached.record = self._home.head(cached.id)

    def _finish(self, items: list[PendingAppend]) -> None:
        self._used = self._env.used
        if items:
            # First, so that a thread that is told of its append finds the log's position behind it.
            self._committed = items[-1].position + len(items[-1].bodies) - 1
            self._segment.committed(items)
            self._home.announce(self._committed, items)
        generation = self._segment.behind.generation
        for item in items:
            item.finish()
            item.cached.finished(generation)
        self._crowd = self._queue.served(items)

    def _fail(self, failure: Exception, items: list[PendingAppend]) -> None:
        """Fail the log: what was being committed has an unknown outcome, nothing more is taken."""
        self._failure = failure
        self._home.fail(failure)
        self._give_up(failure, [*items, *self._queue.take()])

    def _give_up(self, error: Exception, items: list[PendingAppend]) -> None:
        """Give waiting threads the error; the others get it from `flush`."""
        for item in items:
            if not item.awaited:
                self._lost[item.cached.id] = error
            item.error = error
            item.finish()

    def _turn_away(self, full: LogFull, items: list[PendingAppend]) -> None:
        """Refuse all queued appends, as the disk is full: none of them was written."""
        self._undo(items)
        turned = [*items, *self._queue.take()]
        self._give_up(full, turned)
        self._queue.served(turned)
        self._next = items[0].position
        self._cache.forget_all()

    def _hand_over(self) -> None:
        """Wake the threads waiting for room, and one of those waiting for a commit."""
        self._idle.wake_all()
        if not self._queue.items and not self._flushing:
            return
        done = self._failure is not None or not self._queue.items
        served = [gate for upto, gate in self._flushing if done or upto <= self._committed]
        waiting = self._queue.first_waiting()
        if waiting is not None:
            waiting.wake()
        elif self._queue.items:
            # The thread that waits longest commits next, if there is one.
            next_up = [gate for upto, gate in self._flushing if upto > self._committed][:1]
            served += next_up
            if not next_up:
                self._urge()
        for gate in served:
            with contextlib.suppress(RuntimeError):
                gate.release()

    def _write(self, items: list[PendingAppend]) -> None:
        with self._env.batch(spare=False) as batch:
            self._check_epoch(batch)
            if self._env.lacks(AHEAD):
                with contextlib.suppress(LogFull):
                    # Ahead of time, so that no append has to wait for it.
                    self._env.reserve(AHEAD)
                self._env.reserve(0)
            self._segment.append(batch, items)

    def _write_index(self) -> None:
        """Write what is not written of the index. Nothing may be queued or under way."""
        self._segment.write_index(self._check_epoch)
        self._used = self._env.used

    def _go_on_in(self, env: Environment) -> None:
        self._env = env
        self._roll_at = ROLL_BYTES
        self._segment = SegmentWriter(env, self._home, self._home.unwritten())
        self._home.behind = self._segment.behind

    def _check_epoch(self, batch: Batch) -> None:
        if batch.get("meta", b"epoch") != self._epoch:
            msg = (
                "another process has taken this log over: "
                "nothing more can be written through this handle"
            )
            raise Fenced(msg)

    def _reserve(self, need: int) -> None:
        """Reserve disk space for `need` bytes; `LogFull` if there is none.

        A file that must grow for that grows within a transaction: another writer may have taken it
        over, and vouched for its length.
        """
        if self._env.lacks(need):
            with self._env.batch(spare=False) as batch:
                self._check_epoch(batch)
                self._env.reserve(need)

    # -- rolling, flushing, closing -----------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self, doing: str) -> Iterator[None]:
        """Release the lock for a while, with nothing queued or under way.

        No append is admitted meanwhile: to reserve room in a segment that is being sealed changes
        it after its digest and, once it is closed, changes whichever file has its descriptor.
        """
        self._leading = True
        self._holds += 1
        self._maintenance = threading.get_ident()
        self._lock.release()
        failure: Exception | None = None
        try:
            with sound_disk(doing, LogFailed):
                yield
        except Fault as error:
            failure = error
            raise
        finally:
            self._lock.acquire()
            self._leading = False
            self._holds -= 1
            self._maintenance = 0
            if failure is not None:
                self._fail(failure, [])
            self._hand_over()

    def _roll(self, need: int) -> None:
        """Begin the next segment. Called with the lock held and nothing queued or under way."""
        with self._alone("beginning the next segment"):
            self._write_index()
            env = self._home.next_segment(need)
        self.use(env)

    def use(self, env: Environment, position: int | None = None) -> None:
        """Go on in another segment, behind `position`. Nothing may be queued or under way."""
        self._go_on_in(env)
        if position is not None:
            self._next = position + 1
            self._committed = position
        self._used = env.used
        self._cache.forget_segment()

    @contextlib.contextmanager
    def _drained(self) -> Iterator[None]:
        """Admit no appends, and have all queued ones written. Called with the lock held."""
        self._holds += 1
        try:
            while (self._queue.items or self._leading) and self._failure is None:
                if self._leading:
                    self._idle.wait()
                else:
                    self._push()
            yield
        finally:
            self._holds -= 1
            self._idle.wake_all()

    def roll(self) -> None:
        """Commit what is queued and begin the next segment; most of that while appends go on."""
        begun = time.monotonic()
        for _ in self._roll_steps(self._env):
            # No longer than half of the time, so that others get theirs.
            time.sleep(min(time.monotonic() - begun, MOST_PAUSE))
            begun = time.monotonic()

    def rolling(self) -> Iterator[None] | None:
        """Return the steps of that, if it is time; from now on appends leave it to the caller."""
        self._rolls_beside = True
        if self._used < self._roll_at:
            return None
        # Should nothing come of it, it is tried again, but not at once.
        self._roll_at = self._used + ROLL_BYTES // 16
        return self._roll_steps(self._env)

    def _roll_steps(self, env: Environment) -> Iterator[None]:
        ahead = False
        for _ in self._home.prepare():
            ahead = True
            yield
        with self._lock, self._drained():
            self._check()
            if self._env is env:
                self._roll(0)
        if ahead:
            yield
            self._home.vouch()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep all threads from committing while segments are rewritten.

        If any had to wait, the caller rests as long before it goes on: many steps of maintenance
        one after the other would leave others next to nothing.
        """
        begun = time.monotonic()
        with self._lock, self._drained():
            self._check()
            self._kept_waiting = False
            with self._alone("writing segments anew"):
                self._write_index()
                yield
        if self._kept_waiting:
            time.sleep(min(time.monotonic() - begun, MOST_PAUSE))

    def forget(self, conversation: str) -> None:
        """Look a conversation up anew at its next append."""
        with self._lock:
            self._cache.forget(conversation)

    def rest(self, conversation: str) -> None:
        """Drop what is cached of a conversation that is not appended to for a while."""
        with self._lock:
            self._cache.rest(conversation)

    def _start_flusher(self) -> None:
        """Start or wake the log's own thread."""
        if self._asleep:
            self._stale.ring()
        if self._flusher is None:
            self._flusher = threading.Thread(
                target=self._flush_forever, name="runelog-flush", daemon=True
            )
            self._flusher.start()

    def _flush_forever(self) -> None:
        with self._lock:
            while not self._closing:
                if not self._queue.items:
                    # For a while it looks again by itself: then no thread has to wake it.
                    self._asleep = time.monotonic() - self._queue.since > AWAKE
                    self._stale.wait(None if self._asleep else FLUSH_AFTER)
                    self._asleep = False
                    continue
                if self._failure is not None:
                    return
                due = self._queue.since + FLUSH_AFTER - time.monotonic()
                if self._leading or (due > 0 and not self._urgent):
                    self._stale.wait(max(due, FLUSH_AFTER / 2))
                else:
                    self._urgent = False
                    self._lead()

    def close(self) -> Exception | None:
        """Commit what is queued and take no more; return what made the log fail, if it did."""
        with self._lock:
            if not self._closing:
                with self._drained():
                    if self._failure is None:
                        with contextlib.suppress(LogFull, Fault):
                            # The next writer goes on from the frames as well.
                            self._write_index()
                    self._closing = True
                    self._stale.ring()
        if self._flusher is not None:
            self._flusher.join()
        return self._failure

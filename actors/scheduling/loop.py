"""One thread runs all actors of a runtime, rings their alarms and commits what they decide.

It goes in rounds:

1. every lane that has messages runs, until none has: decisions follow from each other;
2. all that was decided, in all conversations, is committed as one group with one sync;
3. what waited for the disk begins: effects in the outside world, answers, subscribers.

Under the interpreter's lock two lanes would never run at once, and to hand the lock from thread to
thread costs more than most of what they do. So nothing in an actor may block: what blocks is on
pooled threads (`pool`) and comes back as a message.
"""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from actors.errors import Overloaded
from actors.operator_log import log
from actors.scheduling.clock import SystemClock
from actors.scheduling.event_loop import EventLoop, refuse_wait
from actors.scheduling.group_commit import GroupCommit
from actors.scheduling.pool import Pool, PooledJob
from runelog.errors import Refused
from runelog.forks import Home

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator

    from actors.ports import Awaited, Clock, Job, Poller, Steps, Timer
    from actors.scheduling.group_commit import Member

MAX_WORK: Final = 1_000
"""How many streams and tools run on threads at once; beyond that, work is refused. Async ones need
no thread each, and have no limit."""
BURST: Final = 1_024
"""A round has at most so many jobs: then what was decided is committed, though more may wait."""
SLOW: Final = 0.05
"""A job that takes more seconds is named in the operator's log: everything else waited for it."""
STEPS: Final = 64
"""How many steps of work that does not block are taken before others get their turn."""
ENDS_WITHIN: Final = 5.0
"""How many seconds a close waits for the job that the loop is busy with."""

_ON_THE_LOOP: Final = (
    "this is the thread that runs all actors: to wait here for one of them would be to wait for "
    "itself. Use the awaitable form, or call it from a tool or from a thread of your own"
)


class LoopLane:
    """One lane: its jobs are run in the order they came, between those of others."""

    __slots__ = ("__weakref__", "_loop", "name")

    def __init__(self, loop: Loop, name: str) -> None:
        """Begin with nothing to do."""
        self.name = name
        self._loop = loop

    def run(self, job: Callable[[], None]) -> None:
        """Run a job after those that came before it."""
        self._loop.put(self.name, job)


class LoopJob:
    """Work that does not block, taken step by step by the loop itself."""

    __slots__ = ("_alarm", "_clock", "_loop", "_name", "_steps", "_woken")

    def __init__(
        self, loop: Loop, clock: Clock, name: str, steps: Steps | Iterator[int | None]
    ) -> None:
        """Begin before the first step."""
        self._loop = loop
        self._clock = clock
        self._name = name
        self._steps = steps
        self._woken = False
        self._alarm: Timer | None = None

    def wake(self) -> None:
        """End the pause that it takes now, and all to come."""
        self._woken = True
        if self._alarm is not None:
            self._loop.put(self._name, self._end_pause)

    def go(self) -> None:
        """Take some steps; go on behind what others have to do, or when a pause is over."""
        try:
            for _ in range(STEPS):
                until = next(self._steps)
                if until is not None and not self._woken and until > self._clock.now():
                    self._alarm = self._clock.at(
                        until, lambda: self._loop.put(self._name, self._end_pause)
                    )
                    return
        except StopIteration as over:
            if over.value is not None:
                over.value()
            return
        except BaseException:  # noqa: BLE001 -- the steps report it
            log.exception("work_failed", work=self._name)
            return
        self._loop.put(self._name, self.go)

    def _end_pause(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()
            self.go()


class Loop:
    """The thread that everything runs on, and the pool for what blocks."""

    goes_on: Final = True

    def __init__(
        self,
        clock: Clock,
        *,
        work: int = MAX_WORK,
        event_loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Begin without any thread; so much `work` may be under way on threads at once.

        Async code runs on the `event_loop` of the app, or on one of its own.
        """
        self._events = EventLoop(event_loop)
        self._clock = clock
        self._pool = Pool("runefold")
        self._jobs: SimpleQueue[tuple[str, Callable[[], None]]] = SimpleQueue()
        self._commits = GroupCommit()
        self._lock = threading.Lock()
        self._work = work
        self._thread: threading.Thread | None = None
        self._ident = 0
        """The thread that runs the loop; 0 while there is none."""
        self._closed = False
        # The threads stay behind in a fork, and with them perhaps the holders of our locks.
        self.home = Home("these actors were started before a fork: start your own in the child")
        self._ring = _nothing_set
        """Rings the alarms that are due; returns how many seconds there are until the next."""
        if isinstance(clock, SystemClock) and clock.drive(self._look_up):
            self._ring = clock.ring

    @property
    def threads(self) -> int:
        """How many threads there are now."""
        return self._pool.threads + self._events.threads + (self._thread is not None)

    def lane(self, name: str) -> LoopLane:
        """Begin a lane."""
        return LoopLane(self, name)

    @property
    def backlog(self) -> int:
        """How many messages wait to be handled."""
        return self._jobs.qsize()

    def commit_soon(self, member: Member) -> None:
        """Have what `member` has appended committed at the end of this round."""
        self._commits.join(member)

    # -- the thread ---------------------------------------------------------------------------

    def put(self, name: str, job: Callable[[], None]) -> None:
        """Run a job after those that came before it; from any thread."""
        self.home.check()
        self._jobs.put((name, job))
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        """Start the thread, unless another one has just done so."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._live, name="runefold-loop", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # What was put was accepted, so it is kept: the next to put something tries again.
                self._thread = None
                log.exception("no_thread_for_loop")

    def _live(self) -> None:
        self._ident = threading.get_ident()
        jobs, commits = self._jobs, self._commits
        while True:
            self._round()
            pause = self._ring()
            if commits.is_due:
                _run("commit", commits.commit)
            elif jobs.empty():
                if self._closed and self._ended():
                    return
                try:
                    name, job = jobs.get(timeout=pause)
                except Empty:
                    continue  # an alarm is due
                _run_timed(name, job, time.perf_counter())
                del job

    def _round(self) -> None:
        """Run what there is, but not for too long."""
        begun = time.perf_counter()
        for _ in range(BURST):
            try:
                name, job = self._jobs.get_nowait()
            except Empty:
                return
            begun = _run_timed(name, job, begun)
            del job

    def _look_up(self) -> None:
        """Look at the clock again: an alarm was set that is due sooner than all others."""
        if threading.get_ident() != self._ident:
            self.put("clock", _nothing)

    def _ended(self) -> bool:
        """Return True if the thread may end: nothing came in the meantime."""
        with self._lock:
            thread, self._thread = self._thread, None
            # In this order: who puts a job and finds a thread relies on being seen here.
            if not self._jobs.empty():
                self._thread = thread
                return False
            self._ident = 0
            return True

    def close(self) -> None:
        """Let the threads end once they are done; work that pauses is for its owner to wake."""
        self._events.close()
        self._closed = True
        thread = self._thread
        if thread is not None and self._ident != threading.get_ident():
            self._jobs.put(("close", _nothing))
            thread.join(ENDS_WITHIN)
        if self._ring is not _nothing_set and isinstance(self._clock, SystemClock):
            self._clock.let_go()
        self._pool.close()

    # -- beside it ----------------------------------------------------------------------------

    def work(self, name: str, steps: Steps | Iterator[int | None], *, blocks: bool = True) -> Job:
        """Run something step by step: on a thread of its own, or here if it never `blocks`."""
        self.home.check()
        if not blocks:
            here = LoopJob(self, self._clock, name, steps)
            self.put(name, here.go)
            return here
        msg = f"no thread is free for {name}: too many streams and tools are running"
        with self._lock:
            if self._work == 0:
                raise Overloaded(msg)
            self._work -= 1
        job = PooledJob(self._clock, name, steps)
        try:
            self._pool.run(lambda: self._go(job))
        except RuntimeError as error:
            self._done()
            raise Overloaded(msg) from error
        return job

    def _go(self, job: PooledJob) -> None:
        try:
            last = job.go()
        finally:
            self._done()
        if last is not None:
            last()

    def _done(self) -> None:
        with self._lock:
            self._work += 1

    def begin_async(self, name: str, run: Coroutine[Any, Any, None]) -> Job:
        """Run a coroutine on the one event loop of the runtime; to wake the job is to cancel it."""
        self.home.check()
        return self._events.begin(name, run)

    def check_may_block(self, instead: str) -> None:
        """Raise `Refused` on the thread of the event loop, and name what to write `instead`."""
        if self._events.is_here():
            raise refuse_wait(instead)

    def check_may_wait(self) -> None:
        """Raise on the thread that runs the loop, and in a forked child."""
        self.home.check()
        if threading.get_ident() == self._ident:
            raise Refused(_ON_THE_LOOP)

    def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Wait at the edge for what an actor will answer; return True if it came in time."""
        self.check_may_wait()
        return awaited.wait(timeout)

    def keep_polling(self, poller: Poller) -> None:
        """Poll on a thread of its own until that returns False."""

        def run() -> None:
            while poller.poll(wait=True):
                pass

        threading.Thread(target=run, name="runefold-watch", daemon=True).start()


def _run(name: str, job: Callable[[], None]) -> None:
    """Run a job; the next one is not to blame for what it raises."""
    try:
        job()
    except BaseException:  # noqa: BLE001 -- see above
        log.exception("job_failed", lane=name)


def _run_timed(name: str, job: Callable[[], None], begun: float) -> float:
    """Run a job that begins now; name one that took too long. Return when it ended."""
    _run(name, job)
    now = time.perf_counter()
    if now - begun > SLOW:
        who = getattr(job, "__self__", None)
        log.warning(
            "slow_step",
            lane=name,
            step=str(getattr(who, "name", "") or getattr(job, "__qualname__", "")),
            handled=getattr(who, "handled", ""),
            seconds=round(now - begun, 3),
        )
    return now


def _nothing_set() -> float | None:
    """Do nothing: this clock rings by itself."""
    return None


def _nothing() -> None:
    """Do nothing."""

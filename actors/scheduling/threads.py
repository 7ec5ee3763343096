"""Who runs when, on threads: lanes and blocking work share one pool of threads.

A thread that has nothing to do waits for more, the one that came last first, and ends after a
while; so does one that has run many jobs, as the C library keeps memory for each thread until it
ends. A thread that ends has free memory given back to the system. Starting one costs about 0.3 ms,
handing a job to one that waits a tenth of that, and the two then compete for the interpreter. So
what a job begins as the last thing it does, its own thread goes on with: a lane that starts a
stream and has no more to do becomes that stream, and the end of the stream becomes the lane again.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from actors.errors import Overloaded
from actors.operator_log import log
from actors.scheduling import heap
from runelog.forks import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.ports import Awaited, Clock, Poller, Steps

MAX_LANES: Final = 32
"""How many lanes run at once; more wait for their turn. Most of their time they wait for a sync."""
MAX_WORK: Final = 1_000
"""How many streams and tools run at once; beyond that, work is refused."""
IDLE_FOR: Final = 10.0
"""How many seconds a thread waits for more to do before it ends."""
MAX_JOBS: Final = 2_000
"""After how many jobs a thread ends, if another one is free for what comes next."""
BURST: Final = 256
"""How many jobs a lane runs before others get their turn."""


class _Worker:
    """A thread of the pool, and the job it is given next."""

    __slots__ = ("gate", "job", "lends", "next")

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.job: Callable[[], None] | None = None
        self.lends = False
        """Whether the present job ends soon, and so may leave the thread what it begins."""
        self.next: Callable[[], None] | None = None
        """The job that the present one has queued for this thread."""


class _Here(threading.local):
    """Which thread of a pool this is."""

    worker: _Worker | None = None


class Pool:
    """Threads that are used again."""

    def __init__(self, name: str, relieve: Callable[[], object] = heap.trim) -> None:
        """Begin without any; one that ends calls `relieve` before, unless the pool is closed."""
        self._name = name
        self._relieve = relieve
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._count = 0
        self._closed = False
        self._here = _Here()
        self.threads = 0
        """How many there are now."""

    def run(self, job: Callable[[], None]) -> None:
        """Run a job on a thread that is free, or on a new one; `RuntimeError` if there is none.

        On a lent thread, the job runs on that thread after the current one. A caller that keeps
        working calls `pass_on` first. A job that comes after the close is run as well.
        """
        here = self._here.worker
        if here is not None and here.lends and here.next is None:
            here.next = job
        else:
            self._hand_to_another(job)

    def lend(self) -> _Worker:
        """Lend this thread: its job is soon over, and does not block until then."""
        here = self._here.worker
        assert here is not None, "only a thread of the pool can be lent"
        here.lends = True
        return here

    def pass_on(self) -> None:
        """Have another thread run the job that waits for this one, which keeps working."""
        here = self._here.worker
        if here is not None and here.next is not None:
            job, here.next = here.next, None
            try:
                self._hand_to_another(job)
            except RuntimeError:
                # There is no other thread. It was accepted, so it is run here, and late.
                here.next = job
                log.exception("no_thread_to_pass_on_to", pool=self._name)

    def _hand_to_another(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                worker = self._idle.pop()
                worker.job = job
                worker.gate.release()
                return
            self._count += 1
            self.threads += 1
            number = self._count
        worker = _Worker()
        worker.job = job
        thread = threading.Thread(
            target=self._live, args=(worker,), name=f"{self._name}-{number}", daemon=True
        )
        try:
            thread.start()
        except BaseException:
            with self._lock:
                self.threads -= 1
            raise

    def _live(self, worker: _Worker) -> None:
        self._here.worker = worker
        left = MAX_JOBS
        while True:
            job, worker.job = worker.job, None
            while job is not None:
                left -= 1
                worker.lends = False
                try:
                    job()
                except BaseException:  # noqa: BLE001 -- a thread is used again whatever a job did
                    log.exception("job_failed", pool=self._name)
                job, worker.next = worker.next, None
            with self._lock:
                if self._closed:
                    self.threads -= 1
                    return
                if left <= 0 and self._idle:
                    break
                self._idle.append(worker)
            if worker.gate.acquire(timeout=IDLE_FOR):
                continue
            with self._lock:
                if worker in self._idle:
                    self._idle.remove(worker)
                    break
            # A job was given at the very last moment.
            worker.gate.acquire()
        self._relieve()
        with self._lock:
            self.threads -= 1

    def close(self) -> None:
        """Let idle threads end; busy ones end when they are done."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.gate.release()


class ThreadLane:
    """One lane: its jobs, one after the other, on whichever thread is free."""

    __slots__ = ("__weakref__", "_active", "_idle_jobs", "_jobs", "_lock", "_scheduler", "name")

    def __init__(self, scheduler: ThreadScheduler, name: str) -> None:
        """Begin with nothing to do."""
        self.name = name
        self._scheduler = scheduler
        self._lock = threading.Lock()
        # Most lanes rest most of the time, and an empty deque is the largest part of one.
        self._jobs: deque[Callable[[], None]] | None = None
        self._idle_jobs: deque[Callable[[], None]] | None = None
        self._active = False

    def run(self, job: Callable[[], None]) -> None:
        """Run a job after those that came before it."""
        self._scheduler.home.check()
        with self._lock:
            if self._jobs is None:
                self._jobs = deque()
            self._jobs.append(job)
            if self._active:
                return
            self._active = True
        self._scheduler.start(self)

    def when_idle(self, job: Callable[[], None]) -> None:
        """Run a job once nothing else is waiting in this lane."""
        self._scheduler.home.check()
        with self._lock:
            if self._idle_jobs is None:
                self._idle_jobs = deque()
            self._idle_jobs.append(job)
            if self._active:
                return
            self._active = True
        self._scheduler.start(self)

    def drain(self, here: _Worker) -> bool:
        """Run what there is, on this thread, but not for too long; return True if there is more."""
        for _ in range(BURST):
            # Checked before each one: a job for the idle lane may have given it new jobs.
            jobs = self._jobs
            if jobs:
                # Others only add: what is seen here stays until it is taken, by us alone.
                job = jobs.popleft()
                if here.next is not None:
                    self._scheduler.pass_on()
            else:
                with self._lock:
                    if self._jobs:
                        continue  # it came in just now
                    if not self._idle_jobs:
                        self._jobs = self._idle_jobs = None
                        self._active = False
                        return False
                    job = self._idle_jobs.popleft()
            try:
                job()
            except BaseException:  # noqa: BLE001 -- the next job is not to blame
                log.exception("job_failed", lane=self.name)
        return True


class ThreadJob:
    """Work on a thread of its own."""

    def __init__(self, clock: Clock, name: str, steps: Steps | Iterator[int | None]) -> None:
        """Begin before the first step."""
        self._clock = clock
        self._name = name
        self._steps = steps
        self._woken = False
        self._over: threading.Event | None = None
        """The end of the last pause; most take none."""

    def wake(self) -> None:
        """End the pause that it takes now, and all to come."""
        self._woken = True
        over = self._over
        if over is not None:
            over.set()

    def go(self) -> Callable[[], None] | None:
        """Take all steps; return what is to be said then."""
        try:
            while True:
                until = next(self._steps)
                if until is not None:
                    self._pause(until)
        except StopIteration as over:
            last: Callable[[], None] | None = over.value
            return last
        except BaseException:  # noqa: BLE001 -- the steps report it
            log.exception("work_failed", work=self._name)
            return None

    def _pause(self, until: int) -> None:
        # An event for this pause alone: the alarm of an earlier one may ring late.
        over = self._over = threading.Event()
        # A waker sets the flag first, then the event: one of the two is seen.
        if self._woken or until <= self._clock.now():
            return
        alarm = self._clock.at(until, over.set)
        over.wait()
        alarm.cancel()


class ThreadScheduler:
    """Lanes and work on real threads."""

    goes_on: Final = True

    def __init__(self, clock: Clock, *, lanes: int = MAX_LANES, work: int = MAX_WORK) -> None:
        """Begin without any thread."""
        self._clock = clock
        self._pool = Pool("runefold")
        self._lock = threading.Lock()
        self._free = lanes
        self._waiting: deque[ThreadLane] = deque()
        self._work = work
        # The threads stay behind in a fork, and with them perhaps the holders of our locks.
        self.home = Home("these actors were started before a fork: start your own in the child")

    @property
    def threads(self) -> int:
        """How many threads there are now."""
        return self._pool.threads

    def lane(self, name: str) -> ThreadLane:
        """Begin a lane."""
        return ThreadLane(self, name)

    def start(self, lane: ThreadLane) -> None:
        """Run a lane, as soon as fewer than the most that may run do."""
        with self._lock:
            self._waiting.append(lane)
            if self._free == 0:
                return
            self._free -= 1
        try:
            self._pool.run(self._drain)
        except RuntimeError:
            # What is in the lane was accepted, so it is kept: the lanes that run now see to it
            # when they are done, and if there are none, the next to start does.
            with self._lock:
                self._free += 1
            log.exception("no_thread_for_lane", lane=lane.name)

    def _drain(self) -> None:
        """Run one lane after the other, those that have more to do last."""
        here = self._pool.lend()
        lane: ThreadLane | None = None
        while True:
            with self._lock:
                if lane is not None:
                    self._waiting.append(lane)
                if not self._waiting:
                    self._free += 1
                    return
                lane = self._waiting.popleft()
            if here.next is not None:
                self._pool.pass_on()
            if not lane.drain(here):
                lane = None

    def pass_on(self) -> None:
        """Have another thread run what was begun on this one, which has more to do."""
        self._pool.pass_on()

    def work(self, name: str, steps: Steps | Iterator[int | None]) -> ThreadJob:
        """Run something that may block, on a thread of its own."""
        self.home.check()
        msg = f"no thread is free for {name}: too many streams and tools are running"
        with self._lock:
            if self._work == 0:
                raise Overloaded(msg)
            self._work -= 1
        job = ThreadJob(self._clock, name, steps)
        try:
            self._pool.run(lambda: self._go(job))
        except RuntimeError as error:
            self._done()
            raise Overloaded(msg) from error
        return job

    def _go(self, job: ThreadJob) -> None:
        try:
            last = job.go()
        finally:
            self._done()
        if last is not None:
            self._pool.lend()
            last()

    def _done(self) -> None:
        with self._lock:
            self._work += 1

    def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Wait at the edge for what an actor will answer; return True if it came in time."""
        self.home.check()
        self._pool.pass_on()
        return awaited.wait(timeout)

    def keep_polling(self, poller: Poller) -> None:
        """Poll on a thread of its own until that returns False."""

        def run() -> None:
            while poller.poll(wait=True):
                pass

        threading.Thread(target=run, name="runefold-watch", daemon=True).start()

    def close(self) -> None:
        """Let the threads end once they are done; work that pauses is for its owner to wake."""
        self._pool.close()

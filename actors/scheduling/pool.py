"""Threads for what blocks: tools, models, an app's policies, views, snapshots, long reads.

A thread that has nothing to do waits for more, the one that came last first, and ends after a
while; so does one that has run many jobs, as the C library keeps memory for each thread until it
ends. A thread that ends has free memory given back to the system. Starting one costs about 0.3 ms,
handing a job to one that waits a tenth of that.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

from actors.operator_log import log
from actors.scheduling import free_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.ports import Clock, Steps

T = TypeVar("T")

IDLE_FOR: Final = 10.0
"""How many seconds a thread waits for more to do before it ends."""
MAX_JOBS: Final = 2_000
"""After how many jobs a thread ends, if another one is free for what comes next."""

IN_A_ROW: Final = 128
"""Of a long read, after how many runes other threads are let go first: about a millisecond."""


def letting_others(items: Iterable[T]) -> Iterator[T]:
    """Yield what there is, and let other threads go first from time to time.

    Python gives a thread that only computes five milliseconds before another gets its turn. The
    loop waits for the disk many times in a turn, and would wait so long each time again.
    """
    for number, item in enumerate(items, 1):
        yield item
        if not number % IN_A_ROW:
            time.sleep(0)


class _Worker:
    """A thread of the pool, and the job it is given next."""

    __slots__ = ("gate", "job")

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.job: Callable[[], None] | None = None


class Pool:
    """Threads that are used again."""

    def __init__(self, name: str, relieve: Callable[[], object] = free_memory.trim) -> None:
        """Begin without any; one that ends calls `relieve` before, unless the pool is closed."""
        self._name = name
        self._relieve = relieve
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._count = 0
        self._closed = False
        self.threads = 0
        """How many there are now."""

    def run(self, job: Callable[[], None]) -> None:
        """Run a job on a thread that is free, or on a new one; `RuntimeError` if there is none.

        A job that comes after the close is run as well.
        """
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
        left = MAX_JOBS
        while True:
            job, worker.job = worker.job, None
            if job is not None:
                left -= 1
                try:
                    job()
                except BaseException:  # noqa: BLE001 -- a thread is used again whatever a job did
                    log.exception("job_failed", pool=self._name)
                # What it holds must not live until this thread has another one.
                del job
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


class PooledJob:
    """Work that blocks, on a thread of the pool."""

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

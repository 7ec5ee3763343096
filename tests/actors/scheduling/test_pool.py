"""Threads of a pool are used again, end when they are idle, and lose no job."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from actors.scheduling import pool as module
from actors.scheduling.pool import Pool
from tests.actors.players import PATIENCE, Sign

if TYPE_CHECKING:
    import pytest


def on_thread(pool: Pool) -> threading.Thread:
    """Run a job and return the thread it ran on, which may not be idle again yet."""
    found: list[threading.Thread] = []
    done = Sign()

    def job() -> None:
        found.append(threading.current_thread())
        done.give()

    pool.run(job)
    done.must_come()
    return found[0]


def until_idle(pool: Pool, count: int) -> None:
    """Wait until so many threads of a pool have nothing to do."""
    while True:
        with pool._lock:
            if len(pool._idle) == count:
                return


def test_threads_are_used_again() -> None:
    """A job finds the thread that became free last."""
    pool = Pool("p")
    first = on_thread(pool)
    until_idle(pool, 1)
    pool.run(functools.partial(exec, "raise SystemExit"))
    until_idle(pool, 1)
    second = on_thread(pool)
    pool.close()
    first.join(PATIENCE)

    assert first is second
    assert first.name == "p-1"
    assert not first.is_alive()
    assert pool.threads == 0


def test_threads_that_are_idle_for_long_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are none left, and the next job starts one."""
    monkeypatch.setattr(module, "IDLE_FOR", 0.0)
    pool = Pool("p")
    thread = on_thread(pool)
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert pool.threads == 0
    again = on_thread(pool)
    assert again is not thread
    again.join(PATIENCE)


def test_a_thread_that_ran_many_jobs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory is given back by it, once; the next job finds a thread that is free."""
    monkeypatch.setattr(module, "MAX_JOBS", 1)
    given_back: list[threading.Thread] = []
    pool = Pool("p", lambda: given_back.append(threading.current_thread()))
    begun, go_on = Sign(), Sign()
    busy: list[threading.Thread] = []

    def job() -> None:
        busy.append(threading.current_thread())
        begun.give()
        go_on.must_come()

    pool.run(job)
    begun.must_come()
    free = on_thread(pool)
    until_idle(pool, 1)
    go_on.give()
    busy[0].join(PATIENCE)

    assert not busy[0].is_alive()
    assert given_back == busy
    assert pool.threads == 1
    assert on_thread(pool) is free
    pool.close()
    free.join(PATIENCE)
    assert given_back == busy


def test_the_only_free_thread_stays_however_many_jobs_it_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes next does not have to wait for a new one, nor fail if there can be none."""
    monkeypatch.setattr(module, "MAX_JOBS", 1)
    pool = Pool("p")
    first = on_thread(pool)
    until_idle(pool, 1)
    second = on_thread(pool)
    until_idle(pool, 1)
    pool.close()
    first.join(PATIENCE)

    assert first is second


def test_a_thread_that_ends_for_want_of_jobs_gives_memory_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a runtime at rest holds little more than it uses."""
    monkeypatch.setattr(module, "IDLE_FOR", 0.0)
    given_back: list[threading.Thread] = []
    pool = Pool("p", lambda: given_back.append(threading.current_thread()))
    thread = on_thread(pool)
    thread.join(PATIENCE)

    assert given_back == [thread]


def test_jobs_given_at_the_last_moment_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that are about to end take what they are given, or a new one does: none is lost."""
    monkeypatch.setattr(module, "IDLE_FOR", 0.0)
    pool = Pool("p")
    for _ in range(300):
        on_thread(pool)
    pool.close()
    for thread in threading.enumerate():
        if thread.name.startswith("p-"):
            thread.join(PATIENCE)

    assert pool.threads == 0


class LateGate:
    """A gate whose patience ends just after a job was given."""

    def __init__(self) -> None:
        """Begin shut."""
        self._lock = threading.Lock()
        self._lock.acquire()
        self.release = self._lock.release
        self.idle, self.given = Sign(), Sign()

    def acquire(self, timeout: float = -1) -> bool:
        """Give up the first time, once there is a job."""
        if timeout == -1 or self.given.is_there():
            return self._lock.acquire(timeout=timeout)
        self.idle.give()
        self.given.must_come()
        return False


def test_a_thread_that_gave_up_takes_the_job_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gate is shut again after it: opened once, it lets one job in."""
    gate = LateGate()
    worker = module._Worker()
    worker.gate = gate  # type: ignore[assignment]  # a lock that is late
    monkeypatch.setattr(module, "_Worker", lambda: worker)
    pool = Pool("p")
    first = on_thread(pool)
    gate.idle.must_come()
    done = Sign()
    pool.run(done.give)
    gate.given.give()
    done.must_come()
    until_idle(pool, 1)

    assert not gate.acquire(timeout=0)
    assert pool.threads == 1
    pool.close()
    first.join(PATIENCE)


def test_a_closed_pool_runs_what_comes_late() -> None:
    """Busy threads end when they are done, and a late job is run on a thread that then ends."""
    pool = Pool("p")
    begun, go_on = Sign(), Sign()
    pool.run(lambda: (begun.give(), go_on.must_come())[0])  # type: ignore[func-returns-value]  # for its effect
    begun.must_come()
    pool.close()
    late = on_thread(pool)
    late.join(PATIENCE)

    assert pool.threads == 1
    go_on.give()
    for thread in threading.enumerate():
        if thread.name.startswith("p-"):
            thread.join(PATIENCE)
    assert pool.threads == 0
    pool.close()

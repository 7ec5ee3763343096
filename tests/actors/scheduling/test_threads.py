"""On threads: lanes in parallel, never two jobs of one at once, and threads that are used again."""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from actors.errors import Overloaded
from actors.process.answer import Answer
from actors.scheduling.clock import ManualClock, SystemClock
from actors.scheduling.threads import BURST, MAX_LANES, ThreadScheduler
from actors.units import SECOND
from tests.actors.players import PATIENCE, Scribe, Sign, rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.ports import Steps
    from actors.scheduling.clock import Alarm


class NoticingClock(ManualClock):
    """A clock that says when somebody arms an alarm."""

    def __init__(self) -> None:
        """Begin without alarms."""
        super().__init__()
        self.armed = threading.Semaphore(0)

    def at(self, when: int, call: Callable[[], None]) -> Alarm:
        """Arm it, and say so."""
        alarm = super().at(when, call)
        self.armed.release()
        return alarm


def out_of_threads(_thread: threading.Thread) -> None:
    """Fail as the system does when there are too many."""
    msg = "can't start new thread"
    raise RuntimeError(msg)


# -- lanes -------------------------------------------------------------------------------------


def test_lanes_run_in_parallel(threads: ThreadScheduler) -> None:
    """As many as may run at once meet at one barrier."""
    barrier = threading.Barrier(MAX_LANES + 1)

    def meet() -> None:
        barrier.wait(PATIENCE)

    for number in range(MAX_LANES):
        threads.lane(f"{number}").run(meet)

    barrier.wait(PATIENCE)
    assert threads.threads == MAX_LANES


def test_more_lanes_than_may_run_all_get_their_turn() -> None:
    """Never more at once than said, and none is forgotten."""
    scheduler = ThreadScheduler(SystemClock(), lanes=3)
    lock = threading.Lock()
    now, most, done = [0], [0], Sign()
    ran: list[int] = []

    def job(number: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        with lock:
            now[0] -= 1
            ran.append(number)
            if len(ran) == 200:
                done.give()

    for number in range(200):
        scheduler.lane(f"{number}").run(functools.partial(job, number))
    done.must_come()
    scheduler.close()

    assert sorted(ran) == list(range(200))
    assert most[0] <= 3
    assert scheduler.threads <= 3


def test_a_busy_lane_lets_others_have_their_turn() -> None:
    """After a burst of jobs the next lane runs, even if there is one thread and no end of jobs."""
    scheduler = ThreadScheduler(SystemClock(), lanes=1)
    busy, other = scheduler.lane("busy"), scheduler.lane("other")
    ready, stop = Sign(), Sign()
    count = [0]

    def again() -> None:
        count[0] += 1
        if not stop.is_there():
            busy.run(again)

    busy.run(ready.must_come)
    busy.run(again)
    other.run(stop.give)
    ready.give()
    stop.must_come()
    rest(scheduler, busy)
    scheduler.close()

    assert count[0] == BURST


def test_a_lane_never_runs_two_jobs_at_once(threads: ThreadScheduler) -> None:
    """Whoever sends, from however many threads: one at a time, each sender's in order."""
    lane = threads.lane("a")
    inside = threading.Lock()
    ran: list[tuple[int, int]] = []
    overlaps: list[tuple[int, int]] = []

    def job(key: tuple[int, int]) -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(key)
            return
        ran.append(key)
        inside.release()

    def send(sender: int) -> None:
        for number in range(1_500):
            lane.run(functools.partial(job, (sender, number)))

    crew = [threading.Thread(target=send, args=(sender,), daemon=True) for sender in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(PATIENCE)
    rest(threads, lane)

    assert overlaps == []
    for sender in range(4):
        assert [key[1] for key in ran if key[0] == sender] == list(range(1_500))


def test_actors_pass_messages_round_without_losing_any(threads: ThreadScheduler) -> None:
    """A ring of actors on lanes of their own, several messages under way, all come round."""
    done = Sign()
    ring = [Scribe(f"{number}", threads.lane(f"{number}")) for number in range(12)]
    arrived: list[int] = []

    def pass_on(at: int, left: int) -> None:
        if left:
            after = (at + 1) % len(ring)
            ring[after].ref.tell(functools.partial(pass_on, after, left - 1))
        else:
            arrived.append(at)
            if len(arrived) == 8:
                done.give()

    for actor in ring:
        actor.launch()
    for number in range(8):
        ring[0].ref.tell(functools.partial(pass_on, 0, 400 + number))
    done.must_come()

    assert sum(len(actor.heard) for actor in ring) == sum(401 + number for number in range(8))


def test_what_was_accepted_survives_a_lack_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread can be started the job waits, for a lane that runs or for the next to start."""
    threads = ThreadScheduler(SystemClock(), lanes=1)
    lane, other = threads.lane("a"), threads.lane("b")
    first, second = Sign(), Sign()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", out_of_threads)
        lane.run(first.give)
        with pytest.raises(Overloaded, match="no thread is free for w"):
            threads.work("w", iter([None]))
    count = threads.threads
    other.run(second.give)
    first.must_come()
    second.must_come()
    threads.close()

    assert count == 0


# -- threads that go on with what they began -----------------------------------------------------


def test_what_a_lane_begins_last_its_own_thread_goes_on_with(threads: ThreadScheduler) -> None:
    """A lane that starts some work and has no more to do needs no second thread."""
    lane = threads.lane("a")
    seen: list[int] = []
    done = Sign()

    def steps() -> Steps:
        seen.append(threading.get_ident())
        yield None
        return functools.partial(lane.run, end)

    def begin() -> None:
        seen.append(threading.get_ident())
        threads.work("w", steps())

    def end() -> None:
        seen.append(threading.get_ident())
        done.give()

    lane.run(begin)
    done.must_come()

    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_a_lane_with_more_to_do_passes_on_what_it_began(threads: ThreadScheduler) -> None:
    """Work does not wait for the lane that began it: they meet, so both run."""
    lane = threads.lane("a")
    met = threading.Barrier(2)
    done = Sign()

    def steps() -> Iterator[int | None]:
        met.wait(PATIENCE)
        yield None

    def more() -> None:
        met.wait(PATIENCE)
        done.give()

    def begin() -> None:
        lane.run(more)
        threads.work("w", steps())

    lane.run(begin)

    assert done.comes()


def test_what_work_says_before_its_end_is_heard_before_its_end(threads: ThreadScheduler) -> None:
    """A tool that reports and then blocks is heard at once: only its last word can wait."""
    lane = threads.lane("a")
    heard, done = Sign(), Sign()

    def steps() -> Iterator[int | None]:
        lane.run(heard.give)
        heard.must_come()
        yield None
        done.give()

    threads.work("w", steps())

    assert done.comes()


def test_whoever_waits_on_a_lent_thread_lets_others_run_what_they_began(
    threads: ThreadScheduler,
) -> None:
    """An answer that is waited for on a lane comes from another one, begun there."""
    answer = Answer()
    done = Sign()

    def ask() -> None:
        threads.lane("b").run(answer.set)
        assert threads.wait(answer, PATIENCE)
        done.give()

    threads.lane("a").run(ask)

    done.must_come()


# -- work --------------------------------------------------------------------------------------


def test_work_pauses_on_the_clock_it_was_given() -> None:
    """Until the time that it gave; on threads it waits for that clock and for nothing else."""
    clock = NoticingClock()
    scheduler = ThreadScheduler(clock)
    begun = clock.now()
    seen: list[int] = []
    done = Sign()

    def steps() -> Iterator[int | None]:
        for until in (begun + SECOND, begun, None, begun + 3 * SECOND):
            seen.append((clock.now() - begun) // SECOND)
            yield until
        seen.append((clock.now() - begun) // SECOND)
        done.give()

    scheduler.work("w", steps())
    assert clock.armed.acquire(timeout=PATIENCE)
    clock.advance(2)
    assert clock.armed.acquire(timeout=PATIENCE)
    clock.advance(2)
    done.must_come()
    scheduler.close()

    assert seen == [0, 2, 2, 2, 4]
    assert clock.next_alarm is None


def test_work_that_is_woken_goes_on_at_once() -> None:
    """It leaves no alarm behind, and takes no more pauses."""
    clock = NoticingClock()
    scheduler = ThreadScheduler(clock)
    done = Sign()

    def steps() -> Iterator[int | None]:
        yield clock.now() + SECOND
        yield clock.now() + SECOND
        done.give()

    job = scheduler.work("w", steps())
    assert clock.armed.acquire(timeout=PATIENCE)
    job.wake()
    done.must_come()
    scheduler.close()

    assert clock.next_alarm is None
    assert not clock.armed.acquire(blocking=False)


def test_a_wake_before_the_pause_is_not_lost() -> None:
    """Work that is woken while it takes a step does not pause after it."""
    clock = NoticingClock()
    scheduler = ThreadScheduler(clock)
    begun, go_on, done = Sign(), Sign(), Sign()

    def steps() -> Iterator[int | None]:
        begun.give()
        go_on.must_come()
        yield clock.now() + SECOND
        done.give()

    job = scheduler.work("w", steps())
    begun.must_come()
    job.wake()
    go_on.give()

    ended = done.comes()
    scheduler.close()

    assert ended
    assert clock.next_alarm is None


def test_too_much_work_is_refused_until_some_is_done(caplog: pytest.LogCaptureFixture) -> None:
    """What ends makes room, also if it ends by raising, and the operator is told which it was."""
    scheduler = ThreadScheduler(SystemClock(), work=1)
    go_on, started = Sign(), Sign()
    workers: list[threading.Thread] = []

    def steps() -> Iterator[int | None]:
        workers.append(threading.current_thread())
        started.give()
        go_on.must_come()
        yield None
        raise SystemExit

    with caplog.at_level(logging.ERROR, "runefold"):
        scheduler.work("first", steps())
        started.must_come()
        with pytest.raises(Overloaded, match="no thread is free for second"):
            scheduler.work("second", iter([]))
        scheduler.close()
        go_on.give()
        workers[0].join(PATIENCE)

    assert [record.__dict__.get("work") for record in caplog.records] == ["first"]
    scheduler.work("third", iter([]))


def test_two_schedulers_have_threads_of_their_own(threads: ThreadScheduler) -> None:
    """Whatever one is busy with, or closed, does not touch the other."""
    other = ThreadScheduler(SystemClock())
    rest(threads, threads.lane("a"))
    alone = other.threads
    other.close()
    rest(threads, threads.lane("b"))

    assert alone == 0
    assert threads.threads > 0

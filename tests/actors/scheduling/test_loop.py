"""One thread for all lanes and their commits; threads beside it for what blocks."""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from actors.errors import Overloaded
from actors.process.answer import Answer
from actors.scheduling import loop as module
from actors.scheduling.clock import ManualClock, SystemClock
from actors.scheduling.group_commit import GroupCommit
from actors.scheduling.loop import BURST, Loop
from actors.units import SECOND
from runelog.errors import Refused
from tests.actors.players import PATIENCE, Committed, RecordingProcess, Sign, in_turn, raising, rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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


def test_all_lanes_run_on_one_thread(threads: Loop) -> None:
    """Whoever sends, and however many there are; none of it is the sender's."""
    seen: set[int] = set()
    lanes = [threads.lane(f"{number}") for number in range(100)]
    for lane in lanes:
        lane.run(lambda: seen.add(threading.get_ident()))
    rest(threads, lanes[-1])

    assert len(seen) == 1
    assert threading.get_ident() not in seen
    assert threads.threads == 1


def test_a_lane_never_runs_two_jobs_at_once(threads: Loop) -> None:
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


def test_actors_pass_messages_round_without_losing_any(threads: Loop) -> None:
    """A ring of actors on lanes of their own, several messages under way, all come round."""
    done = Sign()
    ring = [RecordingProcess(f"{number}", threads.lane(f"{number}")) for number in range(12)]
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
    """If no thread can be started the job waits, until the next is sent."""
    threads = Loop(SystemClock())
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


def test_whoever_waits_on_the_loops_own_thread_is_told_at_once(threads: Loop) -> None:
    """It would wait for itself; what else it can do is in the message."""
    done, told = Sign(), list[str]()

    def ask() -> None:
        try:
            threads.wait(Answer(), None)
        except Refused as refusal:
            told.append(str(refusal))
        done.give()

    threads.lane("a").run(ask)
    done.must_come()

    assert "to wait here for one of them would be to wait for itself" in told[0]
    assert "Use the awaitable form, or call it from a tool" in told[0]


def test_what_comes_after_the_close_is_run_all_the_same(threads: Loop) -> None:
    """A tool that ends late says so; the thread for that ends again."""
    lane = threads.lane("a")
    rest(threads, lane)
    threads.close()
    after = threads.threads
    late = Sign()
    lane.run(late.give)
    late.must_come()
    for thread in threading.enumerate():
        if thread.name == "runefold-loop":
            thread.join(PATIENCE)

    assert after == 0
    assert threads.threads == 0


def test_a_job_may_close_the_loop_that_runs_it(threads: Loop) -> None:
    """It does not wait for itself."""
    done = Sign()
    threads.lane("a").run(in_turn(threads.close, done.give))

    assert done.comes()


# -- committing --------------------------------------------------------------------------------


def test_a_round_is_committed_once_no_lane_has_anything_left(threads: Loop) -> None:
    """All that follows from a message is in one commit, of all conversations; and then the next."""
    told: list[str] = []
    lane, other = threads.lane("a"), threads.lane("b")
    done = Sign()
    first = Committed(lambda: told.append("first"), lambda: told.append("hand over first"))
    second = Committed(in_turn(lambda: told.append("second"), lambda: other.run(again)))
    third = Committed(in_turn(lambda: told.append("third"), done.give))

    def begin() -> None:
        threads.commit_soon(first)
        lane.run(in_turn(lambda: told.append("decided"), lambda: threads.commit_soon(first)))
        lane.run(lambda: threads.commit_soon(second))

    def again() -> None:
        told.append("behind it")
        threads.commit_soon(third)

    lane.run(begin)
    done.must_come()

    assert told == ["decided", "hand over first", "first", "second", "behind it", "third"]


def test_a_round_comes_to_its_end_though_messages_do_not(threads: Loop) -> None:
    """What was decided is committed after so many jobs."""
    lane = threads.lane("a")
    done, count = Sign(), [0]

    def again() -> None:
        count[0] += 1
        if not done.is_there():
            lane.run(again)

    def begin() -> None:
        threads.commit_soon(Committed(done.give))
        again()

    lane.run(begin)
    done.must_come()
    rest(threads, lane)

    assert BURST <= count[0] <= BURST + 1


@pytest.mark.parametrize("raises", [("hand_over",), ("committed",), ("hand_over", "committed")])
def test_a_member_that_fails_does_not_concern_the_others(raises: Sequence[str]) -> None:
    """The error is raised behind them all."""
    commits = GroupCommit()
    told: list[str] = []
    committed, hand_over = (
        raising(ValueError(name)) if name in raises else list for name in ("committed", "hand_over")
    )
    commits.join(Committed(committed, hand_over))
    commits.join(Committed(lambda: told.append("on disk"), lambda: told.append("handed over")))
    with pytest.raises(ValueError, match=raises[0]):
        commits.commit()

    assert told == ["handed over", "on disk"]
    assert not commits.is_due


# -- alarms, and what takes too long -----------------------------------------------------------


def test_alarms_ring_on_the_loops_own_thread() -> None:
    """Soonest first, whoever set them and whatever it waits for; none of them on a thread more."""
    clock = SystemClock()
    loop = Loop(clock)
    seen: list[tuple[str, int]] = []
    done = Sign()

    def ring(name: str) -> None:
        seen.append((name, threading.get_ident()))

    clock.at(clock.now() + SECOND // 20, in_turn(lambda: ring("late"), done.give))
    clock.at(clock.now() + SECOND // 100, lambda: ring("soon"))
    clock.at(clock.now() + SECOND // 50, lambda: ring("cancelled")).cancel()
    at_once = functools.partial(clock.at, clock.now() - SECOND, lambda: ring("at once"))
    loop.lane("a").run(in_turn(at_once))
    done.must_come()
    names = [name for name, _ in seen]
    threads = {ident for _, ident in seen}
    loop.close()
    after = Sign()
    clock.at(clock.now(), after.give)
    rang = after.comes()
    clock.close()

    assert sorted(names[:2]) == ["at once", "soon"]
    assert names[2:] == ["late"]
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert rang


def test_a_clock_has_one_thread_that_drives_it() -> None:
    """A second loop lets the first ring, and a clock that has a thread of its own keeps it."""
    clock, other = SystemClock(), SystemClock()
    first, second = Loop(clock), Loop(clock)
    seen: list[int] = []
    done = Sign()
    clock.at(clock.now(), in_turn(lambda: seen.append(threading.get_ident()), done.give))
    done.must_come()
    first.lane("a").run(lambda: seen.append(threading.get_ident()))
    rest(first, first.lane("a"))
    other.at(other.now() + 3_600 * SECOND, done.give)
    for loop in (first, second):
        loop.close()
    clock.close()

    assert len(seen) == 2
    assert len(set(seen)) == 1
    assert not other.drive(done.give)
    other.close()


def test_a_step_that_takes_too_long_is_named_to_operators(
    threads: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything else waited for it: which actor it was, and at which message."""
    seconds = iter([0.0, 1.0, 1.04, 1.1, 1.2, 1.3])
    monkeypatch.setattr(module, "time", Ticks(lambda: next(seconds, 1.3)))
    actor = RecordingProcess("a", threads.lane("lane"))
    with caplog.at_level(logging.WARNING, "runefold"):
        actor.launch().tell("hello")
        rest(threads, threads.lane("b"))
    found = [record.__dict__ for record in caplog.records if vars(record)["event"] == "slow_step"]

    assert found
    assert (found[0]["lane"], found[0]["step"]) == ("lane", "a")
    assert (found[0]["handled"], found[0]["seconds"]) == ("str", 1.0)


class Ticks:
    """A clock that shows what it is given."""

    def __init__(self, perf_counter: Callable[[], float]) -> None:
        """Show that."""
        self.perf_counter = perf_counter


# -- work --------------------------------------------------------------------------------------


def test_work_pauses_on_the_clock_it_was_given() -> None:
    """Until the time that it gave; on threads it waits for that clock and for nothing else."""
    clock = NoticingClock()
    scheduler = Loop(clock)
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
    scheduler = Loop(clock)
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
    scheduler = Loop(clock)
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
    scheduler = Loop(SystemClock(), work=1)
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


def test_work_that_does_not_block_is_done_on_the_loops_own_thread(threads: Loop) -> None:
    """It pauses, is woken, and says at its end what came of it, without a thread of its own."""
    lane = threads.lane("a")
    seen: list[int] = []
    begun, done = Sign(), Sign()
    clock = SystemClock()

    def steps() -> Steps:
        seen.append(threading.get_ident())
        yield None
        yield clock.now() + SECOND // 100
        seen.append(threading.get_ident())
        begun.give()
        yield clock.now() + 3_600 * SECOND
        yield clock.now() + 3_600 * SECOND
        return in_turn(lambda: seen.append(threading.get_ident()), done.give)

    job = threads.work("w", steps(), blocks=False)
    begun.must_come()
    lane.run(job.wake)
    done.must_come()

    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert threads.threads == 1


def test_work_on_the_loop_lets_others_have_their_turn(threads: Loop) -> None:
    """Work without end does not hold up a lane."""
    stop = Sign()

    def steps() -> Iterator[int | None]:
        while not stop.is_there():
            yield None

    threads.work("w", steps(), blocks=False)
    threads.lane("a").run(stop.give)

    assert stop.comes()


def test_work_on_the_loop_that_raises_ends_and_nothing_else(
    threads: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    """The operator is told which it was."""

    def steps() -> Iterator[int | None]:
        yield None
        raise SystemExit

    with caplog.at_level(logging.ERROR, "runefold"):
        threads.work("w", steps(), blocks=False)
        rest(threads, threads.lane("a"))

    assert [record.__dict__.get("work") for record in caplog.records] == ["w"]


def test_two_schedulers_have_threads_of_their_own(threads: Loop) -> None:
    """Whatever one is busy with, or closed, does not touch the other."""
    other = Loop(SystemClock())
    rest(threads, threads.lane("a"))
    alone = other.threads
    other.close()
    rest(threads, threads.lane("b"))

    assert alone == 0
    assert threads.threads > 0

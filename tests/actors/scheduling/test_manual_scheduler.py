"""By hand, every step is chosen: the same choices give the same run."""

from __future__ import annotations

import asyncio
import functools
import random
import socket
from typing import TYPE_CHECKING

import pytest

from actors.errors import Unanswered
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.units import SECOND
from tests.actors.players import PATIENCE, Committed, RecordingProcess, Sign, raising

if TYPE_CHECKING:
    from collections.abc import Iterator


def story(seed: int) -> list[str]:
    """Run lanes, actors, work and alarms as a seed has it; return what happened, in order."""
    clock = ManualClock()
    scheduler = ManualScheduler(clock, random.Random(seed))
    told: list[str] = []

    def steps(name: str) -> Iterator[int | None]:
        for number in range(4):
            told.append(f"{name}{number}")
            yield None if number % 2 else clock.now() + SECOND

    for name in "abc":
        actor = RecordingProcess(name, scheduler.lane(name))
        ref = actor.launch()
        for number in range(4):
            ref.tell(lambda name=name, number=number: told.append(f"{name}{number}"))
        scheduler.work(f"w{name}", steps(f"w{name}"))
    clock.at(clock.now(), lambda: told.append("alarm"))
    assert scheduler.run_until(lambda: len(told) == 25)
    return told


def test_the_same_seed_gives_the_same_run() -> None:
    """Step for step."""
    assert [story(seed) for seed in range(5)] == [story(seed) for seed in range(5)]


def test_different_seeds_give_different_runs() -> None:
    """Each keeps the order within a lane and within work."""
    runs = [story(seed) for seed in range(20)]

    assert len({tuple(run) for run in runs}) == 20
    for run in runs:
        for name in ("a", "b", "c", "wa", "wb", "wc"):
            mine = [event for event in run if event[:-1] == name]
            assert mine == [f"{name}{number}" for number in range(4)]


def test_without_choice_everybody_comes_in_turn(manual: ManualScheduler) -> None:
    """A lane that has more to do lines up again behind the others: nobody waits for ever."""
    told: list[str] = []

    def steps() -> Iterator[int | None]:
        told.append("work")
        yield None

    for name in "ab":
        lane = manual.lane(name)
        lane.run(functools.partial(told.append, f"{name}0"))
        lane.run(functools.partial(told.append, f"{name}1"))
    manual.work("w", steps())
    manual.run()

    assert told == ["a0", "b0", "work", "a1", "b1"]
    assert manual.steps == 6


def test_a_lane_runs_one_job_at_a_time_even_if_it_waits(manual: ManualScheduler) -> None:
    """A job that waits lets others run, but nothing in its own lane: on threads it would block."""
    mine, other = manual.lane("mine"), manual.lane("other")
    told: list[str] = []

    def wait() -> None:
        told.append("begun")
        assert not manual.wait(Sign(), 1.0)
        told.append("done")

    mine.run(wait)
    mine.run(lambda: told.append("next"))
    other.run(lambda: told.append("other"))
    manual.run()

    assert told == ["begun", "other", "done", "next"]


def test_to_wait_moves_the_clock(manual: ManualScheduler) -> None:
    """As far as an answer needs, and by the time-out if none comes."""
    clock = manual.clock
    begun = clock.now()
    in_time, late = Sign(), Sign()
    clock.at(begun + 2 * SECOND, in_time.give)
    clock.at(begun + 60 * SECOND, late.give)

    assert manual.wait(in_time, 30.0)
    assert clock.now() == begun + 2 * SECOND
    assert not manual.wait(late, 30.0)
    assert clock.now() == begun + 32 * SECOND
    assert manual.wait(late, None)
    assert clock.now() == begun + 60 * SECOND
    assert not manual.wait(Sign(), None)


def test_to_wait_ends_with_the_answer(manual: ManualScheduler) -> None:
    """What else there is to do is left for later."""
    lane = manual.lane("a")
    there, rest = Sign(), Sign()
    lane.run(there.give)
    lane.run(rest.give)

    assert manual.wait(there, PATIENCE)
    assert not rest.is_there()


def test_nobody_answers_for_an_actor_that_waits_for_ever(manual: ManualScheduler) -> None:
    """A question without a time-out ends once nothing can happen any more."""
    actor = RecordingProcess("a", manual.lane("a"))

    with pytest.raises(Unanswered):
        actor.ref.ask("hello", manual, None)


def test_what_is_due_now_happens_now(manual: ManualScheduler) -> None:
    """An alarm whose time has come rings without the clock being moved, as on the system's."""
    rung = Sign()
    manual.clock.at(manual.clock.now() - SECOND, rung.give)
    manual.run()

    assert rung.is_there()


def test_a_run_without_end_is_a_bug(manual: ManualScheduler) -> None:
    """It is found out by counting steps; until done, or until there is nothing left to do."""
    lane = manual.lane("a")

    def again() -> None:
        lane.run(again)

    again()

    with pytest.raises(AssertionError, match="still not at rest after 50 steps"):
        manual.run(limit=50)
    assert not manual.run_until(lambda: False, limit=50)
    assert not ManualScheduler(ManualClock()).run_until(lambda: False)


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), GeneratorExit()])
def test_what_raises_is_written_down(manual: ManualScheduler, error: BaseException) -> None:
    """A job or a step of work that raises keeps nobody from going on; a test may look."""
    lane = manual.lane("a")
    done = Sign()

    def steps() -> Iterator[int | None]:
        yield None
        raise error

    lane.run(raising(error))
    manual.commit_soon(Committed(raising(error)))
    lane.run(done.give)
    job = manual.work("w", steps())
    manual.run()

    assert manual.failures == [error] * 3
    assert done.is_there()
    assert job.done


def test_whoever_drives_can_interrupt(manual: ManualScheduler) -> None:
    """An interrupt outside an actor is meant for the one who runs the steps."""
    lane = manual.lane("a")
    done = Sign()
    lane.run(raising(KeyboardInterrupt()))
    lane.run(done.give)

    with pytest.raises(KeyboardInterrupt):
        manual.run()
    manual.run()
    assert done.is_there()


def test_work_pauses_on_the_clock(manual: ManualScheduler) -> None:
    """Until the time it gave, not before; a time that is past is no pause."""
    clock = manual.clock
    begun = clock.now()
    seen: list[int] = []

    def steps() -> Iterator[int | None]:
        for until in (begun + 5, begun - 5, None, begun + 9):
            seen.append(clock.now() - begun)
            yield until
        seen.append(clock.now() - begun)

    job = manual.work("w", steps())
    manual.run()
    clock.move_to(begun + 4)
    manual.run()
    early = list(seen)
    clock.move_to(begun + 5)
    manual.run()
    paused = clock.next_alarm
    clock.move_to(begun + 20)
    manual.run()

    assert early == [0]
    assert seen == [0, 5, 5, 5, 20]
    assert paused == begun + 9
    assert job.done


def test_work_that_is_woken_pauses_no_more(manual: ManualScheduler) -> None:
    """The pause ends at once, leaves no alarm behind, and later ones are not taken."""
    clock = manual.clock
    seen: list[str] = []

    def steps() -> Iterator[int | None]:
        for name in "abc":
            seen.append(name)
            yield clock.now() + SECOND

    job = manual.work("w", steps())
    manual.run()
    paused = list(seen)
    job.wake()
    no_alarm = clock.next_alarm
    job.wake()
    manual.run()

    assert paused == ["a"]
    assert no_alarm is None
    assert seen == ["a", "b", "c"]
    assert job.done
    assert manual.failures == []


def test_its_event_loop_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is killed by hand closes nothing, its event loop neither.

    The collector may end what a loop holds before the loop itself: with a socket among it, the loop
    could not be closed any more.
    """
    opened: list[object] = []
    monkeypatch.setattr(socket, "socketpair", lambda *_: opened.append("pair"))
    scheduler = ManualScheduler(ManualClock())
    done: list[str] = []

    async def waits() -> None:
        await asyncio.sleep(0)
        done.append("awake")

    scheduler.begin_async("a call", waits())

    assert scheduler.run_until(lambda: bool(done))
    assert not opened

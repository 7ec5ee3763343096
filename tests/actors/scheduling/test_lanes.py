"""What a lane promises, by hand and on threads alike."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from tests.actors.players import PATIENCE, Sign, raising, rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.ports import Scheduler


def test_jobs_run_in_order(scheduler: Scheduler) -> None:
    """In the order they came, those that come from jobs included."""
    lane = scheduler.lane("a")
    told: list[int] = []
    lane.run(lambda: lane.run(functools.partial(told.append, 99)))
    for number in range(50):
        lane.run(functools.partial(told.append, number))
    rest(scheduler, lane)

    assert sorted(told) == [*range(50), 99]
    assert [number for number in told if number != 99] == list(range(50))


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), GeneratorExit()])
def test_a_job_that_raises_does_not_stop_the_lane(
    scheduler: Scheduler, error: BaseException
) -> None:
    """Nor does one that was to run when the lane is dry."""
    lane = scheduler.lane("a")
    told: list[str] = []
    lane.when_idle(raising(error))
    lane.when_idle(lambda: told.append("dry"))
    lane.run(raising(error))
    lane.run(lambda: told.append("next"))
    rest(scheduler, lane)

    assert sorted(told) == ["dry", "next"]


def test_when_dry_comes_after_everything_queued_before(scheduler: Scheduler) -> None:
    """Once, and after what came meanwhile; a lane that is made wet again is waited for again."""
    lane = scheduler.lane("a")
    told: list[str] = []

    def scene() -> None:
        lane.when_idle(lambda: (told.append("dry 1"), lane.run(lambda: told.append("wet")))[0])  # type: ignore[func-returns-value]  # for their effects
        lane.when_idle(lambda: told.append("dry 2"))
        lane.run(lambda: told.append("job 1"))
        lane.run(lambda: told.append("job 2"))

    lane.run(scene)
    rest(scheduler, lane)
    rest(scheduler, lane)

    assert told == ["job 1", "job 2", "dry 1", "wet", "dry 2"]


def test_when_dry_may_ask_for_itself_again(scheduler: Scheduler) -> None:
    """It runs again, and what comes to the lane meanwhile goes first."""
    lane = scheduler.lane("a")
    told: list[str] = []
    done = Sign()

    def again() -> None:
        told.append("dry")
        if len(told) < 1_000:
            lane.run(lambda: told.append("job"))
            lane.when_idle(again)
        else:
            done.give()

    lane.when_idle(again)

    assert scheduler.wait(done, PATIENCE)
    assert told == (["dry", "job"] * 500 + ["dry"])[: len(told)]


def test_when_dry_in_a_lane_at_rest_comes_at_once(scheduler: Scheduler) -> None:
    """Nothing is waiting, so nothing is waited for."""
    dry = Sign()
    scheduler.lane("a").when_idle(dry.give)

    assert scheduler.wait(dry, PATIENCE)


def test_work_is_done_beside_the_lanes(scheduler: Scheduler) -> None:
    """Step by step; a step that raises ends it and nothing else."""
    told: list[int] = []
    done = Sign()

    def steps(end: int) -> Iterator[int | None]:
        for number in range(end):
            told.append(number)
            yield None
        if end == 3:
            raise SystemExit
        done.give()

    scheduler.work("short", steps(3))
    scheduler.work("long", steps(5))

    assert scheduler.wait(done, PATIENCE)
    assert told.count(4) == 1

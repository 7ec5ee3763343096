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
    """Nor another lane, nor the commit."""
    lane, other = scheduler.lane("a"), scheduler.lane("b")
    told: list[str] = []
    lane.run(raising(error))
    lane.run(lambda: told.append("next"))
    other.run(lambda: told.append("other"))
    rest(scheduler, lane)

    assert sorted(told) == ["next", "other"]


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

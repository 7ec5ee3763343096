"""What OTP's own supervisor was seen to do, ours does.

`otp/scenarios.json` says what is done to a supervisor, `otp/traces.json` what happened when it was
done to Erlang's. Worth knowing: too many restarts end a supervisor with `shutdown`, so that a
transient one is not restarted by its own supervisor; restarting a group revives those in it that
had finished or been terminated; a failed restart is tried again at once, behind what waits, and
each attempt counts; children that die together count once under one_for_all, because the group's
restart has seen to all of them; terminating a child never ends its supervisor; a stop waits for a
start that is under way. Where OTP leaves the order of stops open (`unordered_steps`), both sides
are sorted before they are compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.supervisors.otp_play import Json, Play
from tests.supervisors.worlds import ManualWorld, ThreadWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.supervisors.worlds import World

DATA = Path(__file__).parent / "otp"
SCENARIOS: list[Json] = json.loads((DATA / "scenarios.json").read_bytes())["scenarios"]
TRACES: dict[str, Json] = {
    trace["name"]: trace for trace in json.loads((DATA / "traces.json").read_bytes())["traces"]
}


def is_held(scenario: Json) -> bool:
    """Tell whether a start blocks in it: that takes a second thread."""
    return "held_" in json.dumps(scenario)


def canonical_events(events: list[Json], unordered: list[int]) -> list[Json]:
    """Put the stops of steps without an order first, by id."""
    steps = sorted({event["step"] for event in events})
    ordered: list[Json] = []
    for step in steps:
        mine = [event for event in events if event["step"] == step]
        if step in unordered:
            mine.sort(key=lambda event: (event["event"] != "stopped", ""))
            stops = [event for event in mine if event["event"] == "stopped"]
            mine[: len(stops)] = sorted(stops, key=lambda event: str(event["id"]))
        ordered += mine
    return ordered


def in_own_lanes() -> ManualWorld:
    """Each actor in a lane of its own, by manual."""
    return ManualWorld(shared=False)


def in_one_lane() -> ManualWorld:
    """All actors in one lane, by manual: nobody could wait for anybody."""
    return ManualWorld(shared=True)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One of the three places."""
    place: World = request.param()
    yield place
    place.close()


def played(world: World, scenario: Json) -> tuple[list[Json], Any]:
    """Play a scenario; return what happened and how it ended, fit to be compared."""
    events, final = Play(world, scenario).play()
    return canonical_events(events, TRACES[scenario["name"]]["unordered_steps"]), final


@pytest.mark.parametrize("world", [in_own_lanes, in_one_lane], indirect=True)
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, id=each["name"]) for each in SCENARIOS if not is_held(each)],
)
def test_by_hand_it_does_what_otp_does(world: World, scenario: Json) -> None:
    """Event by event and in its final state, in lanes of their own and in one for all."""
    trace = TRACES[scenario["name"]]

    events, final = played(world, scenario)

    assert events == canonical_events(trace["events"], trace["unordered_steps"])
    assert final == trace["final"]


@pytest.mark.parametrize("world", [ThreadWorld], indirect=True)
@pytest.mark.parametrize("scenario", [pytest.param(each, id=each["name"]) for each in SCENARIOS])
def test_on_threads_it_does_what_otp_does(world: World, scenario: Json) -> None:
    """Event by event and in its final state, starts that block a thread included."""
    trace = TRACES[scenario["name"]]

    events, final = played(world, scenario)

    assert events == canonical_events(trace["events"], trace["unordered_steps"])
    assert final == trace["final"]


def test_all_of_it_is_compared() -> None:
    """Each scenario has its trace, and those that cannot be played by hand are known by number."""
    names = [scenario["name"] for scenario in SCENARIOS]

    assert len(names) == 136
    assert sorted(names) == sorted(TRACES)
    assert sum(is_held(scenario) for scenario in SCENARIOS) == 15

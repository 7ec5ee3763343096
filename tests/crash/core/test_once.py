"""Moments at which something was lost once, each with the scenario in which it showed."""

from __future__ import annotations

from typing import Final

import pytest

from runefold.testing import SweepOptions, sweep
from tests.crash.core.apps import app
from tests.scenarios.plays import NAME

DEATHS: Final = [
    ("held", "turn_1 Cancel", "actor-before-message"),
    ("progress", "tool#1 Report", "actor-before-message"),
]
"""A turn that dies of being told to stop, though it is told nothing more before the pause is over;
and a tool's actor that dies of what the tool says on the way."""


def became(name: str, mark: str, moment: str) -> str:
    """Hit a scenario at the first such moment, in one process; return what became of it."""
    found = app(name)
    report = sweep(found, SweepOptions(in_process=True, jobs=1, sample=1))
    seen = report.messages if moment.startswith("actor") else report.boundaries
    number = next(each.number for each in seen if each.mark == f"{NAME} {mark}")
    again = sweep(found, SweepOptions(in_process=True, jobs=1, point=f"{number}:{moment}"))

    assert again.ok, "\n".join(again.lines())
    return again.results[0].status


@pytest.mark.parametrize(("name", "mark", "moment"), DEATHS)
def test_what_an_actor_dies_of_hearing_is_told_again(name: str, mark: str, moment: str) -> None:
    """Its successor hears it, and nothing of it twice."""
    assert became(name, mark, moment) == "survived"


def test_a_full_disk_is_waited_for() -> None:
    """An agent is not told that another one failed when there was merely no room for a moment."""
    assert became("expert", "turn_2-r0-a0 model.called", "disk-full") == "survived"


def test_whoever_was_served_is_not_told_otherwise() -> None:
    """If room runs out behind what was asked for, that is there: asked for again, it is twice."""
    assert became("lost helper", "helper#1 agent.ready", "disk-full") == "survived"

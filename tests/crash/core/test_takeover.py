"""An actor that dies is replaced: its successor goes on with what it was in the middle of."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.tool.adapters.function import tool
from actors.tool.context import CallId, progress
from actors.tool.outcome import Happened
from runefold.runtime import Runtime
from runefold.testing import CrashApp, SweepOptions, sweep
from tests.crash.core.apps import app
from tests.crash.kit import bots
from tests.crash.kit.bots import MODEL, Bank
from tests.scenarios import plays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runefold.testing import CrashReport


def build(directory: Path) -> Runtime:
    """Open a bot that takes its time to pay, and says so."""
    bank = Bank(directory)

    def was_paid(key: str, _arguments: Mapping[str, Any]) -> Happened | None:
        return Happened("paid") if key in bank.paid() else None

    @tool(on_doubt="probe", probe=was_paid)
    def pay(cents: int, key: CallId) -> str:  # noqa: ARG001 -- what a model would say
        """Pay somebody, slowly."""
        progress("on my way to the bank")
        threading.Event().wait(0.3)
        bank.pay(key)
        return "paid"

    return Runtime.open(directory, tools=[pay], providers={"bot": MODEL})


SLOW = CrashApp(build, bots.scenario, bots.check, "slow")


def at(report: CrashReport, mark: str, moment: str = "actor-before-message") -> str:
    """Return the message with this mark as a point."""
    found = [each.number for each in report.messages if each.mark == mark]
    assert found, "\n".join(report.lines())
    return f"{found[0]}:{moment}"


def test_a_tool_that_lost_its_actor_is_not_run_again() -> None:
    """While it runs nothing is in doubt: the successor waits for it, and asks no probe."""
    report = sweep(SLOW, SweepOptions(jobs=1, sample=1))
    again = sweep(SLOW, SweepOptions(jobs=1, point=at(report, f"{bots.NAME} tool#1 Report")))

    assert again.ok, "\n".join(again.lines())
    assert again.results[0].status == "survived"


def test_an_outcome_that_died_with_its_actor_is_told_again() -> None:
    """The run is over and its actor dies of hearing so: the successor is told the same."""
    report = sweep(SLOW, SweepOptions(jobs=1, sample=1))
    again = sweep(SLOW, SweepOptions(jobs=1, point=at(report, f"{bots.NAME} tool#1 Finish")))

    assert again.ok, "\n".join(again.lines())


def test_a_session_closes_though_a_turn_dies_of_being_told_to_stop() -> None:
    """On threads and on disk: its successor hears of it again, and nobody has to ask for more."""
    closed = app("closed")
    report = sweep(closed, SweepOptions(jobs=1, sample=1))
    point = at(report, f"{plays.NAME} turn_2 Cancel", "actor-after-message")
    again = sweep(closed, SweepOptions(jobs=1, point=point))

    assert again.ok, "\n".join(again.lines())
    assert again.results[0].status == "survived"


@pytest.mark.parametrize(
    ("mark", "moment"), [("Cancel", "actor-after-message"), ("Fail", "actor-before-message")]
)
def test_a_program_that_was_called_off_stays_so_though_its_actor_dies(
    mark: str, moment: str
) -> None:
    """Its successor is told to stop it when it has stopped already, and does not run it again."""
    steered = app("steer in a program")
    report = sweep(steered, SweepOptions(jobs=1, sample=1))
    point = at(report, f"{plays.NAME} tool#1 {mark}", moment)
    again = sweep(steered, SweepOptions(jobs=1, point=point))

    assert again.ok, "\n".join(again.lines())
    assert again.results[0].status == "survived"


def test_whoever_waits_for_a_turn_is_answered_though_the_session_dies() -> None:
    """The session dies while an app waits for a turn: the app is told its end all the same."""
    sound = CrashApp(bots.build, bots.scenario, bots.check, "sound")
    report = sweep(sound, SweepOptions(in_process=True, jobs=1, sample=1))
    wakes = [
        f"{each.number}:actor-before-message"
        for each in report.messages
        if each.mark == f"{bots.NAME} session Wake"
    ]
    for point in wakes:
        again = sweep(sound, SweepOptions(in_process=True, jobs=1, point=point))

        assert again.ok, "\n".join(again.lines())

"""Rules about the lives of an app: how each ended, and what went wrong in it, is told as it was."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest

from actors.model.runes import Cancelled
from actors.tool.runes import Result
from runefold.testing import CrashApp
from runefold.testing.crash.instrumentation.journal import Hit
from runefold.testing.crash.plan.faults import WORDS
from runefold.testing.crash.running import run_once
from runefold.testing.crash.verdict import judge
from runelog.rune import Change
from tests.crash.kit import bots, frail
from tests.crash.kit.test_sweep import effect_points, swept, told
from tests.crash.kit.test_verdicts import CALL, PAID, STARTED, log_of


@cache
def busy() -> str:
    """Return the point at which the bot's model says that it has too much to do."""
    report = swept(bots.SOUND, in_process=True, point="1:before-commit")
    at = next(at for at in report.boundaries if any(each.what == "model" for each in at.effects))
    return f"{at.number}:provider-429"


# -- how it ended --------------------------------------------------------------------------------


def test_a_process_that_somebody_else_ends_has_died() -> None:
    """The kit has killed nobody there: that it comes to its end later is no excuse."""
    app = CrashApp(bots.build, frail.scenario_ended, name="ended")
    (result,) = swept(app, point=busy()).failed

    assert [each.ended for each in result.lives] == ["died"]
    assert [str(each) for each in result.wrong] == ["died: its process ended by itself, by SIGKILL"]


def test_a_process_that_has_to_be_ended_from_outside_hangs() -> None:
    """An app may call off whoever watches its time; it is not killed for that, it hangs."""
    app = CrashApp(bots.build, frail.scenario_unwatched, name="unwatched")
    (result,) = swept(app, point=busy(), patience=5).failed

    assert [each.ended for each in result.lives] == ["hung"]
    assert {each.verdict for each in result.wrong} == {"hang"}


def test_how_a_process_ended_by_itself_is_said() -> None:
    """With its exit code, by which whoever ended it may be known."""
    app = CrashApp(bots.build, bots.scenario_dying, name="dying")
    (result,) = swept(app, point=effect_points(bots.SOUND)[0]).failed

    assert "died: its process ended by itself, with exit code 3" in map(str, result.wrong)


# -- what went wrong in it -----------------------------------------------------------------------


@pytest.mark.parametrize("in_process", [True, False])
def test_of_a_model_that_is_asked_again_an_app_hears_nothing(*, in_process: bool) -> None:
    """It is no reason to be told that there is no answer, even if there is one the next time."""
    app = CrashApp(bots.build, frail.scenario_unanswered, name="unanswered")
    (result,) = swept(app, point=busy(), in_process=in_process).failed

    assert [each.verdict for each in result.wrong] == ["finished"]
    assert "nobody answers" in result.wrong[0].message


@pytest.mark.parametrize("in_process", [True, False])
def test_an_error_that_only_operators_hear_of_is_found(*, in_process: bool) -> None:
    """It all ends well in spite of it; but something failed, and no app would know."""
    app = CrashApp(frail.build_raising, bots.scenario, name="raising")
    report = swept(app, point=effect_points(bots.SOUND)[0], in_process=in_process)

    assert not report.ok
    assert "actor" in {each.verdict for each in report.wrong}, told(report)
    assert "job_failed: RuntimeError: a bug in what recovery does" in told(report)


def test_an_app_that_fails_every_other_time_is_not_well() -> None:
    """Two undisturbed runs are made, and both have to be well."""
    app = CrashApp(bots.build, frail.scenario_every_other, name="every other")
    report = swept(app, in_process=True, point="1:before-commit")

    assert not report.ok
    assert "not this time" in told(report)


def test_each_error_of_a_group_is_told() -> None:
    """What several tasks raised at once is a group; its own words say only how many there are."""

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_refused("no money"))
            group.create_task(_refused("no time"))

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(both())
    words = run_once.raised(raised.value).message

    assert "ValueError: no money" in words
    assert "ValueError: no time" in words
    assert "KeyError: 'no time'" in words


async def _refused(why: str) -> None:
    raise ValueError(why) from KeyError(why)


# -- what was made to raise ----------------------------------------------------------------------

RAISED = [Hit(1, 1, 0.0, "tool-raises", conversation="conv_a", entity="call_1")]


def test_what_a_tool_raises_is_told_of_that_very_call() -> None:
    """That another call was called off is no excuse, in its conversation or in another one."""
    log = log_of(CALL, STARTED, PAID)
    log.append("conv_a", [Change("call_2", 0, [Result(call_id="call_2", status="cancelled")])])
    log.append("conv_b", [Change("turn_1-r0-a0", 0, [Cancelled("turn_1-r0-a0", "enough")])])

    assert [str(each) for each in judge.untold(log, "tool-raises", RAISED)] == [
        "actor: a tool has raised, and nobody was told"
    ]


@pytest.mark.parametrize(
    "result",
    [
        Result(call_id="call_1", status="error", error=f"MadeToFail: {WORDS}"),
        Result(call_id="call_1", status="cancelled"),
    ],
)
def test_a_call_that_says_what_it_raised_or_was_called_off_is_well(result: Result) -> None:
    """In the one case everybody knows, in the other nobody wants to."""
    log = log_of(CALL, STARTED, result)

    assert list(judge.untold(log, "tool-raises", RAISED)) == []

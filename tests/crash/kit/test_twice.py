"""Rules about what counts as executed twice: what was begun may have happened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from actors.catalogue import CODEC
from actors.tool.runes import Called, Retried, Rule, Started
from runefold.testing import CrashApp, Effects
from runefold.testing.crash.instrumentation.journal import Execution, Over
from runefold.testing.crash.verdict.judge import misdone
from runelog.memory import MemoryLog
from runelog.rune import Change
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from actors.entity import Actor
    from actors.tool.runes import InDoubt


def found(
    in_doubt: InDoubt,
    trigger: str,
    actor: Actor = "system",
    ends: tuple[str, ...] = (),
    **rule: bool,
) -> list[str]:
    """Judge a call that was begun, cut off or ended, and begun again for some reason."""
    log = MemoryLog(CODEC)
    ruled = Rule(verdict="allow", in_doubt=in_doubt, **rule)  # type: ignore[arg-type]  # flags only
    call = Called(
        call_id="call_1",
        tool_name="pay",
        arguments={},
        caller="turn_1",
        agent_id="agt_1",
        rule=ruled,
        at=0,
    )
    again = Retried(
        call_id="call_1", reason="", attempt=2, deadline=2, trigger=trigger, actor=actor
    )
    log.append(
        "conv_a", [Change("call_1", 0, [call, Started(call_id="call_1", deadline=1), again])]
    )
    begun = [Execution(life, "tool", "pay", "call_1", "conv_a", number=1) for life in (1, 2)]
    over = [Over(life, 1, status) for life, status in enumerate(ends, 1)]
    return [finding.message for finding in misdone(log, Effects([*begun, *over]))]


@pytest.mark.parametrize("in_doubt", ["unknown", "ask"])
def test_what_nobody_can_ask_about_is_begun_once(in_doubt: InDoubt) -> None:
    """It was cut off before its end, and nobody knows how far it got: it is not begun again."""
    (message,) = found(in_doubt, "in_doubt")

    assert message == "pay (call_1) was begun 2 times, and nobody knew that it had not happened"


def test_what_can_be_asked_about_is_begun_again_only_if_it_did_not_happen() -> None:
    """The probe has to say so."""
    assert len(found("probe", "in_doubt")) == 1
    assert found("probe", "probe") == []


@pytest.mark.parametrize("status", ["cancelled", "error", "timeout", "raised"])
def test_what_was_called_off_or_failed_has_not_taken_effect(status: str) -> None:
    """Its probe says that nothing happened, and is believed: so it is begun again."""
    assert found("probe", "probe", ends=(status, "success")) == []
    assert found("probe", "probe", ends=(status, status)) == []
    assert len(found("unknown", "in_doubt", ends=(status, status))) == 1


def test_what_ended_well_twice_has_taken_effect_twice() -> None:
    """Whatever its probe said."""
    (message,) = found("probe", "probe", ends=("success", "success"))

    assert message == "pay (call_1) took effect 2 times: its probe said that it had not happened"


def test_a_human_may_have_it_begun_again() -> None:
    """Whatever the tool says of itself."""
    assert found("unknown", "rerun", "user") == []
    assert found("ask", "rerun", "user") == []


def test_what_may_be_run_again_is() -> None:
    """A tool that says that a second run does no more than the first."""
    assert found("rerun", "in_doubt", idempotent=True) == []
    assert len(found("rerun", "in_doubt")) == 1


def test_a_payment_that_is_cut_off_and_made_again_is_found() -> None:
    """Killed in the middle of its tool, a runtime with a bug pays twice; neither call had ended."""
    app = CrashApp(bots.build_repeating, bots.scenario, name="repeating")
    known = swept(app, point="1:before-commit")
    number = next(at.number for at in known.boundaries if "tool.progress" in at.kinds)
    report = swept(app, point=f"{number}:after-commit")
    (result,) = report.failed

    assert result.lives[0].hit == "after-commit"
    # Whether the first had ended when it was killed is a matter of time.
    assert re.search("(was begun|took effect) 2 times", told(report))

"""Rules about tools in whole conversations: outcomes, policy and approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import call
from actors.tool import runes as tools
from actors.tool.adapters.function import tool
from actors.tool.context import progress
from actors.tool.policy import BadPolicy, Policy
from runefold import Runtime
from runelog.errors import Refused
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runefold.talks import Talk

DAY = 24 * 3600.0


@tool
def put(x: int) -> str:
    """Put."""
    return f"put {x}"


@tool(side_effects=False)
def look(x: int) -> int:
    """Look."""
    return x


@tool(requires_approval=True)
def pay(x: int) -> str:
    """Pay."""
    return f"paid {x}"


# -- outcomes ----------------------------------------------------------------------------------


@tool
def raising() -> str:
    """Raise."""
    msg = "no \ud800 way"
    raise ValueError(msg)


@tool
def leaving() -> str:
    """Leave."""
    raise SystemExit(3)


@tool
def odd() -> object:
    """Return what is no JSON."""
    return object()


@tool
def huge() -> int:
    """Return a number that is too large."""
    return 10**40


@tool
def circle() -> object:
    """Return a list that holds itself."""
    found: list[object] = []
    found.append(found)
    return found


ODD = (raising, leaving, odd, huge, circle)


@pytest.mark.parametrize("name", [each.spec.name for each in ODD])
def test_a_tool_that_fails_is_told_to_the_model_and_the_turn_goes_on(name: str) -> None:
    """It raises, wants to end the process, or returns what cannot be passed on: an error result."""
    there = talk([["go ", call(name)], ["done"]], *ODD)
    result = there.session.send("go").result(10)

    assert (result.status, result.output) == ("completed", "done")
    assert [status for status, _ in there.model.results] == ["error"]


def test_what_a_tool_says_on_the_way_is_in_the_log() -> None:
    """Each piece is a rune, half characters and all."""

    @tool
    def talking() -> str:
        """Talk."""
        progress("one \ud800")
        progress("two", "stderr")
        return "ok"

    there = talk([["go ", call("talking")], ["done"]], talking)
    there.session.send("go").result(10)
    said = [rune for rune in there.runes("tool.progress") if isinstance(rune, tools.Progress)]

    assert [rune.chunk for rune in said] == ["one \\ud800", "two"]
    assert there.model.results == [("success", "ok")]


# -- policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [("pya", "; did you mean 'pay'?"), ("Pay", "; did you mean 'pay'?"), ("zip", "")],
)
def test_a_rule_for_a_tool_that_is_not_there_is_refused(
    pattern: str, meant: str, tmp_path: Path
) -> None:
    """With a slip in it the call would go unasked: it names the rule, the tools and the nearest."""
    policy = Policy(rules=[("look", "allow"), (pattern, "ask")])
    told = (
        f"rule 2 of the policy is for the tool '{pattern}', which is not registered; "
        f"there are: look, pay{meant}"
    )
    with pytest.raises(BadPolicy) as refused:
        Runtime.open(tmp_path, tools=[look, pay], policy=policy)
    assert str(refused.value) == told

    # Nothing is held, and a rule for a tool by which the agents of a team reach each other fits.
    inside = Policy(rules=[("ask_agent", "ask"), ("pay", "ask")])
    Runtime.open(tmp_path, tools=[look, pay], policy=inside).close()


def test_a_pattern_that_fits_no_tool_is_told_to_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Apps may share a policy: a pattern with a wildcard is no mistake, but it may be one."""
    policy = Policy(rules=[("*", "allow"), ("p?y", "ask"), ("git_*", "ask")])
    Runtime.open(tmp_path, tools=[look, pay], policy=policy).close()
    told = [each for each in caplog.records if vars(each)["event"] == "policy_rule_fits_no_tool"]

    assert [vars(each)["rule"] for each in told] == ["rule 3"]


def _broken(*_about: object) -> Any:  # noqa: ANN401 -- nothing, in fact
    return 1 / 0


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy(mode="read_only"), "the mode is read_only"),
        (Policy(mode="full_access", rules=[("put", "deny", "not today")]), "not today"),
        (Policy(mode="full_access", function=_broken), "the policy failed: ZeroDivisionError"),
    ],
    ids=["read_only", "rules", "a policy that fails"],
)
def test_what_the_policy_denies_never_runs(policy: Policy, why: str) -> None:
    """The model is told why; a policy that fails lets nothing through and stops nobody."""
    there = talk([["go ", call("put", x=1)], ["done"]], put, stage={"policy": policy})
    result = there.session.send("go").result(10)
    ((status, text),) = there.model.results

    assert result.output == "done"
    assert status == "denied"
    assert why in text
    assert "tool.started" not in there.kinds()


# -- approvals ---------------------------------------------------------------------------------


def asking(**options: Any) -> Talk:  # noqa: ANN401 -- those of `talk`
    """Return a conversation in which a human is asked about a payment."""
    there = talk([["I pay. ", call("pay", x=1)], ["done"]], pay, look, **options)
    there.session.send("go", message_id="m1")
    there.stage.run()
    return there


def finished(there: Talk) -> str:
    """Wait for the turn and return what it said in the end."""
    return there.session.send("go", message_id="m1").result(10).output


def test_an_approved_call_runs_and_a_denied_one_does_not() -> None:
    """The word of a human decides, and the model is told of it."""
    yes, no = asking(), asking()
    yes.session.approve(yes.session.approvals()[0].call_id, approver="ada")
    no.session.deny(no.session.approvals()[0].call_id, reason="too dear", approver="bob")

    assert (finished(yes), finished(no)) == ("done", "done")
    assert yes.model.results == [("success", "paid 1")]
    assert no.model.results == [("denied", "denied by bob: too dear")]


def test_a_second_word_a_late_one_and_one_for_no_call_are_refused() -> None:
    """The same word again is heard once; another one changes nothing, also when all is over."""
    there = asking()
    session, call_id = there.session, there.session.approvals()[0].call_id
    with pytest.raises(Refused, match="it was never started; approve or deny it"):
        session.answer(call_id, "happened", approver="ada")
    session.approve(call_id, approver="ada")
    finished(there)
    session.approve(call_id, approver="ada")
    before = there.kinds()

    with pytest.raises(Refused, match=r"ada has answered approval apr_.* already"):
        session.deny(call_id, reason="no", approver="bob")
    for other in ("call_other", "session", "turn_1"):
        with pytest.raises(Refused, match=f"there is no call {other} in conv_a"):
            session.approve(other, approver="ada")
    assert there.kinds() == before


def test_an_approval_waits_asleep_and_lapses_in_time() -> None:
    """The conversation sleeps meanwhile, is woken by the deadline, and a late word is refused."""
    there = asking()
    waiting = there.session.approvals()[0]
    there.stage.advance(120)
    asleep = there.stage.runtime._core.tree.awake()
    there.stage.advance(DAY)

    assert asleep == []
    assert finished(there) == "done"
    assert there.model.results == [("timeout", "No result in time: it was not approved in time")]
    with pytest.raises(Refused, match="comes too late"):
        there.session.approve(waiting.call_id, approver="ada")


def test_a_conversation_that_sleeps_is_woken_by_an_approval() -> None:
    """Nobody has to send a message first."""
    there = asking()
    waiting = there.session.approvals()[0]
    there.stage.advance(3600)
    there.session.approve(waiting.call_id, approver="ada")

    assert finished(there) == "done"
    assert there.model.results == [("success", "paid 1")]


def test_an_approval_survives_a_crash_with_its_deadline() -> None:
    """It still waits, until the same moment, and can be given right after the open."""
    there = asking()
    before = there.session.approvals()
    there.stage.advance(10)
    session = there.reopen()
    session.approve(before[0].call_id, approver="ada")
    late = asking()
    late.stage.advance(100)
    after = late.reopen().approvals()

    assert finished(there) == "done"
    assert there.model.results == [("success", "paid 1")]
    assert [each.deadline for each in after] == [each.deadline for each in before]


@pytest.mark.parametrize("seed", range(30))
def test_a_turn_that_waits_for_a_human_can_be_interrupted_as_soon_as_it_is_opened(
    seed: int,
) -> None:
    """Whoever is there first, the turn or its calls: the interrupt is not lost."""
    there = asking(stage={"seed": seed})
    stopped = there.reopen().interrupt("enough", timeout=10)

    assert stopped == 1
    assert there.session.send("go", message_id="m1").result(0).reason == "enough"
    assert not there.session.approvals()


# -- not registered any more -------------------------------------------------------------------


def test_a_call_that_never_ran_and_whose_tool_is_gone_is_an_error() -> None:
    """Opening succeeds, and the turn goes on without the tool."""
    there = asking()
    waiting = there.session.approvals()[0]
    there.reopen(tools=[look]).approve(waiting.call_id, approver="ada")
    output = finished(there)

    assert output == "done"
    assert [status for status, _ in there.model.results] == ["error"]
    assert "not registered any more" in there.model.results[0][1]


def test_a_turn_whose_model_is_gone_ends_in_error() -> None:
    """Opening succeeds, the error names the model, and other sessions are not harmed."""
    there = asking()
    session = there.reopen(providers={"other": there.model})
    session.deny(session.approvals()[0].call_id, reason="no", approver="user")
    result = session.send("go", message_id="m1").result(10)

    assert (result.status, result.reason) == ("error", "unknown_model")
    assert "there is no model 'demo' here; registered: other" in result.message

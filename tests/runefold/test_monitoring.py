"""Rules about what somebody has to look at: stuck, failing, over budget; and when no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.catalogue import KINDS
from actors.model.providers.scripted import call, fail
from actors.tool.adapters.function import tool
from runefold.observe.monitoring import Rules
from runefold.spec import AgentSpec, Budget
from runelog.errors import Refused
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.observe.monitoring import Alert


@tool(requires_approval=True)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


def obedient(request: Request) -> Reply:
    """Do as one is told."""
    match request.messages[-1].text:
        case "pay":
            return [call("pay")]
        case "fail":
            return [fail("bad_key", "no such key")]
        case _:
            return ["done"]


def found(there: Talk, **rules: Any) -> list[Alert]:  # noqa: ANN401 -- those of Rules
    """Return what there is to look at now."""
    there.stage.run()
    there.stage.log.flush()
    return there.stage.runtime.monitor(Rules(**rules)).alerts()


def test_what_takes_longer_than_it_should_is_stuck() -> None:
    """From its limit on and not before, with where to look; and no more once it goes on."""
    there = talk(obedient, pay)
    there.session.send("pay")
    there.stage.advance(3_599)
    early = found(there)
    there.stage.advance(1)
    (alert,) = found(there)
    call_id = there.session.approvals()[0].call_id
    there.session.approve(call_id, approver="ada")
    event = next(iter(there.session.runes(kinds={"tool.approval_requested"}))).event_id

    assert early == []
    assert (alert.rule, alert.conversation, alert.entity) == ("stuck", NAME, call_id)
    assert (alert.message, alert.event_id) == ("tool awaiting_approval for 3,600 s", event)
    assert found(there) == []


def test_limits_can_be_set_for_each_phase() -> None:
    """Shorter, or without end; a phase that nobody watches by itself as well."""
    there = talk(obedient, pay)
    there.session.send("pay")
    there.stage.advance(100)

    assert found(there, stuck={"tool.awaiting_approval": 101}) == []
    assert len(found(there, stuck={"tool.awaiting_approval": 100})) == 1
    assert [at.entity for at in found(there, stuck={"turn.tool_executing": 100})] == ["turn_1"]
    there.stage.advance(9_999)
    assert len(found(there)) == 1
    assert found(there, stuck={"tool.awaiting_approval": None}) == []


def test_turns_that_fail_in_a_row_are_told_of() -> None:
    """As many as the rule says; one that completes ends the row."""
    there = talk(obedient, retries=0)
    there.session.send("fail").result(10)
    there.session.send("fail").result(10)
    two = found(there), found(there, failing=2)
    there.session.send("fail").result(10)
    three = found(there)
    there.session.send("hi").result(10)

    assert (two[0], [at.rule for at in two[1]]) == ([], ["failing"])
    assert [(at.rule, at.entity, at.message) for at in three] == [
        ("failing", "session", "3 turns failed in a row")
    ]
    assert found(there) == []


def test_a_session_that_was_suspended_waits_for_a_hand() -> None:
    """That is told of at once, and until somebody has seen to it."""
    there = talk(obedient)
    there.session.suspend("look at this")
    before = found(there)
    there.session.unsuspend()

    assert [(at.rule, at.entity) for at in before] == [("suspended", "session")]
    assert before[0].message == "suspended: look at this"
    assert found(there) == []


def test_a_call_in_doubt_is_told_of_until_a_human_has_seen_to_it() -> None:
    """Whether it ended as unknown or is asked about: no more once that is answered."""

    @tool(on_doubt="ask")
    def charge() -> str:
        """Charge."""
        there.stage.crash()
        return "charged"

    @tool(on_doubt="unknown")
    def refund() -> str:
        """Refund."""
        there.stage.crash()
        return "refunded"

    for name, way in (("charge", "answer"), ("refund", "acknowledge")):
        there = talk([[call(name)], "Done."], charge, refund)
        there.session.send("go")
        there.stage.run()
        there.reopen()
        (alert,) = found(there)
        (result,) = [at.owner for at in there.session.runes(kinds={"tool.call"})]
        if way == "answer":
            there.session.answer(result, "happened", output="charged", approver="ada")
        else:
            there.session.acknowledge(result, by="ada")

        assert (alert.rule, alert.entity) == ("in_doubt", result)
        assert "not known whether it happened" in alert.message
        assert found(there) == []


def test_an_approval_is_told_of_when_its_deadline_is_near() -> None:
    """Once four fifths of its time have passed, and no more once it is answered."""
    there = talk(obedient, pay)
    there.session.send("pay")
    there.stage.advance(24 * 3_600 * 4 / 5 - 1)
    early = [at.rule for at in found(there)]
    there.stage.advance(1)
    near = [at for at in found(there) if at.rule == "approval"]
    call_id = there.session.approvals()[0].call_id
    there.session.approve(call_id, approver="ada")

    assert early == ["stuck"]
    assert [at.entity for at in near] == [call_id]
    assert near[0].message == "it waits for approval, and lapses in 17,280 s"
    assert found(there) == []


def test_a_budget_that_refuses_is_told_of_until_it_is_raised() -> None:
    """With what is missing and whose it is."""
    there = talk(obedient, budget=Budget(tokens=6_000), max_output_tokens=6_000)
    there.session.send("hi").result(10)
    spent = [at for at in found(there) if at.rule == "over_budget"]
    silent = [at for at in found(there, budget=False) if at.rule == "over_budget"]
    agent = there.session.state.root
    there.session.replenish(agent=agent, tokens=50_000)

    assert [(at.entity, at.message.partition(":")[0]) for at in spent] == [(agent, "tokens")]
    assert silent == []
    assert found(there) == []


def test_a_budget_that_refused_is_forgotten_with_its_agent() -> None:
    """Nobody can raise the budget of an agent that is gone."""
    there = talk(obedient)
    poor = AgentSpec(
        role="poor", model="demo", budget=Budget(tokens=6_000), max_output_tokens=6_000
    )
    agent = there.session.spawn(poor)
    there.session.send("hi", to=agent).result(10)
    before = [at.entity for at in found(there) if at.rule == "over_budget"]
    there.session.terminate(agent)

    assert before == [agent]
    assert [at.entity for at in found(there) if at.rule == "over_budget"] == []


def test_a_session_that_is_over_is_left_alone() -> None:
    """Nobody has to look at it any more, whatever was wrong with it."""
    there = talk(obedient, retries=0)
    for _ in range(3):
        there.session.send("fail").result(10)
    before = len(found(there))
    there.session.close()

    assert (before, found(there)) == (1, [])


def test_what_was_archived_is_counted_and_not_kept_in_mind() -> None:
    """Sums are all that is left of it, and nobody has to look at it."""
    there = talk(obedient)
    monitor = there.stage.runtime.monitor()
    there.session.send("hi").result(10)
    there.session.close()
    there.stage.log.flush()
    before = {(at.lifecycle, at.phase): at.entered for at in monitor.phases()}
    there.session.archive()
    there.stage.runtime.create_session(AgentSpec(role="other", model="demo"), conversation_id="b")
    there.stage.log.flush()
    after = {(at.lifecycle, at.phase): at.entered for at in monitor.phases()}

    assert after["turn", "completed"] == before["turn", "completed"] == 1
    assert after["session", "created"] == 2
    assert monitor._watched.keys() == {"b"}
    assert monitor.alerts() == []


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"stuck": {"tool.running": 1}}, "there is no phase tool.running"),
        ({"stuck": {"tool.executing": -1}}, "the seconds of tool.executing"),
        ({"stuck": [("tool.executing", 1)]}, "give seconds by phase"),
        ({"failing": 0}, "failing"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any], why: str) -> None:
    """With what is wrong about them."""
    with pytest.raises(Refused, match=why):
        Rules(**rules).limits(KINDS)

"""Why did this happen? From any rune, its causes lead to what began it, and to nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.catalogue import CODEC
from actors.invariants import violations
from actors.model.providers.scripted import Script, Scripted, call
from actors.session.public_commands import Send
from actors.session.runes import InputAccepted
from actors.tool.adapters.function import tool
from runefold.agents import AgentTool
from runefold.control.offline import OfflineCommands
from runefold.spec import AgentSpec
from runelog.memory import MemoryLog
from runelog.rune import Change
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Envelope


@tool(requires_approval=True)
def pay(amount: int) -> int:
    """Pay."""
    return amount


@tool(idempotent=True)
def add() -> int:
    """Add."""
    return 5


PAYS: Script = [["First this. ", call("pay", amount=3)], "Done."]


def runes_of(there: Talk) -> list[Envelope]:
    """Return all runes of a conversation."""
    there.stage.log.flush()
    return [*there.stage.log.read(NAME)]


def began(runes: Sequence[Envelope], of: Envelope) -> Envelope:
    """Return what a rune's causes lead to in the end."""
    while of.cause:
        of = runes[of.cause - 1]
    return of


def message_of(runes: Sequence[Envelope], of: Envelope) -> str:
    """Return the message that a rune's causes lead to in the end."""
    message = began(runes, of).payload
    assert isinstance(message, InputAccepted)
    return message.message_id


def rooted(runes: Sequence[Envelope]) -> list[str]:
    """Return what is wrong with the causes of runes."""
    found = [each for each in violations(runes) if each.invariant == "INV-CAUSE-ROOTED"]
    return [f"{each.where}: {each.message}" for each in found]


def test_every_rune_of_a_turn_leads_to_its_message() -> None:
    """Text before a call, the call, its approval and its result: each is there for the message."""
    there = talk(PAYS, pay)
    turn = there.session.send("Pay 3", message_id="first")
    there.until("tool.approval_requested")
    (waiting,) = there.session.approvals()
    there.session.approve(waiting.call_id, approver="ada")
    turn.result(10)
    runes = runes_of(there)
    after = next(each for each in runes if each.kind == "session.input_accepted").event_id

    assert {began(runes, each).kind for each in runes[after:]} == {"session.input_accepted"}
    assert {began(runes, each).kind for each in runes[: after - 1]} == {"session.created"}
    assert rooted(runes) == []


def test_what_follows_at_once_follows_from_the_rune_that_made_it_due() -> None:
    """What comes of an answer, or of a result, in its append says which of its runes led to it."""
    there = talk([[call("add")], "Done."], add)
    there.session.send("Add", message_id="first").result(10)
    runes = runes_of(there)
    led = {
        each.kind: runes[each.cause - 1].kind
        for each in runes
        if each.kind in {"turn.tool_calls_received", "tool.call", "turn.completed"}
        or each.kind == "turn.tools_finished"
    }

    assert led == {
        "turn.tool_calls_received": "model.completed",
        "tool.call": "model.completed",
        "turn.tools_finished": "tool.result",
        "turn.completed": "model.completed",
    }
    assert rooted(runes) == []


def test_a_message_that_waited_is_what_began_its_turn() -> None:
    """A turn that begins once another has ended is not there for the message of that one."""
    there = talk(["One.", "Two.", "Three."])
    turns = [there.session.send(text, message_id=text) for text in ("a", "b", "c")]
    turns[-1].result(10)
    runes = runes_of(there)
    ends = [each for each in runes if each.kind == "turn.completed"]

    assert [message_of(runes, each) for each in ends] == ["a", "b", "c"]


def test_what_a_user_commands_is_begun_by_that() -> None:
    """A pause follows from no message; what the session does about it follows from the pause."""
    there = talk(["One."])
    there.session.send("a").result(10)
    there.session.pause()
    there.session.resume()
    there.session.close()
    there.stage.run()
    runes = runes_of(there)
    causes = {each.kind: began(runes, each).kind for each in runes}

    assert causes["session.paused"] == "session.paused"
    assert causes["session.resumed"] == "session.resumed"
    assert causes["agent.terminated"] == "session.closing"
    assert causes["session.closed"] == "session.closing"


def test_what_an_agent_is_asked_leads_to_the_users_message() -> None:
    """The question of another agent follows from the call that asks it, and so does its answer."""
    expert = AgentTool("ask_expert", AgentSpec(role="expert", model="wise"), "Ask.")
    there = talk(
        [[call("ask_expert", question="Why?")], "So."], expert, others={"wise": Scripted(["Thus."])}
    )
    there.session.send("Hm?", message_id="first").result(10)
    runes = runes_of(there)
    ends = [each for each in runes if each.kind in {"turn.started", "turn.completed"}]

    assert len(ends) == 4
    assert {message_of(runes, each) for each in ends} == {"first"}


@pytest.mark.parametrize("cut", range(2, 24))
def test_causes_lead_home_whatever_crashes(cut: int) -> None:
    """Killed at any append, what goes on afterwards leads to the same message."""
    there = talk(PAYS, pay)
    for name in ("first", "second"):
        there.session.send(name, message_id=name)
    there.stage.log.cut_at = there.stage.log.appends + cut // 2
    there.stage.log.cut_after = bool(cut % 2)
    there.stage.run()
    session = there.reopen()
    there.stage.run()
    for waiting in session.approvals():
        session.approve(waiting.call_id, approver="ada")
    there.stage.run()

    assert rooted(runes_of(there)) == []


def test_commands_where_no_runtime_runs_begin_something_too() -> None:
    """A message that is recorded offline is what began the turn that it becomes later."""
    there = talk(["One.", "Two."])
    there.session.send("a").result(10)
    there.stage.crash()
    there.stage.restart()
    offline = OfflineCommands(there.stage.log, clock=there.stage.clock)
    offline.do(NAME, Send("b", message_id="later"))
    there.stage.reopen()
    there.stage.run()
    runes = runes_of(there)

    assert runes[-1].kind == "turn.completed"
    assert message_of(runes, runes[-1]) == "later"
    assert rooted(runes) == []


def planted(*causes: int) -> list[str]:
    """Return what is wrong with a conversation whose runes follow from these events."""
    there = talk(["One."])
    there.session.send("a").result(10)
    real = runes_of(there)
    log = MemoryLog(CODEC)
    for each, cause in zip(real, causes or [each.cause for each in real], strict=False):
        change = Change(each.owner, None, [each.payload], each.observers, cause=cause)
        log.append(NAME, [change])
    return rooted([*log.read(NAME)])


def test_a_broken_chain_is_found() -> None:
    """Runes that follow from nothing, from what comes later, or from another message are told."""
    right = [0, 1, 1, 3, 4, 5, 5, 0, 8, 9]

    assert planted() == []
    assert planted(*right) == []
    assert planted(*right[:9], 0) == [
        "conv_a event 10: model.called follows from nothing, and begins nothing"
    ]
    assert planted(*right[:9], 11) == [
        "conv_a event 10: model.called follows from event 11, which comes later"
    ]
    assert planted(*right[:8], 7, 9) == [
        "conv_a event 9: turn.started follows from event 7, and not from event 8"
    ]


def test_what_an_earlier_version_began_is_left_alone() -> None:
    """It wrote causes that lead nowhere: neither its runes nor what came after are blamed."""
    assert planted(0, 0, 0, 3, 4, 5, 5, 0, 0, 0) == []

"""Rules about what an operator is told: every transition, once, with who, when, why and by whom."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.agent import lifecycle as agent
from actors.approval import lifecycle as approval
from actors.model import lifecycle as model
from actors.model.providers.scripted import call, fail, pause
from actors.model.runes import AssistantDelta
from actors.session import lifecycle as session
from actors.tool import lifecycle as tools
from actors.tool.adapters.function import tool
from actors.tool.context import progress
from actors.tool.runes import Progress
from actors.turn import lifecycle as turn
from runefold.spec import AgentSpec, Budget
from runelog.lifecycle import step
from runelog.rune import kind_of
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runelog.rune import Rune

LAWS: Final[dict[str, Any]] = {
    "session": session.LIFECYCLE,
    "agt": agent.LIFECYCLE,
    "turn": turn.LIFECYCLE,
    "call": tools.LIFECYCLE,
    "apr": approval.LIFECYCLE,
}
FIELDS: Final = {
    *("time", "conversation", "entity", "lifecycle", "agent", "rune"),
    *("from", "to", "trigger", "actor", "audience"),
}

Move = tuple[str, str, str]


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay, if a human agrees."""
    progress("paying")
    return f"paid {cents}"


@tool(side_effects=False)
def look(x: int) -> int:
    """Look."""
    return x


def obedient(request: Request) -> Reply:
    """Do as one is told."""
    last = request.messages[-1]
    if last.role == "tool":
        return ["done"]
    match last.text:
        case "pay":
            return [call("pay", cents=5)]
        case "look":
            return ["let me ", "see ", call("look", x=1), call("look", x=2), call("nothing")]
        case "nothing":
            return [call("nothing")]
        case "stumble":
            return [fail("overloaded", retryable=True)] if request.attempt == 0 else ["up again"]
        case "fall":
            return [fail("refused")]
        case "think":
            return ["well ", pause(30), "so"]
        case _:
            return ["hello"]


def begin(**agent_: Any) -> Talk:  # noqa: ANN401 -- those of AgentSpec
    """Begin a conversation with such an agent."""
    return talk(obedient, pay, look, **agent_)


def law_of(name: str) -> Any:  # noqa: ANN401 -- any lifecycle
    """Return the law of an entity, by its id."""
    if name.startswith("turn_") and "-r" in name:
        return model.LIFECYCLE
    return LAWS.get(name.partition("_")[0])


def moves(there: Talk) -> dict[str, list[Move]]:
    """Return every transition there was, by entity, as the log and the tables have it."""
    there.stage.log.flush()
    streams: dict[str, list[Rune]] = defaultdict(list)
    for each in there.session.runes():
        for name in dict.fromkeys((each.owner, *each.observers)):
            streams[name].append(each.payload)
    return {
        name: found
        for name, runes in streams.items()
        if (law := law_of(name)) is not None and (found := list(_walked(law, runes)))
    }


def _walked(law: Any, runes: list[Rune]) -> Iterator[Move]:  # noqa: ANN401 -- any lifecycle
    phase = law.initial.phase
    for rune in runes:
        if type(rune) in law.table[phase] and not isinstance(rune, (AssistantDelta, Progress)):
            to = step(law.table, phase, rune)
            yield phase.value, to.value, kind_of(rune)
            phase = to


def told(caplog: pytest.LogCaptureFixture) -> dict[str, list[Move]]:
    """Return every transition that the operator was told of, by entity."""
    found: dict[str, list[Move]] = defaultdict(list)
    for record in caplog.records:
        if vars(record)["event"] == "transition":
            said = vars(record)
            assert said.keys() >= FIELDS
            found[said["entity"]].append((said["from"], said["to"], said["rune"]))
    return dict(found)


def _plain(there: Talk) -> None:
    there.session.send("hello").result(10)
    there.session.send("look").result(10)
    there.session.send("nothing").result(10)


def _approved(there: Talk) -> None:
    turn = there.session.send("pay")
    there.stage.run()
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    turn.result(10)


def _twice(there: Talk) -> None:
    turn = there.session.send("pay")
    there.stage.run()
    [asked] = there.session.approvals()
    for _ in range(2):
        there.session.approve(asked.call_id, approver="ada")
        turn.result(10)


def _fallen(there: Talk) -> None:
    for actor in ("turn_1", "turn_1-r0-a0", "session", there.session.state.root):
        there.session.send("think", message_id="m1")
        there.stage.advance(1)
        running = there.stage.runtime._core.tree.running(there.session.id)
        assert running is not None
        member: Any = running.ctx._members.get(actor)
        if member is not None:
            member.ref.kill()
        there.stage.advance(1)
    there.session.send("think", message_id="m1").result(600)


def _denied(there: Talk) -> None:
    turn = there.session.send("pay")
    there.stage.run()
    there.session.deny(there.session.approvals()[0].call_id, reason="no", approver="user")
    turn.result(10)


def _lapsed(there: Talk) -> None:
    there.session.send("pay")
    there.stage.advance(25 * 3_600)


def _stumbling(there: Talk) -> None:
    there.session.send("stumble").result(100)
    there.session.send("fall").result(100)


def _stopped(there: Talk) -> None:
    there.session.send("think")
    there.stage.advance(1)
    there.session.send("hello", mode="steer").result(10)
    there.session.send("pay")
    there.stage.run()
    there.session.interrupt()


def _halted(there: Talk) -> None:
    there.session.pause()
    there.session.resume()
    there.session.suspend("look")
    there.session.unsuspend()
    kid = there.session.spawn(AgentSpec(role="kid", model="demo"))
    there.session.send("think", to=kid)
    there.stage.advance(1)
    there.session.terminate(kid, force=True)
    there.stage.run()
    there.session.close()


def _asleep(there: Talk) -> None:
    there.session.send("hello").result(10)
    there.stage.advance(120)
    there.session.send("look").result(10)
    there.stage.advance(120)
    there.session.send("pay")
    there.stage.advance(120)
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    there.stage.run()


def _crashed(there: Talk) -> None:
    there.session.send("think", message_id="m1")
    there.stage.advance(1)
    there.reopen()
    there.stage.run()
    there.session.send("think", message_id="m1").result(100)
    there.session.send("pay")
    there.stage.advance(1)
    there.reopen()
    there.stage.run()
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    there.stage.run()


PLAYS: Final[dict[str, Callable[[Talk], None]]] = {
    "plain": _plain,
    "approved": _approved,
    "twice": _twice,
    "fallen": _fallen,
    "denied": _denied,
    "lapsed": _lapsed,
    "stumbling": _stumbling,
    "stopped": _stopped,
    "halted": _halted,
    "asleep": _asleep,
    "crashed": _crashed,
}


@pytest.mark.parametrize("play", PLAYS)
def test_every_transition_is_told_and_once(play: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever decided it, and whoever slept meanwhile: what the tables say is what is told."""
    with caplog.at_level(logging.INFO, logger="runefold"):
        there = begin()
        PLAYS[play](there)
        there.stage.run()

    assert told(caplog) == moves(there)


def test_what_a_crash_took_back_and_nothing_else_is_told_in_vain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a power cut the operator has been told of all that the log has, in its order."""
    with caplog.at_level(logging.INFO, logger="runefold"):
        there = begin(budget=Budget(wall_seconds=600))
        there.stage.log.cut_at = there.stage.log.appends + 9
        there.session.send("look", message_id="m1")
        there.stage.run()
        there.reopen().send("look", message_id="m1").result(100)
        there.stage.run()
    found, told_of = moves(there), told(caplog)

    assert found.keys() <= told_of.keys()
    for name, there_are in found.items():
        left = iter(told_of[name])
        assert all(move in left for move in there_are)


def test_it_says_who_when_why_and_by_whom(caplog: pytest.LogCaptureFixture) -> None:
    """Time in UTC, the agent it belongs to, the trigger, and user, system or timeout."""
    with caplog.at_level(logging.INFO, logger="runefold"):
        there = begin()
        _approved(there)
        _lapsed(there)
    said = [vars(each) for each in caplog.records if vars(each)["event"] == "transition"]
    approved = next(each for each in said if each["rune"] == "tool.approved")
    lapsed = next(each for each in said if each["to"] == "timeout_result")
    asked = next(each for each in said if each["rune"] == "approval.awaiting")
    root = there.session.state.root

    assert approved["time"].startswith("20")
    assert approved["time"].endswith("+00:00")
    assert (approved["agent"], approved["trigger"], approved["actor"]) == (root, "approve", "user")
    assert (lapsed["trigger"], lapsed["actor"]) == ("deadline", "timeout")
    assert asked["agent"] == root
    assert {each["conversation"] for each in said} == {there.session.id}


def test_it_says_whom_it_is_for(caplog: pytest.LogCaptureFixture) -> None:
    """Users hear of their session and of errors; the rest is for those who run it."""
    with caplog.at_level(logging.INFO, logger="runefold"):
        there = begin(retries=0)
        _approved(there)
        _lapsed(there)
        there.session.send("fall").result(100)
        there.session.close()
    said = [vars(each) for each in caplog.records if vars(each)["event"] == "transition"]
    short = [vars(each) for each in caplog.records if vars(each)["event"] == "time_runs_short"]
    users = {(each["lifecycle"], each["to"]) for each in said if each["audience"] == "user"}
    others = {each["lifecycle"] for each in said if each["audience"] == "internal"}

    assert users == {
        *(("session", phase) for phase in ("active", "closing", "closed")),
        *(("turn", "error"), ("tool", "timeout_result"), ("model", "failed")),
    }
    assert others == {"agent", "turn", "tool", "model", "approval"}
    assert {each["audience"] for each in short} == {"internal"}


def test_who_does_not_listen_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Below the level that the host has chosen, transitions cost nothing and say nothing."""
    with caplog.at_level(logging.WARNING, logger="runefold"):
        _plain(begin())

    assert told(caplog) == {}

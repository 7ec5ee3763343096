"""Rules about turns that only a human can have go on: who waits for them is told so at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from actors.errors import Unanswered
from actors.model.providers.scripted import Scripted, call, pause
from actors.tool.adapters.function import tool
from runefold.async_runtime import AsyncRuntime
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.talks import Strict, Talk, talk

if TYPE_CHECKING:
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

LONG = 60.0
"""Seconds until a test is given up; nothing that works waits for it."""
NAME = "conv_desk"


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay an amount."""
    return f"paid {cents}"


def said(request: Request) -> Reply:
    """Pay if asked to; think if asked to; greet otherwise."""
    last = request.messages[-1]
    if last.role == "tool":
        return [last.text]
    if last.text == "pay":
        return [call("pay", cents=5)]
    return ["Let me ", pause(30), "see."] if last.text == "think" else ["Hello."]


def asking(request: Request) -> Reply:
    """Have the clerk pay, and say what came of it."""
    last = request.messages[-1]
    if last.role == "tool":
        return [last.text]
    return [call("ask_agent", agent="clerk", question="pay")]


def desk() -> Talk:
    """Begin a conversation with an agent that may pay if a human agrees."""
    return talk(Strict(said), pay)


def test_a_turn_that_waits_for_approval_says_so_at_once() -> None:
    """Who, what and how to answer; and once that is done, how it ended."""
    there = desk()
    turn = there.session.send("pay")
    held = turn.result(LONG, until="human")
    [asked] = held.approvals
    there.session.approve(asked.call_id, approver="ada")

    assert (held.status, held.turn_id, bool(held)) == ("waiting", "turn_1", False)
    assert held.reason == f"a human has to answer pay ({asked.call_id})"
    assert f"session.approve('{asked.call_id}', approver=...) or session.deny(" in held.message
    assert asked.arguments == {"cents": 5}
    assert turn.result(LONG, until="human").output == "paid 5"


def test_one_that_needs_no_human_is_waited_for() -> None:
    """As without it: its end is what is returned, however long that takes."""
    there = desk()

    assert there.session.send("think").result(LONG, until="human").output == "Let me see."
    with pytest.raises(Refused, match="until is 'dawn': give 'end' or 'human'"):
        there.session.send("hi").result(until="dawn")  # type: ignore[arg-type]  # the point


def test_a_message_behind_such_a_turn_waits_for_the_same_human() -> None:
    """Its agent is busy until that has answered."""
    there = desk()
    there.session.send("pay")
    there.stage.run()
    held = there.session.send("hi").result(LONG, until="human")

    assert (held.status, held.turn_id) == ("waiting", "")
    assert [each.tool_name for each in held.approvals] == ["pay"]


def test_a_turn_whose_question_to_another_agent_waits_says_so_too(tmp_path: Path) -> None:
    """A human is asked by the agent that it asks, and holds both up."""
    models = {"demo": Scripted(asking), "clerk": Scripted(said)}
    with Runtime.open(tmp_path, tools=[pay], providers=models) as runtime:
        session = runtime.create_session(
            AgentSpec(role="helper", model="demo", can_ask=["clerk"]),
            team=[AgentSpec(role="clerk", model="clerk", tools=["pay"])],
        )
        turn = session.send("go")
        held = turn.result(LONG, until="human")
        session.deny(held.approvals[0].call_id, approver="ada")

        assert (held.status, held.turn_id) == ("waiting", "turn_1")
        assert "denied" in turn.result(LONG, until="human").output


def test_a_session_that_stands_is_named_with_the_way_out() -> None:
    """Paused, or suspended by a human."""
    there = desk()
    there.session.send("hi").result(LONG)
    there.session.pause()
    waits = there.session.send("hi")
    paused = waits.result(LONG, until="human")
    there.session.resume()
    greeted = waits.result(LONG, until="human")
    there.session.suspend("lunch")
    suspended = there.session.send("hi again").result(LONG, until="human")

    assert (paused.status, paused.message) == ("paused", "session.resume()")
    assert greeted.output == "Hello."
    assert (suspended.status, suspended.message) == ("suspended", "session.unsuspend()")
    assert suspended.reason == "the session is suspended: lunch"


def test_who_waits_too_long_is_told_what_it_waits_for() -> None:
    """The error of a time limit names the human too."""
    there = desk()
    turn = there.session.send("pay")

    with pytest.raises(Unanswered, match=r"a human has to answer pay .*session\.approve\("):
        turn.result(5)


async def paid(runtime: AsyncRuntime) -> tuple[str, str]:
    """Have something paid, and a human approve it; return what was told before and after."""
    session = await runtime.session(NAME)
    turn = await session.send("pay")
    held = await turn.result(LONG, until="human")
    await session.approve(held.approvals[0].call_id, approver="ada")
    return held.status, (await turn.result(LONG, until="human")).output


@pytest.mark.parametrize("connected", [False, True])
def test_it_is_the_same_in_an_event_loop(tmp_path: Path, *, connected: bool) -> None:
    """Of the process that has the log open, and of another one: it is told from the log."""
    options: Any = {"tools": [pay], "providers": {"demo": Scripted(said)}}

    async def elsewhere() -> tuple[str, str]:
        async with AsyncRuntime.connect(tmp_path) as other:
            return await paid(other)

    async def here() -> tuple[str, str]:
        async with AsyncRuntime.open(tmp_path, **options) as own:
            return await paid(own)

    with Runtime.open(tmp_path, **options) as runtime:
        spec = AgentSpec(role="clerk", model="demo", tools=["pay"])
        runtime.create_session(spec, conversation_id=NAME)
        if connected:
            assert asyncio.run(elsewhere()) == ("waiting", "paid 5")
            with Runtime.connect(tmp_path) as other:
                turn = other.session(NAME).send("pay")
                assert turn.result(LONG, until="human").status == "waiting"
    if not connected:
        assert asyncio.run(here()) == ("waiting", "paid 5")

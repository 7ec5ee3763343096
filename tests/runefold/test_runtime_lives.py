"""Rules about many processes in a row: what waits may wait, what crashes in each is suspended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import Scripted, call, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from runefold.agents import AgentTool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.observe.session_list import Approval

LIVES = 6
"""More processes than a session that fails to recover is given."""
LONG = 30.0
"""Seconds after which a test is lost; nothing that works waits for them."""

WAYS: dict[str, dict[str, Any] | None] = {"closed": {}, "drained": {"drain": True}, "killed": None}
"""How a process may end: in order, with these options of `close`, or not."""


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay, if a human agrees."""
    return f"paid {cents}"


def obedient(request: Request) -> Reply:
    """Pay or ask if one is told to, and say what came of it."""
    last = request.messages[-1]
    if last.role == "tool":
        return ["It is ", last.text]
    match last.text:
        case "pay":
            return [call("pay", cents=5)]
        case "ask":
            return [call("ask_expert", question="pay")]
        case "think":
            return ["so ", pause(5), "so"]
        case _:
            return ["fine"]


EXPERT = AgentSpec(role="expert", model="demo", tools=["pay"])
TOOLS = (pay, AgentTool("ask_expert", EXPERT, "Ask."))


def office(**options: Any) -> Talk:  # noqa: ANN401 -- those of Runtime
    """Begin a conversation with such an agent."""
    return talk(Scripted(obedient), *TOOLS, stage=options)


def next_life(there: Talk, how: dict[str, Any] | None) -> None:
    """End the process, and open the log in another one."""
    if how is None:
        there.stage.crash()
    else:
        there.stage.runtime.close(**how)
        # What is on disk is there, whoever has closed it.
        there.stage.log._closed = False
    there.session = there.stage.reopen().session(NAME)
    there.stage.advance(1)


# -- waiting is not failing ----------------------------------------------------------------------


@pytest.mark.parametrize("how", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("idle_after", [0.3, 60.0], ids=["asleep", "awake"])
def test_what_is_queued_behind_a_human_outlives_any_number_of_processes(
    idle_after: float, how: dict[str, Any] | None
) -> None:
    """Whether it sleeps and however processes end: nothing is counted, and all are answered."""
    there = office(idle_after=idle_after)
    there.session.send("pay", message_id="m1")
    there.session.send("then this", message_id="m2")
    there.stage.advance(1)
    for _ in range(LIVES):
        next_life(there, how)
    state = there.session.state
    [approval] = there.session.approvals()
    there.session.approve(approval.call_id, approver="ada")
    names = ("m1", "m2")
    answers = [there.session.turn(name).result(10).output for name in names]

    assert (state.phase, state.unclean) == (Phase.ACTIVE, 0)
    assert answers == ["It is paid 5", "fine"]


def test_who_asked_somebody_that_waits_for_a_human_is_not_at_work_either(tmp_path: Path) -> None:
    """One waits for the other, and that for a human: there is no work that an open goes on with."""
    options: dict[str, Any] = {"tools": TOOLS, "providers": {"demo": Scripted(obedient)}}
    with Runtime.open(tmp_path, **options) as runtime:
        spec = AgentSpec(role="boss", model="demo", tools=["ask_expert"])
        session = runtime.create_session(spec, conversation_id=NAME)
        session.send("ask", message_id="m1")
        next(session.follow(kinds={"tool.approval_requested"}))
    with Runtime.open(tmp_path, **options) as runtime:
        session = runtime.session(NAME)
        [approval] = session.approvals()
        session.approve(approval.call_id, approver="ada")
        result = session.send("ask", message_id="m1").result(LONG)
        kinds = {each.kind for each in session.runes()}

    assert "session.rested" in kinds
    assert "session.reopened" not in kinds
    assert "paid 5" in result.output


def test_a_queue_behind_what_gets_nowhere_does_not_excuse_it() -> None:
    """Only a human is waited for without an end: the third open in vain suspends it."""
    there = office()
    there.session.send("think", message_id="m1")
    there.session.send("then this", message_id="m2")
    there.stage.advance(1)
    counted = []
    for _ in range(3):
        next_life(there, None)
        counted.append(there.session.state.unclean)

    assert counted == [1, 2, 3]
    assert there.session.state.phase is Phase.SUSPENDED


def test_a_message_that_was_kept_for_the_next_process_is_not_slept_over() -> None:
    """While others are drained, it is known until the end that this one ended in order too."""
    there = office(idle_after=0.3)
    spec = AgentSpec(role="other", model="demo")
    # Looked at after the first one, which has been quiet for a while by then.
    other = there.stage.runtime.create_session(spec, conversation_id="conv_b")
    there.session.send("think", message_id="m1")
    there.session.send("then this", message_id="m2")
    there.stage.advance(4)
    other.send("think")
    there.stage.run()
    next_life(there, {"drain": True})

    assert [rune.unclean for rune in there.runes("session.reopened")] == [0]  # type: ignore[attr-defined]  # by its kind
    assert there.session.turn("m2").result(10).output == "fine"


# -- crash loops ---------------------------------------------------------------------------------


def kill(there: Talk, actor: str) -> None:
    """Have an actor of the conversation die, and its supervisor see to it."""
    running = there.stage.runtime._core.tree.running(NAME)
    assert running is not None
    member: Any = running.ctx._members[actor]
    member.ref.kill()
    there.stage.advance(1)


@pytest.mark.parametrize("actor", ["turn_1", "session"])
def test_actors_that_die_once_in_each_process_suspend_the_session(actor: str) -> None:
    """Each restart is a rune, also one that looks like the last; unsuspended, it goes on."""
    there = talk([["one ", pause(50), "two"]], retries=99)
    there.session.send("go", message_id="m1")
    there.stage.advance(1)
    phases = []
    for _ in range(LIVES):
        kill(there, actor)
        phases.append(there.session.state.phase)
        if phases[-1] is Phase.SUSPENDED:
            break
        next_life(there, {})
    noted = there.runes("session.child_restarted")
    suspension = there.session.state.suspension
    there.session.unsuspend("mended")

    assert phases == [Phase.ACTIVE] * 4 + [Phase.SUSPENDED]
    assert [rune.child for rune in noted] == [actor] * 5  # type: ignore[attr-defined]  # by its kind
    assert suspension == f"error_threshold: 5 restarts, the last of {actor}"
    assert there.session.send("go", message_id="m1").result(600).output == "one two"


def test_an_agent_whose_actors_keep_crashing_is_ended_by_its_own_law() -> None:
    """The session has the agent's law decide: its last rune has its sums, and its turn is stopped.

    A restart of the process changes nothing about that: the end is in the log.
    """
    there = talk([["fine"], ["one ", pause(50), "two"]])
    there.session.send("hello").result(10)
    turn = there.session.send("go")
    there.stage.advance(1)
    agent = there.session.state.root
    for _ in range(LIVES):
        if not there.runes("agent.terminated"):
            kill(there, agent)
    there.stage.advance(10)
    [end] = there.runes("agent.terminated")
    before = (turn.result(10).status, there.session.state.suspension)
    next_life(there, None)

    assert end.reason.startswith("crashed: its actors kept crashing")  # type: ignore[attr-defined]  # by its kind
    assert (end.stats.turns, end.stats.completed) == (2, 1)  # type: ignore[attr-defined]  # as above
    assert before == ("interrupted", "root_agent_terminated")
    assert there.session.state.members == ()
    assert len(there.runes("agent.terminated")) == 1


def test_actors_that_die_while_turns_complete_suspend_nothing() -> None:
    """Each turn that comes to a good end shows that it is no loop."""
    there = office()
    for number in range(LIVES):
        there.session.send("think", message_id=f"m{number}")
        there.stage.advance(1)
        kill(there, f"turn_{number + 1}")
        there.session.turn(f"m{number}").result(100)
        next_life(there, {})
    state = there.session.state

    assert len(there.runes("session.child_restarted")) == LIVES
    assert (state.phase, state.restarts) == (Phase.ACTIVE, 0)


def kept_failing() -> tuple[Talk, Approval]:
    """Return a session that was suspended, as its turn's actor kept dying, and what waits there."""
    there = office()
    there.session.send("pay", message_id="m1")
    there.stage.advance(1)
    for _ in range(5):
        kill(there, "turn_1")
        there.stage.advance(10)
    [approval] = there.session.approvals()
    return there, approval


def test_no_tool_runs_in_a_session_that_kept_failing() -> None:
    """Who approves is told to unsuspend it first; then it runs, and the model hears of it."""
    there, approval = kept_failing()
    with pytest.raises(Refused, match=r"session is suspended.* unsuspended"):
        there.session.approve(approval.call_id, approver="ada")
    there.stage.advance(1)
    before = there.kinds()
    there.session.unsuspend("mended")
    there.session.approve(approval.call_id, approver="ada")
    result = there.session.turn("m1").result(10)

    assert "tool.approved" not in before
    assert "tool.started" not in before
    assert result.output == "It is paid 5"


def test_a_human_may_say_no_in_a_session_that_kept_failing() -> None:
    """To deny runs nothing; the model hears of it once somebody has unsuspended the session."""
    there, approval = kept_failing()
    there.session.deny(approval.call_id, reason="too much", approver="user")
    there.session.unsuspend("mended")
    result = there.session.turn("m1").result(10)

    assert result.status == "completed"
    assert "too much" in result.output

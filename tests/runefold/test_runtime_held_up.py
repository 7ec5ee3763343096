"""Rules about an agent that asks another one, which waits for a human: then both of them do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from actors.budget import lifecycle as ledger
from actors.model.providers.scripted import Scripted, call, pause
from actors.tool.adapters.function import tool
from actors.tool.lifecycle import Report
from actors.tool.runes import Called
from actors.units import SECOND
from runefold.agents import AgentTool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec, Budget
from runelog.replay import replay
from tests.runefold.experts import problems
from tests.runefold.talks import NAME, Strict, talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from tests.runefold.talks import Talk

HOUR: Final = 3_600
LUNCH: Final = 2 * HOUR
"""So long it takes until a human looks; the time limit of a turn is half an hour."""


@tool(requires_approval=True, approval_timeout=12 * HOUR, idempotent=True)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


def asking(request: Request) -> Reply:
    """Ask whoever there is to ask, after a second, and say what they said after another."""
    last = request.messages[-1]
    if last.role == "tool":
        return [pause(1), f"{last.status}: {last.text}"]
    return [pause(1), call(request.tools[0]["name"], question=last.text)]


def paying(request: Request) -> Reply:
    """Think for three seconds, pay, and think for two more."""
    last = request.messages[-1]
    return [last.text, pause(2)] if last.role == "tool" else [pause(3), call("pay")]


def team(deep: int = 1, timeout: float = 24 * HOUR) -> Talk:
    """Return a conversation in which an agent asks an expert to pay, through so many others."""
    spec = AgentSpec(role="clerk", model="clerk", tools=["pay"])
    tools = [AgentTool("ask_1", spec, "Ask a clerk.", timeout=timeout)]
    for number in range(2, deep + 1):
        spec = AgentSpec(role=f"chief {number}", model="demo", tools=[f"ask_{number - 1}"])
        tools.append(AgentTool(f"ask_{number}", spec, "Ask a chief."))
    return talk(
        Strict(asking),
        *tools,
        pay,
        others={"clerk": Scripted(paying)},
        tools=[f"ask_{deep}"],
        budget=Budget(wall_seconds=600),
    )


def later(there: Talk, seconds: float, act: Callable[[], object]) -> None:
    """Have something done in so many seconds."""
    clock = there.stage.clock

    def ring() -> None:
        act()

    clock.at(clock.now() + round(seconds * SECOND), ring)


def agree(there: Talk) -> None:
    """Let what waits for a human go on."""
    [waiting] = there.session.approvals()
    there.session.approve(waiting.call_id, approver="ada")


def spent(there: Talk) -> float:
    """Return how many seconds all turns have used, with nothing set aside any more."""
    there.stage.log.flush()
    state, _, _ = replay(there.stage.log, NAME, ledger.LIFECYCLE, entity="budget")
    found = ledger.find(state, "session")
    assert found is not None
    assert found.reserved.wall == 0
    return found.used.wall / SECOND


@pytest.mark.parametrize("deep", [1, 3])
def test_whoever_asks_does_not_pay_for_a_humans_time(deep: int) -> None:
    """Neither by the limit of its turn nor with its time, through however many it asks."""
    there = team(deep)
    turn = there.session.send("pay")
    later(there, LUNCH, lambda: agree(there))
    result = turn.result(24 * HOUR)
    works = 1 + 1  # before it asks, and after the answer

    assert (result.status, result.output) == ("completed", "success: " * deep + "paid")
    assert result.usage.wall_seconds == works * deep + 5
    assert spent(there) == sum(works * each + 5 for each in range(deep + 1))
    assert there.kinds().count("turn.held_up") == there.kinds().count("turn.went_on") == deep
    assert problems(there) == []


def test_the_conversation_sleeps_while_both_wait() -> None:
    """Nothing happens then: its actors stop, and a human's word brings them back to go on."""
    there = team(2)
    awake = there.stage.runtime._core.tree.awake
    there.session.send("pay", message_id="m1")
    seen: list[list[str]] = []
    for seconds in (30, 130, LUNCH - 1, LUNCH + 1):
        later(there, seconds, lambda: seen.append(awake()))
    later(there, LUNCH, lambda: agree(there))
    there.stage.advance(LUNCH + 10)
    result = there.session.send("pay", message_id="m1").result(0)

    assert seen == [[NAME], [], [], [NAME]]
    assert result.output == "success: success: paid"
    assert "tool.retried" not in there.kinds()
    assert problems(there) == []


def test_a_question_that_is_not_answered_in_time_wakes_whoever_asked() -> None:
    """Also if all sleep by then: the call comes to its end, and the turn goes on with that."""
    there = team(timeout=LUNCH)
    awake = there.stage.runtime._core.tree.awake
    there.session.send("pay", message_id="m1")
    seen: list[list[str]] = []
    later(there, LUNCH - 1, lambda: seen.append(awake()))
    there.stage.advance(LUNCH + 10)
    result = there.session.send("pay", message_id="m1").result(0)

    assert seen == [[]]
    assert result.output.startswith("timeout: ")
    assert [each.reason for each in there.session.approvals()] == ["pay requires approval"]


def opened(directory: Path) -> Runtime:
    """Open a runtime, on threads, in which an agent asks a clerk to pay."""
    clerk = AgentTool("ask_1", AgentSpec(role="clerk", model="clerk", tools=["pay"]), "Ask.")
    paying = Scripted(lambda asked: [call("pay")] if asked.messages[-1].role == "user" else ["ok"])
    boss = Scripted(
        lambda asked: [call("ask_1", question="?")] if asked.messages[-1].role == "user" else ["ok"]
    )
    return Runtime.open(directory, tools=[clerk, pay], providers={"clerk": paying, "boss": boss})


def test_on_threads_what_is_asleep_goes_on_here_or_in_the_next_process(tmp_path: Path) -> None:
    """Whoever waits for the answer is woken by the human's word, and by the end of the runtime."""
    agent = AgentSpec(role="boss", model="boss", tools=["ask_1"])
    outputs = []
    for again in (False, True):
        with opened(tmp_path / "log") as runtime:
            session = runtime.create_session(agent, conversation_id=f"{NAME}_{again}")
            session.send("pay", message_id="m1")
            next(iter(session.follow(kinds={"turn.held_up"}, wait=30)))
            runtime._core.tree.put_to_sleep(session.id)
            if not again:
                session.approve(session.approvals()[0].call_id, approver="ada")
                outputs.append(session.send("pay", message_id="m1").result(30).output)
    with opened(tmp_path / "log") as runtime:
        session = runtime.session(f"{NAME}_True")
        session.approve(session.approvals()[0].call_id, approver="ada")
        outputs.append(session.send("pay", message_id="m1").result(30).output)

    assert outputs == ["ok", "ok"]


def test_an_interrupt_ends_the_wait_of_both() -> None:
    """They are stopped as ever, and have used the time until the human was asked."""
    there = team()
    turn = there.session.send("pay")
    later(there, 60, there.session.interrupt)
    result = turn.result(HOUR)

    assert (result.status, result.reason) == ("interrupted", "interrupt")
    assert spent(there) == (1 + 3) + 3
    assert problems(there) == []


def test_an_answer_that_never_comes_ends_the_wait_of_both() -> None:
    """After half a day the clerk is told that it was not approved, and both of them go on."""
    there = team()
    result = there.session.send("pay").result(48 * HOUR)

    assert result.output.startswith("success: ")
    assert "it was not approved in time" in result.output
    assert spent(there) == 1 + 3 + 2 + 1 + (3 + 2)
    assert problems(there) == []


def test_one_that_is_stopped_alone_leaves_nobody_waiting() -> None:
    """The clerk is killed while it waits: whoever asked it is told, goes on, and pays for that."""
    there = team()
    turn = there.session.send("pay")
    later(
        there,
        60,
        lambda: there.session.terminate(there.session.state.members[-1].agent_id, force=True),
    )
    result = turn.result(HOUR)

    assert result.status == "completed"
    assert "clerk was interrupted: agent_terminated" in result.output
    assert spent(there) == (1 + 3 + 1) + 3
    assert problems(there) == []


def _cut(appends: int) -> Talk:
    """Return a conversation in which the power failed after so many appends."""
    there = team()
    log = there.stage.log
    log.cut_at = log.appends + appends
    there.session.send("pay", message_id="m1")
    later(there, LUNCH, lambda: agree(there))
    there.stage.run_until(lambda: log.is_cut)
    return there


@pytest.mark.parametrize("appends", range(8, 34))
def test_wherever_it_crashes_both_wait_for_the_human(appends: int) -> None:
    """What one has told the other is in the log, or is told once the log is opened again."""
    there = _cut(appends)
    session = there.reopen()
    if "approval.approved" not in there.kinds():
        later(there, LUNCH, lambda: agree(there))
    result = session.send("pay", message_id="m1").result(24 * HOUR)
    told, taken = (there.kinds().count(kind) for kind in ("turn.held_up", "turn.went_on"))

    assert result.output == "success: paid"
    assert spent(there) < 200, "each crash costs a stretch of each turn at the most"
    assert told == taken == 1
    assert problems(there) == []


def test_who_has_something_to_read_does_not_sleep() -> None:
    """A call that only waits for a human can be taken up again; what it was told would be lost."""
    there = team()
    turn = there.session.send("Pay.")
    idle: list[bool] = []

    def look() -> None:
        running = there.stage.runtime._core.tree.running(NAME)
        assert running is not None
        idle.append(running.ctx.is_idle())
        [asks, _] = [rune for rune in there.runes("tool.call") if isinstance(rune, Called)]
        running.ctx.tell(asks.call_id, Report("progress", "still here"))
        idle.append(running.ctx.is_idle())
        there.stage.run()
        idle.append(running.ctx.is_idle())

    later(there, 10, look)
    later(there, 20, lambda: agree(there))

    assert turn.result(HOUR).output == "success: paid"
    assert idle == [True, False, True]

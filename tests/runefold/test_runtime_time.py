"""Rules about time and sub-calls as things that are spent, in whole conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
from actors.invariants import violations
from actors.model.providers.scripted import Scripted, call, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from actors.units import SECOND
from runefold.agents import AgentTool
from runefold.spec import AgentSpec, Budget
from runelog.replay import replay
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay, if a human agrees."""
    return f"paid {cents}"


def thinking(request: Request) -> Reply:
    """Think for as many seconds as one is told to, and pay if one is told to."""
    if request.messages[-1].role == "tool":
        return ["paid", pause(2)]
    what = request.messages[-1].text
    return [call("pay", cents=5)] if what == "pay" else ["so", pause(float(what)), "!"]


def account(there: Talk, scope: str) -> ledger.Scope:
    """Return what a scope has spent, as the log has it."""
    there.stage.log.flush()
    state, _, _ = replay(there.stage.log, NAME, ledger.LIFECYCLE, entity="budget")
    found = ledger.find(state, scope)
    assert found is not None
    return found


def seconds(there: Talk, scope: str = "session") -> float:
    """Return how many seconds a scope has used, with nothing set aside any more."""
    found = account(there, scope)
    assert found.reserved.wall == 0
    return found.used.wall / SECOND


def problems(there: Talk) -> list[str]:
    """Return which invariants do not hold."""
    there.stage.log.flush()
    return [each.message for each in violations(there.session.runes(), at_rest=True)]


def test_turns_use_up_their_time_to_the_nanosecond() -> None:
    """What is charged is how long the turns ran, and what a turn used is told with its end."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=100))
    ends = [there.session.send(word).result(100) for word in ("7.25", "0", "0.000000001")]

    assert [end.usage.wall_seconds for end in ends] == [7.25, 0, 1e-9]
    assert seconds(there) == seconds(there, there.session.state.root) == 7.250000001
    assert problems(there) == []


def test_where_nobody_limits_time_nothing_is_set_aside_for_it() -> None:
    """A conversation without such a limit has no runes about it."""
    there = talk(thinking, pay, budget=Budget(tokens=1_000_000))
    there.session.send("5").result(100)
    keys = {rune.key for rune in there.reserved()}

    assert keys == {"turn_1-r0-a0"}
    assert seconds(there) == 0


def test_time_is_warned_of_and_then_refused_and_the_words_are_kept() -> None:
    """At 80 % a warning; at 100 % the turn ends where it is, and the session waits for a hand."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=10))
    result = there.session.send("60").result(100)
    state = there.session.state
    [warning] = there.runes("budget.warning")
    [spent] = there.runes("budget.exhausted")

    assert (result.status, result.reason, result.output) == ("error", "budget_exhausted", "so")
    assert isinstance(warning, budgets.Warning)
    assert isinstance(spent, budgets.Exhausted)
    assert (warning.what, warning.used) == ("wall", 8 * SECOND)
    assert (spent.what, spent.used, spent.limit) == ("wall", 10 * SECOND, 10 * SECOND)
    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "budget_exhausted")
    assert seconds(there) == 10
    assert problems(there) == []


def test_time_that_is_added_is_worked_with() -> None:
    """Once the budget is replenished, what waits is taken up; the limit is then what it is."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=2))
    there.session.send("60").result(100)
    waiting = there.session.send("1.5")
    there.session.replenish(agent=there.session.state.root, wall_seconds=2)

    assert waiting.result(100).status == "completed"
    assert seconds(there) == 3.5
    assert there.session.send("60").result(100).reason == "budget_exhausted"
    assert seconds(there) == 4
    assert problems(there) == []


def test_an_agent_that_is_to_end_with_its_time_ends() -> None:
    """As with everything else that is spent, the agent terminates if it is to."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=2), on_exhausted="terminate")
    there.session.send("60").result(100)
    there.stage.run()

    assert there.session.state.suspension == "root_agent_terminated"
    assert problems(there) == []


def test_a_humans_time_is_not_the_turns() -> None:
    """While nothing but a human is waited for the clock stands; it runs again afterwards."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=10))
    turn = there.session.send("pay")
    there.stage.advance(3_600)
    [waiting] = there.session.approvals()
    before = seconds(there)
    there.session.approve(waiting.call_id, approver="ada")
    result = turn.result(100)

    assert before == 0
    assert result.output == "paid"
    assert seconds(there) == 2
    assert problems(there) == []


def test_a_session_has_time_for_all_its_agents_together() -> None:
    """What children use counts against their session; two that run at once use twice the time."""
    there = talk(thinking, pay)
    session = there.stage.runtime.create_session(
        AgentSpec(role="boss", model="demo"), budget=Budget(wall_seconds=100)
    )
    kid = session.spawn(AgentSpec(role="kid", model="demo", budget=Budget(wall_seconds=50)))
    turns = [session.send("20"), session.send("20", to=kid)]
    ends = [turn.result(100) for turn in turns]
    third = session.send("45", to=kid).result(100)
    there.stage.log.flush()
    state, _, _ = replay(there.stage.log, session.id, ledger.LIFECYCLE, entity="budget")

    assert [end.usage.wall_seconds for end in ends] == [20] * 2
    assert third.reason == "budget_exhausted"
    assert {each.scope: each.used.wall // SECOND for each in state.scopes} == {
        "session": 70,
        session.state.root: 70,
        kid: 50,
    }


def test_an_interrupt_settles_the_time_until_then() -> None:
    """What is stopped has used the time until it was."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=1_000))
    turn = there.session.send("500")
    there.stage.advance(12.5)
    there.session.interrupt()

    assert turn.result(10).status == "interrupted"
    assert seconds(there) == 12.5
    assert problems(there) == []


@pytest.mark.parametrize("cut", range(5, 24))
def test_a_crash_costs_at_most_the_stretch_that_was_passing(cut: int) -> None:
    """Whatever crashes when, each stretch is counted once: as it was, or whole as an estimate."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=60))
    there.stage.log.cut_at = there.stage.log.appends + cut
    there.session.send("20", message_id="m1")
    there.stage.advance(20)
    there.stage.clock.move_to(there.stage.clock.now() + 1_000 * SECOND)
    session = there.reopen()
    result = session.send("20", message_id="m1").result(100)
    there.stage.run()
    settled = there.settled()
    guessed = [rune for rune in settled if rune.estimated and rune.charged.wall]
    counted = sum(rune.charged.wall for rune in settled)

    assert result.status == "completed"
    assert len(guessed) <= 1
    assert all(rune.charged.wall <= 3 * SECOND for rune in guessed)
    assert counted == account(there, "session").used.wall <= 43 * SECOND
    assert counted >= 20 * SECOND
    assert problems(there) == []


def test_a_turn_that_a_crash_ends_is_charged_for_one_stretch() -> None:
    """What follows on the crash takes no time: only what was passing then is estimated."""
    there = talk(thinking, pay, budget=Budget(wall_seconds=60), on_crash="interrupt")
    turn = there.session.send("20", message_id="m1")
    there.stage.advance(10)
    session = there.reopen()
    result = session.send("20", message_id=turn.message_id).result(10)

    assert (result.status, result.reason) == ("interrupted", "crash")
    assert seconds(there) == 12
    assert problems(there) == []


# -- calls of other agents -------------------------------------------------------------------------

EXPERT: Final = AgentSpec(role="expert", model="expert")


def asking(request: Request) -> Reply:
    """Ask the expert as often as one is told to, then be done."""
    done = 0
    for message in request.messages:
        done = 0 if message.role == "user" else done + (message.role == "tool")
    wanted = next(int(m.text) for m in reversed(request.messages) if m.role == "user")
    return ["done"] if done >= wanted else [call("ask_expert", question=f"{done}?")]


def team(**budget: int) -> Talk:
    """Return a conversation in which an agent can ask another."""
    return talk(
        asking,
        AgentTool("ask_expert", EXPERT, "Ask an expert."),
        stage={"seed": None},
        others={"expert": Scripted(["Because."])},
        budget=Budget(**budget),
    )


def test_asking_another_agent_is_a_tool_call_and_a_sub_call() -> None:
    """Both are charged once for each time it is asked; what the other one spends comes on top."""
    there = team(sub_calls=9)
    result = there.session.send("3").result(100)
    found = account(there, there.session.state.root)

    assert result.output == "done"
    assert (found.used.tool_calls, found.used.sub_calls) == (3, 3)
    assert (result.usage.tool_calls, result.usage.sub_calls) == (3, 3)
    assert found.reserved == budgets.Amounts()
    assert problems(there) == []


def test_sub_calls_are_warned_of_and_refused_at_their_limit() -> None:
    """The other agent is not asked once more than it may be, and the session waits for a hand."""
    there = team(sub_calls=5)
    result = there.session.send("9").result(100)
    [warning] = there.runes("budget.warning")
    [spent] = there.runes("budget.exhausted")

    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert (warning.what, warning.used) == ("sub_calls", 4)  # type: ignore[attr-defined]  # by its kind
    assert (spent.what, spent.used) == ("sub_calls", 5)  # type: ignore[attr-defined]  # by its kind
    assert there.kinds().count("turn.completed") == 5
    assert there.session.state.phase is Phase.SUSPENDED
    assert problems(there) == []


def test_other_tools_are_no_sub_calls() -> None:
    """A limit on sub-calls does not stand in the way of a tool that asks nobody."""

    @tool(side_effects=False)
    def look() -> str:
        """Look."""
        return "seen"

    script: list[Reply] = [[call("look")], [call("look")], ["done"]]
    there = talk(script, look, budget=Budget(sub_calls=1))

    assert there.session.send("go").result(10).output == "done"
    assert account(there, "session").used.sub_calls == 0


@pytest.mark.parametrize("cut", range(3, 24))
def test_a_sub_call_is_charged_once_whatever_crashes(cut: int) -> None:
    """Asked again after a crash it is the same call, and the same charge."""
    there = team(sub_calls=2)
    there.stage.change(providers={"demo": there.model, "expert": Scripted(["Because."])})
    there.stage.log.cut_at = there.stage.log.appends + cut
    there.session.send("2", message_id="m1")
    there.stage.run()
    session = there.reopen()
    result = session.send("2", message_id="m1").result(100)
    there.stage.run()

    assert result.output == "done"
    assert account(there, session.state.root).used.sub_calls == 2
    assert problems(there) == []

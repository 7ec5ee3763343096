"""What was spent is told where users look, however a turn ended, and is what the budget charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.budget.runes import Amounts
from actors.model.provider import Done, Text, Used
from actors.model.providers.scripted import Scripted, call, fail
from actors.tool.adapters.function import tool
from runefold.agents import AgentTool
from runefold.observe.spending import Left, Spent
from runefold.spec import AgentSpec, Budget
from runelog.errors import Refused
from tests.runefold.talks import Raw, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.model.provider import Event, Request
    from runefold.observe.spending import Spending
    from tests.runefold.talks import Talk


@tool(side_effects=False)
def look() -> str:
    """Look."""
    return "seen"


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def obedient(request: Request) -> Iterator[Event]:
    """Use ten tokens, then do as one is told."""
    yield Used(input_tokens=7, output_tokens=3, cost=0.5)
    said = request.messages[-1].text
    if said == "fail":
        yield from (Text("hm"), fail("bad_key", "no such key"))
    else:
        yield call(said) if said in {"look", "pay"} else Text("done")
        yield Done()


def charged(there: Talk) -> Amounts:
    """Return the sum of all that was charged, as the log has it."""
    return sum((each.charged for each in there.settled()), Amounts())


@pytest.mark.parametrize(
    ("said", "status", "tokens"),
    [("look", "completed", 20), ("fail", "error", 10), ("pay", "interrupted", 10)],
)
def test_the_usage_of_a_turn_is_what_it_was_charged(said: str, status: str, tokens: int) -> None:
    """Completed, failed or interrupted: turn, agent, session and budget agree."""
    there = talk(Raw(obedient), look, pay, retries=0, budget=Budget(wall_seconds=600))
    turn = there.session.send(said)
    there.stage.advance(2)
    if said == "pay":
        there.session.interrupt()
    result = turn.result(10)
    state = there.session.state
    spent = there.session.spending()

    assert result.status == status
    assert result.usage.tokens == tokens
    assert state.stats.usage == charged(there)
    assert result.usage == spent.spent == Spent.of(state.stats.usage)
    assert spent.spent.cost == tokens / 20
    assert spent.agents["helper"].spent == spent.spent


@pytest.mark.parametrize("cut", range(2, 22))
def test_usage_and_budget_agree_whatever_crashes(cut: int) -> None:
    """Killed at any append, no turn counts twice or not at all."""
    there = talk(Raw(obedient), look, pay, retries=1)
    for said in ("look", "fail", "done"):
        there.session.send(said, message_id=said)
    there.stage.log.cut_at = there.stage.log.appends + cut // 2
    there.stage.log.cut_after = bool(cut % 2)
    there.stage.run()
    session = there.reopen()
    for said in ("look", "fail", "done"):
        session.send(said, message_id=said)
    there.stage.run()
    there.stage.advance(120)
    spent = session.spending()

    assert session.state.stats.turns == 3
    assert session.state.stats.usage == charged(there)
    assert spent.spent == Spent.of(charged(there))
    assert spent.reserved == Spent()


def test_what_is_set_aside_is_told_and_what_is_left() -> None:
    """While a call is under way it is neither spent nor left; the narrowest limit counts."""

    @tool(side_effects=False)
    def ponder() -> str:
        """Look what is set aside while this runs."""
        meanwhile.append(there.session.spending())
        return "hm"

    meanwhile: list[Spending] = []
    budget = Budget(tokens=9_000, sub_calls=3)
    expert = AgentSpec(role="expert", model="wise", tools=["ponder"], budget=budget)
    there = talk(
        [[call("ask_expert", question="Why?")], "So."],
        AgentTool("ask_expert", expert, "Ask."),
        ponder,
        others={"wise": Scripted([[call("ponder")], "Thus."])},
        tools=["ask_expert"],
        budget=Budget(tokens=10_000, tool_calls=5),
    )
    there.session.send("Hm?").result(10)
    (before,), after = meanwhile, there.session.spending()
    asker, asked = after.agents["helper"], after.agents["expert"]

    assert before.agents["expert"].reserved == Spent(tool_calls=1)
    assert before.agents["helper"].reserved == Spent(tool_calls=2, sub_calls=1)
    assert before.agents["helper"].left.tool_calls == 3
    assert before.reserved == before.agents["helper"].reserved
    assert after.reserved == Spent()
    assert asker.spent.sub_calls == 1
    assert asker.spent == after.spent
    assert asker.left == Left(tokens=10_000 - after.spent.tokens, tool_calls=3)
    assert asked.left == Left(tokens=9_000 - asked.spent.tokens, tool_calls=3, sub_calls=3)
    assert after.left == Left()


def test_nothing_may_be_spent() -> None:
    """A limit of nothing is a limit: the first call is refused."""
    there = talk(Raw(obedient), look, budget=Budget(tokens=0))
    result = there.session.send("look").result(10)

    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert there.session.spending().agents["helper"].left == Left(tokens=0)


def test_a_budget_without_room_for_one_answer_is_refused_with_the_numbers() -> None:
    """When it is set: an agent's own, and a session's for each of its agents."""
    with pytest.raises(Refused, match=r"its budget of 4,095 tokens .* max_output_tokens=4,096"):
        AgentSpec(role="helper", model="demo", budget=Budget(tokens=4_095))
    there = talk(Raw(obedient))
    spec = AgentSpec(role="helper", model="demo", max_output_tokens=500)
    with pytest.raises(Refused, match=r"agent helper: the session's budget of 499 tokens"):
        there.stage.runtime.create_session(spec, budget=Budget(tokens=499))

    assert there.stage.runtime.create_session(spec, budget=Budget(tokens=500)).id

"""Rules about budgets in whole conversations: warned, refused, replenished, and exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
from actors.model import runes as models
from actors.model.provider import Done, Text, Used
from actors.model.providers.scripted import Scripted, call, fail, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from actors.tool.policy import Clause, Policy
from runefold.spec import AgentSpec, Budget
from runelog.replay import replay
from tests.runefold.talks import Raw, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply


@tool(side_effects=False)
def look(x: int) -> int:
    """Look."""
    return x


@tool(requires_approval=True)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


@tool
def note() -> str:
    """Write it down, after everything before it."""
    return "noted"


def one_call(request: Request) -> Reply:
    """Ask for one call, then be done."""
    return ["done"] if request.messages[-1].role == "tool" else [call("look", x=1)]


def for_ever(_request: Request) -> Reply:
    """Ask for one call after the other, whatever happens."""
    return [call("look", x=1)]


def spending(_request: Request) -> Iterator[Any]:
    """Use a thousand tokens."""
    return iter((Text("x"), Used(100, 900), Done()))


def notices(there: Talk) -> list[tuple[str, str, str, int, int]]:
    """Return the warnings and refusals, in order."""
    found = there.runes("budget.warning", "budget.exhausted")
    return [
        (type(rune).__name__, rune.scope, rune.what, rune.used, rune.limit)
        for rune in found
        if isinstance(rune, budgets.Warning | budgets.Exhausted)
    ]


def books(there: Talk) -> tuple[set[str], dict[str, budgets.Settles]]:
    """Return what was reserved and what was charged, each exactly once."""
    reserved, settled = [rune.key for rune in there.reserved()], there.settled()
    assert len(set(reserved)) == len(reserved)
    assert len({rune.key for rune in settled}) == len(settled)
    return set(reserved), {rune.key: rune for rune in settled}


def test_calls_are_warned_of_at_80_per_cent_and_refused_at_the_limit() -> None:
    """The turn ends at the end of its round, and the session waits for a hand."""
    there = talk(for_ever, look, budget=Budget(tool_calls=5))
    result = there.session.send("go").result(100)
    state = there.session.state

    assert notices(there) == [
        ("Warning", state.root, "tool_calls", 4, 5),
        ("Exhausted", state.root, "tool_calls", 5, 5),
    ]
    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "budget_exhausted")
    assert there.kinds().count("tool.started") == 5


def test_several_calls_at_once_do_not_share_the_last_coin() -> None:
    """As many run as can be afforded; every other one has its result too."""
    there = talk(
        [["go", *[call("look", x=x) for x in range(8)]], ["done"]],
        look,
        budget=Budget(tool_calls=5),
    )
    there.session.send("go").result(100)
    there.session.replenish(agent=there.session.state.root, tool_calls=5)
    after = there.session.send("on").result(100)

    assert there.kinds().count("tool.started") == 5
    assert after.output == "done"
    assert sorted(status for status, _ in there.model.results) == ["error"] * 3 + ["success"] * 5


@pytest.mark.parametrize("before", [0, 3])
def test_calls_made_at_once_are_warned_of_as_soon_as_the_limit_is_near(before: int) -> None:
    """The warning follows the call that brings it near, before those that are refused after it."""
    rounds = [[call("look", x=x)] for x in range(before)]
    there = talk(
        [*rounds, ["go", *[call("look", x=x) for x in range(12 - before)]], ["done"]],
        look,
        budget=Budget(tool_calls=10),
    )
    there.session.send("go").result(100)
    root = there.session.state.root
    kinds = there.kinds()
    at = kinds.index("budget.warning")

    assert notices(there) == [
        ("Warning", root, "tool_calls", 8, 10),
        *[("Exhausted", root, "tool_calls", 10, 10)] * 2,
    ]
    assert kinds[at - 1] == "tool.started"
    assert kinds[:at].count("tool.started") == 8


def test_tokens_are_refused_before_they_are_spent_and_replenishing_goes_on() -> None:
    """A call that might pass the limit is not made; what waits is taken up once there is more."""
    there = talk(Raw(spending), budget=Budget(tokens=5_000), max_output_tokens=1_000)
    ends = [there.session.send("go").result(10) for _ in range(5)]
    waiting = there.session.send("on")
    there.stage.run()
    asked, waited = there.model.asked, waiting.id
    there.session.replenish(agent=there.session.state.root, tokens=5_000)

    assert [end.status for end in ends] == ["completed"] * 4 + ["error"]
    assert ends[-1].reason == "budget_exhausted"
    assert (asked, waited) == (4, None)
    assert [kind for kind, *_ in notices(there)] == ["Warning", "Exhausted"]
    assert waiting.result(10).status == "completed"


def test_more_of_something_else_does_not_end_a_want() -> None:
    """What waits would become a turn that ends for it: it goes on once there is more of that."""
    there = talk(Raw(spending), budget=Budget(tokens=5_000), max_output_tokens=1_000)
    ends = [there.session.send("go").result(10) for _ in range(5)]
    waiting, root = there.session.send("on"), there.session.state.root
    there.session.replenish(agent=root, cost=5, tool_calls=5)
    there.stage.run()
    phase, waited = there.session.state.phase, waiting.id
    there.session.replenish(agent=root, tokens=5_000)

    assert [end.reason for end in ends[-1:]] == ["budget_exhausted"]
    assert (phase, waited) == (Phase.SUSPENDED, None)
    assert waiting.result(10).status == "completed"


def test_an_agent_that_is_to_end_with_its_budget_ends() -> None:
    """The turn ends first; a root that is gone leaves the session suspended."""
    there = talk(for_ever, look, budget=Budget(tool_calls=2), on_exhausted="terminate")
    result = there.session.send("go").result(100)
    there.stage.run()
    state = there.session.state

    assert result.reason == "budget_exhausted"
    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "root_agent_terminated")


def test_what_a_child_spends_counts_against_its_parents() -> None:
    """The parent's limit stops a child whose own budget has room."""
    there = talk(one_call, look, budget=Budget(tool_calls=2))
    spec = AgentSpec(role="kid", model="demo", tools=["look"], budget=Budget(tool_calls=9))
    kid = there.session.spawn(spec)
    ends = [there.session.send("go", to=to).result(10) for to in (kid, "", kid)]

    assert [end.status for end in ends] == ["completed", "completed", "error"]
    assert notices(there)[-1][:3] == ("Exhausted", there.session.state.root, "tool_calls")


def falls(request: Request) -> Reply:
    """Need as many retries as one is told to."""
    wanted = int(request.messages[-1].text)
    return [fail("busy", retryable=True)] if request.attempt < wanted else ["up"]


def dear(_request: Request) -> Iterator[Any]:
    """Cost 0.4 of whatever it is."""
    return iter((Text("x"), Used(1, 1, cost=0.4), Done()))


WHOLE: Final[dict[str, tuple[Any, dict[str, Any], list[str], int]]] = {
    "tokens": (Raw(spending), {"tokens": 3_000}, ["go"] * 4, 3_000),
    "tool_calls": (one_call, {"tool_calls": 2}, ["go"] * 3, 2),
    "retries": (falls, {"retries": 3}, ["2", "2"], 3),
    "cost": (Raw(dear), {"cost": 1.0}, ["go"] * 4, 1_200_000),
}
"""For each thing that a session may spend: a model, the limit, messages, and what they come to."""


@pytest.mark.parametrize("what", WHOLE)
def test_a_session_has_a_budget_for_all_its_agents(what: str) -> None:
    """Whoever of them spends: at its limit the session is suspended, and goes on with more."""
    model, limit, words, spent = WHOLE[what]
    there = talk(model, look, max_output_tokens=900)
    spec = AgentSpec(role="boss", model="demo", tools=["look"], max_output_tokens=900)
    session = there.stage.runtime.create_session(spec, budget=Budget(**limit))
    kid = session.spawn(spec)
    to = ("", kid)
    # One after the other: what a call without a price will cost is not set aside before it.
    ends = [session.send(word, to=to[n % 2]).result(100) for n, word in enumerate(words[:-1])]
    session.send(words[-1], to=to[(len(words) - 1) % 2])
    there.stage.advance(60)
    state = session.state
    waits = session.send("0")
    session.replenish(**{name: amount * 9 for name, amount in limit.items()})
    there.stage.log.flush()
    found, _, _ = replay(there.stage.log, session.id, ledger.LIFECYCLE, entity="budget")
    whole = ledger.find(found, "session")

    assert whole is not None
    assert state.exhausted is not None
    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "budget_exhausted")
    assert (state.exhausted.scope, state.exhausted.what) == ("session", what)
    assert getattr(whole.used, what) == spent
    assert all(end.status == "completed" for end in ends[:1])
    assert waits.result(100).status == "completed"
    assert session.state.phase is Phase.ACTIVE


def test_a_call_that_had_to_wait_is_judged_by_what_is_left_then() -> None:
    """What others spent while a human was asked, a call behind that one cannot spend again."""
    script: list[Reply] = [[call("pay"), call("note")], ["done"]]
    there = talk(script, pay, note, look, budget=Budget(tool_calls=2))
    there.stage.runtime._services.models["kid"] = Scripted(one_call)
    kid = there.session.spawn(AgentSpec(role="kid", model="kid", tools=["look"]))
    turn = there.session.send("go")
    there.stage.run()
    for _ in range(2):
        there.session.send("go", to=kid).result(10)
    [waiting] = there.session.approvals()
    there.session.deny(waiting.call_id, reason="no", approver="user")
    result = turn.result(10)

    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert there.kinds().count("tool.started") == 2


@pytest.mark.parametrize("cut", range(3, 20))
def test_every_reservation_is_settled_exactly_once_whatever_crashes(cut: int) -> None:
    """What is charged is what was done: one entry for each call that began, tool or model."""
    there = talk(one_call, look, stage={"seed": cut})
    there.stage.log.cut_at = there.stage.log.appends + cut
    there.session.send("go", message_id="m1")
    there.stage.run()
    session = there.reopen()
    result = session.send("go", message_id="m1").result(100)
    reserved, settled = books(there)
    started = {rune.call_id for rune in there.runes("tool.started")}  # type: ignore[attr-defined]  # by its kind
    called = {rune.model_call_id for rune in there.runes("model.called")}  # type: ignore[attr-defined]  # by its kind

    assert result.output == "done"
    assert reserved == settled.keys() == started | called
    assert sum(rune.charged.tool_calls for rune in settled.values()) == len(started) == 1


def test_a_provider_that_refuses_costs_nothing() -> None:
    """However often it says no before it has said anything, the budget is there for the answer."""
    there = talk(falls, budget=Budget(tokens=10_000))
    result = there.session.send("2").result(100)
    _, settled = books(there)
    refused = [settled[f"turn_1-r0-a{attempt}"] for attempt in range(2)]

    assert (result.status, result.output) == ("completed", "up")
    assert [(rune.charged.tokens, rune.charged.retries) for rune in refused] == [(0, 0), (0, 1)]
    assert not any(rune.estimated for rune in settled.values())


ANSWERS: Final[dict[str, tuple[Reply | Raw, int]]] = {
    "all of it": (Raw(lambda _: [Text("word" * 20), Done()]), 20),
    "text": (["word" * 20, fail("down")], 20),
    "calls": ([call("look", x=1), fail("down")], 3),
    "silence": (["word" * 20, pause(1_000)], 20),
    "nothing in time": ([pause(1_000)], 0),
    "interrupt": (["a 0 ", pause(20), "more"], 1),
    "interrupt before a word": ([pause(20), "more"], 0),
}
"""Answers, most of which do not come to their end, and about how many tokens they have."""


@pytest.mark.parametrize("how", ANSWERS)
def test_an_answer_costs_what_was_sent_and_said(how: str) -> None:
    """About that, marked as estimated: nobody but the provider knows better, and it did not say."""
    reply, said = ANSWERS[how]
    model = reply if isinstance(reply, Raw) else Scripted(lambda _: reply)
    there = talk(model, look, retries=0, instructions="be kind " * 50)
    turn = there.session.send("go")
    there.stage.advance(10)
    if "interrupt" in how:
        there.session.interrupt()
    turn.result(1_000)
    [called] = there.runes("model.called")
    assert isinstance(called, models.Called)
    _, settled = books(there)

    assert called.sent >= 100
    end = settled[called.model_call_id]
    assert end.charged == budgets.Amounts(tokens=called.sent + said)
    assert end.estimated


def test_what_a_provider_says_it_used_counts_also_if_it_broke_off() -> None:
    """As it is, and not as an estimate."""
    reply: Reply = ["word" * 20, Used(7, 8), fail("down")]
    there = talk(lambda _: reply)
    there.session.send("go").result(10)
    _, settled = books(there)

    assert settled["turn_1-r0-a0"].charged.tokens == 15
    assert not settled["turn_1-r0-a0"].estimated


def test_a_turn_used_the_tool_calls_that_the_budget_was_charged_with() -> None:
    """One that was asked for and never begun is none: no such tool, bad arguments, or denied."""
    asked: Reply = [call("nobody"), call("look", x="?"), call("note"), call("look", x=1)]
    policy = Policy(rules=[Clause("note", "deny", "no")])
    there = talk([asked, ["done"]], look, note, stage={"policy": policy})
    result = there.session.send("go").result(10)
    _, settled = books(there)
    charged = sum(rune.charged.tool_calls for rune in settled.values())

    assert sorted(status for status, _ in there.model.results) == [
        *("denied", "error", "error"),
        "success",
    ]
    assert result.usage.tool_calls == charged == 1


def test_the_tools_that_a_model_is_shown_are_part_of_the_estimate() -> None:
    """They are sent with every call, as the system prompt is."""
    there = talk(["done"], look, note, instructions="be kind")
    there.session.send("12345678").result(10)
    [called] = there.runes("model.called")
    tools = len(msgspec.json.encode(there.model.requests[0].tools))
    assert isinstance(called, models.Called)

    assert called.sent == math.ceil((8 + len("be kind") + tools) / 4)
    assert called.reserved.tokens == called.sent + 4096

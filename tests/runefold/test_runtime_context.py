"""Rules about what tools, probes and policies are told of those for whom they are called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest
from order import ORDER, Place

from actors.model.providers.scripted import call
from actors.tool.adapters.function import tool
from actors.tool.context import Context
from actors.tool.outcome import Happened
from actors.tool.policy import Policy
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.runefold.talks import Talk

LABELS = {"tenant": "north", "tier": "gold"}
SESSION = {"labels": LABELS, "client_id": "client_ada"}


@dataclass
class Shop:
    """The app's own object."""

    seen: list[tuple[str, Context[Shop]]] = field(default_factory=list)

    def note(self, what: str, context: Context[Shop]) -> str:
        """Keep what a function was given."""
        self.seen.append((what, context))
        return what

    def told(self) -> list[tuple[object, ...]]:
        """Return what each was told that stays the same after a crash."""
        return [(what, *facts(context)) for what, context in self.seen]


def facts(context: Context[Shop]) -> tuple[object, ...]:
    """Return what a context says, apart from the time."""
    return (
        context.session_id,
        dict(context.labels),
        context.client_id,
        context.agent,
        context.turn_id,
        context.caller,
        context.call_id,
    )


@tool(idempotent=True)
def buy(cents: int, context: Context[Shop]) -> str:
    """Buy something."""
    return context.app.note(f"bought for {cents}", context)


@tool
async def buy_later(context: Context[Shop], cents: int) -> str:
    """Buy something in a moment."""
    context.progress("one moment")
    return context.app.note(f"bought for {cents} later", context)


def asks(
    name: str, arguments: Mapping[str, Any], _tool: object, context: Context[Shop]
) -> Literal["allow"]:
    """Note who calls, and let it pass."""
    context.app.note(f"may {name} {arguments['cents']}", context)
    return "allow"


def shop_talk(script: list[Any], *tools: Any, shop: Shop, **stage: Any) -> Talk:  # noqa: ANN401 -- those of `talk`
    """Return a conversation for a client, in a runtime that was opened with a shop."""
    return talk(script, *tools, stage={"app": shop, **stage}, session=SESSION)


def test_a_tool_is_told_for_whom_it_runs() -> None:
    """Session, labels, client, agent, turn, call, the app's object and the time; sync or async."""
    shop = Shop()
    there = shop_talk(
        [[call("buy", cents=5), call("buy_later", cents=6)], ["done"]], buy, buy_later, shop=shop
    )
    turn = there.session.send("go")

    assert turn.result(10).output == "done"
    assert [status for status, _ in there.model.results] == ["success", "success"]
    (_, first), (_, second) = shop.seen
    [agent] = there.session.agents
    started = [rune.call_id for rune in there.runes("tool.call")]  # type: ignore[attr-defined]  # all are
    assert facts(first) == (
        there.session.id,
        LABELS,
        "client_ada",
        (agent.id, agent.name),
        "turn_1",
        "turn_1",
        started[0],
    )
    assert facts(second) == (*facts(first)[:-1], started[1])
    assert first.app is shop
    assert first.now() == there.stage.clock.now() / 1e9
    assert [rune.chunk for rune in there.runes("tool.progress")] == ["one moment"]  # type: ignore[attr-defined]  # as above


def test_the_model_never_sees_the_context() -> None:
    """Neither its name nor its type are in what it is shown, and it cannot pass one."""
    assert [*buy.spec.parameters["properties"]] == ["cents"]
    there = shop_talk([[call("buy", cents=5, context={})], ["done"]], buy, shop=Shop())
    there.session.send("go").result(10)
    [(status, text)] = there.model.results

    assert "context" not in str(there.model.requests[0].tools)
    assert status == "error"
    assert "context: no such argument" in text


def test_labels_cannot_be_changed_through_a_context() -> None:
    """They are the session's own."""
    context = Context[None](labels={"a": "b"})

    with pytest.raises(TypeError):
        context.labels["a"] = "c"  # type: ignore[index]  # wrong on purpose


def test_without_an_object_a_tool_that_asks_for_it_says_so() -> None:
    """The model is told of an error, and a developer how to mend it."""
    there = talk([[call("buy", cents=5)], ["done"]], buy)
    there.session.send("go").result(10)
    [(status, text)] = there.model.results

    assert status == "error"
    assert "pass app=... to Runtime.open" in text


def test_a_run_is_stopped_through_its_context() -> None:
    """It can look whether it should stop, and leave at that."""
    heard = []

    @tool
    def long(context: Context[Shop]) -> None:
        """Go on until told to stop."""
        heard.append(context.cancelled)
        there.session.interrupt()
        heard.append(context.cancelled)
        context.stop_if_cancelled()

    there = talk([[call("long")], ["done"]], long)
    result = there.session.send("go").result(10)

    assert result.status == "interrupted"
    assert heard == [False, True]


# -- policies ----------------------------------------------------------------------------------


def test_a_policy_is_told_what_the_tool_is_told() -> None:
    """The same session, client, agent, turn and call, before there is a call."""
    shop = Shop()
    there = shop_talk(
        [[call("buy", cents=5)], ["done"]], buy, shop=shop, policy=Policy(function=asks)
    )
    there.session.send("go").result(10)

    judged, ran = shop.told()
    assert (judged[0], ran[0]) == ("may buy 5", "bought for 5")
    assert judged[1:] == ran[1:]


@pytest.mark.parametrize("said", ["perhaps", True, ("deny",), {"verdict": "deny"}])
def test_what_a_policy_must_not_return_is_in_the_rune(said: object) -> None:
    """The call is denied, and its rune says what the policy returned and what it may return."""
    policy = Policy(function=lambda *_: said)  # type: ignore[arg-type]  # wrong on purpose
    there = shop_talk([[call("buy", cents=5)], ["done"]], buy, shop=Shop(), policy=policy)
    there.session.send("go").result(10)
    [denied] = there.runes("tool.denied")

    assert f"returned {said!r}: return 'allow', 'ask' or 'deny'" in denied.reason  # type: ignore[attr-defined]  # it has one


def test_to_give_a_policy_does_not_change_the_mode() -> None:
    """What it has no opinion of is allowed, as without one, unless it names another mode."""
    ends = []
    for policy in (None, Policy(rules=[("nothing*", "deny")]), Policy(function=lambda *_: None)):
        there = shop_talk([[call("buy", cents=5)], ["done"]], buy, shop=Shop(), policy=policy)
        ends.append(there.session.send("go").result(10).output)

    assert ends == ["done"] * 3


# -- machines ----------------------------------------------------------------------------------


def test_a_machine_that_calls_is_the_caller_and_no_agent(tmp_path: Path) -> None:
    """A tool that it calls knows the session and the machine; there is no turn."""
    shop = Shop()

    @tool(idempotent=True)
    def pay(item: str, cents: int, context: Context[Shop]) -> str:
        """Pay."""
        return context.app.note(f"paid {cents} for the {item}", context)

    there = shop_talk([["done"]], pay, shop=shop, kinds=[ORDER], views=tmp_path)
    there.stage.runtime.do(there.session.id, Place("pen", 5), "order_pen")
    there.stage.run()

    [(what, *told)] = shop.told()
    session, labels, client, agent, turn, caller, call_id = told
    assert (what, session, labels, client) == (
        "paid 5 for the pen",
        there.session.id,
        LABELS,
        "client_ada",
    )
    assert (agent, turn, caller) == (("", ""), "", "order_pen")
    assert str(call_id).startswith("call_")


# -- after a crash -----------------------------------------------------------------------------


def test_a_context_is_the_same_after_a_crash() -> None:
    """A run that is repeated is told the same, under the same call id, with the labels of then."""
    shop = Shop()

    @tool(idempotent=True)
    def ship(context: Context[Shop]) -> str:
        """Ship."""
        context.app.note("shipped", context)
        if len(context.app.seen) == 1:
            there.stage.crash()
        return "shipped"

    there = shop_talk([[call("ship")], ["done"]], ship, shop=shop)
    there.session.send("go", message_id="m1")
    there.stage.run()
    there.reopen(app=shop)
    there.session.send("go", message_id="m1").result(10)

    first, second = shop.told()
    assert first == second


def test_a_probe_is_told_what_the_tool_was_told() -> None:
    """It can look the call up in the app's own books."""
    shop = Shop()

    def was_sent(call_id: str, arguments: Mapping[str, Any], context: Context[Shop]) -> Happened:
        assert (call_id, arguments) == (context.call_id, {})
        return Happened(context.app.note("found", context))

    @tool(on_doubt="probe", probe=was_sent)
    def send(context: Context[Shop]) -> str:
        """Send."""
        context.app.note("sent", context)
        there.stage.crash()
        return "sent"

    there = shop_talk([[call("send")], ["done"]], send, shop=shop)
    there.session.send("go", message_id="m1")
    there.stage.run()
    there.reopen(app=shop)
    there.session.send("go", message_id="m1").result(10)

    sent, found = shop.told()
    assert found == ("found", *sent[1:])
    assert there.model.results == [("success", "found")]


def test_a_client_has_an_id() -> None:
    """What is none is refused before anything is written."""
    there = talk([["done"]])

    with pytest.raises(Refused, match="client id"):
        there.stage.runtime.create_session(
            AgentSpec(role="helper", model="demo"), client_id="ada@example.org"
        )

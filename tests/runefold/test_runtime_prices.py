"""Rules about what a call costs: set aside by the model's price before it, and charged after it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
from actors.model import runes as models
from actors.model.provider import Done, Price, Text, Used
from actors.model.providers.scripted import fail, pause
from actors.units import counted
from runefold.spec import Budget
from runelog.errors import Refused
from runelog.replay import replay
from tests.runefold.talks import NAME, Raw, Strict, Talk, talk

if TYPE_CHECKING:
    from actors.model.providers.scripted import Reply

PRICE: Final = Price(input=3, output=15)
CAP: Final = 1_000


class Dear(Strict):
    """A scripted model that has its price."""

    price = PRICE


def says(*events: Any) -> Raw:  # noqa: ANN401 -- of any kind
    """Return a model that has its price and says this."""
    model = Raw(lambda _: iter((*events, Done())))
    model.price = PRICE  # type: ignore[attr-defined]  # what a provider may have
    return model


def asked(model: Any, **agent: Any) -> Talk:  # noqa: ANN401 -- a provider, and those of AgentSpec
    """Begin a conversation with a model of a price."""
    agent.setdefault("retries", 0)
    return talk(model, max_output_tokens=CAP, instructions="be kind " * 50, **agent)


def called(there: Talk) -> models.Called:
    """Return the last call of the model."""
    last = there.runes("model.called")[-1]
    assert isinstance(last, models.Called)
    return last


def charged(there: Talk) -> budgets.Settles:
    """Return the end of the last call, with its charge."""
    return there.settled()[-1]


def test_what_a_call_may_cost_is_set_aside_before_it() -> None:
    """For what is sent, and for as much as may be answered."""
    there = asked(Dear(["done"]))
    there.session.send("go").result(10)
    call = called(there)

    assert call.sent > 100
    assert call.reserved.cost == counted(PRICE.of(call.sent, CAP))


def test_a_call_that_may_cost_too_much_is_not_made() -> None:
    """Not even if it would have turned out to be cheap."""
    model = Dear(["done"])
    there = asked(model, budget=Budget(cost=0.015))
    result = there.session.send("go").result(10)
    [refused] = there.runes("budget.exhausted")

    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert isinstance(refused, budgets.Exhausted)
    assert (refused.what, refused.limit) == ("cost", 15_000)
    assert model.requests == []


def test_a_limit_of_cost_is_never_passed() -> None:
    """However long it goes on, and there is more of it than one call may cost."""
    limit = 0.05
    there = asked(says(Text("x"), Used(100, CAP)), budget=Budget(cost=limit))
    ends = [there.session.send("go").result(10).reason for _ in range(4)]
    there.stage.log.flush()
    found, _, _ = replay(there.stage.log, NAME, ledger.LIFECYCLE, entity="budget")
    account = ledger.find(found, "session")

    assert ends == ["", "", "", "budget_exhausted"]
    assert account is not None
    assert account.used.cost == 3 * counted(PRICE.of(100, CAP)) <= limit * 1_000_000


@pytest.mark.parametrize(
    ("used", "cost"),
    [
        (Used(70, 20), 70 * 3 + 20 * 15),
        (Used(70, 20, cost=0.01), 10_000),
        (Used(70, 20, Decimal("0.07")), 70_000),
        (Used(), 0),
    ],
    ids=str,
)
def test_what_was_used_is_charged_by_the_price_unless_the_provider_says(
    used: Used, cost: int
) -> None:
    """It knows its own bill best."""
    there = asked(says(Text("x"), used))
    there.session.send("go").result(10)

    assert charged(there).charged.cost == cost
    assert not charged(there).estimated


@pytest.mark.parametrize(
    ("used", "why"),
    [
        (Used(-5), "input_tokens=-5 was used: give a whole number"),
        (Used(10**30, 1), "was used: give a whole number"),
        (Used(1, 2.5), "output_tokens=2.5 was used: give a whole number"),  # type: ignore[arg-type]  # wrong on purpose
        (Used(None, 2), "input_tokens=None was used: give a whole number"),  # type: ignore[arg-type]  # as above
        (Used(cost="0.01"), "cost='0.01' was used: give a number, such as 0.01"),  # type: ignore[arg-type]  # as above
        (Used(cost=-0.01), "cost=-0.01 was used"),
        (Used(cost=float("nan")), "cost=nan was used"),
        (Used(cost=Decimal("Infinity")), "cost=Decimal('Infinity') was used"),
    ],
    ids=str,
)
def test_what_a_provider_cannot_have_used_is_an_error_in_the_rune(used: Used, why: str) -> None:
    """It is not passed over, as a limit would be that nothing counts against; it is estimated."""
    there = asked(says(Text("x"), used))
    result = there.session.send("go").result(10)

    assert (result.status, result.reason) == ("error", "bad_response")
    assert why in result.message
    assert charged(there).estimated


def test_money_may_be_given_as_decimals() -> None:
    """As most apps count it: limits, prices and what a call cost."""
    price = Price(input=Decimal("3.00"), output=Decimal(15))
    there = asked(says(Text("x"), Used(70, 20, Decimal("0.30"))), budget=Budget(cost=Decimal(1)))
    ends = [there.session.send("go").result(10).reason for _ in range(5)]
    there.session.replenish(agent=there.session.state.root, cost=Decimal("0.5"))

    assert price.of(1_000, 200) == PRICE.of(1_000, 200) == 0.006
    assert ends == ["", "", "", "", "budget_exhausted"]
    assert there.session.send("go").result(10).status == "completed"
    for wrong in ("NaN", "-1", "Infinity"):
        with pytest.raises(Refused, match="is no budget"):
            Budget(cost=Decimal(wrong))


BROKEN_OFF: Final[dict[str, Reply]] = {
    "fault": ["word" * 20, fail("down")],
    "silence": ["word" * 20, pause(1_000)],
    "interrupt": ["word" * 20, pause(50), "more"],
}


@pytest.mark.parametrize("how", BROKEN_OFF)
def test_what_broke_off_is_charged_for_what_was_sent_and_said(how: str) -> None:
    """By the price, as estimated."""
    there = asked(Dear(lambda _: BROKEN_OFF[how]))
    turn = there.session.send("go")
    there.stage.advance(10)
    if how == "interrupt":
        there.session.interrupt()
    turn.result(1_000)

    assert charged(there).estimated
    assert charged(there).charged.cost == counted(PRICE.of(called(there).sent, 20))


def test_a_call_in_doubt_is_charged_with_all_that_was_set_aside() -> None:
    """Nobody knows what it cost, so that nobody can say that it was less."""
    there = asked(Dear(lambda _: ["so ", pause(50), "so"]), on_crash="interrupt")
    there.session.send("go")
    there.stage.advance(10)
    there.reopen()
    there.stage.advance(100)

    end, call = charged(there), called(there)

    assert end.estimated
    assert end.charged.cost == call.reserved.cost == counted(PRICE.of(call.sent, CAP))


def test_a_model_without_a_price_is_charged_as_it_says() -> None:
    """Where cost is limited, it is asked only while something is left of it."""
    there = asked(Raw(lambda _: iter((Used(1, 1, cost=0.6), Done()))), budget=Budget(cost=1))
    ends = [there.session.send("go").result(10).reason for _ in range(3)]

    assert ends == ["", "", "budget_exhausted"]
    calls = [each for each in there.runes("model.called") if isinstance(each, models.Called)]
    assert [each.reserved.cost for each in calls] == [1, 1, 0]


@pytest.mark.parametrize(
    ("price", "why"),
    [
        (3, "the price of 'demo' is 3: give a Price of runefold.providers"),
        (Price(input=-1), "the input price of 'demo' is -1: give a positive number"),
        (Price(output=float("nan")), "the output price of 'demo' is nan"),
    ],
    ids=str,
)
def test_a_price_that_is_none_is_refused_at_once(price: Any, why: str) -> None:  # noqa: ANN401 -- that is the point
    """Before anybody asks the model."""
    model = Raw(lambda _: iter(()))
    model.price = price  # type: ignore[attr-defined]  # as above

    with pytest.raises(Refused, match=why):
        talk(model)

"""Rules about the law of a model call."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.budget import lifecycle as ledger
from actors.budget import runes as budget
from actors.budget.runes import Amounts
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.entity import Actor, Moved, Routing
from actors.model.kind import KIND
from actors.model.lifecycle import (
    LIFECYCLE,
    Begin,
    BreakOff,
    Command,
    Fail,
    Finish,
    Phase,
    State,
)
from actors.model.runes import AskedCall, AssistantDelta, Called, Cancelled, Completed, Failed
from runefold.testing.spec import Given
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import describe, fold, state_hash
from runelog.rune import Rune, kind_of

DRAWN = """
calling   | calling   | turn.assistant_delta
calling   | completed | model.completed
calling   | failed    | model.failed
calling   | cancelled | model.cancelled
"""
ROWS = {tuple(cell.strip() for cell in row.split("|")) for row in DRAWN.strip().splitlines()}

ID = "turn_1-r0-a0"
RESERVED = Amounts(tokens=5_000, cost=70)
SENT = Amounts(tokens=1_000, cost=70)
"""About what is sent."""
USED = Amounts(tokens=120, cost=2)
BY = 60_000
BORN = Called(
    model_call_id=ID,
    caller="turn_1",
    agent_id="agt_1",
    model="scripted",
    round=0,
    attempt=0,
    upto=7,
    prompt="hash",
    account="agt_1",
    reserved=RESERVED,
    first_byte_by=BY,
    sent=SENT.tokens,
)
COMPLETED = Completed(model_call_id=ID, usage=USED)
FAILED = Failed(model_call_id=ID, error_type="overloaded", retryable=True)
CANCELLED = Cancelled(model_call_id=ID, reason="steer")

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.CALLING: (BORN,),
    Phase.COMPLETED: (BORN, AssistantDelta("hello"), COMPLETED),
    Phase.FAILED: (BORN, FAILED),
    Phase.CANCELLED: (BORN, AssistantDelta("hel"), CANCELLED),
}
"""One way into each phase."""
SAMPLES: tuple[Rune, ...] = (AssistantDelta("x"), COMPLETED, FAILED, CANCELLED)
LATE = AssistantDelta

ENDS: tuple[Command, ...] = (
    Finish(),
    Finish(usage=USED, stop_reason="end"),
    Finish(calls=(AskedCall("call_a", "add"), AskedCall("call_b", "add")), usage=USED),
    Fail("overloaded", "try later", retryable=True, usage=USED),
    Fail("refused"),
    Fail("", said=0),
    Fail("cut_off", said=12),
    BreakOff("interrupt", USED),
    BreakOff("interrupt", said=12),
    BreakOff(""),
    Cancel("interrupt"),
    TimeUp(BY),
    Recover(),
    Abandon("its actors kept crashing"),
)
"""Each of these ends a call that is under way."""
NEVER_TOO_LATE = TimeUp | Recover | Abandon


def test_the_printed_table_is_the_one_drawn() -> None:
    """The picture and the law are the same, row for row."""
    shown = describe(LIFECYCLE)

    assert {(row.origin, row.to, row.on) for row in shown.transitions} == ROWS
    assert shown.initial == "calling"
    assert set(shown.terminal) == {"completed", "failed", "cancelled"}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("rune", SAMPLES, ids=kind_of)
def test_a_rune_leads_where_the_table_says_or_is_illegal(phase: Phase, rune: Rune) -> None:
    """In every phase every rune has its row, is a late fragment, or cannot be folded."""
    state = fold(LIFECYCLE, PAST[phase])
    drawn = {to for origin, to, on in ROWS if (origin, on) == (phase.value, kind_of(rune))}

    assert state.phase is phase
    if drawn:
        assert {LIFECYCLE.apply(state, rune).phase.value} == drawn
    elif isinstance(rune, LATE):
        assert LIFECYCLE.apply(state, rune) == state
    else:
        with pytest.raises(IllegalTransition):
            LIFECYCLE.apply(state, rune)


@pytest.mark.parametrize("command", ENDS, ids=repr)
def test_every_end_comes_once_with_its_charge(command: Command) -> None:
    """The rune that ends a call says what it is charged with, and comes once."""
    call = Given(LIFECYCLE, BORN)
    [end] = call.when(command)
    over = call.having(end)

    assert isinstance(end, Completed | Failed | Cancelled)
    assert end.key == BORN.key == ID
    assert LIFECYCLE.is_over(over.state)
    for late in ENDS:
        if isinstance(late, NEVER_TOO_LATE):
            assert over.when(late) == []
        else:
            with pytest.raises(Refused, match=r"^model is "):
                over.when(late)


def charge(end: Rune) -> tuple[Amounts, bool]:
    """Return what a call is charged with, and whether that is an estimate."""
    assert isinstance(end, budget.Settles)
    return end.charged, end.estimated


def usage(end: Rune) -> Amounts | None:
    """Return what the provider said that it used."""
    assert isinstance(end, Completed | Failed | Cancelled)
    return end.usage


ACCOUNT = ledger.State(scopes=(ledger.Scope("agt_1", limits=budget.Limits(tokens=6_000)),))


def test_a_call_begins_with_its_reservation() -> None:
    """Both are one rune: a crash cannot part them. It begins once."""
    call = Given(LIFECYCLE)
    begin = Begin(BORN, RESERVED.cost)

    assert call.when(begin, ACCOUNT) == [BORN]
    assert (BORN.key, BORN.account, BORN.reserved) == (ID, "agt_1", RESERVED)
    with pytest.raises(Refused):
        call.having(BORN).when(begin)


def test_another_account_may_pay() -> None:
    """A caller that is no agent's names the account that it spends from."""
    call = replace(BORN, agent_id="", account="session")
    account = ledger.State(scopes=(ledger.Scope("session"),))

    assert Given(LIFECYCLE).when(Begin(call, RESERVED.cost), account) == [call]
    with pytest.raises(Refused, match="there is no budget for session"):
        Given(LIFECYCLE).when(Begin(call, 0), ACCOUNT)


def test_a_call_that_cannot_be_afforded_fails_as_it_begins() -> None:
    """Nothing is set aside for it, and the provider is not asked."""
    spent = replace(ACCOUNT.scopes[0], used=Amounts(tokens=1_500))
    call = Given(LIFECYCLE)
    born, exhausted, failed = runes = call.when(Begin(BORN, 0), replace(ACCOUNT, scopes=(spent,)))

    assert born == replace(BORN, reserved=Amounts())
    assert exhausted == budget.Exhausted("agt_1", "tokens", 1_500, 6_000, ID)
    assert isinstance(failed, Failed)
    assert (failed.error_type, failed.retryable) == ("budget_exhausted", False)
    assert LIFECYCLE.is_over(call.having(born, failed).state)
    assert [KIND.route(State(), each).owner for each in runes[:2]] == [ID, "budget"]


def test_a_call_that_cannot_be_made_fails_as_it_begins() -> None:
    """What is missing goes before the budget: nothing is set aside, and no limit is named."""
    born, failed = Given(LIFECYCLE).when(Begin(BORN, 0, "unknown_model", "none"))

    assert born == replace(BORN, reserved=Amounts())
    assert failed == Failed(ID, "unknown_model", "none", trigger="unknown_model")


def test_what_a_call_costs_at_most_is_reserved() -> None:
    """Without a price it costs something where cost is limited, and nothing where it is not."""
    limited = ledger.State(scopes=(ledger.Scope("agt_1", limits=budget.Limits(cost=5)),))
    call = Given(LIFECYCLE)
    costs = {
        (cost, account): rune.reserved.cost
        for cost in (7, None)
        for account in (ACCOUNT, limited)
        for rune in call.when(Begin(BORN, cost), account)
        if isinstance(rune, Called)
    }

    assert costs == {(7, ACCOUNT): 7, (7, limited): 0, (None, ACCOUNT): 0, (None, limited): 1}


@pytest.mark.parametrize("command", ENDS, ids=repr)
def test_what_the_provider_says_was_used_is_what_counts(command: Command) -> None:
    """A known amount is charged as it is, however the call ended."""
    told = replace(command, usage=USED) if hasattr(command, "usage") else Finish(usage=USED)
    [end] = Given(LIFECYCLE, BORN).when(told)

    assert isinstance(end, Completed | Failed | Cancelled)
    assert charge(end) == (USED, False)
    assert end.usage == USED


@pytest.mark.parametrize("past", [(), (AssistantDelta("he"),)], ids=["nothing", "a fragment"])
@pytest.mark.parametrize("command", [Finish(), Fail("refused"), Cancel("steer"), Recover()])
def test_what_nobody_knows_counts_as_reserved(past: tuple[Rune, ...], command: Command) -> None:
    """After a crash, for one: all that was set aside, marked as estimated."""
    [end] = Given(LIFECYCLE, BORN, *past).when(command)

    assert charge(end) == (RESERVED, True)
    assert usage(end) is None


def test_a_provider_that_refuses_at_once_used_nothing() -> None:
    """It said no before it had said anything, and that is no estimate; a retry was one still."""
    refused = Fail("overloaded", retryable=True, said=0)
    again = replace(BORN, attempt=1, reserved=replace(RESERVED, retries=1))

    assert charge(*Given(LIFECYCLE, BORN).when(refused)) == (Amounts(), False)
    assert charge(*Given(LIFECYCLE, again).when(refused)) == (Amounts(retries=1), False)


def test_a_retry_is_charged_as_one_whatever_the_provider_says() -> None:
    """It knows of tokens, and we know that it was asked again; what it says is kept as it is."""
    again = replace(BORN, attempt=1, reserved=replace(RESERVED, retries=1))
    [end] = Given(LIFECYCLE, again).when(Finish(usage=USED))

    assert charge(end) == (replace(USED, retries=1), False)
    assert usage(end) == USED


@pytest.mark.parametrize(("told", "price", "cost"), [(0, 30, 30), (2, 30, 2), (0, None, 0)])
def test_what_was_used_costs_what_the_provider_says_or_else_its_price(
    told: int, price: int | None, cost: int
) -> None:
    """The charge has the price; what the provider said stays what it said."""
    said = Amounts(tokens=7, cost=told)
    [end] = Given(LIFECYCLE, BORN).when(Finish(usage=said, cost=price))

    assert charge(end) == (Amounts(tokens=7, cost=cost), False)
    assert usage(end) == said


@pytest.mark.parametrize(
    ("past", "command", "tokens"),
    [
        ((AssistantDelta(""),), Fail("cut_off", said=0), 1_000),
        ((AssistantDelta("h"),), Fail("cut_off", said=400), 1_100),
        ((), Fail("cut_off", said=400), 1_100),
        ((), BreakOff("interrupt", said=0), 1_000),
        ((AssistantDelta("a 0 "),), BreakOff("interrupt", said=4), 1_001),
        ((AssistantDelta("a 0 "),), BreakOff("interrupt", Amounts(tokens=-1), 4), 1_001),
        ((), TimeUp(BY), 1_000),
        ((), Finish(said=0), 1_000),
        ((AssistantDelta("h"),), Finish(said=401), 1_101),
        ((AssistantDelta("h"),), Finish(said=10**9), 5_000),
        ((), Finish((AskedCall("", "add"),), said=40), 1_010),
        ((AssistantDelta("h"),), Fail("timeout", said=10**9), 5_000),
    ],
    ids=str,
)
def test_where_nobody_says_what_was_used_it_is_what_was_sent_and_said(
    past: tuple[Rune, ...], command: Command, tokens: int
) -> None:
    """About that, marked as estimated; and never more than what was set aside for it."""
    [end] = Given(LIFECYCLE, BORN, *past).when(command)

    assert charge(end) == (replace(SENT, tokens=tokens), True)
    assert usage(end) is None


@pytest.mark.parametrize(("cost", "counts"), [(None, 7_000), (0, 0), (50, 50), (9_999, 7_000)])
@pytest.mark.parametrize("end", [Finish(), Fail("down"), BreakOff("stop")], ids=repr)
def test_what_it_cost_is_guessed_at_where_there_is_a_price(
    end: Finish | Fail | BreakOff, cost: int | None, counts: int
) -> None:
    """And never at more than what was set aside; without a price, at all of that."""
    dear = replace(BORN, reserved=replace(RESERVED, cost=7_000))
    charged, estimated = charge(*Given(LIFECYCLE, dear).when(replace(end, said=4, cost=cost)))

    assert (charged.cost, estimated) == (counts, True)


@pytest.mark.parametrize("command", ENDS, ids=repr)
def test_every_end_says_what_triggered_it(command: Command) -> None:
    """Also where the provider, or whoever stopped it, gave no reason."""
    [end] = Given(LIFECYCLE, BORN).when(command)

    assert isinstance(end, Moved)
    assert end.trigger


def test_an_amount_that_cannot_be_is_not_known() -> None:
    """A provider that says it used less than nothing is charged for as one that says nothing."""
    [end] = Given(LIFECYCLE, BORN).when(Finish(usage=Amounts(tokens=-1)))

    assert charge(end) == (RESERVED, True)
    assert usage(end) is None


def test_nothing_used_is_an_amount_too() -> None:
    """A call that never reached its provider is settled at nothing, and that is no estimate."""
    assert charge(*Given(LIFECYCLE, BORN).when(Fail("unreachable", usage=Amounts()))) == (
        Amounts(),
        False,
    )


def test_a_call_in_doubt_has_failed_and_may_be_made_again() -> None:
    """After a crash nobody knows what the provider did: the call is over, its turn may retry."""
    [failed] = Given(LIFECYCLE, BORN, AssistantDelta("he")).when(Recover())

    assert isinstance(failed, Failed)
    assert (failed.error_type, failed.retryable) == ("crash", True)
    assert charge(failed) == (RESERVED, True)


def test_the_first_byte_has_a_deadline() -> None:
    """Without a byte by then the call has failed and may be made again; before, nothing happens."""
    call = Given(LIFECYCLE, BORN)
    [failed] = call.when(TimeUp(BY))

    assert call.when(TimeUp(BY - 1)) == []
    assert isinstance(failed, Failed)
    assert (failed.error_type, failed.retryable, failed.actor) == ("timeout", True, "timeout")


@pytest.mark.parametrize("text", ["", "h"])
def test_a_byte_that_came_meets_the_deadline(text: str) -> None:
    """Once a fragment is there, be it empty, a clock that strikes late does no harm."""
    call = Given(LIFECYCLE, BORN, AssistantDelta(text))

    assert call.when(TimeUp(BY + 1)) == []


def test_silence_is_a_failure_like_any_other() -> None:
    """A watch that is in no log says `Fail`, and the log says that time was the cause."""
    call = Given(LIFECYCLE, BORN, AssistantDelta("h"))
    [failed] = call.when(Fail("timeout", "silent for 60 s", retryable=True))

    assert isinstance(failed, Failed)
    assert failed.actor == "timeout"


@pytest.mark.parametrize(
    ("reason", "actor"),
    [("steer", "user"), ("timeout", "timeout"), ("shutdown", "system")],
)
def test_whoever_had_it_stopped_is_named(reason: str, actor: Actor) -> None:
    """A user, the clock, or the system: whoever said so, whatever the reason."""
    for command in (Cancel(reason, actor), BreakOff(reason, said=4, actor=actor)):
        [cancelled] = Given(LIFECYCLE, BORN).when(command)

        assert isinstance(cancelled, Cancelled)
        assert (cancelled.trigger, cancelled.actor) == (reason, actor)


@pytest.mark.parametrize("ids", [("call_a", "call_a"), ("",), ("call a",), ("x" * 65,)])
def test_calls_without_ids_of_their_own_are_a_bad_answer(ids: tuple[str, ...]) -> None:
    """Such calls could not be told apart, so that the answer counts as a failure, not as calls."""
    asked = tuple(AskedCall(call_id, "add") for call_id in ids)
    [failed] = Given(LIFECYCLE, BORN).when(Finish(asked, USED))

    assert isinstance(failed, Failed)
    assert (failed.error_type, failed.retryable) == ("bad_response", True)
    assert charge(failed) == (USED, False)
    assert usage(failed) == USED


@pytest.mark.parametrize("command", ENDS, ids=repr)
def test_nothing_is_decided_before_the_birth(command: Command) -> None:
    """A call that nobody made cannot end."""
    with pytest.raises(Refused):
        Given(LIFECYCLE).when(command)


def test_runes_go_to_the_call_its_turn_and_the_budget() -> None:
    """Turn and budget observe birth and end, and no fragments."""
    state = fold(LIFECYCLE, [BORN])

    assert KIND.births == (Called,)
    assert KIND.route(State(), BORN) == Routing(ID, ("turn_1", "budget"))
    assert KIND.route(state, AssistantDelta("x")) == Routing(ID)
    assert KIND.route(state, COMPLETED) == Routing(ID, ("turn_1", "budget"))
    assert KIND.route(state, FAILED) == Routing(ID, ("turn_1", "budget"))
    assert KIND.route(state, CANCELLED) == Routing(ID, ("turn_1", "budget"))


def cut(text: str, at: set[int]) -> list[Rune]:
    """Return `text` as fragments that end at these places."""
    places = [0, *sorted(n for n in at if 0 < n < len(text)), len(text)]
    return [AssistantDelta(text[a:b]) for a, b in pairwise(places)]


cuts = st.sets(st.integers(0, 40))


@given(st.text(min_size=1, max_size=40), cuts, cuts)
def test_nothing_depends_on_how_fragments_are_grouped(
    text: str, one: set[int], other: set[int]
) -> None:
    """The same text in other pieces is the same state, hash for hash."""
    first = fold(LIFECYCLE, [BORN, *cut(text, one)])
    second = fold(LIFECYCLE, [BORN, *cut(text, other)])

    assert state_hash(first) == state_hash(second)


def test_a_long_answer_is_no_larger_than_a_short_one() -> None:
    """The state does not grow with the fragments."""
    short = fold(LIFECYCLE, [BORN, AssistantDelta("x")])
    long = fold(LIFECYCLE, (AssistantDelta("word ") for _ in range(50_000)), short)

    assert long == short


histories = st.tuples(
    st.lists(st.builds(AssistantDelta, st.text(max_size=5)), max_size=5),
    st.one_of(st.none(), st.sampled_from(SAMPLES[1:])),
    st.lists(st.builds(AssistantDelta, st.text(max_size=5)), max_size=2),
).map(lambda parts: [BORN, *parts[0], *([] if parts[1] is None else [parts[1]]), *parts[2]])


@given(histories, st.sampled_from(ENDS))
def test_whatever_happened_a_command_is_carried_out_once(past: list[Rune], end: Command) -> None:
    """A command leads to runes that can be folded, to none, or to a refusal; then to no more."""
    call = Given(LIFECYCLE, *past)
    try:
        runes = call.when(end)
    except Refused:
        runes = []
    over = call.having(*runes)

    assert len(runes) in {0, 1}
    if runes:
        try:
            again = over.when(end)
        except Refused:
            again = []
        assert again == []
        assert KIND.lifecycle.is_over(over.state)

"""Rules about the budget: an exact ledger that refuses before a limit is passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.budget import lifecycle as budget
from actors.budget import runes
from actors.budget.kind import KIND
from actors.budget.lifecycle import LIFECYCLE, Warn, check_amounts, check_limits
from actors.budget.runes import WHATS, Amounts, Limits
from actors.entity import ROOT, Routing
from actors.model import runes as model
from actors.tool import runes as tool
from actors.turn.runes import TimeReserved, TimeSettled
from runefold.testing.spec import Given
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import fold, state_hash
from tests.folding import cascade

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.budget.lifecycle import State
    from runelog.rune import Rune

OPENED: tuple[Rune, ...] = (
    runes.Opened(scope="session", limits=Limits(tokens=1_000, cost=500)),
    runes.Opened(scope="agt_a", limits=Limits(tokens=400, tool_calls=2), parent="session"),
    runes.Opened(scope="agt_b", limits=Limits(), parent="agt_a"),
)
"""A session, an agent and the agent's child."""


def tokens(number: int) -> Amounts:
    """Return so many tokens and nothing else."""
    return Amounts(tokens=number)


def begun(key: str, scope: str, amounts: Amounts) -> runes.Reserves:
    """Return a rune that begins what is paid for, of whichever entity."""
    return TimeReserved(key, 0, scope, amounts)


def ended(key: str, charged: Amounts, *, estimated: bool = False) -> runes.Settles:
    """Return the rune that ends it."""
    return TimeSettled(key, charged, estimated=estimated)


# -- what calls and sessions do to a budget, as their laws do it ---------------------------------


class Reserve(NamedTuple):
    """Set something aside for a call, if it can be afforded."""

    key: str
    scope: str
    amounts: Amounts


class Settle(NamedTuple):
    """Count what a call used; None if that is not known, then it is all that was set aside."""

    key: str
    used: Amounts | None = None


class Replenish(NamedTuple):
    """Raise the limits of an account."""

    scope: str
    amounts: Amounts


class Close(NamedTuple):
    """Close the account of an agent that is gone."""

    scope: str


Step: TypeAlias = Reserve | Settle | Replenish | Close


def decided(state: State, step: Step) -> list[Rune]:
    """Return the runes that another law decides for a step; a call is made and ended once."""
    under_way = {each.key: each for each in state.reservations}
    match step:
        case Reserve(key, scope, amounts):
            refused = budget.afford(state, begun(key, scope, amounts))
            if key in under_way:
                return []
            return [refused or begun(key, scope, amounts)]
        case Settle(key) if key not in under_way:
            return []
        case Settle(key, None):
            used = under_way[key].amounts
            return [ended(key, used, estimated=True)]
        case Settle(key, Amounts() as used):
            return [ended(key, used)]
        case Replenish(scope, amounts):
            return [runes.Replenished(scope=scope, amounts=amounts)]
        case Close(scope):
            return [runes.Closed(scope=scope)]
    raise AssertionError(step)


class Ledger:
    """A budget, and what others do to it; its warnings follow in the same append."""

    def __init__(self, past: Iterable[Rune] = OPENED) -> None:
        """Begin with what happened."""
        self.runes = tuple(past)
        self.state = fold(LIFECYCLE, self.runes)

    def when(self, step: Step) -> list[Rune]:
        """Return what a step leads to."""
        return cascade(KIND, "budget", self.state, decided(self.state, step))[1]

    def after(self, step: Step) -> Ledger:
        """Return the budget after a step."""
        return Ledger((*self.runes, *self.when(step)))


def of(state: State, scope: str) -> budget.Scope:
    """Return an account that must be there."""
    found = budget.find(state, scope)
    assert found is not None
    return found


def test_what_is_reserved_counts_against_every_ancestor() -> None:
    """A child's spending is its parent's too, and the session's."""
    state = Ledger().after(Reserve("k", "agt_b", tokens(100))).state

    assert [of(state, each).reserved.tokens for each in ("agt_b", "agt_a", "session")] == [100] * 3


def test_a_reservation_that_passes_the_limit_of_an_ancestor_is_refused() -> None:
    """The refusal names the limit that stands in the way, and nothing is set aside."""
    ledger = Ledger().after(Reserve("k", "agt_b", tokens(301)))
    refused = runes.Exhausted(scope="agt_a", what="tokens", used=301, limit=400, key="l")

    assert budget.afford(ledger.state, begun("l", "agt_b", tokens(99))) is None
    assert budget.afford(ledger.state, begun("l", "agt_b", tokens(100))) == refused
    assert ledger.when(Reserve("l", "agt_b", tokens(100))) == [refused]
    assert ledger.after(Reserve("l", "agt_b", tokens(100))).state == ledger.state


def test_a_limit_can_be_reached_and_not_passed() -> None:
    """The last token may be spent."""
    ledger = Ledger().after(Reserve("k", "agt_a", tokens(400)))

    assert budget.afford(ledger.state, begun("l", "agt_a", tokens(1))) is not None
    assert budget.afford(ledger.state, begun("l", "session", tokens(1))) is None


def test_only_what_is_asked_for_can_be_exhausted() -> None:
    """Who has no tokens left may still call a tool."""
    ledger = Ledger().after(Reserve("k", "agt_a", tokens(400)))

    assert budget.afford(ledger.state, begun("l", "agt_a", Amounts(tool_calls=2))) is None
    assert budget.afford(ledger.state, begun("l", "agt_a", Amounts(tool_calls=3))) is not None


def test_a_call_settles_once_and_frees_what_it_did_not_use() -> None:
    """What was used takes the place of what was set aside; a second settlement says nothing."""
    ledger = Ledger().after(Reserve("k", "agt_b", tokens(100)))
    settled = ledger.after(Settle("k", tokens(30)))

    assert ledger.when(Settle("k", tokens(30))) == [ended("k", tokens(30))]
    assert settled.when(Settle("k", tokens(30))) == []
    assert settled.when(Settle("never")) == []
    for scope in ("agt_b", "agt_a", "session"):
        assert of(settled.state, scope).used == tokens(30)
        assert of(settled.state, scope).reserved == Amounts()


def test_what_never_began_is_charged_with_nothing() -> None:
    """Its end changes no account; a charge for which nothing was set aside cannot be folded."""
    ledger = Ledger().after(Reserve("k", "agt_b", tokens(100)))
    denied = tool.Result(call_id="call_1", status="denied")

    assert LIFECYCLE.apply(ledger.state, denied) == ledger.state
    for charge in (ended("never", tokens(1)), tool.Result("k2", "success", charged=tokens(1))):
        with pytest.raises(IllegalTransition, match="and nothing is reserved for it"):
            LIFECYCLE.apply(ledger.state, charge)


def test_the_ends_of_calls_and_of_time_are_counted_alike() -> None:
    """Whichever entity owns the rune: what it reserves and what it is charged with is counted."""
    called = model.Called(
        model_call_id="m",
        caller="order_1",
        model="demo",
        upto=1,
        prompt="",
        reserved=tokens(50),
        first_byte_by=9,
        account="agt_b",
    )
    started = tool.Started(call_id="c", deadline=9, account="agt_b", reserved=Amounts(tool_calls=1))
    under_way = fold(LIFECYCLE, [*OPENED, called, started])
    over = fold(
        LIFECYCLE,
        [
            model.Failed("m", "crash", charged=tokens(50), estimated=True),
            tool.Result("c", "unknown", charged=Amounts(tool_calls=1), estimated=True),
        ],
        under_way,
    )

    assert [each.key for each in under_way.reservations] == ["m", "c"]
    assert of(under_way, "session").reserved == Amounts(tokens=50, tool_calls=1)
    assert over.reservations == ()
    assert of(over, "session").used == Amounts(tokens=50, tool_calls=1)


def test_more_than_was_reserved_is_told_as_it_is() -> None:
    """A settlement is a fact: it may pass a limit, and then nothing more is reserved."""
    ledger = Ledger().after(Reserve("k", "agt_a", tokens(100)))
    over = ledger.after(Settle("k", tokens(450)))

    assert of(over.state, "agt_a").used == tokens(450)
    assert budget.afford(over.state, begun("l", "agt_b", tokens(1))) is not None


@pytest.mark.parametrize(("amount", "warns"), [(319, False), (320, True), (400, True)])
def test_a_warning_comes_at_80_percent(amount: int, *, warns: bool) -> None:
    """What is used and reserved together is warned of when it reaches four fifths of a limit."""
    found = Ledger().when(Reserve("k", "agt_b", tokens(amount)))
    warning = runes.Warning(scope="agt_a", what="tokens", used=amount, limit=400)

    assert found[1:] == ([warning] if warns else [])


def test_a_warning_comes_once_and_again_after_replenishing() -> None:
    """Nobody is warned twice of the same limit; a raised one is another."""
    ledger = Ledger().after(Reserve("k", "agt_b", tokens(320)))
    more = ledger.after(Replenish("agt_a", tokens(100)))
    other = ledger.after(Replenish("agt_a", Amounts(tool_calls=1)))

    assert len(ledger.when(Reserve("l", "agt_b", tokens(1)))) == 1
    assert len(other.when(Reserve("l", "agt_b", tokens(1)))) == 1
    assert len(more.when(Reserve("l", "agt_b", tokens(79)))) == 1
    assert more.when(Reserve("l", "agt_b", tokens(80)))[1:] == [
        runes.Warning(scope="agt_a", what="tokens", used=400, limit=500)
    ]


def test_a_settlement_above_the_reservation_can_warn_too() -> None:
    """A limit comes near by what was used as well as by what is set aside."""
    ledger = Ledger().after(Reserve("k", "agt_a", tokens(10)))

    assert ledger.when(Settle("k", tokens(320)))[1:] == [
        runes.Warning(scope="agt_a", what="tokens", used=320, limit=400)
    ]


def test_a_scope_without_a_limit_still_has_none_after_replenishing() -> None:
    """Adding to infinity changes nothing."""
    ledger = Ledger().after(Replenish("agt_b", tokens(5)))

    assert of(ledger.state, "agt_b").limits == Limits()


def test_a_closed_account_leaves_its_spending_with_its_ancestors() -> None:
    """Children and calls under way go on with the next account up; nothing is counted twice."""
    ledger = (
        Ledger()
        .after(Reserve("k", "agt_a", tokens(100)))
        .after(Reserve("l", "agt_b", tokens(50)))
        .after(Close("agt_a"))
    )
    after = ledger.after(Settle("k", tokens(40))).after(Settle("l", tokens(20))).state

    assert [each.scope for each in after.scopes] == ["session", "agt_b"]
    assert of(after, "session").used == tokens(60)
    assert of(after, "session").reserved == Amounts()
    assert of(after, "agt_b").used == tokens(20)
    assert of(after, "agt_b").parent == "session"


@pytest.mark.parametrize(
    ("scope", "amounts"), [("agt_x", tokens(1)), ("agt_a", tokens(-1)), ("agt_b", Amounts(cost=-1))]
)
def test_what_cannot_be_counted_is_refused(scope: str, amounts: Amounts) -> None:
    """Unknown scopes and negative amounts never reach the ledger."""
    with pytest.raises(Refused):
        budget.afford(Ledger().state, begun("k", scope, amounts))


def test_negative_limits_and_amounts_are_refused() -> None:
    """What a session opens and raises accounts by is checked by the same rule."""
    with pytest.raises(Refused, match="a limit of -1 cost cannot be kept"):
        check_limits(Limits(cost=-1))
    with pytest.raises(Refused, match="tokens = -1 cannot be counted"):
        check_amounts(tokens(-1))
    assert check_limits(Limits(cost=0)) == Limits(cost=0)
    assert check_amounts(tokens(0)) == tokens(0)


def test_a_thing_is_limited_for_whom_an_ancestor_pays() -> None:
    """A child without limits of its own is limited by the accounts above it."""
    state = Ledger().state

    assert budget.is_limited(state, "agt_b", "cost")
    assert budget.is_limited(state, "agt_b", "tool_calls")
    assert not budget.is_limited(state, "session", "tool_calls")
    assert not budget.is_limited(state, "agt_b", "wall")


def test_session_and_agent_hear_of_limits_and_of_nothing_else() -> None:
    """Every call is booked; only what somebody must react to is told."""
    state = budget.State()
    warning = runes.Warning(scope="agt_a", what="cost", used=4, limit=5)
    raised = runes.Replenished(scope="session", amounts=tokens(1))

    assert KIND.route(state, warning) == Routing("budget", (ROOT, "agt_a"))
    assert KIND.route(state, raised) == Routing("budget", (ROOT, "session"))
    assert KIND.route(state, OPENED[0]) == Routing("budget")
    assert not KIND.is_open(state)
    assert LIFECYCLE.due(state) == []


# -- any story ---------------------------------------------------------------------------------

SCOPES = ("session", "agt_a", "agt_b")
KEYS = tuple(f"k{number}" for number in range(6))
amounts = st.builds(
    Amounts, tokens=st.integers(0, 300), tool_calls=st.integers(0, 2), cost=st.integers(0, 200)
)
commands: st.SearchStrategy[Step] = st.one_of(
    st.builds(Reserve, st.sampled_from(KEYS), st.sampled_from(SCOPES), amounts),
    st.builds(Settle, st.sampled_from(KEYS), st.none() | amounts),
    st.builds(Replenish, st.sampled_from(SCOPES), amounts),
)
modest: st.SearchStrategy[Step] = st.one_of(
    st.builds(Reserve, st.sampled_from(KEYS), st.sampled_from(SCOPES), amounts),
    st.builds(Settle, st.sampled_from(KEYS), st.none()),
)


def story(asked: Iterable[Step]) -> list[Rune]:
    """Return all runes that the commands lead to, one after the other."""
    ledger = Ledger()
    for command in asked:
        ledger = ledger.after(command)
    return list(ledger.runes)


def whole(values: Iterable[Amounts]) -> Amounts:
    """Return the sum, counted in another way than the law does."""
    found = list(values)
    return Amounts(**{what: sum(getattr(each, what) for each in found) for what in WHATS})


@given(st.lists(modest, max_size=40))
def test_no_limit_is_passed_by_reserving(asked: list[Step]) -> None:
    """As long as calls use no more than was set aside, no limit is ever passed."""
    state = fold(LIFECYCLE, story(asked))

    for scope in state.scopes:
        for what in WHATS:
            limit = getattr(scope.limits, what)
            assert limit is None or budget.spoken_for(scope, what) <= limit


@given(st.lists(commands, max_size=40))
def test_the_ledger_is_the_sum_of_what_happened(asked: list[Step]) -> None:
    """Used is what was settled, reserved is what is under way, for each scope with its children."""
    past = story(asked)
    state = fold(LIFECYCLE, past)
    below = {"session": SCOPES, "agt_a": ("agt_a", "agt_b"), "agt_b": ("agt_b",)}
    open_now: dict[str, runes.Reserves] = {}
    used: dict[str, list[Amounts]] = {scope: [] for scope in SCOPES}
    for rune in past:
        if isinstance(rune, runes.Reserves):
            assert rune.key not in open_now
            open_now[rune.key] = rune
        elif isinstance(rune, runes.Settles):
            used[open_now.pop(rune.key).account].append(rune.charged)

    sums = {scope: [each for child in below[scope] for each in used[child]] for scope in SCOPES}

    for scope in SCOPES:
        mine = [each.reserved for each in open_now.values() if each.account in below[scope]]
        assert of(state, scope).used == whole(sums[scope])
        assert of(state, scope).reserved == whole(mine)
    assert {each.key for each in state.reservations} == set(open_now)


@given(st.lists(commands, max_size=30), st.randoms(use_true_random=False))
def test_settling_in_any_order_gives_the_same_sums(asked: list[Step], order: object) -> None:
    """Nothing depends on which call came back first."""
    past = story(asked)
    state = fold(LIFECYCLE, past)
    ends = [ended(each.key, each.amounts) for each in state.reservations]
    shuffled = list(ends)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    one, other = fold(LIFECYCLE, ends, state), fold(LIFECYCLE, shuffled, state)

    assert state_hash(one) == state_hash(other)
    assert one.reservations == ()
    assert all(each.reserved == Amounts() for each in one.scopes)


@given(st.lists(commands, max_size=30), st.data())
def test_folding_in_two_goes_is_folding_in_one(asked: list[Step], data: st.DataObject) -> None:
    """A fold that goes on from a state ends where one from the beginning does, hash for hash."""
    past = story(asked)
    cut = data.draw(st.integers(0, len(past)))
    halves = fold(LIFECYCLE, past[cut:], fold(LIFECYCLE, past[:cut]))

    assert state_hash(halves) == state_hash(fold(LIFECYCLE, past))


@given(st.lists(commands, max_size=40))
def test_a_limit_is_warned_of_once_until_it_is_raised(asked: list[Step]) -> None:
    """Between two replenishments there is at most one warning of a limit."""
    warned: set[tuple[str, str]] = set()
    for rune in story(asked):
        if isinstance(rune, runes.Replenished):
            raised = {(rune.scope, what) for what in WHATS if getattr(rune.amounts, what)}
            warned -= raised
        elif isinstance(rune, runes.Warning):
            assert (rune.scope, rune.what) not in warned
            warned.add((rune.scope, rune.what))

    assert warned <= {(scope, what) for scope in SCOPES for what in WHATS}


def test_a_limit_that_is_near_is_due_to_be_warned_of_whoever_spent() -> None:
    """A rune that was written without its warning makes the warning due, once."""
    reserved = begun("k", "agt_b", Amounts(tool_calls=2))
    ledger = Given(LIFECYCLE, *OPENED, reserved)
    warned = runes.Warning(scope="agt_a", what="tool_calls", used=2, limit=2)

    assert ledger.due == [Warn("agt_a", "tool_calls")]
    assert ledger.when(Warn("agt_a", "tool_calls")) == [warned]
    assert ledger.having(warned).due == []
    assert ledger.when(Warn("agt_b", "tool_calls")) == []
    assert ledger.when(Warn("nobody", "tokens")) == []
    assert KIND.internal == {Warn}

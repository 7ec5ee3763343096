"""Rules about the budget: an exact ledger that refuses before a limit is passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.budget import lifecycle as budget
from actors.budget import runes
from actors.budget.commands import Close, Open, Replenish, Reserve, Settle, Warn
from actors.budget.lifecycle import ENTITY, LIFECYCLE
from actors.budget.runes import WHATS, Amounts, Limits
from actors.entity import Routing
from runefold.testing.spec import Given
from runelog.errors import Refused
from runelog.lifecycle import fold, state_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.budget.commands import Command
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


def of(state: State, scope: str) -> budget.Scope:
    """Return an account that must be there."""
    found = budget.find(state, scope)
    assert found is not None
    return found


def test_what_is_reserved_counts_against_every_ancestor() -> None:
    """A child's spending is its parent's too, and the session's."""
    state = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_b", tokens(100))).state

    assert [of(state, each).reserved.tokens for each in ("agt_b", "agt_a", "session")] == [100] * 3


def test_a_reservation_that_passes_the_limit_of_an_ancestor_is_refused() -> None:
    """The refusal names the limit that stands in the way, and nothing is set aside."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_b", tokens(301)))
    refused = runes.Exhausted(scope="agt_a", what="tokens", used=301, limit=400, key="l")

    assert budget.check(ledger.state, "agt_b", tokens(99)) is None
    assert budget.check(ledger.state, "agt_b", tokens(100), "l") == refused
    assert budget.reserve(ledger.state, "l", "agt_b", tokens(100)) == refused
    assert ledger.when(Reserve("l", "agt_b", tokens(100))) == [refused]
    assert ledger.after(Reserve("l", "agt_b", tokens(100))).state == ledger.state


def test_a_limit_can_be_reached_and_not_passed() -> None:
    """The last token may be spent."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_a", tokens(400)))

    assert isinstance(budget.reserve(ledger.state, "l", "agt_a", tokens(1)), runes.Exhausted)
    assert budget.reserve(ledger.state, "l", "session", tokens(1)) == [
        runes.Reserved(key="l", scope="session", amounts=tokens(1))
    ]


def test_only_what_is_asked_for_can_be_exhausted() -> None:
    """Who has no tokens left may still call a tool."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_a", tokens(400)))

    assert budget.check(ledger.state, "agt_a", Amounts(tool_calls=2)) is None
    assert budget.check(ledger.state, "agt_a", Amounts(tool_calls=3)) is not None


def test_reserving_twice_for_a_call_reserves_once() -> None:
    """A call that is under way is not charged again."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_a", tokens(10)))

    assert ledger.when(Reserve("k", "agt_a", tokens(10))) == []


def test_a_call_settles_once_and_frees_what_it_did_not_use() -> None:
    """What was used takes the place of what was set aside; a second settlement says nothing."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_b", tokens(100)))
    settled = ledger.after(Settle("k", tokens(30)))

    assert ledger.when(Settle("k", tokens(30))) == [runes.Settled(key="k", used=tokens(30))]
    assert settled.when(Settle("k", tokens(30))) == []
    assert settled.when(Settle("never")) == []
    for scope in ("agt_b", "agt_a", "session"):
        assert of(settled.state, scope).used == tokens(30)
        assert of(settled.state, scope).reserved == Amounts()


def test_what_nobody_knows_is_settled_at_the_reservation() -> None:
    """After a crash all that was set aside counts as used, and the rune says that it is a guess."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_b", tokens(100)))

    assert ledger.when(Settle("k")) == [runes.Settled(key="k", used=tokens(100), estimated=True)]


def test_more_than_was_reserved_is_told_as_it_is() -> None:
    """A settlement is a fact: it may pass a limit, and then nothing more is reserved."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_a", tokens(100)))
    over = ledger.after(Settle("k", tokens(450)))

    assert of(over.state, "agt_a").used == tokens(450)
    assert isinstance(budget.reserve(over.state, "l", "agt_b", tokens(1)), runes.Exhausted)


@pytest.mark.parametrize(("amount", "warns"), [(319, False), (320, True), (400, True)])
def test_a_warning_comes_at_80_percent(amount: int, *, warns: bool) -> None:
    """What is used and reserved together is warned of when it reaches four fifths of a limit."""
    found = Given(LIFECYCLE, *OPENED).when(Reserve("k", "agt_b", tokens(amount)))
    warning = runes.Warning(scope="agt_a", what="tokens", used=amount, limit=400)

    assert found[1:] == ([warning] if warns else [])


def test_a_warning_comes_once_and_again_after_replenishing() -> None:
    """Nobody is warned twice of the same limit; a raised one is another."""
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_b", tokens(320)))
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
    ledger = Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_a", tokens(10)))

    assert ledger.when(Settle("k", tokens(320)))[1:] == [
        runes.Warning(scope="agt_a", what="tokens", used=320, limit=400)
    ]


def test_a_scope_without_a_limit_still_has_none_after_replenishing() -> None:
    """Adding to infinity changes nothing."""
    ledger = Given(LIFECYCLE, *OPENED).after(Replenish("agt_b", tokens(5)))

    assert of(ledger.state, "agt_b").limits == Limits()


def test_a_closed_account_leaves_its_spending_with_its_ancestors() -> None:
    """Children and calls under way go on with the next account up; nothing is counted twice."""
    ledger = (
        Given(LIFECYCLE, *OPENED)
        .after(Reserve("k", "agt_a", tokens(100)))
        .after(Reserve("l", "agt_b", tokens(50)))
        .after(Close("agt_a"))
    )
    after = ledger.after(Settle("k", tokens(40))).after(Settle("l", tokens(20))).state

    assert ledger.when(Close("agt_a")) == []
    assert [each.scope for each in after.scopes] == ["session", "agt_b"]
    assert of(after, "session").used == tokens(60)
    assert of(after, "session").reserved == Amounts()
    assert of(after, "agt_b").used == tokens(20)
    assert of(after, "agt_b").parent == "session"


@pytest.mark.parametrize(
    "command",
    [
        Reserve("k", "agt_x", tokens(1)),
        Reserve("k", "agt_a", tokens(-1)),
        Replenish("agt_x", tokens(1)),
        Replenish("agt_a", tokens(-1)),
        Open("agt_c", parent="agt_x"),
        Open("agt_c", Limits(cost=-1), "session"),
    ],
)
def test_what_cannot_be_counted_is_refused(command: Command) -> None:
    """Unknown scopes and negative amounts never reach the ledger."""
    with pytest.raises(Refused):
        Given(LIFECYCLE, *OPENED).when(command)


def test_a_negative_settlement_is_refused() -> None:
    """Nobody earns by calling."""
    with pytest.raises(Refused):
        Given(LIFECYCLE, *OPENED).after(Reserve("k", "agt_a", tokens(1))).when(
            Settle("k", tokens(-1))
        )


def test_an_account_opens_once() -> None:
    """Opening it again neither empties it nor changes its limits."""
    assert Given(LIFECYCLE, *OPENED).when(Open("agt_a", Limits(tokens=9), "session")) == []


def test_session_and_agent_hear_of_limits_and_of_nothing_else() -> None:
    """Every call is booked; only what somebody must react to is told."""
    state = budget.State()
    warning = runes.Warning(scope="agt_a", what="cost", used=4, limit=5)
    raised = runes.Replenished(scope="session", amounts=tokens(1))

    assert ENTITY.route(state, warning) == Routing("budget", ("session", "agt_a"))
    assert ENTITY.route(state, raised) == Routing("budget", ("session",))
    assert ENTITY.route(state, runes.Settled(key="k", used=tokens(1))) == Routing("budget")
    assert not ENTITY.is_open(state)
    assert LIFECYCLE.due(state) == []


# -- any story ---------------------------------------------------------------------------------

SCOPES = ("session", "agt_a", "agt_b")
KEYS = tuple(f"k{number}" for number in range(6))
amounts = st.builds(
    Amounts, tokens=st.integers(0, 300), tool_calls=st.integers(0, 2), cost=st.integers(0, 200)
)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Reserve, st.sampled_from(KEYS), st.sampled_from(SCOPES), amounts),
    st.builds(Settle, st.sampled_from(KEYS), st.none() | amounts),
    st.builds(Replenish, st.sampled_from(SCOPES), amounts),
)
modest: st.SearchStrategy[Command] = st.one_of(
    st.builds(Reserve, st.sampled_from(KEYS), st.sampled_from(SCOPES), amounts),
    st.builds(Settle, st.sampled_from(KEYS), st.none()),
)


def story(asked: Iterable[Command]) -> list[Rune]:
    """Return all runes that the commands lead to, one after the other."""
    ledger = Given(LIFECYCLE, *OPENED)
    for command in asked:
        ledger = ledger.after(command)
    return list(ledger.runes)


def whole(values: Iterable[Amounts]) -> Amounts:
    """Return the sum, counted in another way than the law does."""
    found = list(values)
    return Amounts(**{what: sum(getattr(each, what) for each in found) for what in WHATS})


@given(st.lists(modest, max_size=40))
def test_no_limit_is_passed_by_reserving(asked: list[Command]) -> None:
    """As long as calls use no more than was set aside, no limit is ever passed."""
    state = fold(LIFECYCLE, story(asked))

    for scope in state.scopes:
        for what in WHATS:
            limit = getattr(scope.limits, what)
            assert limit is None or budget.spoken_for(scope, what) <= limit


@given(st.lists(commands, max_size=40))
def test_the_ledger_is_the_sum_of_what_happened(asked: list[Command]) -> None:
    """Used is what was settled, reserved is what is under way, for each scope with its children."""
    past = story(asked)
    state = fold(LIFECYCLE, past)
    below = {"session": SCOPES, "agt_a": ("agt_a", "agt_b"), "agt_b": ("agt_b",)}
    open_now: dict[str, runes.Reserved] = {}
    used: dict[str, list[Amounts]] = {scope: [] for scope in SCOPES}
    for rune in past:
        if isinstance(rune, runes.Reserved):
            assert rune.key not in open_now
            open_now[rune.key] = rune
        elif isinstance(rune, runes.Settled):
            used[open_now.pop(rune.key).scope].append(rune.used)

    sums = {scope: [each for child in below[scope] for each in used[child]] for scope in SCOPES}

    for scope in SCOPES:
        mine = [each.amounts for each in open_now.values() if each.scope in below[scope]]
        assert of(state, scope).used == whole(sums[scope])
        assert of(state, scope).reserved == whole(mine)
    assert {each.key for each in state.reservations} == set(open_now)


@given(st.lists(commands, max_size=30), st.randoms(use_true_random=False))
def test_settling_in_any_order_gives_the_same_sums(asked: list[Command], order: object) -> None:
    """Nothing depends on which call came back first."""
    past = story(asked)
    state = fold(LIFECYCLE, past)
    ends = [runes.Settled(key=each.key, used=each.amounts) for each in state.reservations]
    shuffled = list(ends)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    one, other = fold(LIFECYCLE, ends, state), fold(LIFECYCLE, shuffled, state)

    assert state_hash(one) == state_hash(other)
    assert one.reservations == ()
    assert all(each.reserved == Amounts() for each in one.scopes)


@given(st.lists(commands, max_size=40))
def test_a_limit_is_warned_of_once_until_it_is_raised(asked: list[Command]) -> None:
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
    reserved = runes.Reserved(key="k", scope="agt_b", amounts=Amounts(tool_calls=2))
    ledger = Given(LIFECYCLE, *OPENED, reserved)
    warned = runes.Warning(scope="agt_a", what="tool_calls", used=2, limit=2)

    assert ledger.due == [Warn("agt_a", "tool_calls")]
    assert ledger.when(Warn("agt_a", "tool_calls")) == [warned]
    assert ledger.having(warned).due == []
    assert ledger.when(Warn("agt_b", "tool_calls")) == []
    assert ledger.when(Warn("nobody", "tokens")) == []
    assert ENTITY.internal == budget.INTERNAL

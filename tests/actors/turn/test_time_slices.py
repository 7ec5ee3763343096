"""Rules about how much time is set aside at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.budget.lifecycle import LIFECYCLE, State
from actors.budget.runes import Amounts, Exhausted, Limits, Opened
from actors.turn.runes import TimeReserved, TimeSettled
from actors.turn.time_slices import PARTS, SHORTEST, TimeSlice, begin_slice, end_slice, slice_length
from runelog.lifecycle import fold

SESSION, AGENT = "session", "agt_1"


def books(session: int | None, agent: int | None, *more: TimeReserved | TimeSettled) -> State:
    """Return a budget with these limits on time, in nanoseconds."""
    return fold(
        LIFECYCLE,
        [
            Opened(scope=SESSION, limits=Limits(wall=session)),
            Opened(scope=AGENT, limits=Limits(wall=agent), parent=SESSION),
            *more,
        ],
    )


def aside(wall: int, key: str = "a") -> TimeReserved:
    """Set time aside for the agent."""
    return TimeReserved(key, 0, AGENT, Amounts(wall=wall))


def test_a_slice_is_a_small_part_of_the_tightest_limit() -> None:
    """Whoever pays has a say: the agent, and everybody above it."""
    minute = 60 * SHORTEST

    assert slice_length(books(None, minute), AGENT) == minute // PARTS
    assert slice_length(books(minute, None), AGENT) == minute // PARTS
    assert slice_length(books(minute, 10 * minute), AGENT) == minute // PARTS
    assert slice_length(books(10 * minute, minute), AGENT) == minute // PARTS


def test_it_is_no_shorter_than_it_need_be_and_no_longer_than_what_is_left() -> None:
    """A tight limit is not cut into splinters; the last slice is what there is."""
    assert slice_length(books(None, 5 * SHORTEST), AGENT) == SHORTEST
    assert slice_length(books(None, 5), AGENT) == 5
    assert slice_length(books(None, 5 * SHORTEST, aside(5 * SHORTEST - 7)), AGENT) == 7
    assert slice_length(books(100 * SHORTEST, None, aside(100 * SHORTEST - 9)), AGENT) == 9


def test_there_is_none_where_nothing_is_left_or_limited() -> None:
    """Nothing is left, not even if more was used than there was; nobody limits it."""
    over = TimeSettled("a", Amounts(wall=9))

    assert slice_length(books(None, 5, aside(5)), AGENT) == 0
    assert slice_length(books(None, 5, aside(5), over), AGENT) == 0
    assert slice_length(books(None, None), AGENT) == 0


@given(
    st.integers(1, 10**12),
    st.integers(1, 10**12),
    st.lists(st.floats(0, 1), max_size=60),
)
def test_slice_by_slice_a_limit_is_reached_and_never_passed(
    session: int, agent: int, parts: list[float]
) -> None:
    """Whatever part of each slice is used, there is room for the next one until there is none."""
    state = books(session, agent)
    for number, part in enumerate(parts):
        length, key = slice_length(state, AGENT), f"w{number}"
        [begun] = begin_slice(None, key, AGENT, 0, state)
        if not length:
            assert isinstance(begun, Exhausted)
            break
        assert begun == TimeReserved(key, length, AGENT, Amounts(wall=length))
        [ended] = end_slice(TimeSlice(key, length, length), round(length * part))
        state = fold(LIFECYCLE, [begun, ended], state)
    spent = [each.used.wall for each in state.scopes]

    assert spent[0] == spent[1] <= min(session, agent)
    assert slice_length(state, AGENT) or spent[0] == min(session, agent)

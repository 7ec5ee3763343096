"""What an append notes of the streams it touches is what a reader is led to."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from runelog.index.records import MAX_COUNT, Tail, runs_in

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = b"\0\0\0\1book_1\0"
STRETCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 7, 1 << 33]),
        st.one_of(st.integers(1, 5), st.sampled_from([MAX_COUNT - 1, MAX_COUNT, 2 * MAX_COUNT])),
    ),
    min_size=1,
    max_size=200,
)


@given(stretches=STRETCHES, first=st.integers(1, 1_000))
def test_postings_lead_to_every_rune(stretches: list[tuple[int, int]], first: int) -> None:
    """However runes lie, in a row or far apart, their runs tell of each once and in order."""
    tail = Tail(PREFIX, first)
    position, expected = 1, []
    for gap, count in stretches:
        position += gap
        tail.add(position, count)
        expected.append((position, count))
        position += count

    found = [run for key, chunk in tail.chunks() for run in runs_in(key, chunk)]

    assert found[0].first == first
    assert all(b.first == a.first + a.length for a, b in itertools.pairwise(found))
    assert joined((run.position, run.length) for run in found) == joined(expected)
    assert max(run.length for run in found) <= MAX_COUNT


def joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return stretches with those that follow each other as one."""
    whole: list[tuple[int, int]] = []
    for position, count in stretches:
        if whole and sum(whole[-1]) == position:
            whole[-1] = (whole[-1][0], whole[-1][1] + count)
        else:
            whole.append((position, count))
    return whole

"""What is known of many names in few bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runelog.index.stream_filter import StreamFilter


def _size(seen: StreamFilter) -> int:
    return sum(map(len, seen._parts))


@given(st.lists(st.text(max_size=64), max_size=2_000))
def test_what_was_added_is_known(names: list[str]) -> None:
    """None is ever taken for new, whatever it is called."""
    seen = StreamFilter()
    seen.add(names[: len(names) // 2])
    seen.add(names[len(names) // 2 :])

    assert all(name in seen for name in names)


def test_what_was_not_added_is_mostly_known_to_be_new() -> None:
    """With any number of names, from the first to thousands."""
    seen, wrong = StreamFilter(), []
    for start in range(0, 6_000, 500):
        wrong.append(sum(f"turn_{number}" in seen for number in range(start, start + 500)))
        seen.add(f"turn_{number}" for number in range(start, start + 500))

    assert wrong[0] == 0
    assert max(wrong) <= 100


def test_it_takes_no_more_than_a_few_bytes_a_name() -> None:
    """A conversation of few streams takes little, and one of thousands two bytes for each."""
    sizes = []
    for count in (1, 256, 1_000, 20_000):
        seen = StreamFilter()
        seen.add(f"turn_{number}" for number in range(count))
        sizes.append(_size(seen))

    assert sizes[:2] == [256, 256]
    assert sizes[2] <= 2_000
    assert sizes[3] <= 40_000

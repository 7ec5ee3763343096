"""Rules about frames: a rune that was damaged, moved or swapped is never taken for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.errors import Corrupt
from runelog.index import frame

HERE, THERE = "conv_here", "conv_there"
SEED = frame.seed_of(HERE)
AT = 77
BODIES = [b"the first", b"", b"\x00\x00\x00\x00", b"the last of them"]
HEADER = 30
NUMBER_BITS = range(32)

bodies_of_a_frame = st.lists(st.binary(max_size=200), min_size=1, max_size=20)
event_ids = st.integers(1, 2**64 - 100)
times = st.integers(-(2**63), 2**63 - 1)


def flipped(data: bytes, bit: int) -> bytes:
    """Return `data` with one bit changed."""
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@given(st.integers(0, 2**32 - 1), event_ids, times, bodies_of_a_frame)
def test_a_frame_gives_back_what_was_packed(
    number: int, first: int, time: int, bodies: list[bytes]
) -> None:
    """Whatever the numbers and the bodies, unpacking gives them back."""
    data = frame.pack(number, SEED, AT, first, time, bodies)

    assert frame.unpack(data, HERE, SEED, AT) == (number, first, time, bodies)
    assert frame.salvage(data, HERE, SEED, AT) == (number, first, time, bodies)
    assert (frame.number(data), frame.first_event(data), frame.count(data)) == (
        number,
        first,
        len(bodies),
    )


@pytest.mark.parametrize("first", [1, 255, 2**32 - 2, 2**32 + 1, 2**40])
def test_every_flipped_bit_is_found(first: int) -> None:
    """No single bit of a frame can change without being noticed."""
    data = frame.pack(3, SEED, AT, first, 1_700_000_000_000_000_000, BODIES)

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            frame.unpack(bytes(damaged), HERE, SEED, AT)


def test_a_damaged_body_costs_only_itself() -> None:
    """Salvage keeps every rune but the one that was hit, and unpack names that one."""
    data = frame.pack(3, SEED, AT, 10, 0, BODIES)
    start = HEADER + 8 * len(BODIES)

    damaged = flipped(data, start * 8)
    assert frame.salvage(damaged, HERE, SEED, AT).bodies == [None, *BODIES[1:]]
    with pytest.raises(Corrupt, match="rune 10 of conv_here") as caught:
        frame.unpack(damaged, HERE, SEED, AT)
    assert (caught.value.conversation, caught.value.event_id) == (HERE, 10)

    damaged = flipped(data, len(data) * 8 - 1)
    assert frame.salvage(damaged, HERE, SEED, AT).bodies == [*BODIES[:-1], None]
    with pytest.raises(Corrupt, match="rune 13 of conv_here"):
        frame.unpack(damaged, HERE, SEED, AT)


@given(bodies_of_a_frame, st.data())
def test_a_frame_cut_short_or_with_more_behind_it_is_corrupt(
    bodies: list[bytes], data: st.DataObject
) -> None:
    """A frame is as long as it says, to the byte."""
    packed = frame.pack(3, SEED, AT, 1, 0, bodies)
    cut = data.draw(st.integers(0, len(packed) - 1))
    more = data.draw(st.binary(min_size=1, max_size=20))

    with pytest.raises(Corrupt):
        frame.unpack(packed[:cut], HERE, SEED, AT)
    with pytest.raises(Corrupt):
        frame.unpack(packed + more, HERE, SEED, AT)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_frame_are_corrupt_or_harmless(data: bytes) -> None:
    """Whatever the bytes, the answer is `Corrupt`, never another error and never a rune."""
    with pytest.raises(Corrupt):
        frame.unpack(data, HERE, SEED, AT)


@given(st.binary(min_size=22, max_size=22), st.integers(1, 3), st.binary(max_size=100))
def test_a_hostile_header_costs_no_more_than_the_frame(
    header: bytes, count: int, rest: bytes
) -> None:
    """Lengths that point anywhere are found out before anything is read there."""
    data = header[:20] + count.to_bytes(2, "little") + b"\xff" * (8 * count) + rest

    with pytest.raises(Corrupt):
        frame.unpack(data, HERE, SEED, AT)


@given(bodies_of_a_frame, event_ids, times, times)
def test_a_frame_does_not_pass_for_another_place_or_time(
    bodies: list[bytes], first: int, time: int, other: int
) -> None:
    """Copied to another conversation, event, position or time, its runes do not match."""
    data = frame.pack(3, SEED, AT, first, time, bodies)
    moved = frame.pack(3, SEED, AT, first + 1, time, bodies)

    with pytest.raises(Corrupt):
        frame.unpack(data, THERE, frame.seed_of(THERE), AT)
    with pytest.raises(Corrupt):
        frame.unpack(moved[:HEADER] + data[HEADER:], HERE, SEED, AT)
    with pytest.raises(Corrupt):
        frame.unpack(data, HERE, SEED, AT + 1)
    if other != time:
        later = frame.pack(3, SEED, AT, first, other, bodies)
        with pytest.raises(Corrupt):
            frame.unpack(later[:HEADER] + data[HEADER:], HERE, SEED, AT)


def test_two_runes_cannot_change_places() -> None:
    """Runes of one frame that were swapped, with their checksums, are both found."""
    one, other = b"alike in length", b"length in alike"
    data = frame.pack(3, SEED, AT, 1, 0, [one, other])
    first, second = data[HEADER : HEADER + 8], data[HEADER + 8 : HEADER + 16]
    swapped = data[:HEADER] + second + first + other + one

    assert frame.salvage(swapped, HERE, SEED, AT).bodies == [None, None]


def test_an_empty_frame_is_corrupt() -> None:
    """No append makes a frame without runes, so one that says it has none is damaged."""
    with pytest.raises(Corrupt, match="damaged header"):
        frame.unpack(frame.pack(3, SEED, AT, 1, 0, []), HERE, SEED, AT)


@given(st.lists(st.binary(max_size=700), min_size=1, max_size=60))
def test_splitting_loses_nothing_and_keeps_frames_small(bodies: list[bytes]) -> None:
    """The runs of a split are the bodies in their order, none empty, none far too large."""
    runs = list(frame.split(bodies))

    assert [body for run in runs for body in run] == bodies
    assert all(runs)
    most = frame.TARGET + max(map(len, bodies)) + 8
    assert all(sum(len(body) + 8 for body in run) <= most for run in runs)


def test_a_run_never_holds_more_runes_than_a_frame_can_count() -> None:
    """Even of empty bodies a frame takes only as many as its header can say."""
    runs = list(frame.split([b""] * (frame.MAX_RUNES + 1)))

    assert max(map(len, runs)) <= frame.MAX_RUNES
    assert sum(map(len, runs)) == frame.MAX_RUNES + 1


def test_a_body_larger_than_the_target_has_a_frame_to_itself() -> None:
    """A large rune neither waits for others nor takes them along."""
    large = b"x" * (2 * frame.TARGET)

    assert [list(run) for run in frame.split([b"a", large, b"b", b"c"])] == [
        [b"a"],
        [large],
        [b"b", b"c"],
    ]

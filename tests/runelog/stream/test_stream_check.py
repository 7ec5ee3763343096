"""Rules about taking a stream in: what is damaged, cut short or hostile is always `BadStream`."""

from __future__ import annotations

import io
import struct
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.blobs import MemoryBlobs
from runelog.errors import NewerFormat
from runelog.stream.block_format import MAGIC, START, BlockWriter, Kind
from runelog.stream.stream_blocks import Entry, Header, Opening, pack, pack_runes
from runelog.stream.stream_check import check_stream
from runelog.stream.streams import Source, StreamReader
from tests.runelog.streams import Filed, Hostile, entries, refused, said, sample, written

SMALL = written(Source("conv_a", said("one", "two")), Source("conv_b", said("three")))


# -- sound streams -----------------------------------------------------------------------------


def test_a_sound_stream_is_vouched_for() -> None:
    """What the writer writes passes, also by a writer's own blocks put together by hand."""
    hostile = Hostile()
    hostile.whole(said("one"))

    assert check_stream(io.BytesIO(SMALL)).totals.runes == 3
    assert check_stream(io.BytesIO(sample())).totals.blobs == 1
    assert check_stream(io.BytesIO(hostile.done())).totals.conversations == 1
    assert check_stream(io.BytesIO(written())).totals.runes == 0


# -- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0x01, 0x10, 0x80, 0xFF])
def test_every_altered_byte_is_found(mask: int) -> None:
    """Whichever byte is altered, the stream is refused."""
    for at in range(len(SMALL)):
        data = bytearray(SMALL)
        data[at] ^= mask
        refused(bytes(data), "at byte")


def test_every_cut_is_found() -> None:
    """Wherever it is cut, the stream is refused."""
    for size in range(len(SMALL)):
        refused(SMALL[:size], "at byte")


@pytest.mark.parametrize("garbage", [b"\0", b"\n", SMALL])
def test_nothing_may_follow_the_trailer(garbage: bytes) -> None:
    """A stream ends with its trailer, even if another one follows."""
    refused(SMALL + garbage, f"at byte {len(SMALL):,}, something follows the trailer")


@given(st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    """Bytes that are no stream, with and without the right beginning, are refused."""
    refused(noise)
    refused(SMALL[:START] + noise)


@given(st.data())
def test_spliced_streams_are_refused(data: st.DataObject) -> None:
    """Any stretch taken out, repeated or moved is found."""
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(SMALL))] * 2)))
    target = data.draw(st.integers(0, len(SMALL)))
    stretch, rest = SMALL[low:high], SMALL[:low] + SMALL[high:]
    for changed in (
        rest,
        SMALL[:target] + stretch + SMALL[target:],
        rest[:target] + stretch + rest[target:],
    ):
        if changed != SMALL:
            refused(changed)


def test_a_later_version_is_named() -> None:
    """A stream of a later format is refused as such, however the rest of it looks."""
    start = MAGIC + (2).to_bytes(4, "little")
    data = start + struct.pack("<I", crc32(start)) + b"who knows"

    with pytest.raises(NewerFormat, match="format 2, this version reads 1"):
        check_stream(io.BytesIO(data))
    with pytest.raises(NewerFormat):
        StreamReader(io.BytesIO(data))


# -- blocks that are sound by themselves -------------------------------------------------------


def spread(*texts: str) -> list[list[Entry]]:
    """Return runes, one to a block."""
    return [[entry] for entry in said(*texts)]


def test_blocks_out_of_order_are_refused() -> None:
    """Events come as 1, 2, 3: swapped, repeated and missing blocks are found by their ids."""
    first, second, third = spread("one", "two", "three")
    for order in ([second, first], [first, third], [first, first], [first, second, second]):
        hostile = Hostile()
        index = hostile.open()
        for block in order:
            hostile.runes(index, block)
        hostile.close(index.section(0))
        refused(hostile.done(), r"event \d comes where \d should")


def test_positions_rise_from_block_to_block() -> None:
    """A position that does not rise is found, within a block and between blocks."""
    first, second = said("one", "two")
    apart = Hostile()
    index = apart.open()
    apart.runes(index, [first])
    apart.runes(index, [second._replace(position=first.position)])
    apart.close(index.section(0))

    refused(apart.done(), "positions do not rise")
    together = Hostile()
    together.whole([first, second._replace(position=first.position)])
    refused(together.done(), "positions do not rise")


def test_a_conversation_comes_once() -> None:
    """The same conversation twice, or conversations out of order, are refused."""
    for names in (("conv_a", "conv_a"), ("conv_b", "conv_a")):
        hostile = Hostile()
        for name in names:
            hostile.whole(said("one"), name)
        refused(hostile.done(), "comes twice, or not in order")


def test_a_blob_belongs_to_the_conversation_that_it_came_in() -> None:
    """What another conversation brought along is not there for the next one, as in a log."""
    blobs = MemoryBlobs()
    content = b"x" * 1_100_000
    hostile = Hostile()
    for name in ("conv_a", "conv_b"):
        found = entries([Filed(name="a", content=content)], conversation=name, blobs=blobs)
        index = hostile.open(name)
        if name == "conv_a":
            hostile.blob(index, content)
        hostile.runes(index, found)
        hostile.close(index.section(hostile.previous))

    refused(hostile.done(), "rune 1 of conv_b .* which does not come before it")


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65, "a\0b", "é"])
def test_ids_are_checked(name: str) -> None:
    """An id that no log would accept is refused."""
    hostile = Hostile()
    hostile.whole(said("one"), name)

    refused(hostile.done(), "is not a valid conversation id")


def test_counts_are_checked() -> None:
    """A trailer that counts wrongly is refused, whichever number it is."""
    for wrong in range(4):
        hostile = Hostile()
        hostile.whole(said("one"))
        if wrong == 3:
            hostile.previous += 1
        else:
            hostile.counts[wrong] += 1
        refused(hostile.done(), "the trailer does not match")


@pytest.mark.parametrize(
    "change",
    [
        {"last": 3},
        {"last": 0},
        {"last": 2**63},
        {"first": 2},
        {"first_time": 7},
        {"last_time": -1},
        {"size": 0},
        {"start": 0},
        {"start": 2**63},
        {"previous": 1},
        {"previous": -1},
        {"blocks": b""},
        {"blocks": b"x" * 15},
        {"blocks": struct.pack("<QQ", 1, 2**64 - 1)},
        {"blobs": b"x"},
        {"blobs": b"x" * 40},
        {"conversation": "conv_b"},
    ],
    ids=str,
)
def test_sections_are_checked(change: dict[str, object]) -> None:
    """A section that says anything else than what was read is refused."""
    hostile = Hostile()
    index = hostile.open()
    hostile.runes(index, said("one", "two"))
    hostile.close(msgspec.structs.replace(index.section(0), **change))

    refused(hostile.done(), "section")


def test_a_conversation_has_runes() -> None:
    """An empty conversation does not exist."""
    hostile = Hostile()
    hostile.close(hostile.open().section(0))

    refused(hostile.done(), "section")


def test_blocks_come_where_they_may() -> None:
    """Every kind of block in every wrong place is refused."""
    opening = pack(Opening("conv_b", 1))
    runes = pack_runes(said("one"))
    outside = [(Kind.HEADER, pack(Header())), (Kind.BLOB, b"x"), (Kind.RUNES, runes)]
    for kind, content in [*outside, (Kind.SECTION, b"x")]:
        hostile = Hostile()
        hostile.blocks.put(kind, content)
        refused(hostile.done(), "outside of any conversation")
    for kind, content in [(Kind.HEADER, pack(Header())), (Kind.CONVERSATION, opening)]:
        hostile = Hostile()
        hostile.open()
        hostile.blocks.put(kind, content)
        refused(hostile.done(), "inside of conv_a")
    hostile = Hostile()
    hostile.open()
    refused(hostile.done(), "before the end of conv_a")


def test_the_header_comes_first() -> None:
    """A stream without a header, or with one that is something else, is refused."""
    for kind, content in [(Kind.BLOB, b"x"), (Kind.HEADER, b"\xc1"), (Kind.HEADER, b"\x80 ")]:
        file = io.BytesIO()
        blocks = BlockWriter(file)
        blocks.put(kind, content)
        blocks.finish(0, 0, 0, 0)
        refused(file.getvalue(), "header")

"""Rules about taking a stream in: what is damaged, cut short or hostile is always `BadStream`."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import tracemalloc
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.blobs import MemoryBlobs
from runelog.codec import digest_of
from runelog.errors import BadStream, NewerFormat
from runelog.framing import FRAME, LIMITS, MAGIC, START, BlockWriter, Kind, zstd
from runelog.intake import check_stream
from runelog.parts import Entry, Header, Index, Opening, Section, pack, pack_runes
from runelog.rune import Visibility
from runelog.transfer import Source, StreamReader
from tests.runelog.streams import Filed, Said, bodies, entries, sample, said, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SMALL = written(Source("conv_a", said("one", "two")), Source("conv_b", said("three")))


def refused(data: bytes, match: str = "at byte") -> None:
    """Hold the check to refusing `data`, and the reader to refusing it or giving the truth."""
    with pytest.raises(BadStream, match=match):
        check_stream(io.BytesIO(data))
    read_all(data)


def read_all(data: bytes) -> None:
    """Read everything there is, whatever it is: nothing but `BadStream` may come of it."""
    try:
        reader = StreamReader(io.BytesIO(data))
        for section, runes in reader:
            list(runes)
            list(reader.blobs(section.conversation))
    except (BadStream, NewerFormat):
        pass


class Hostile:
    """Writes streams whose every checksum is right, and whose content is not."""

    def __init__(self) -> None:
        """Begin as every stream does."""
        self.file = io.BytesIO()
        self.blocks = BlockWriter(self.file)
        self.previous = 0
        self.counts = [0, 0, 0]
        self.blocks.put(Kind.HEADER, pack(Header()))

    def open(self, conversation: str = "conv_a", first: int = 1) -> Index:
        """Begin a conversation."""
        opening = Opening(conversation, first)
        return Index(opening, self.blocks.put(Kind.CONVERSATION, pack(opening)))

    def runes(self, index: Index, found: Sequence[Entry]) -> None:
        """Add a block of runes."""
        index.add_runes(found, self.blocks.put(Kind.RUNES, pack_runes(found)))
        self.counts[1] += len(found)

    def blob(self, index: Index, content: bytes) -> None:
        """Add a blob."""
        index.add_blob(digest_of(content), self.blocks.put(Kind.BLOB, content))
        self.counts[2] += 1

    def close(self, section: Section) -> None:
        """End a conversation."""
        self.previous = self.blocks.put(Kind.SECTION, pack(section))
        self.counts[0] += 1

    def whole(self, found: Sequence[Entry], conversation: str = "conv_a") -> None:
        """Write one conversation."""
        index = self.open(conversation, found[0].event_id)
        self.runes(index, found)
        self.close(index.section(self.previous))

    def done(self) -> bytes:
        """Write the trailer and return the stream."""
        self.blocks.finish(*self.counts, self.previous)
        return self.file.getvalue()


def body(value: object) -> bytes:
    """Return a rune's body made of anything."""
    return msgspec.msgpack.encode(value)


def one(content: bytes) -> bytes:
    """Return a sound stream but for its one rune's body."""
    hostile = Hostile()
    hostile.whole([Entry(1, 1, 1, content)])
    return hostile.done()


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
        numbers = [*hostile.counts, hostile.previous]
        numbers[wrong] += 1
        hostile.blocks.finish(*numbers)
        refused(hostile.file.getvalue(), "the trailer does not match")


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


# -- runes -------------------------------------------------------------------------------------

PLAIN: list[object] = ["a", [], None, None, 0, 0, [], 1, {"kind": "note.taken"}]


def changed(at: int, value: object) -> list[object]:
    """Return a plain rune with one field changed."""
    return [*PLAIN[:at], value, *PLAIN[at + 1 :]]


def nested(depth: int) -> object:
    """Return a value that deep."""
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


def test_a_plain_rune_made_by_hand_passes() -> None:
    """The rune that the following rules alter is sound, at the deepest that is allowed too."""
    deepest = changed(8, {"kind": "note.taken", "it": nested(63)})

    for sound in (PLAIN, deepest):
        assert check_stream(io.BytesIO(one(body(sound)))).totals.runes == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x99",
        b"\xc1" * 40,
        body(PLAIN)[:-1],
        body(PLAIN) + b"\0",
        body(PLAIN[:8]),
        body([*PLAIN, [], "conv_x"]),
        body({"owner": "a"}),
        body(changed(0, "../a")),
        body(changed(0, "a\0b")),
        body(changed(1, ["b c"])),
        body(changed(2, "")),
        body(changed(3, "é")),
        body(changed(4, -1)),
        body(changed(4, 2**64 - 1)),
        body(changed(5, 3)),
        body(changed(5, 2)),
        body(changed(7, -1)),
        body(changed(8, [])),
        body(changed(8, {})),
        body(changed(8, {"kind": 1})),
        body(changed(8, {"kind": "a", "it": nested(64)})),
        body(changed(8, {"kind": "a"})).replace(b"\xa1a", b"\xa1\xff"),
        body(changed(8, {"kind": "a", 1: 2})),
        body(changed(8, nested(500))),
        b"\x91" * 1_000_000,
        b"\x99" + b"\xdd\xff\xff\xff\xff" * 50,
        b"\x99\xdb\xff\xff\xff\xff",
    ],
    ids=lambda content: content[:24].hex(),
)
def test_unsound_runes_are_refused(content: bytes) -> None:
    """A body that no codec would have made, or that would harm its reader, is refused."""
    refused(one(content), "is unsound|lengths|numbers")


@given(st.binary(max_size=60))
def test_any_body_is_refused_or_sound(content: bytes) -> None:
    """Whatever a body is made of, nothing but `BadStream` comes of it."""
    read_all(one(content))
    for data in (one(content), one(b"\x99" + content), one(body(PLAIN)[:-17] + content)):
        try:
            check_stream(io.BytesIO(data))
        except BadStream:
            continue


def test_secrets_are_not_smuggled() -> None:
    """A secret rune in a stream whose header says that there is none is refused."""
    hostile = Hostile()
    hostile.whole(entries([Said(text="x")], visibility=Visibility.SECRET))

    refused(hostile.done(), "it is secret")


# -- blobs -------------------------------------------------------------------------------------


def with_blobs(*places: tuple[object, ...], kept: Sequence[bytes], **fields: object) -> bytes:
    """Return a stream whose one rune names blobs at places, with some blobs before it."""
    payload = {"kind": "file.read", **fields}
    hostile = Hostile()
    index = hostile.open()
    for content in kept:
        hostile.blob(index, content)
    hostile.runes(index, [Entry(1, 1, 1, body([*changed(8, payload), list(places)]))])
    hostile.close(index.section(0))
    return hostile.done()


TEXT = b"some text"
NOT_TEXT = b"\xff\xfe"
WHOLE = body({"kind": "file.read", "name": "a"})


def test_blobs_made_by_hand_pass() -> None:
    """The three ways in which a blob is named are sound."""
    for data in (
        with_blobs((["a"], digest_of(TEXT), True), kept=[TEXT], a=None),
        with_blobs((["a", 1], digest_of(NOT_TEXT), False), kept=[NOT_TEXT], a=[1, None]),
        with_blobs(([], digest_of(WHOLE), False), kept=[WHOLE]),
    ):
        assert check_stream(io.BytesIO(data)).totals.blobs == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (with_blobs((["a"], digest_of(TEXT), True), kept=[], a=None), "not come before"),
        (with_blobs((["a"], "../../x", True), kept=[TEXT], a=None), "not come before"),
        (with_blobs((["a"], digest_of(NOT_TEXT), True), kept=[NOT_TEXT], a=None), "no place"),
        (with_blobs((["b"], digest_of(TEXT), True), kept=[TEXT], a=None), "no place"),
        (with_blobs((["a"], digest_of(TEXT), True), kept=[TEXT], a=1), "no place"),
        (with_blobs((["a", 2], digest_of(TEXT), True), kept=[TEXT], a=[None]), "no place"),
        (with_blobs((["a", -1], digest_of(TEXT), True), kept=[TEXT], a=[None]), "no place"),
        (with_blobs((["a", "b"], digest_of(TEXT), True), kept=[TEXT], a=None), "no place"),
        (with_blobs(([], digest_of(TEXT), False), kept=[TEXT]), "no place"),
        (with_blobs(([], digest_of(b""), False), kept=[b""]), "no place"),
        (with_blobs(kept=[TEXT]), "no rune of conv_a names blob"),
        (with_blobs((["a"], digest_of(TEXT), True), kept=[TEXT, TEXT], a=None), "comes twice"),
    ],
)
def test_blobs_must_fit_their_runes(data: bytes, why: str) -> None:
    """A blob that is missing, repeated, not wanted, or has no place in its rune is refused."""
    refused(data, why)


@pytest.mark.parametrize("nesting", [65, 5_000])
def test_a_payload_kept_as_a_blob_is_bounded_too(nesting: int) -> None:
    """Depth is limited wherever a payload lies."""
    deep = body({"kind": "file.read", "x": 0})[:-1] + b"\x91" * nesting + b"\xc0"

    refused(with_blobs(([], digest_of(deep), False), kept=[deep]), "no place")


# -- bombs -------------------------------------------------------------------------------------


def raw_block(kind: int, flags: int, raw: int, stored: bytes, claimed: int | None = None) -> bytes:
    """Return a stream with one block made by hand behind its header, with the right checksum."""
    hostile = Hostile()
    start = hostile.file.getvalue()
    head = struct.pack("<BBHII", kind, flags, 0, raw, len(stored) if claimed is None else claimed)
    check = hashlib.blake2b(struct.pack("<Q", len(start)) + head + stored, digest_size=16)
    return start + head + check.digest() + stored


BOMB = zstd.compress(b"\0" * (200 << 20))


def peak_of(call: Callable[[], object]) -> int:
    """Return how much memory a call takes at its peak, as far as Python knows."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("raw", [len(BOMB) + 1, 1 << 20, LIMITS[Kind.BLOB]])
def test_a_bomb_does_not_go_off(raw: int) -> None:
    """What decompresses to more than it declares is refused, and no more memory is taken for it."""
    data = raw_block(Kind.BLOB, 1, raw, BOMB)

    peak = peak_of(lambda: refused(data, "does not decompress to the length"))
    assert peak < 2 * raw + (8 << 20)


def test_declared_lengths_are_bounded() -> None:
    """A block may not even claim more than its kind can need."""
    for kind, limit in LIMITS.items():
        refused(raw_block(kind, 1, limit + 1, b"x"), "more than the limit")
        refused(raw_block(kind, 0, 2**32 - 1, b"", 2**32 - 1), "more than the limit")


def test_a_claim_takes_no_memory() -> None:
    """A block that claims much and holds little is refused for what it is: cut short."""
    data = raw_block(Kind.BLOB, 0, LIMITS[Kind.BLOB], b"x", LIMITS[Kind.BLOB])

    refused(data, "cut short")


@pytest.mark.parametrize(
    ("flags", "raw", "stored"),
    [
        (2, 10, b"x" * 10),
        (0, 11, b"x" * 10),
        (1, 9, b"x" * 10),
        (1, 10, b"x" * 10),
        (0, 9, b"x" * 10),
        (1, 100, b"not compressed"),
        (1, 100, zstd.compress(b"y" * 100)[:-3]),
        (1, 99, zstd.compress(b"y" * 100)),
        (1, 101, zstd.compress(b"y" * 100)),
        (1, 200, zstd.compress(b"y" * 100) * 2),
        (1, 100, zstd.compress(b"y" * 100) + b"more"),
        (1, 100, b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"),
    ],
)
def test_blocks_are_what_they_declare(flags: int, raw: int, stored: bytes) -> None:
    """Flags, lengths and content must agree to the byte."""
    refused(raw_block(Kind.BLOB, flags, raw, stored), "block")


def test_a_window_is_bounded() -> None:
    """A frame that would have its reader hold a huge window is refused."""
    compressor = zstd.ZstdCompressor(
        options={
            zstd.CompressionParameter.window_log: 27,
            zstd.CompressionParameter.content_size_flag: 0,
        }
    )
    stored = compressor.compress(b"y" * 1000) + compressor.flush()

    refused(raw_block(Kind.BLOB, 1, 1000, stored), "cannot be decompressed")


@pytest.mark.parametrize("count", [0, 1, 65_537, 2**32 - 1])
def test_a_block_of_runes_may_not_lie_about_its_count(count: int) -> None:
    """A count that does not fit the content is refused before anything is made of it."""
    hostile = Hostile()
    hostile.open()
    hostile.blocks.put(Kind.RUNES, struct.pack("<QIQq", 1, count, 1, 1) + b"\0" * 10)

    refused(hostile.done(), "claims to hold|too short")


@given(st.binary(max_size=80))
def test_any_content_of_a_block_is_refused_or_sound(content: bytes) -> None:
    """Blocks of any kind with any content lead to nothing but `BadStream`."""
    for kind in (Kind.HEADER, Kind.CONVERSATION, Kind.RUNES, Kind.SECTION, Kind.BLOB):
        outside, inside = Hostile(), Hostile()
        inside.open()
        for hostile in (outside, inside):
            hostile.previous = hostile.blocks.put(kind, content)
            refused(hostile.done())


def test_memory_does_not_grow_with_the_stream() -> None:
    """A stream ten times as long is checked in the same memory."""
    pick = random.Random(5)
    words = [f"{pick.random():.9f}" for _ in range(40_000)]
    short, long = (written(Source("conv_a", said(*words[:count]))) for count in (4_000, 40_000))

    few, many = (peak_of(lambda data=data: check_stream(io.BytesIO(data))) for data in (short, long))
    assert many < 1.5 * few


def test_blobs_of_the_codec_pass() -> None:
    """What the codec keeps aside is what the check expects: bytes, text and whole payloads."""
    blobs = MemoryBlobs()
    runes = entries(
        [
            Filed(name="a" * 1_100_000, content=b"\xff" * 70_000),
            Filed(name="b", lines=("é" * 600_000, "short", "z" * 600_000)),
            Filed(name="c", lines=tuple(map(str, range(200_000)))),
        ],
        blobs=blobs,
    )
    data = written(Source("conv_a", runes, blobs))

    assert check_stream(io.BytesIO(data)).totals.blobs == len(blobs.list("conv_a"))
    assert bodies(StreamReader(io.BytesIO(data)).read("conv_a")) == bodies(runes)
    assert FRAME < len(data)

"""Rules about hostile streams: sound to the last checksum, and made to do harm."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.blobs import MemoryBlobs
from runelog.codec import digest_of
from runelog.errors import BadStream
from runelog.rune import Visibility
from runelog.stream.block_format import LIMITS, Kind
from runelog.stream.stream_blocks import Entry
from runelog.stream.stream_check import check_stream
from runelog.stream.streams import Source, StreamReader
from tests.runelog.streams import (
    Filed,
    Hostile,
    Said,
    bodies,
    body,
    entries,
    one,
    read_all,
    refused,
    said,
    written,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    few = peak_of(lambda: check_stream(io.BytesIO(short)))
    many = peak_of(lambda: check_stream(io.BytesIO(long)))
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

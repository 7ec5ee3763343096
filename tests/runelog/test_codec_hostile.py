"""Rules about bytes that we did not write: a typed error, whatever they are."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.codec import (
    MAX_DEPTH,
    Codec,
    check_depth,
)
from runelog.errors import Corrupt, NewerFormat, TooLarge
from runelog.rune import Change, Rune
from tests.runelog.books import (
    CODEC,
    HERE,
    MANY,
    Blobs,
    Written,
    forged,
    opened,
    plain,
    stored,
    written,
)


def nested(levels: int, leaf: object = 1) -> object:
    """Return lists within lists, so many of them."""
    for _ in range(levels):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize("leaf", [1, None, "x", b""])
def test_64_levels_are_enough_for_anybody(leaf: object) -> None:
    """A payload may be 64 deep, itself included, and is read back; one more level is refused."""
    rune = Written(extra=nested(MAX_DEPTH - 1, leaf))

    assert stored(CODEC, rune)[0].payload == rune
    with pytest.raises(TooLarge, match="deeper than 64 levels"):
        stored(CODEC, Written(extra=nested(MAX_DEPTH, leaf)))


@pytest.mark.parametrize("empty", [[], {}])
def test_an_empty_container_is_a_level_too(empty: object) -> None:
    """Whether something is in it or not, a container is one level."""
    stored(CODEC, Written(extra=nested(MAX_DEPTH - 2, empty)))

    with pytest.raises(TooLarge):
        stored(CODEC, Written(extra=nested(MAX_DEPTH - 1, empty)))


def test_a_large_rune_is_held_to_the_same_depth() -> None:
    """Being large is no way around the limit, and nothing of it is kept."""
    blobs = Blobs()

    with pytest.raises(TooLarge):
        stored(Codec([Written], blobs=blobs), Written(title="x" * MANY, extra=nested(MAX_DEPTH)))
    assert not blobs.kept


def test_wide_is_not_deep() -> None:
    """Any number of containers side by side is fine."""
    rune = Written(extra=[[n, {"a": []}] for n in range(1_000)])

    assert stored(CODEC, rune)[0].payload == rune


def depth_of(value: object) -> int:
    """Count levels the obvious way."""
    if isinstance(value, dict):
        return 1 + max((depth_of(item) for pair in value.items() for item in pair), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(plain, st.integers(0, 8))
def test_depth_is_counted_as_anyone_would(value: object, limit: int) -> None:
    """Walking the bytes agrees with walking the value, at every limit."""
    data = msgspec.msgpack.encode(value)

    if depth_of(value) <= limit:
        check_depth(data, limit)
    else:
        with pytest.raises(TooLarge, match="nested deeper"):
            check_depth(data, limit)


SPANS = [
    *([value] for value in (0, 127, 128, 2**8, 2**16, 2**32, 2**64 - 1)),
    *([-value] for value in (1, 32, 33, 2**7 + 1, 2**15 + 1, 2**31 + 1, 2**63)),
    [None, True, False, 1.5],
    *(["x" * size, b"x" * size] for size in (0, 31, 32, 255, 256, 65_535, 65_536)),
    *([[0] * size, dict.fromkeys(range(size), 0)] for size in (0, 15, 16, 65_535, 65_536)),
    *([msgspec.msgpack.Ext(5, b"x" * size)] for size in (1, 2, 3, 4, 8, 16, 17, 256, 65_536)),
]


@pytest.mark.parametrize("value", SPANS, ids=lambda value: f"{value!r:.20}")
def test_every_shape_of_msgpack_is_walked_to_its_end(value: list[Any]) -> None:
    """A value of any form and size is sound as it is; a byte less or more is not."""
    data = msgspec.msgpack.encode(value)

    check_depth(data)
    with pytest.raises(TooLarge):
        check_depth(data[:-1])
    with pytest.raises(TooLarge):
        check_depth(data + b"\xc0")


@given(plain, st.data())
def test_msgpack_cut_short_is_refused(value: object, data: st.DataObject) -> None:
    """A value cut anywhere is not a value."""
    whole = msgspec.msgpack.encode(value)

    with pytest.raises(TooLarge):
        check_depth(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=200))
def test_what_passes_the_walk_is_shallow_and_what_is_deep_does_not(data: bytes) -> None:
    """On bytes from anywhere the walk ends, and never lets through what a decoder finds deeper."""
    try:
        check_depth(data, 8)
    except TooLarge:
        return
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return

    assert depth_of(value) <= 8


@pytest.mark.parametrize("levels", [65, 1_000, 100_000])
@pytest.mark.parametrize(
    "opening", [b"\x91", b"\x81\x01", b"\xdc\x00\x01", b"\xdd\xff\xff\xff\xff"]
)
def test_hostile_nesting_is_refused_on_the_smallest_stack(levels: int, opening: bytes) -> None:
    """The walk needs no stack of its own: a small thread refuses what would end the process."""
    refusals: list[TooLarge] = []

    def walk() -> None:
        try:
            check_depth(opening * levels + b"\x01")
        except TooLarge as refusal:
            refusals.append(refusal)

    before = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=walk)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()

    assert len(refusals) == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"\x81\xa4kind" + b"\x91" * 5_000 + b"\x01",
        b"\x82\xa4kind\xacbook.written\xa5extra" + b"\x91" * 5_000 + b"\x01",
        b"\x82\xa4kind\xa5b.new\xa5extra" + b"\x91" * 5_000 + b"\x01",
    ],
    ids=["kind", "known", "unknown"],
)
def test_a_stored_rune_that_is_too_deep_is_corrupt(payload: bytes) -> None:
    """We never write one, so one that is there is damage, with its place in the message."""
    with pytest.raises(Corrupt, match="rune 1 of conv_here"):
        _ = opened(CODEC, forged(payload)).payload


def read_anyway(codec: Codec, body: bytes) -> Rune | None:
    """Read a body in full, taking every error that a reader is told to expect."""
    try:
        return opened(codec, body).payload
    except (Corrupt, NewerFormat):
        return None


@given(st.binary(max_size=200))
def test_bytes_that_are_no_rune_are_corrupt(data: bytes) -> None:
    """Whatever the bytes, reading them gives a rune or a typed error."""
    for body in (data, b"\x99" + data, forged(data)):
        found = read_anyway(CODEC, body)

        assert found is None or isinstance(found, Rune)


NOT_TEXT = b"\xa1\xff"


@pytest.mark.parametrize(
    "body",
    [
        b"\x99" + NOT_TEXT + b"\x90\xc0\xc0\x00\x00\x90\x01\x81\xa4kind\xa1x",
        forged(b"\x81\xa4kind" + NOT_TEXT),
        forged(b"\x82\xa4kind\xacbook.written\xa5title" + NOT_TEXT),
        forged(b"\x82\xa4kind\xacbook.written\xa5extra" + NOT_TEXT),
        forged(b"\x82\xa4kind\xa5b.new\xa5extra" + NOT_TEXT),
        forged(b"\x82\xa4kind\xacbook.written\xa5extra\x81\x80\x01"),
    ],
    ids=["owner", "kind", "text", "anything", "unknown", "key"],
)
def test_text_that_is_not_text_is_corrupt(body: bytes) -> None:
    """Bytes that are no UTF-8, or keys that are no keys, are damage like any other."""
    with pytest.raises(Corrupt, match="rune 1 of conv_here"):
        _ = opened(CODEC, body).payload


@given(written, st.data())
def test_a_changed_byte_gives_a_rune_or_a_typed_error(rune: Written, data: st.DataObject) -> None:
    """Behind the checksum there is no second surprise: any byte may be any other."""
    (body,) = CODEC.encode(HERE, Change("book_1", 0, [rune]))
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + data.draw(st.binary(min_size=1, max_size=1)) + body[at + 1 :]

    read_anyway(CODEC, changed)
    read_anyway(Codec(), changed)


@given(written, st.data())
def test_a_body_cut_short_is_corrupt(rune: Written, data: st.DataObject) -> None:
    """No beginning of a body passes for the whole."""
    (body,) = CODEC.encode(HERE, Change("book_1", 0, [rune]))
    cut = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(Corrupt):
        _ = opened(CODEC, body[:cut]).payload


paths = st.lists(
    st.sampled_from(["kind", "title", "pages", "extra", "gone", 0, 1, 9, -1]), max_size=4
)


@given(
    st.dictionaries(st.sampled_from(["title", "pages", "extra"]), plain, max_size=3),
    st.lists(st.tuples(paths, st.sampled_from([b"", b"\xff", b"\x80", b"\x01"]), st.booleans())),
    st.integers(-2, 3),
)
def test_hostile_places_are_corrupt(
    fields: dict[str, Any], places: list[tuple[Any, bytes, bool]], schema: int
) -> None:
    """A place that is not there, text that is not text: a typed error, whatever was forged."""
    blobs = Blobs()
    payload = msgspec.msgpack.encode({"kind": "book.written", **fields})
    named = [(path, blobs.put(HERE, content), text) for path, content, text in places]
    body = forged(payload, schema=schema, places=named)

    read_anyway(Codec([Written], blobs=blobs), body)
    read_anyway(Codec(blobs=blobs), body)


@pytest.mark.parametrize(
    ("path", "content", "text"),
    [
        (["gone", "x"], b"x", False),
        (["pages", 5], b"x", False),
        (["kind", 0], b"x", False),
        (["title"], b"\xff", True),
        ([], b"\x93\x01\x02\x03", False),
        ([], b"\xc1", False),
    ],
)
def test_a_forged_place_is_named_with_its_rune(path: list[Any], content: bytes, text: bool) -> None:  # noqa: FBT001 -- as stored
    """The error says which rune of which conversation cannot be read."""
    blobs = Blobs()
    payload = msgspec.msgpack.encode({"kind": "book.written", "pages": []})
    body = forged(payload, places=[(path, blobs.put(HERE, content), text)])

    for codec in (Codec([Written], blobs=blobs), Codec(blobs=blobs)):
        with pytest.raises(Corrupt, match="rune 1 of conv_here"):
            _ = opened(codec, body).payload


def test_the_fields_told_from_the_place_cannot_be_forged() -> None:
    """A body that brings a conversation or an event id of its own is no body."""
    fields: list[object] = [
        "book_1",
        [],
        None,
        None,
        0,
        0,
        [],
        1,
        {"kind": "book.written"},
        [],
        "conv_x",
        7,
    ]

    with pytest.raises(Corrupt):
        opened(CODEC, msgspec.msgpack.encode(fields))


def test_only_kinds_that_cannot_be_deep_are_taken_on_trust() -> None:
    """A field of types within types is looked into; a list of numbers need not be."""

    class Loose(Rune, frozen=True, tag="trust.loose"):
        what: list[object]

    class Tight(Rune, frozen=True, tag="trust.tight"):
        what: list[int]

    deep: list[object] = []
    for _ in range(70):
        deep = [deep]
    codec = Codec([Loose, Tight])

    assert len(codec.encode("conv_a", Change("a", 0, [Tight(what=list(range(100)))]))) == 1
    with pytest.raises(TooLarge):
        codec.encode("conv_a", Change("a", 0, [Tight(what=[1]), Loose(what=deep)]))

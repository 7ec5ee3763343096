"""Rules about large runes: what is kept aside, and what is refused."""

from __future__ import annotations

import datetime as dt
import hashlib
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from runelog.codec import (
    LARGE_FIELD,
    MAX_INLINE,
    MAX_RUNE,
    Codec,
)
from runelog.errors import Corrupt, TooLarge
from runelog.rune import Change, Unknown
from tests.runelog.books import (
    CODEC,
    HERE,
    MANY,
    UPCASTERS,
    Blobs,
    Page,
    Priced,
    Written,
    forged,
    opened,
    stored,
    to_currency,
)

TEXT = "ß" * MANY
RAW = bytes(range(256)) * (MANY // 256)
DAY = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)

LARGE: dict[str, tuple[Written, list[tuple[Any, ...]]]] = {
    "text": (Written(title=TEXT), [("title",)]),
    "bytes": (Written(cover=RAW), [("cover",)]),
    "both": (Written(title=TEXT, cover=RAW), [("title",), ("cover",)]),
    "in an array": (
        Written(pages=(Page("a"), Page("b", RAW), Page(TEXT))),
        [("pages", 1, 1), ("pages", 2, 0)],
    ),
    "in a mapping": (Written(notes={"a.b": ["", TEXT]}), [("notes", "a.b", 1)]),
    "under a number": (Written(index={7: TEXT}), [()]),
    "many small ones": (Written(extra=list(range(MAX_INLINE))), [()]),
    "large and many": (Written(title=TEXT, extra=list(range(MAX_INLINE))), [()]),
    "beside every type": (
        Written(
            title=TEXT,
            when=DAY,
            price=Decimal("9.50"),
            isbn=UUID(int=1),
            tags=frozenset({"a", "b"}),
            index={-1: "x"},
            extra={"when": DAY, "raw": b"\x00", "n": [None, 1.5]},
        ),
        [("title",)],
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_rune_over_a_mebibyte_keeps_its_large_fields_aside(case: str) -> None:
    """Each large field is a blob named by path and hash, the rest is inline, and all comes back."""
    rune, paths = LARGE[case]
    blobs = Blobs()
    codec = Codec([Written], blobs=blobs)
    (body,) = codec.encode(HERE, Change("book_1", 0, [rune]))
    envelope = opened(codec, body)

    assert len(body) <= MAX_INLINE
    assert [path for path, _, _ in envelope.blobs] == paths
    assert {(HERE, digest) for _, digest, _ in envelope.blobs} == blobs.kept.keys()
    assert (envelope.kind, envelope.payload) == ("book.written", rune)


def test_a_large_rune_of_an_unknown_kind_is_whole_too() -> None:
    """A codec that does not list the kind still puts the large fields back."""
    codec = Codec(blobs=Blobs())
    (envelope,) = stored(codec, Written(title=TEXT, cover=RAW))

    assert envelope.payload == Unknown(
        name="book.written", fields={"kind": "book.written", "title": TEXT, "cover": RAW}
    )


def test_a_large_rune_of_an_older_schema_is_upcast_whole() -> None:
    """Upcasters see the fields as they were appended, not where they are kept."""
    blobs = Blobs()
    places = [(("title",), blobs.put(HERE, TEXT.encode()), True)]
    payload = msgspec.msgpack.encode({"kind": "book.priced", "title": None})
    codec = Codec(
        [Priced],
        {
            ("book.priced", 1): lambda old: {"kind": old["kind"], "cents": len(old["title"])},
            ("book.priced", 2): to_currency,
        },
        blobs,
    )

    assert opened(codec, forged(payload, places=places)).payload == Priced(MANY, "GBP")


def test_fields_are_moved_only_when_the_rune_is_too_large() -> None:
    """A rune that fits is stored as it is, however large a field; a small field stays inline."""
    codec = Codec([Written], blobs=Blobs())
    (fits,) = stored(codec, Written(title="x" * (MAX_INLINE - 100)))
    (moved,) = stored(codec, Written(title="x" * (LARGE_FIELD - 1), cover=RAW))

    assert fits.blobs == ()
    assert [path for path, _, _ in moved.blobs] == [("cover",)]


def test_the_limit_is_exact() -> None:
    """A payload of just a mebibyte is inline, one byte more is not."""
    empty = len(msgspec.msgpack.encode(Written(cover=b"x" * 70_000))) - 70_000
    codec = Codec([Written], blobs=Blobs())
    (inline,) = stored(codec, Written(cover=b"x" * (MAX_INLINE - empty)))
    (aside,) = stored(codec, Written(cover=b"x" * (MAX_INLINE - empty + 1)))

    assert (len(inline.blobs), len(aside.blobs)) == (0, 1)


def test_equal_content_is_one_blob() -> None:
    """A blob is named by its content, so two runes can share it."""
    blobs = Blobs()
    codec = Codec([Written], blobs=blobs)
    stored(codec, Written(cover=RAW), Written(title="x", cover=RAW))

    assert list(blobs.kept) == [(HERE, hashlib.sha256(RAW).hexdigest())]


def test_a_rune_over_64_mebibytes_is_refused() -> None:
    """It is refused by size and kind, and nothing of it is kept."""
    blobs = Blobs()

    with pytest.raises(TooLarge, match=r"book\.written of 67,1.* over the limit"):
        stored(Codec([Written], blobs=blobs), Written(cover=bytes(MAX_RUNE)))
    assert not blobs.kept


def test_a_large_rune_needs_a_place_for_its_blobs() -> None:
    """Without one it is refused when written, and corrupt when read."""
    (body,) = Codec(blobs=Blobs()).encode(HERE, Change("book_1", 0, [Written(title=TEXT)]))

    with pytest.raises(TooLarge, match="needs a log that keeps blobs"):
        stored(CODEC, Written(title=TEXT))
    with pytest.raises(Corrupt, match="blobs that are not here"):
        _ = opened(CODEC, body).payload
    assert opened(CODEC, body).kind == "book.written"


def test_a_codec_can_be_bound_to_blobs_later() -> None:
    """The bound codec knows the same kinds and upcasters."""
    blobs = Blobs()
    bound = Codec([Written, Priced], UPCASTERS).with_blobs(blobs)

    assert bound.blobs is blobs
    assert (bound.upcasters, set(bound.kinds)) == (
        UPCASTERS,
        {"log.tombstone", "book.written", "book.priced"},
    )

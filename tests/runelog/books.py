"""Runes about books, and a codec to try them on: what the tests of the codec have in common."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from runelog.codec import (
    Codec,
    digest_of,
)
from runelog.errors import Corrupt
from runelog.rune import Change, Envelope, Rune, Visibility

HERE = "conv_here"
MANY = 1 << 21


class Page(msgspec.Struct, frozen=True, array_like=True):
    """A part of a rune that is stored as an array."""

    title: str
    scan: bytes = b""


class Written(Rune, frozen=True, tag="book.written"):
    """A rune with a field of every shape."""

    title: str = ""
    cover: bytes = b""
    pages: tuple[Page, ...] = ()
    notes: dict[str, list[str]] = msgspec.field(default_factory=dict)
    index: dict[int, str] = msgspec.field(default_factory=dict)
    when: dt.datetime | None = None
    price: Decimal | None = None
    isbn: UUID | None = None
    tags: frozenset[str] = frozenset()
    rating: float = 0.0
    extra: Any = None


class Whispered(Rune, frozen=True, tag="secret.whispered"):
    """A rune that only its own agent sees unless the change says otherwise."""

    visibility: ClassVar[Visibility] = Visibility.SECRET
    words: str


class Blobs:
    """Blobs kept in memory, with an account of what was put."""

    def __init__(self) -> None:
        """Begin with none."""
        self.kept: dict[tuple[str, str], bytes] = {}

    def put(self, conversation: str, content: bytes) -> str:
        """Keep `content` under its hash."""
        digest = digest_of(content)
        self.kept[conversation, digest] = content
        return digest

    def get(self, conversation: str, digest: str) -> bytes:
        """Return what was kept, or raise `Corrupt`."""
        try:
            return self.kept[conversation, digest]
        except KeyError:
            msg = f"no blob {digest} in {conversation}"
            raise Corrupt(msg, conversation=conversation) from None


def stored(codec: Codec, *runes: Rune, **fields: Any) -> list[Envelope]:  # noqa: ANN401 -- a Change's own
    """Encode runes as one change and decode their envelopes again."""
    bodies = codec.encode(HERE, Change("book_1", 0, runes, **fields))
    return [opened(codec, body, event_id) for event_id, body in enumerate(bodies, 1)]


def opened(codec: Codec, body: bytes, event_id: int = 1) -> Envelope:
    """Decode the envelope of a stored body."""
    return codec.envelope(body, conversation=HERE, event_id=event_id, position=9, time=4)


def forged(payload: bytes, *, schema: Any = 1, places: Any = None) -> bytes:  # noqa: ANN401 -- anything hostile
    """Return a body that no codec of ours has written."""
    head = msgspec.msgpack.encode(["book_1", [], None, None, 0, 0, [], schema])[1:]
    if places is None:
        return b"\x99" + head + payload
    return b"\x9a" + head + payload + msgspec.msgpack.encode(places)


CODEC = Codec([Written, Whispered])

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
written = st.builds(
    Written,
    title=st.text(),
    cover=st.binary(),
    pages=st.lists(st.builds(Page, st.text(), st.binary()), max_size=3).map(tuple),
    notes=st.dictionaries(st.text(), st.lists(st.text(), max_size=3), max_size=3),
    index=st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.text(), max_size=3),
    when=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
    price=st.none() | st.decimals(allow_nan=False),
    isbn=st.none() | st.uuids(),
    tags=st.frozensets(st.text(), max_size=3),
    rating=st.floats(allow_nan=False),
    extra=plain,
)


class Priced(Rune, frozen=True, tag="book.priced"):
    """The third meaning of a price: an amount with its currency, in cents."""

    schema: ClassVar[int] = 3
    cents: int
    currency: str = "EUR"


def to_cents(fields: dict[str, Any]) -> dict[str, Any]:
    """Take a price from schema 1, in whole units, to schema 2, in cents."""
    return {"kind": fields["kind"], "cents": fields["units"] * 100}


def to_currency(fields: dict[str, Any]) -> dict[str, Any]:
    """Take a price from schema 2, which was in pounds, to schema 3, which says so."""
    return {**fields, "currency": "GBP"}


UPCASTERS = {("book.priced", 1): to_cents, ("book.priced", 2): to_currency}

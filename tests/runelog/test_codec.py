"""Rules about the codec: what was appended is what is read, by this version and by others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.codec import (
    Codec,
    tombstone,
)
from runelog.errors import Corrupt, NewerFormat
from runelog.rune import Change, Rune, Tombstone, Unknown, Visibility
from tests.runelog.books import (
    CODEC,
    HERE,
    UPCASTERS,
    Page,
    Priced,
    Whispered,
    Written,
    forged,
    opened,
    stored,
    written,
)


@given(st.lists(written, min_size=1, max_size=4))
def test_runes_are_read_as_they_were_appended(runes: list[Written]) -> None:
    """Every value of every field comes back, and so does the order of the runes."""
    assert [envelope.payload for envelope in stored(CODEC, *runes)] == runes


@given(
    observers=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    agent=st.none() | st.text(max_size=9),
    turn=st.none() | st.text(max_size=9),
    cause=st.integers(0, 2**63),
    tags=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    visibility=st.sampled_from(Visibility),
)
def test_an_envelope_says_who_why_and_where(**fields: Any) -> None:  # noqa: ANN401 -- a Change's own
    """What the change said of its runes, and the place they were found at, is in each envelope."""
    (envelope,) = stored(CODEC, Written(title="x"), **fields)

    assert {name: getattr(envelope, name) for name in fields} == fields
    assert (envelope.owner, envelope.schema, envelope.blobs) == ("book_1", 1, ())
    assert (envelope.conversation, envelope.event_id) == (HERE, 1)
    assert (envelope.position, envelope.time) == (9, 4)


def test_visibility_is_the_kinds_own_unless_the_change_says_otherwise() -> None:
    """A secret kind is secret by itself; runes of one change each follow their own kind."""
    runes = (Written(), Whispered(words="psst"))

    assert [e.visibility for e in stored(CODEC, *runes)] == [Visibility.PUBLIC, Visibility.SECRET]
    assert [e.visibility for e in stored(CODEC, *runes, visibility=Visibility.INTERNAL)] == [
        Visibility.INTERNAL,
        Visibility.INTERNAL,
    ]


def test_a_kind_is_read_without_decoding_the_payload() -> None:
    """Even a payload that its class would refuse tells its kind."""
    envelope = opened(CODEC, forged(msgspec.msgpack.encode({"kind": "book.written", "title": 7})))

    assert envelope.kind == "book.written"
    with pytest.raises(Corrupt, match="rune 1 of conv_here") as caught:
        _ = envelope.payload
    assert (caught.value.conversation, caught.value.event_id) == (HERE, 1)


def test_only_runes_can_be_appended() -> None:
    """A Struct of another family is a mistake of the caller, named as such."""
    with pytest.raises(TypeError, match="Page is not a rune"):
        CODEC.encode(HERE, Change("book_1", 0, [Page("x")]))  # type: ignore[list-item]  # the mistake


def test_two_classes_cannot_claim_one_kind() -> None:
    """A codec that would have to guess cannot be made; the same class twice is no conflict."""

    class Again(Rune, frozen=True, tag="book.written"):
        pass

    with pytest.raises(ValueError, match=r"two classes claim the kind book\.written"):
        Codec([Written, Again])
    assert Codec([Written, Written]).kinds["book.written"] is Written


@given(written)
def test_an_unknown_kind_is_kept_and_shown(rune: Written) -> None:
    """A codec that does not list a kind gives its name and its fields, all of them."""
    (envelope,) = stored(Codec(), rune)

    assert isinstance(envelope.payload, Unknown)
    assert envelope.payload.name == "book.written"
    assert envelope.payload.fields == msgspec.msgpack.decode(msgspec.msgpack.encode(rune))


@pytest.mark.parametrize(
    ("schema", "fields", "expected"),
    [
        (1, {"units": 5}, Priced(cents=500, currency="GBP")),
        (2, {"cents": 42}, Priced(cents=42, currency="GBP")),
        (3, {"cents": 42}, Priced(cents=42, currency="EUR")),
    ],
)
def test_an_older_schema_goes_through_every_step(
    schema: int, fields: dict[str, Any], expected: Priced
) -> None:
    """Upcasters are chained, each from one schema to the next; the current one needs none."""
    codec = Codec([Priced], UPCASTERS)
    body = forged(msgspec.msgpack.encode({"kind": "book.priced", **fields}), schema=schema)

    assert opened(codec, body).payload == expected


def test_a_rune_is_stored_under_the_schema_of_its_class() -> None:
    """What is written today is not upcast tomorrow."""
    (envelope,) = stored(Codec([Priced], UPCASTERS), Priced(cents=1))

    assert envelope.schema == 3
    assert envelope.payload == Priced(cents=1)


@pytest.mark.parametrize(("schema", "says"), [(4, "later one"), (1, "no upcaster takes")])
def test_a_schema_without_a_way_here_is_refused(schema: int, says: str) -> None:
    """A newer schema, or an older one without its upcaster, is refused and not guessed at."""
    body = forged(msgspec.msgpack.encode({"kind": "book.priced", "cents": 1}), schema=schema)

    with pytest.raises(NewerFormat, match=says):
        _ = opened(Codec([Priced]), body).payload


def test_an_upcaster_that_leaves_a_hole_is_corrupt() -> None:
    """What comes out of the upcasters must fit the class, as if it had been stored so."""
    codec = Codec([Priced], {**UPCASTERS, ("book.priced", 2): lambda _: {"kind": "book.priced"}})
    body = forged(msgspec.msgpack.encode({"kind": "book.priced", "units": 1}))

    with pytest.raises(Corrupt, match="cents"):
        _ = opened(codec, body).payload


def test_a_tombstone_says_who_when_and_why_but_not_what() -> None:
    """It keeps the place, the owner and the kind of what was there; words and tags are gone."""
    (envelope,) = stored(
        CODEC,
        Whispered(words="hunter2"),
        observers=("turn_1",),
        agent="agt_1",
        turn="turn_1",
        cause=3,
        tags=("hunter",),
    )
    body = tombstone(envelope, "secret")
    left = opened(Codec(), body)

    assert left.payload == Tombstone(reason="secret", was="secret.whispered")
    assert (left.owner, left.observers, left.agent) == ("book_1", ("turn_1",), "agt_1")
    assert (left.turn, left.cause, left.visibility) == ("turn_1", 3, Visibility.SECRET)
    assert b"hunter" not in body

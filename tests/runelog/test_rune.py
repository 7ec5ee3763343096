"""Rules about runes, their kinds and the ids around them."""

from __future__ import annotations

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runelog.codec import Codec
from runelog.errors import BadId, Refused
from runelog.rune import (
    MAX_ID,
    SYSTEM,
    Change,
    Rune,
    Tombstone,
    Unknown,
    check_id,
    kind_of,
    known_ids,
)

ALLOWED = string.ascii_letters + string.digits + "_-"


class Noted(Rune, frozen=True, tag="note.taken"):
    """Something was written down."""

    text: str = ""


@given(st.text(ALLOWED, min_size=1, max_size=MAX_ID))
def test_an_id_of_allowed_characters_is_given_back(value: str) -> None:
    """Letters, digits, underscore and hyphen, up to 64 of them, are an id."""
    assert check_id(value) is value


@given(st.text(max_size=80))
def test_any_other_text_is_refused(value: str) -> None:
    """Nothing else is an id: no dot, no slash, no newline at the end, no foreign digit."""
    if 0 < len(value) <= MAX_ID and set(value) <= set(ALLOWED):
        assert check_id(value) == value
    else:
        with pytest.raises(BadId):
            check_id(value)


@pytest.mark.parametrize(
    "value", ["", "a" * 65, "a\n", "../x", "a b", "\u0661", "a\x00", "é", None, 7, b"conv"]
)
def test_what_is_not_an_id_is_refused(value: object) -> None:
    """A refusal says what an id looks like, and shows what was given without growing with it."""
    with pytest.raises(BadId, match="is not a valid conversation id") as caught:
        check_id(value, "conversation id")  # type: ignore[arg-type]  # hosts pass anything

    assert isinstance(caught.value, Refused)
    assert len(str(caught.value)) < 250


def test_a_refused_id_is_shown_harmlessly() -> None:
    """Control characters of a bad id do not reach a terminal, and a huge one is cut."""
    with pytest.raises(BadId) as caught:
        check_id("\x1b[2J" + "x" * 10_000)

    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_the_reserved_conversation_is_a_valid_id() -> None:
    """What belongs to no conversation is kept under an id like any other."""
    assert check_id(SYSTEM) == "conv_system"


def test_a_kind_is_the_tag_of_class_and_instance() -> None:
    """A rune's kind can be asked of the class or of the rune."""
    assert kind_of(Noted) == kind_of(Noted(text="a")) == "note.taken"
    assert (kind_of(Unknown), kind_of(Tombstone)) == ("log.unknown", "log.tombstone")


def test_few_ids_are_remembered() -> None:
    """Ids that were checked before are known without a check, and only the latest are held."""
    for number in range(5_000):
        check_id(f"turn_{number}")

    assert "turn_4999" in known_ids
    assert len(known_ids) <= 1_024


def test_a_rune_cannot_be_changed() -> None:
    """What happened, happened."""
    rune = Noted(text="a")

    with pytest.raises(AttributeError):
        rune.text = "b"  # type: ignore[misc]  # that it is an error is the point


def test_fields_at_their_defaults_take_no_room() -> None:
    """A rune stores what differs from its defaults, and its kind."""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Noted())) == {"kind": "note.taken"}


def test_the_cursor_of_an_envelope_is_its_event_id() -> None:
    """Reading on behind a rune takes nothing but the rune."""
    codec = Codec([Noted])
    (body,) = codec.encode("conv_a", Change("note_1", 0, [Noted(text="hi")]))
    envelope = codec.envelope(body, conversation="conv_a", event_id=7, position=70, time=5)

    assert (envelope.cursor, envelope.position, envelope.time) == (7, 70, 5)
    assert (envelope.kind, envelope.payload) == ("note.taken", Noted(text="hi"))

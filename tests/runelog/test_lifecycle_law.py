"""Rules about what a lifecycle is: when it can be made, how it is hashed and printed."""

from __future__ import annotations

import dataclasses
import hashlib
from enum import StrEnum
from typing import Any

import msgspec
import pytest

from runelog.lifecycle import (
    BrokenLaw,
    ByField,
    Row,
    Timeout,
    describe,
    rows,
    state_hash,
)
from runelog.rune import Rune, kind_of
from tests.runelog.parcel import (
    FORTNIGHT,
    LIFECYCLE,
    TABLE,
    Cancelled,
    Phase,
    Scanned,
    State,
)


def test_equal_states_have_equal_hashes_and_others_do_not() -> None:
    """A hash depends on values, not on the order in which a set or a dict was filled."""
    names = [f"request {n}" for n in range(50)]
    one, other = frozenset(names), frozenset(reversed(names))

    assert state_hash(State(answered=one)) == state_hash(State(answered=other))
    assert state_hash(State(answered=one)) != state_hash(State(answered=one - {"request 7"}))


def test_a_hash_is_the_sha256_of_sorted_msgpack() -> None:
    """The hash is the same on every machine, since the bytes that are hashed are."""
    by_hand = b"\x81\xa5phase\xa7ordered"

    assert state_hash(Thawed()) == hashlib.sha256(by_hand).hexdigest()
    assert state_hash({"b": 1, "a": 2}) == hashlib.sha256(b"\x82\xa1a\x02\xa1b\x01").hexdigest()


def test_a_lifecycle_can_be_printed() -> None:
    """The description is what `runefold lifecycles` prints: one row for each (from, to, on)."""
    shown = msgspec.json.decode(msgspec.json.encode(describe(LIFECYCLE)))

    assert shown == {
        "name": "parcel",
        "initial": "ordered",
        "states": [
            "ordered",
            "packed",
            "under_way",
            "received",
            "returned",
            "lost",
            "cancelled",
        ],
        "terminal": ["received", "returned", "lost", "cancelled"],
        "transitions": [
            {"from": "ordered", "to": "packed", "on": "parcel.packed"},
            {"from": "ordered", "to": "cancelled", "on": "parcel.cancelled"},
            {"from": "ordered", "to": "cancelled", "on": "payment.failed"},
            {"from": "packed", "to": "under_way", "on": "parcel.handed_over"},
            {"from": "packed", "to": "cancelled", "on": "parcel.cancelled"},
            {"from": "under_way", "to": "under_way", "on": "parcel.scanned"},
            {"from": "under_way", "to": "received", "on": "parcel.delivered"},
            {"from": "under_way", "to": "returned", "on": "parcel.delivered"},
            {"from": "under_way", "to": "lost", "on": "parcel.delivered"},
        ],
        "timeouts": [{"state": "under_way", "seconds": FORTNIGHT, "to": "lost"}],
    }


def test_a_row_that_is_only_printed_moves_nothing() -> None:
    """Such a row is in the picture, behind the others; its phase stays terminal."""
    extra = Row("received", "ordered", "shelf freed")
    law = dataclasses.replace(LIFECYCLE, printed=(extra,))

    assert rows(law) == (*rows(LIFECYCLE), extra)
    assert law.terminal == LIFECYCLE.terminal


class Other(StrEnum):
    """Phases of something else."""

    ORDERED = "ordered"


class Impostor(Rune, frozen=True, tag="parcel.packed"):
    """Another class of a kind that is taken."""


class Thawed(msgspec.Struct):
    """A state that could be changed in place."""

    phase: Phase = Phase.ORDERED


def changed(phase: Phase, row: dict[type[Rune], Any]) -> dict[str, Any]:
    """Return the parcel's table with another row in it."""
    return {"table": {**TABLE, phase: row}}


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a phase left out": (
        {"table": {phase: row for phase, row in TABLE.items() if phase is not Phase.LOST}},
        "phase lost is not in the table",
    ),
    "a target of another machine": (
        changed(Phase.PACKED, {**TABLE[Phase.PACKED], Scanned: Other.ORDERED}),
        "parcel.scanned leads from packed to ordered, which is no phase",
    ),
    "phases of another machine": ({"table": {Other.ORDERED: {}}}, "not one of Phase"),
    "an empty table": ({"table": {}}, "not one of Phase"),
    "a phase nobody gets to": (
        changed(Phase.PACKED, {Cancelled: Phase.CANCELLED}),
        "phase under_way cannot be reached from ordered",
    ),
    "a kind claimed twice": (
        changed(Phase.PACKED, {**TABLE[Phase.PACKED], Impostor: Phase.PACKED}),
        "two classes claim the kind parcel.packed",
    ),
    "a field that is not there": (
        changed(Phase.PACKED, {**TABLE[Phase.PACKED], Scanned: ByField("x", {1: Phase.LOST})}),
        "parcel.scanned has no field x",
    ),
    "a state that is not frozen": ({"initial": Thawed()}, "not a frozen msgspec.Struct"),
    "a timeout that is not positive": (
        {"timeouts": (Timeout(Phase.UNDER_WAY, 0, Phase.LOST),)},
        "timeout of under_way is not positive",
    ),
    "a timeout without a rune": (
        {"timeouts": (Timeout(Phase.ORDERED, 1, Phase.LOST),)},
        "a timeout ends ordered in lost, and no rune does",
    ),
    "a version below 1": ({"version": 0}, "version is below 1"),
}


@pytest.mark.parametrize("flaw", BROKEN)
def test_a_law_that_contradicts_itself_is_refused(flaw: str) -> None:
    """A lifecycle with a hole cannot be made, and the message says where the hole is."""
    changes, complaint = BROKEN[flaw]

    with pytest.raises(BrokenLaw, match=complaint):
        dataclasses.replace(LIFECYCLE, **changes)


def test_every_rune_of_the_table_is_known_to_the_lifecycle() -> None:
    """`runes` is what a catalogue lists: the classes the table mentions, no others."""
    assert {kind_of(cls) for cls in LIFECYCLE.runes} == {
        "parcel.packed",
        "parcel.handed_over",
        "parcel.scanned",
        "parcel.delivered",
        "parcel.cancelled",
        "payment.failed",
    }

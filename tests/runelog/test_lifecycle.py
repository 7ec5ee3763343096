"""Rules about lifecycles, proven on a parcel."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runefold.testing.spec import Given
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import (
    fold,
    state_hash,
    step,
)
from runelog.rune import Rune, Tombstone, Unknown
from tests.runelog.parcel import (
    LIFECYCLE,
    TABLE,
    AskToPack,
    CallCarrier,
    Cancel,
    Cancelled,
    Command,
    Deliver,
    Delivered,
    Effect,
    Expire,
    HandedOver,
    HandOver,
    Ordered,
    Pack,
    Packed,
    PaymentFailed,
    PaymentSettled,
    Phase,
    Scan,
    Scanned,
    State,
    WakeAt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERED = (Ordered(address="Kirkwall"), PaymentSettled(cents=900))
PACKED = (*ORDERED, Packed(request="p", grams=250))
UNDER_WAY = (*PACKED, HandedOver(request="h", deadline=1_000))

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.ORDERED: ORDERED,
    Phase.PACKED: PACKED,
    Phase.UNDER_WAY: UNDER_WAY,
    Phase.RECEIVED: (*UNDER_WAY, Delivered(request="d", outcome="received")),
    Phase.RETURNED: (*UNDER_WAY, Delivered(request="d", outcome="refused")),
    Phase.LOST: (*UNDER_WAY, Delivered(request="d", outcome="lost")),
    Phase.CANCELLED: (*PACKED, Cancelled(request="c")),
}
"""One way into each phase."""

SAMPLES: dict[str, Rune] = {
    "ordered": Ordered(address="Lerwick"),
    "packed": Packed(request="1", grams=1),
    "handed over": HandedOver(request="2", deadline=2_000),
    "scanned": Scanned(request="3", place="Thurso"),
    "received": Delivered(request="4", outcome="received"),
    "refused": Delivered(request="5", outcome="refused"),
    "undeliverable": Delivered(request="6", outcome="undeliverable"),
    "lost": Delivered(request="7", outcome="lost"),
    "cancelled": Cancelled(request="8"),
    "paid": PaymentSettled(cents=1),
    "not paid": PaymentFailed(),
}
"""One rune for each way a rune can lead."""

MOVES: dict[tuple[Phase, str], Phase] = {
    (Phase.ORDERED, "packed"): Phase.PACKED,
    (Phase.ORDERED, "cancelled"): Phase.CANCELLED,
    (Phase.ORDERED, "not paid"): Phase.CANCELLED,
    (Phase.PACKED, "handed over"): Phase.UNDER_WAY,
    (Phase.PACKED, "cancelled"): Phase.CANCELLED,
    (Phase.UNDER_WAY, "scanned"): Phase.UNDER_WAY,
    (Phase.UNDER_WAY, "received"): Phase.RECEIVED,
    (Phase.UNDER_WAY, "refused"): Phase.RETURNED,
    (Phase.UNDER_WAY, "undeliverable"): Phase.RETURNED,
    (Phase.UNDER_WAY, "lost"): Phase.LOST,
}
"""The parcel's picture, written down a second time and by hand."""

NEVER_MOVES = {"ordered", "paid"}
"""Runes that the table does not mention."""
OBSERVED = {"paid", "not paid"}

COMMANDS: tuple[Command, ...] = (
    Pack(request="P", grams=2),
    HandOver(request="H", deadline=3_000),
    Scan(request="S", place="Wick"),
    Deliver(request="D", outcome="received"),
    Expire(request="E", now=5_000),
    Cancel(request="C"),
)

ALLOWED: dict[Phase, set[type[Command]]] = {
    Phase.ORDERED: {Pack, Cancel},
    Phase.PACKED: {HandOver, Cancel},
    Phase.UNDER_WAY: {Scan, Deliver, Expire},
}
"""Which commands are carried out in which phase; all others are refused."""


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_rune_moves_the_phase_as_drawn_or_not_at_all(phase: Phase, sample: str) -> None:
    """In every phase every rune leads where the picture says; the rest is observed or illegal."""
    state, rune = fold(LIFECYCLE, PAST[phase]), SAMPLES[sample]
    target = MOVES.get((phase, sample))

    assert state.phase is phase
    if target is not None:
        assert step(TABLE, phase, rune) is target
        assert LIFECYCLE.apply(state, rune).phase is target
    else:
        with pytest.raises(IllegalTransition):
            step(TABLE, phase, rune)
        if sample in OBSERVED | NEVER_MOVES:
            assert LIFECYCLE.apply(state, rune).phase is phase
        else:
            with pytest.raises(IllegalTransition):
                LIFECYCLE.apply(state, rune)


def test_an_illegal_transition_names_entity_phase_and_rune() -> None:
    """Whoever reads the error knows which table to open, and at which row."""
    with pytest.raises(IllegalTransition, match=r"^parcel in phase packed .* parcel\.scanned$"):
        LIFECYCLE.apply(fold(LIFECYCLE, PACKED), SAMPLES["scanned"])


def test_a_value_without_a_target_is_illegal_and_named() -> None:
    """A field's value that the table does not list leads nowhere, however the rune was made."""
    odd = Delivered(request="x", outcome="eaten")  # type: ignore[arg-type]  # as a newer log has it

    with pytest.raises(IllegalTransition, match="outcome = 'eaten'"):
        fold(LIFECYCLE, [*UNDER_WAY, odd])
    with pytest.raises(IllegalTransition, match="outcome = "):
        fold(LIFECYCLE, [*UNDER_WAY, msgspec.structs.replace(odd, outcome=[])])


def test_evolve_may_not_move_the_phase() -> None:
    """Only the table moves it: an `evolve` that does so itself is a bug, and says so at once."""

    def meddling(state: State, rune: Rune) -> State:
        del rune
        return msgspec.structs.replace(state, phase=Phase.LOST)

    law = dataclasses.replace(LIFECYCLE, evolve=meddling)

    with pytest.raises(IllegalTransition, match="only the table moves it"):
        fold(law, [SAMPLES["packed"]])


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_what_is_decided_can_be_folded_and_is_decided_once(phase: Phase, command: Command) -> None:
    """A command is carried out or refused; carried out, it leads to nothing when it is repeated."""
    parcel = Given(LIFECYCLE, *PAST[phase])

    if type(command) in ALLOWED.get(phase, ()):
        assert parcel.when(command)
        assert parcel.after(command).when(command) == []
    else:
        with pytest.raises(Refused, match=f"^parcel is {phase}: .* {type(command).__name__} now$"):
            parcel.when(command)


def test_a_command_carried_out_long_ago_still_leads_to_nothing() -> None:
    """The first answer holds even once the phase would refuse the command."""
    received = Given(LIFECYCLE, *PAST[Phase.RECEIVED])

    assert received.when(Pack(request="p", grams=250)) == []
    with pytest.raises(Refused):
        received.when(Pack(request="another", grams=250))


def answer(effect: Effect) -> Command:
    """Return the command that comes back once an effect was performed."""
    match effect:
        case AskToPack():
            return Pack(request="due", grams=3)
        case CallCarrier():
            return HandOver(request="due", deadline=4_000)
        case WakeAt(deadline):
            return Expire(request="due", now=deadline)


def walk(wishes: Sequence[Rune]) -> list[Rune]:
    """Keep those of the runes that are allowed where they come."""
    state, past = LIFECYCLE.initial, []
    for rune in wishes:
        if LIFECYCLE.allows(state, rune):
            state = LIFECYCLE.apply(state, rune)
            past.append(rune)
    return past


histories = st.lists(st.sampled_from(list(SAMPLES.values())), max_size=30).map(walk)


@given(histories)
def test_what_is_due_is_allowed(past: list[Rune]) -> None:
    """An effect is never due whose outcome the law would then refuse."""
    parcel = Given(LIFECYCLE, *past)

    for effect in parcel.due:
        assert parcel.when(answer(effect))


@given(histories)
def test_nothing_is_due_once_it_is_over(past: list[Rune]) -> None:
    """A terminal phase asks for nothing."""
    parcel = Given(LIFECYCLE, *past)

    assert LIFECYCLE.is_over(parcel.state) == (parcel.state.phase in LIFECYCLE.terminal)
    if LIFECYCLE.is_over(parcel.state):
        assert parcel.due == []


@given(histories, st.data())
def test_folding_in_two_goes_is_folding_in_one(past: list[Rune], data: st.DataObject) -> None:
    """A fold that goes on from a state ends where one from the beginning does, hash for hash."""
    cut = data.draw(st.integers(0, len(past)))
    whole = fold(LIFECYCLE, past)
    halves = fold(LIFECYCLE, past[cut:], fold(LIFECYCLE, past[:cut]))

    assert halves == whole
    assert state_hash(halves) == state_hash(whole)


@given(histories, st.data())
def test_what_is_not_understood_is_skipped(past: list[Rune], data: st.DataObject) -> None:
    """Unknown kinds and tombstones change nothing, wherever they are: `evolve` never sees them."""

    def strict(state: State, rune: Rune) -> State:
        assert not isinstance(rune, Unknown | Tombstone)
        return LIFECYCLE.evolve(state, rune)

    law = dataclasses.replace(LIFECYCLE, evolve=strict)
    odd: list[Rune] = [Unknown(name="parcel.x", fields={}), Tombstone(reason="secret")]
    mixed = list(past)
    for rune in odd:
        mixed.insert(data.draw(st.integers(0, len(mixed))), rune)

    assert fold(law, mixed) == fold(LIFECYCLE, past)


def test_a_fold_looks_at_each_rune_once() -> None:
    """A long stream costs as many steps as it has runes, from any iterator."""
    seen = 0

    def counting(state: State, rune: Rune) -> State:
        nonlocal seen
        seen += 1
        return LIFECYCLE.evolve(state, rune)

    law = dataclasses.replace(LIFECYCLE, evolve=counting)
    scans = (Scanned(request=str(n), place="Wick") for n in range(20_000))
    state = fold(law, scans, fold(LIFECYCLE, UNDER_WAY))

    assert state.scans == seen == 20_000


def test_a_deadline_is_a_time_in_a_rune() -> None:
    """Before the deadline nothing happens, from then on the parcel is lost."""
    parcel = Given(LIFECYCLE, *UNDER_WAY)

    assert parcel.due == [WakeAt(1_000)]
    assert parcel.when(Expire(request="e", now=999)) == []
    assert parcel.when(Expire(request="e", now=1_000)) == [Delivered(request="e", outcome="lost")]


def test_an_observed_rune_is_taken_in_where_it_does_not_move() -> None:
    """What others do is noted in any phase, the last ones included."""
    late = Given(LIFECYCLE, *PAST[Phase.RECEIVED]).having(PaymentFailed(), PaymentSettled(cents=5))

    assert late.state.phase is Phase.RECEIVED
    assert late.state.payment_failed
    assert late.state.paid == 905


def test_a_law_is_given_what_it_reads_and_nothing_else() -> None:
    """Only a law that reads another entity is asked with its state; the others take no more."""

    def read(state: State, command: Command, other: object = None) -> list[Rune]:
        del state, command
        return [Packed(request=str(other), grams=1)]

    law = dataclasses.replace(LIFECYCLE, decide=read, reads="scales")

    assert law.decided(law.initial, COMMANDS[0], str.upper) == [Packed(request="SCALES", grams=1)]
    assert Given(law, *ORDERED).when(COMMANDS[0], 7) == [Packed(request="7", grams=1)]
    blind = dataclasses.replace(law, reads="")
    assert blind.decided(law.initial, COMMANDS[0], str.upper) == [Packed(request="None", grams=1)]


def test_given_refuses_runes_that_cannot_be_folded() -> None:
    """The helper is as strict as an append: what cannot be folded is not an answer."""
    law = dataclasses.replace(LIFECYCLE, decide=lambda _state, _command: [SAMPLES["scanned"]])

    with pytest.raises(IllegalTransition):
        Given(law, *ORDERED).when(COMMANDS[0])

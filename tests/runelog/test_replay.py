"""Rules about replay: the same state, hash for hash, with or without snapshots."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runelog.codec import Codec
from runelog.errors import UnknownConversation
from runelog.lifecycle import Lifecycle, fold, state_hash
from runelog.memory import MemoryLog
from runelog.replay import Replayed, anchor, remember, replay
from runelog.rune import Change, Envelope, Rune
from runelog.snapshot import Snapshots
from tests.runelog.parcel import (
    LIFECYCLE,
    HandedOver,
    Ordered,
    Packed,
    PaymentSettled,
    Phase,
    Scanned,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

KINDS: list[type[Rune]] = [Ordered, Packed, HandedOver, Scanned, PaymentSettled]
START = (Ordered(address="Kirkwall"), Packed(request="p", grams=1), HandedOver("h", 10))


def clock() -> int:
    """Stand still: nothing here depends on the time."""
    return 1_000


def journey(count: int = 40, log: MemoryLog | None = None) -> MemoryLog:
    """Return a log of one parcel's journey, with another parcel's runes in between."""
    log = log or MemoryLog(Codec(KINDS), clock)
    log.append("conv_a", [Change("parcel_1", None, START), Change("parcel_2", None, START)])
    for n in range(count):
        entity = f"parcel_{1 + n % 3 % 2}"
        scan = Scanned(request=f"s{n}", place=f"place {n}")
        log.append("conv_a", [Change(entity, None, [scan])])
        if n % 7 == 0:
            paid = PaymentSettled(cents=n)
            log.append("conv_a", [Change("payment_1", None, [paid], ("parcel_1",))])
    return log


def expected(log: MemoryLog, until: int | None, entity: str = "parcel_1") -> Replayed[Any]:
    """Fold from the very beginning, by hand."""
    seen = list(log.stream("conv_a", entity, 0, until))
    state = fold(LIFECYCLE, [envelope.payload for envelope in seen])
    return Replayed(state, seen[-1].event_id if seen else 0, len(seen))


def keeping(log: MemoryLog, snapshots: Snapshots, until: int | None = None) -> Replayed[Any]:
    """Replay a parcel and keep snapshots each 5 runes."""
    return replay(
        log, "conv_a", LIFECYCLE, until, entity="parcel_1", snapshots=snapshots, save_every=5
    )


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """Return an empty cache."""
    return Snapshots(tmp_path / "snapshots")


def test_an_entity_is_replayed_to_any_event() -> None:
    """At every event the state is that of folding the entity's stream up to there."""
    log = journey()
    for until in (*range(log.position + 2), None):
        assert replay(log, "conv_a", LIFECYCLE, until, entity="parcel_1") == expected(log, until)


def test_without_an_entity_the_whole_conversation_is_folded() -> None:
    """A fold over a conversation sees all of its runes, and its version is the event id."""
    log = MemoryLog(Codec(KINDS), clock)
    log.append("conv_a", [Change("parcel_1", None, START), Change("payment_1", None, PAID)])
    found = replay(log, "conv_a", LIFECYCLE)

    assert (found.event_id, found.version) == (4, 4)
    assert (found.state.phase, found.state.paid) == (Phase.UNDER_WAY, 9)
    assert replay(log, "conv_a", LIFECYCLE, 3).state.paid == 0


PAID = (PaymentSettled(cents=9),)


def test_runes_that_say_nothing_are_skipped_and_counted() -> None:
    """Kinds that are not known do not move a state, and count as part of the stream."""
    log = journey()
    blind = MemoryLog(Codec([kind for kind in KINDS if kind is not PaymentSettled]), clock)
    journey(log=blind)
    found = replay(blind, "conv_a", LIFECYCLE, entity="parcel_1")

    assert found.state.paid == 0
    assert found.version == expected(log, None).version


def test_an_unknown_conversation_is_refused() -> None:
    """There is nothing to replay of a conversation that is not there."""
    with pytest.raises(UnknownConversation):
        replay(MemoryLog(), "conv_a", LIFECYCLE)


def test_an_unknown_entity_is_in_its_initial_state() -> None:
    """An entity without runes has the state before the first one."""
    assert replay(journey(), "conv_a", LIFECYCLE, entity="parcel_9") == (LIFECYCLE.initial, 0, 0)


def test_save_every_must_be_positive(snapshots: Snapshots) -> None:
    """A distance between snapshots that is not positive is a mistake of the caller."""
    with pytest.raises(ValueError, match="save_every is 0"):
        replay(journey(), "conv_a", LIFECYCLE, snapshots=snapshots, save_every=0)


class Counting(MemoryLog):
    """A log that counts the runes it gives out."""

    given = 0

    def stream(
        self, conversation: str, entity: str, after: int = 0, until: int | None = None
    ) -> Iterator[Envelope]:
        """Yield, and count."""
        for envelope in super().stream(conversation, entity, after, until):
            self.given += 1
            yield envelope

    def read(
        self,
        conversation: str,
        after: int = 0,
        until: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Envelope]:
        """Yield, and count."""
        for envelope in super().read(conversation, after, until, kinds):
            self.given += 1
            yield envelope


def test_replay_begins_at_the_newest_snapshot(snapshots: Snapshots) -> None:
    """With snapshots each 10 runes no more than 10 are read for any event, to the same state."""
    log = journey(100, Counting(Codec(KINDS), clock))
    assert isinstance(log, Counting)
    replay(log, "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots, save_every=10)
    for until in range(log.position + 1):
        truth = expected(log, until)
        log.given = 0
        found = replay(log, "conv_a", LIFECYCLE, until, entity="parcel_1", snapshots=snapshots)
        assert found == truth
        assert state_hash(found.state) == state_hash(truth.state)
        assert log.given <= 10
    assert not snapshots.problems


def test_replaying_again_keeps_nothing_new(snapshots: Snapshots) -> None:
    """Snapshots lie at round numbers, so that whoever replays keeps the same ones, once."""
    log = journey(100)
    path = snapshots.root / "conv_a.snap"
    keeping(log, snapshots)
    size = path.stat().st_size
    for until in (None, 17, 93, 40, None):
        keeping(log, snapshots, until)

    assert path.stat().st_size == size


def test_replay_writes_nothing_unless_asked(snapshots: Snapshots) -> None:
    """Without `save_every` not even the cache is touched."""
    replay(journey(), "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots)

    assert not snapshots.root.exists()


def test_conversations_are_kept_apart_from_their_entities(snapshots: Snapshots) -> None:
    """The fold of a conversation and that of an entity in it do not share snapshots."""
    log = MemoryLog(Codec(KINDS), clock)
    log.append("conv_a", [Change("parcel_1", None, START)])
    log.append("conv_a", [Change("payment_1", None, PAID * 7)])
    whole = replay(log, "conv_a", LIFECYCLE, snapshots=snapshots, save_every=1)
    part = replay(log, "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots, save_every=1)

    assert (whole.state.paid, part.state.paid) == (63, 0)
    again = replay(log, "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots)
    assert again == part


def test_another_law_does_not_use_old_snapshots(snapshots: Snapshots) -> None:
    """A lifecycle of another version folds anew, from the first rune on, and keeps its own states.

    What the two versions make of an early rune differs, and no later rune sets it again.
    """
    log = journey()

    def evolve(state: State, rune: Rune) -> State:
        heavier = Packed(rune.request, rune.grams + 76) if isinstance(rune, Packed) else rune
        return LIFECYCLE.evolve(state, heavier)

    later = dataclasses.replace(LIFECYCLE, version=LIFECYCLE.version + 1, evolve=evolve)
    found = [
        replay(log, "conv_a", law, entity="parcel_1", snapshots=snapshots, save_every=5).state
        for law in (LIFECYCLE, later, LIFECYCLE, later)
    ]

    assert found[0] == expected(log, None).state
    assert found[1] == fold(later, [each.payload for each in log.stream("conv_a", "parcel_1")])
    assert [state.grams for state in found] == [1, 77, 1, 77]


def test_a_snapshot_ahead_of_the_log_is_not_used(snapshots: Snapshots) -> None:
    """If the log lost its tail, a snapshot of what was lost is passed over for an earlier one."""
    long, short = journey(60), journey(30)
    replay(long, "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots, save_every=5)

    found = replay(short, "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots)
    assert found == expected(short, None)


def test_a_snapshot_of_another_history_is_not_used(snapshots: Snapshots) -> None:
    """If the log went another way since, at the same event ids, only what both share is used."""
    first, second = journey(20), journey(20)
    for log, place in ((first, "lost"), (second, "found")):
        scans = [Scanned(request=f"x{n}", place=place) for n in range(40)]
        log.append("conv_a", [Change("parcel_1", None, scans)])
    keeping(first, snapshots)

    for _ in range(2):
        found = keeping(second, snapshots)
        assert found == expected(second, None)
    assert any("the log has other runes there" in problem for problem in snapshots.problems)
    snapshots.problems.clear()
    keeping(second, snapshots)
    assert not snapshots.problems


def test_an_anchor_is_about_the_rune_not_its_position() -> None:
    """Moving a conversation within the log changes no anchor; any change of the rune does."""
    codec = Codec(KINDS)
    body, other = codec.encode("conv_a", Change("parcel_1", None, START[:2]))

    def at(body: bytes, event_id: int, position: int, time: int) -> bytes:
        place = {"event_id": event_id, "position": position, "time": time}
        return anchor(codec.envelope(body, conversation="conv_a", **place))

    assert at(body, 1, 1, 1) == at(body, 1, 99, 1)
    assert len({at(body, 1, 1, 1), at(other, 1, 1, 1), at(body, 2, 1, 1), at(body, 1, 1, 2)}) == 4


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_damaged_snapshots_change_no_state(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Whatever is done to the files, states are the same as without them."""
    pick = random.Random(seed)
    log = journey(60)
    snapshots = Snapshots(tmp_path_factory.mktemp("damaged"))
    keeping(log, snapshots)
    path = snapshots.root / "conv_a.snap"
    data = bytearray(path.read_bytes())
    for _ in range(pick.randint(1, 5)):
        at = pick.randrange(len(data))
        data[at : at + pick.choice((0, 1, 9))] = pick.randbytes(pick.choice((0, 1, 3)))
    path.write_bytes(data[: pick.choice((len(data), pick.randrange(len(data) + 1)))])

    for handle in (snapshots, Snapshots(snapshots.root)):
        for until in (5, 33, None):
            found = keeping(log, handle, until)
            assert found == expected(log, until)


class Mood(StrEnum):
    """One phase is enough here."""

    CALM = "calm"


class Heard(Rune, frozen=True, tag="ear.heard"):
    """Something was heard."""


class Loose(msgspec.Struct, frozen=True):
    """A state whose field may be anything, so that a tuple would come back as a list."""

    phase: Mood = Mood.CALM
    heard: object = ()


class Odd:
    """Something that cannot be encoded."""


def subscriber(what: object) -> Lifecycle[Mood, Loose, object, object]:
    """Return a lifecycle whose state takes `what` in."""
    return Lifecycle(
        name="ear",
        table={Mood.CALM: {Heard: Mood.CALM}},
        initial=Loose(),
        decide=lambda _state, _command: [],
        evolve=lambda state, _rune: msgspec.structs.replace(state, heard=what),
        due=lambda _state: [],
    )


@pytest.mark.parametrize("what", [(1, 2), Odd(), {(1, 2): 3}], ids=["tuple", "odd", "keys"])
def test_a_state_that_would_not_come_back_is_not_kept(snapshots: Snapshots, what: object) -> None:
    """Only what decodes to the very same state is kept; anything else is folded each time."""
    log = MemoryLog(Codec([Heard]), clock)
    log.append("conv_a", [Change("ear_1", None, [Heard()] * 3)])
    for _ in range(2):
        found = replay(log, "conv_a", subscriber(what), snapshots=snapshots, save_every=2)
        assert found == (Loose(heard=what), 3, 3)

    assert "cannot be kept" in snapshots.problems[-1]
    assert not snapshots.root.exists()


def test_a_snapshot_that_no_longer_decodes_is_not_used(snapshots: Snapshots) -> None:
    """A state whose type has changed under the same version is folded anew."""
    log = MemoryLog(Codec([Heard]), clock)
    log.append("conv_a", [Change("ear_1", None, [Heard()] * 3)])
    replay(log, "conv_a", subscriber("text"), snapshots=snapshots, save_every=2)

    class Strict(msgspec.Struct, frozen=True):
        phase: Mood = Mood.CALM
        heard: int = 0

    changed: Lifecycle[Any, Any, Any, Any] = subscriber(5)
    found = replay(
        log, "conv_a", dataclasses.replace(changed, initial=Strict()), snapshots=snapshots
    )
    assert tuple(found) == (Strict(heard=5), 3, 3)
    assert "is not used" in snapshots.problems[-1]


def test_a_live_state_can_be_remembered(snapshots: Snapshots) -> None:
    """Who holds the state after a commit can keep it, and replay finds it."""
    log = journey(20, Counting(Codec(KINDS), clock))
    assert isinstance(log, Counting)
    *_, latest = log.stream("conv_a", "parcel_1")
    truth = expected(log, None)
    remember(snapshots, LIFECYCLE, latest, truth.version, truth.state, entity="parcel_1")
    log.given = 0

    assert replay(log, "conv_a", LIFECYCLE, entity="parcel_1", snapshots=snapshots) == truth
    assert log.given == 1


def test_memory_does_not_grow_with_the_log(snapshots: Snapshots) -> None:
    """Runes are folded as they are read: ten times as many take no more memory."""
    peaks = []
    for count in (2_000, 20_000):
        log = MemoryLog(Codec(KINDS), clock)
        log.append("conv_a", [Change("parcel_1", None, START)])
        scans = [Scanned(request=f"s{n}", place="x" * 50) for n in range(count)]
        log.append("conv_a", [Change("parcel_1", None, scans)])
        tracemalloc.start()
        replay(log, "conv_a", LIFECYCLE, snapshots=snapshots)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 1.5 * peaks[0]

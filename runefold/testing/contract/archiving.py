"""The contract on cold storage: archiving conversations, and restoring them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    A,
    B,
    Base,
    C,
    NoteAttached,
    facts,
    ids,
    merged,
    notes,
    picture,
    some,
    texts,
)
from runelog.errors import Cold, Refused, UnknownConversation, WrongVersion
from runelog.rune import SYSTEM, Change, Envelope, Gap, State

if TYPE_CHECKING:
    from runelog.log import Log


class Archiving(Base):
    """Archiving and restoring: out of the way, and back."""

    def test_an_archived_conversation_reads_as_before(self, log: Log) -> None:
        """Archived runes, streams and versions are found through the same calls."""
        some(log)
        before = [facts(rune) for rune in log.read(A)]
        log.archive(A)

        assert [facts(rune) for rune in log.read(A)] == before
        assert ids(log.read(A, after=1, until=2)) == [2]
        assert ids(log.read(A, kinds={"note.revised"})) == []
        assert texts(log.stream(A, "book_1", after=1)) == ["a2", "a3"]
        assert texts(log.follow(A, after=2, wait=0)) == ["a3"]
        assert log.version(A, "book_1") == 3
        assert log.version(A, "nobody") == 0

    def test_an_archived_conversation_stays_listed(self, log: Log) -> None:
        """Head, size and times stay known; the state says that it is archived."""
        some(log)
        before = log.conversation(A)
        log.archive(A)

        after = log.conversation(A)
        assert after.state is State.ARCHIVED
        assert (after.id, after.head, after.size) == (before.id, before.head, before.size)
        assert (after.first_time, after.last_time) == (before.first_time, before.last_time)
        assert after in list(log.conversations())

    def test_an_archived_conversation_is_not_appended_to(self, log: Log) -> None:
        """An append to an archived conversation is refused as `Cold`, whatever else is wrong."""
        some(log)
        log.archive(A)
        before = picture(log)

        with pytest.raises(Cold):
            log.append(A, [notes("note_1", "x")])
        with pytest.raises(Cold):
            log.append(A, [notes("note_1", "x", version=77)], durable=False)

        assert picture(log) == before

    def test_a_gap_stands_where_runes_were_archived(self, log: Log) -> None:
        """In the order of the log, archived runes are gaps that name conversation and reason."""
        some(log)
        log.archive(A)

        assert log.position == 6
        assert texts(log.read_all()) == ["[archived]", "b1", "c1", "[archived]", "b2"]
        gaps = [gap for gap in merged(log.read_all()) if isinstance(gap, Gap)]
        assert gaps == [Gap(1, 2, "archived", A), Gap(5, 5, "archived", A)]
        assert merged(log.read_all(after=1))[0] == Gap(2, 2, "archived", A)

    def test_gaps_of_different_conversations_are_told_apart(self, log: Log) -> None:
        """Gaps that touch each name their own conversation; together they cover every position."""
        some(log)
        log.archive(B, C)
        log.erase(A)

        assert merged(log.read_all()) == [
            Gap(1, 2, "erased", A),
            Gap(3, 3, "archived", B),
            Gap(4, 4, "archived", C),
            Gap(5, 5, "erased", A),
            Gap(6, 6, "archived", B),
        ]

    def test_every_large_field_is_archived(self, log: Log) -> None:
        """Also one that comes with, or after, others that were there before it."""
        first, second, third = (letter * (64 << 10) for letter in ("a", "b", "c"))
        pages = [(first,), (first, second), (third, first, second)]
        size = 2 << 20
        runes = [NoteAttached(content=bytes(size), pages=each) for each in pages]
        for rune in runes:
            log.append(A, [Change("note_1", None, [rune])])
        before = [facts(rune) for rune in log.read(A)]
        log.archive(A)
        archived = [facts(rune) for rune in log.read(A)]
        log.restore(A)

        assert archived == before
        assert [rune.payload for rune in log.read(A)] == runes

    def test_archiving_again_does_nothing(self, log: Log) -> None:
        """Archiving what is archived changes nothing, alone or with others."""
        some(log)
        log.archive(A)
        before = picture(log)
        log.archive(A, A)

        assert picture(log) == before

        log.archive(A, B)

        assert log.conversation(B).state is State.ARCHIVED

    def test_open_work_is_not_archived(self, log: Log) -> None:
        """A conversation with open work is refused, by the entity's name; all stay as they were."""
        some(log)
        log.append(A, [notes("note_7", "a", open=True)])
        before = picture(log)

        with pytest.raises(Refused, match="note_7"):
            log.archive(B, A)

        assert picture(log) == before

        log.append(A, [notes("note_7", "b", open=False)])
        log.archive(B, A)

        assert list(log.open_work(A)) == []

    @pytest.mark.parametrize("verb", ["archive", "restore", "erase"])
    def test_an_unknown_conversation_cannot_be_moved(self, log: Log, verb: str) -> None:
        """Naming a conversation that is not there is refused, and the others stay as they were."""
        some(log)
        before = picture(log)

        with pytest.raises(UnknownConversation) as caught:
            getattr(log, verb)(A, "conv_unknown", B)

        assert caught.value.conversation == "conv_unknown"
        assert picture(log) == before

    @pytest.mark.parametrize("verb", ["archive", "erase"])
    def test_the_system_conversation_stays(self, log: Log, verb: str) -> None:
        """What belongs to no conversation can be neither archived nor erased."""
        some(log)
        log.append(SYSTEM, [notes("worker_1", "x")])
        before = picture(log)

        with pytest.raises(Refused, match=SYSTEM):
            getattr(log, verb)(A, SYSTEM)

        assert picture(log) == before

    @pytest.mark.parametrize("verb", ["archive", "restore", "erase"])
    def test_moving_nothing_does_nothing(self, log: Log, verb: str) -> None:
        """No names, nothing to do."""
        some(log)
        before = picture(log)
        getattr(log, verb)()

        assert picture(log) == before

    def test_a_restored_conversation_goes_on(self, log: Log) -> None:
        """Once restored, a conversation has its ids, versions and runes, and is appended to."""
        some(log)
        before = list(log.read(A))
        described = log.conversation(A)
        log.archive(A)
        log.restore(A)

        assert log.conversation(A) == described
        restored = list(log.read(A))
        assert [facts(rune)[3:] for rune in restored] == [facts(rune)[3:] for rune in before]
        assert ids(restored) == ids(before)
        with pytest.raises(WrongVersion):
            log.append(A, [notes("book_1", "x", version=0)])
        appended = log.append(A, [notes("book_1", "a4", version=3, observers=("note_1",))])

        assert (appended.first, appended.position) == (4, 10)
        assert texts(log.read(A)) == ["a1", "a2", "a3", "a4"]
        assert texts(log.read(A, after=2)) == ["a3", "a4"]
        assert texts(log.stream(A, "note_1")) == ["a1", "a2", "a4"]
        assert texts(log.stream(A, "book_1", after=3)) == ["a4"]
        assert log.conversation(A).first_time == described.first_time

    def test_restored_runes_are_not_delivered_again(self, log: Log) -> None:
        """Those who follow the log had them once: a gap says they moved, only new runes come."""
        some(log)
        log.archive(A)
        log.restore(A)

        assert texts(log.read_all()) == ["[moved]", "b1", "c1", "[moved]", "b2"]
        assert texts(log.follow(after=6, wait=0)) == []

        log.append(A, [notes("note_1", "a4")])

        assert texts(log.read_all(after=4)) == ["[moved]", "b2", "a4"]
        assert texts(log.follow(after=6, wait=0)) == ["a4"]

        log.archive(A)

        assert texts(log.read_all(after=4)) == ["[archived]", "b2", "[archived]"]

    def test_restored_runes_have_new_positions(self, log: Log) -> None:
        """They lie behind all others, in order of conversation id, and keep event ids and times."""
        some(log)
        log.archive(A, B)
        log.restore(B, A)

        assert [(rune.event_id, rune.position) for rune in log.read(A)] == [(1, 7), (2, 8), (3, 9)]
        assert [(rune.event_id, rune.position) for rune in log.read(B)] == [(1, 10), (2, 11)]
        assert log.position == 11
        assert log.append(C, [notes("note_1", "c2")]).position == 12
        for after in range(6, 12):
            assert texts(log.read_all(after)) == ["c2"]

    def test_what_is_live_is_restored_already(self, log: Log) -> None:
        """Restoring a conversation that is not archived does nothing."""
        some(log)
        before = picture(log)
        log.restore(A, B)

        assert picture(log) == before

    def test_archiving_and_restoring_can_go_on(self, log: Log) -> None:
        """A conversation can be archived, restored, added to and archived again, many times."""
        some(log)
        for number in range(4, 8):
            log.archive(A, C)
            log.restore(C, A)
            log.append(A, [notes("note_1", f"a{number}", version=number - 2)])
            log.roll()
        log.archive(A)

        assert texts(log.read(A)) == [f"a{number}" for number in range(1, 8)]
        assert log.version(A, "note_1") == 6
        assert [rune.conversation for rune in log.read_all() if isinstance(rune, Envelope)] == [
            B,
            B,
        ]

    def test_blobs_are_archived_and_restored_too(self, log: Log) -> None:
        """Large fields can be read from a live, an archived and a restored conversation."""
        rune = NoteAttached(content=bytes(2 << 20), caption="big")
        log.append(A, [Change("note_1", None, [rune])])

        for move in (log.archive, log.restore, log.archive):
            move(A)
            assert [envelope.payload for envelope in log.read(A)] == [rune]

    def test_what_did_not_wait_is_archived_too(self, log: Log) -> None:
        """An append that returned before an archive is part of it, committed or not."""
        log.append(A, [notes("note_1", "a")])
        log.append(A, [notes("note_1", "b")], durable=False)
        log.archive(A)

        assert texts(log.read(A)) == ["a", "b"]
        assert log.conversation(A).head == 2

"""The contract on what a log knows without reading runes: its conversations and their open work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    CODEC,
    A,
    B,
    Base,
    C,
    NoteAttached,
    NoteRevised,
    notes,
)
from runelog.errors import UnknownConversation, WrongVersion
from runelog.rune import Change, Conversation, State, Work

if TYPE_CHECKING:
    from runelog.log import Log


class Indexing(Base):
    """The index: conversations, their sizes and times, and what is left to do."""

    def test_a_conversation_is_described(self) -> None:
        """Head, size in encoded bytes, first and last time are known of every conversation."""
        now = 0
        first = Change("note_1", None, [NoteRevised(text="a")], tags=("b",))
        second = notes("note_2", "c", "d", observers=("note_1",))
        bodies = CODEC.encode(A, first) + CODEC.encode(A, second)
        with self.make_log(clock=lambda: now) as log:
            now = 1_000
            log.append(A, [first])
            now = 2_000
            log.append(B, [notes("note_1", "x")])
            now = 3_000
            log.append(A, [second])

            assert log.conversation(A) == Conversation(
                A, 3, sum(map(len, bodies)), 1_000, 3_000, State.LIVE
            )
            assert log.conversation(B).head == 1
            assert log.conversation(B).first_time == log.conversation(B).last_time == 2_000

    def test_a_first_time_of_zero_is_a_time(self) -> None:
        """A clock that begins at 0, as in a simulation, is taken at its word."""
        now = 0
        with self.make_log(clock=lambda: now) as log:
            log.append(A, [notes("note_1", "a")])
            now = 5
            log.append(A, [notes("note_1", "b")])

            assert (log.conversation(A).first_time, log.conversation(A).last_time) == (0, 5)

    def test_it_is_known_which_sorts_of_entities_there_are(self, log: Log) -> None:
        """By how their ids begin, wherever they are; of what is erased there is nothing."""
        assert not log.may_hold("note_")
        log.append(A, [notes("note_1", "a", observers=("pad_1",))])
        log.append(B, [notes("leaf", "b")])
        for _ in range(3):
            held = [log.may_hold(start) for start in ("note_", "pad_", "leaf", "note_1")]
            others = [log.may_hold(start) for start in ("book_", "note_2", "not_", "z", "0")]

            assert (held, others) == ([True] * 4, [False] * 5)
            log.roll()
            log.append(B, [notes("leaf", "b")])
        log.archive(A)
        assert log.may_hold("note_")
        log.erase(A)
        assert (log.may_hold("note_"), log.may_hold("leaf")) == (False, True)

    def test_conversations_come_in_order_of_id(self, log: Log) -> None:
        """Every conversation is listed once, by id, however they were appended to."""
        names = ["conv_b", "conv_a", "Conv", "z", "0", "conv_a0", "conv_-", "conv_ab"]
        for name in names * 2:
            log.append(name, [notes("note_1", "a")])

        listed = list(log.conversations())
        assert [conversation.id for conversation in listed] == sorted(names)
        assert listed == [log.conversation(name) for name in sorted(names)]

    def test_many_conversations_are_all_listed(self, log: Log) -> None:
        """However many there are, each is listed once."""
        names = [f"conv_{number:04}" for number in range(1_500)]
        for name in names:
            log.append(name, [notes("note_1", "a", open=True)], durable=False)
        log.flush()

        assert [conversation.id for conversation in log.conversations()] == names
        assert sorted(work.conversation for work in log.open_work()) == names

    def test_blobs_are_not_part_of_the_size(self, log: Log) -> None:
        """The size of a conversation is that of its encoded runes, without what is kept aside."""
        log.append(A, [Change("note_1", None, [NoteAttached(content=bytes(2 << 20))])])

        assert 0 < log.conversation(A).size < 1_000

    # -- open work ----------------------------------------------------------------------------

    def test_open_work_is_what_was_opened_and_not_closed(self, log: Log) -> None:
        """An entity that says it is open is listed with its deadline until it says it is not."""
        log.append(A, [notes("note_1", "a", open=True, deadline=500), notes("note_2", "b")])
        log.append(A, [notes("note_3", "c", open=True), notes("note_4", "d", open=False)])

        assert work_of(log) == [Work(A, "note_1", 500), Work(A, "note_3", None)]

        log.append(A, [notes("note_1", "e", open=False)])

        assert work_of(log) == [Work(A, "note_3", None)]

    def test_saying_nothing_leaves_work_as_it_was(self, log: Log) -> None:
        """A change with `open=None` neither opens nor closes, and keeps the deadline."""
        log.append(A, [notes("note_1", "a", open=True, deadline=500)])
        log.append(A, [notes("note_1", "b"), notes("note_2", "c")])

        assert work_of(log) == [Work(A, "note_1", 500)]

    def test_the_last_word_on_a_deadline_holds(self, log: Log) -> None:
        """Opening again replaces the deadline, also by none, and 0 is a deadline too."""
        for deadline in (500, 300, 0, (1 << 63) - 1, None, 7):
            log.append(A, [notes("note_1", "a", open=True, deadline=deadline)])

            assert work_of(log) == [Work(A, "note_1", deadline)]

    def test_work_can_be_closed_and_opened_again(self, log: Log) -> None:
        """Whatever was said before, the last append decides."""
        for is_open in (True, False, True, False, False, True):
            log.append(A, [notes("note_1", "a", open=is_open)])

            assert work_of(log) == ([Work(A, "note_1", None)] if is_open else [])

    def test_work_can_be_opened_and_closed_without_a_rune(self, log: Log) -> None:
        """A change may say only whether there is work left; its version is checked all the same."""
        log.append(A, [notes("note_1", "a"), notes("note_2", version=0, open=True, deadline=9)])

        assert work_of(log) == [Work(A, "note_2", 9)]
        assert log.version(A, "note_2") == 0
        with pytest.raises(WrongVersion):
            log.append(A, [notes("note_1", "b"), notes("note_2", version=1, open=False)])
        log.append(A, [notes("note_1", "c"), notes("note_2", version=0, open=False)])
        assert work_of(log) == []

    def test_work_belongs_to_the_owner(self, log: Log) -> None:
        """Observing a rune that opens work opens none for the observer."""
        log.append(A, [notes("note_1", "a", open=True, observers=("book_1",))])

        assert work_of(log) == [Work(A, "note_1", None)]

    def test_work_can_be_asked_for_by_conversation(self, log: Log) -> None:
        """The open work of one conversation is listed without that of others."""
        log.append(A, [notes("note_1", "a", open=True)])
        log.append(A + "0", [notes("note_2", "a", open=True)])
        log.append(C, [notes("note_3", "a")])

        assert list(log.open_work(A)) == [Work(A, "note_1", None)]
        assert list(log.open_work(C)) == []
        with pytest.raises(UnknownConversation):
            log.open_work(B)

    def test_a_refused_append_opens_nothing(self, log: Log) -> None:
        """The index moves with its append, or not at all."""
        log.append(A, [notes("note_1", "a", open=True, deadline=1)])

        with pytest.raises(WrongVersion):
            log.append(A, [notes("note_1", "b", open=False), notes("note_2", "c", version=9)])
        with pytest.raises(WrongVersion):
            log.append(A, [notes("note_3", "b", open=True), notes("note_2", "c", version=9)])

        assert work_of(log) == [Work(A, "note_1", 1)]


def work_of(log: Log) -> list[Work]:
    """Return all open work, in order of entity."""
    return sorted(log.open_work(), key=lambda work: (work.conversation, work.entity))

"""The contract's first part: what an append does, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    CODEC,
    PATIENCE,
    A,
    B,
    Base,
    NoteJudged,
    NoteRevised,
    NoteTaken,
    check_untouched,
    facts,
    notes,
    picture,
    texts,
)
from runelog.errors import UnknownConversation, WrongVersion
from runelog.rune import Appended, Change, Visibility

if TYPE_CHECKING:
    from runelog.log import Log


class Appending(Base):
    """Appending: ids, positions, times, atomicity, versions, and what is refused."""

    def test_an_append_creates_the_conversation(self, log: Log) -> None:
        """The first append to a conversation begins it, at event 1."""
        appended = log.append(A, [notes("note_1", "a", "b")])

        assert (appended.conversation, appended.first, appended.last) == (A, 1, 2)
        assert log.conversation(A).head == 2

    def test_ids_count_per_conversation_and_positions_over_all(self, log: Log) -> None:
        """Event ids are 1, 2, 3 … in each conversation; positions are 1, 2, 3 … in the log."""
        places = [
            log.append(conversation, [notes("note_1", *texts)])
            for conversation, texts in [(A, "ab"), (B, "c"), (A, "d"), (B, "ef")]
        ]

        assert [(at.first, at.last, at.position) for at in places] == [
            (1, 2, 1),
            (1, 1, 3),
            (3, 3, 4),
            (2, 3, 5),
        ]
        assert [(rune.event_id, rune.position) for rune in log.read(A)] == [(1, 1), (2, 2), (3, 4)]
        assert [(rune.event_id, rune.position) for rune in log.read(B)] == [(1, 3), (2, 5), (3, 6)]

    def test_the_runes_of_an_append_lie_in_the_order_given(self, log: Log) -> None:
        """Runes follow each other change by change, with consecutive event ids."""
        log.append(A, [notes("note_2", "a", "b"), notes("note_1", "c"), notes("note_3", "d", "e")])

        assert texts(log.read(A)) == ["a", "b", "c", "d", "e"]
        assert [rune.owner for rune in log.read(A)] == [
            "note_2",
            "note_2",
            "note_1",
            "note_3",
            "note_3",
        ]

    def test_however_often_entities_take_turns_in_an_append_each_finds_its_runes(
        self, log: Log
    ) -> None:
        """An entity's stream has every rune of it and no other, in stretches without number."""
        turns = 400
        names = ("note_1", "note_2")
        changes = [notes(names[n % 2], str(n), observers=("book_1",)) for n in range(turns)]
        log.append(A, changes)
        log.append(A, [notes("note_1", "last")])

        assert texts(log.stream(A, "note_1")) == [*map(str, range(0, turns, 2)), "last"]
        assert texts(log.stream(A, "note_2")) == [*map(str, range(1, turns, 2))]
        assert texts(log.stream(A, "book_1")) == [*map(str, range(turns))]
        assert texts(log.stream(A, "note_1", after=100)) == [
            *map(str, range(200, turns, 2)),
            "last",
        ]
        assert log.version(A, "note_1") == turns // 2 + 1

    def test_runes_of_one_entity_may_lie_among_those_of_others(self, log: Log) -> None:
        """Several changes of an entity keep its runes in order between what it observes."""
        log.append(
            A,
            [
                notes("note_1", "a", version=0),
                notes("note_2", "b", version=0, observers=("note_1",)),
                notes("note_1", "c"),
            ],
        )

        assert texts(log.read(A)) == ["a", "b", "c"]
        assert texts(log.stream(A, "note_1")) == ["a", "b", "c"]
        assert (log.version(A, "note_1"), log.version(A, "note_2")) == (3, 1)

    def test_a_large_append_is_one(self, log: Log) -> None:
        """However many runes an append has, they are all there, consecutive, in order."""
        expected = [str(number) for number in range(70_000)]
        log.append(A, [notes("note_1", "before")])

        appended = log.append(A, [notes("note_1", *expected, version=1)])

        assert (appended.first, appended.last) == (2, 70_001)
        assert texts(log.read(A, after=1)) == expected
        assert log.version(A, "note_1") == 70_001

    def test_an_append_has_one_time(self) -> None:
        """All runes of an append have the time that the log's clock told."""
        with self.make_log(clock=iter(range(500, 600)).__next__) as log:
            appended = log.append(A, [notes("note_1", "a"), notes("note_2", "b", "c")])

            assert 500 <= appended.time < 600
            assert {rune.time for rune in log.read(A)} == {appended.time}

    def test_time_does_not_run_backwards(self) -> None:
        """A clock that is set back does not set the log's time back, in any conversation."""
        now = 1_000
        with self.make_log(clock=lambda: now) as log:
            log.append(A, [notes("note_1", "a")])
            now = 400
            log.append(A, [notes("note_1", "b")])
            log.append(B, [notes("note_1", "c")])
            now = 1_001
            log.append(A, [notes("note_1", "d")])

            assert [rune.time for rune in log.read(A)] == [1_000, 1_000, 1_001]
            assert [rune.time for rune in log.read(B)] == [1_000]

    def test_an_envelope_tells_all_that_the_change_said(self, log: Log) -> None:
        """Whose, for whom, by whom, in which turn, why, for whose eyes, and what: all is kept."""
        log.append(A, [notes("note_1", "a")])
        change = Change(
            "note_2",
            0,
            [NoteRevised(text="b", revision=7)],
            observers=("note_1", "book_1"),
            agent="agt_1",
            turn="turn_1",
            cause=1,
            visibility=Visibility.SECRET,
            tags=("urgent", "any text: ä, \0"),
        )
        appended = log.append(A, [change])

        (rune,) = log.read(A, after=1)
        assert facts(rune)[:13] == (
            A,
            2,
            2,
            appended.time,
            "note_2",
            ("note_1", "book_1"),
            "agt_1",
            "turn_1",
            1,
            Visibility.SECRET,
            ("urgent", "any text: ä, \0"),
            3,
            "note.revised",
        )
        assert rune.payload == NoteRevised(text="b", revision=7)

    def test_visibility_is_that_of_the_kind_unless_said_otherwise(self, log: Log) -> None:
        """A kind says who may see its runes; a change can say otherwise for its own."""
        judged = NoteJudged(verdict="good")
        log.append(A, [Change("note_1", None, [judged, NoteTaken(text="a")])])
        log.append(A, [Change("note_1", None, [judged], visibility=Visibility.PUBLIC)])

        assert [rune.visibility for rune in log.read(A)] == [
            Visibility.INTERNAL,
            Visibility.PUBLIC,
            Visibility.PUBLIC,
        ]

    # -- versions -----------------------------------------------------------------------------

    def test_the_version_expected_is_the_number_of_runes_seen(self, log: Log) -> None:
        """An append goes through if the stream is at the version its change expects, from 0 on."""
        log.append(A, [notes("note_1", "a", "b", version=0)])
        log.append(A, [notes("note_1", "c", version=2)])

        assert log.version(A, "note_1") == 3

    @pytest.mark.parametrize("expected", [0, 1, 3, 1 << 40])
    def test_another_version_is_refused(self, log: Log, expected: int) -> None:
        """If the stream is elsewhere the append is refused, and the error says how far apart."""
        log.append(A, [notes("note_1", "a", "b")])
        before = picture(log)

        with pytest.raises(WrongVersion) as caught:
            log.append(A, [notes("note_1", "c", version=expected)])

        error = caught.value
        assert (error.conversation, error.entity) == (A, "note_1")
        assert (error.expected, error.actual) == (expected, 2)
        check_untouched(log, before)

    def test_no_version_is_no_check(self, log: Log) -> None:
        """A change that expects no version is appended whatever the version."""
        log.append(A, [notes("note_1", "a")])
        log.append(A, [notes("note_1", "b", version=None)])

        assert log.version(A, "note_1") == 2

    def test_an_observed_rune_moves_the_version(self, log: Log) -> None:
        """A stream that gained a rune it only observes is not where its writer believes it is."""
        log.append(A, [notes("book_1", "a", version=0)])
        log.append(A, [notes("note_1", "b", version=0, observers=("book_1",))])

        with pytest.raises(WrongVersion) as caught:
            log.append(A, [notes("book_1", "c", version=1)])

        assert caught.value.actual == 2

    @pytest.mark.parametrize("wrong", [0, 1, 2])
    def test_one_wrong_version_fails_the_whole_append(self, log: Log, wrong: int) -> None:
        """If any of several changes expects another version, nothing of the append is there."""
        log.append(A, [notes(f"note_{number}", "a") for number in range(3)])
        before = picture(log)
        changes = [
            notes(
                f"note_{number}",
                "b",
                version=5 if number == wrong else 1,
                observers=("book_1",),
                open=True,
            )
            for number in range(3)
        ]

        with pytest.raises(WrongVersion) as caught:
            log.append(A, changes)

        assert caught.value.entity == f"note_{wrong}"
        check_untouched(log, before)
        assert log.version(A, "book_1") == 0

    def test_the_first_wrong_version_is_named(self, log: Log) -> None:
        """Of several changes that expect another version, the error names the first."""
        with pytest.raises(WrongVersion) as caught:
            log.append(A, [notes("b", "x"), notes("c", "x", version=2), notes("a", "x", version=1)])

        assert (caught.value.entity, caught.value.actual) == ("c", 0)

    def test_a_refused_birth_creates_nothing(self, log: Log) -> None:
        """A conversation whose first append is refused is as unknown as before."""
        with pytest.raises(WrongVersion):
            log.append(A, [notes("note_1", "a", version=1)])

        with pytest.raises(UnknownConversation):
            log.conversation(A)
        assert log.append(B, [notes("note_1", "b")]).position == 1

    def test_versions_are_those_before_the_append(self, log: Log) -> None:
        """Changes of one append do not see each other: each expects what was there before it."""
        log.append(A, [notes("book_1", "a", version=0)])

        log.append(
            A,
            [
                notes("note_1", "b", version=0, observers=("book_1",)),
                notes("book_1", "c", version=1, observers=("note_1",)),
            ],
        )

        assert log.version(A, "book_1") == 3
        assert log.version(A, "note_1") == 2

    # -- durability ---------------------------------------------------------------------------

    def test_a_durable_append_can_be_read_at_once(self, log: Log) -> None:
        """What a durable append returned for is committed: every reader sees it."""
        appended = log.append(A, [notes("note_1", "a")], durable=True, timeout=PATIENCE)

        assert appended == Appended(A, 1, 1, 1, log.conversation(A).last_time)
        assert log.position == 1
        assert texts(log.read_all()) == ["a"]

    def test_flush_commits_what_did_not_wait(self, log: Log) -> None:
        """After a flush, everything appended before it can be read."""
        for number in range(1, 11):
            appended = log.append(A, [notes("note_1", str(number))], durable=False)

            assert (appended.first, appended.position) == (number, number)
        log.flush()

        assert texts(log.read(A)) == [str(number) for number in range(1, 11)]
        assert log.position == 10

    def test_appends_that_do_not_wait_come_before_later_ones(self, log: Log) -> None:
        """An append is ordered before every later one, in its conversation and in the log."""
        log.append(A, [notes("note_1", "a", version=0)], durable=False)
        log.append(B, [notes("note_1", "b", version=0)], durable=False)
        log.append(A, [notes("note_1", "c", version=1)], durable=True)

        assert texts(log.read_all()) == ["a", "b", "c"]

    def test_versions_count_what_did_not_wait(self, log: Log) -> None:
        """A writer may go on from its own append before that is durable, and others may not."""
        log.append(A, [notes("note_1", "a", version=0, observers=("book_1",))], durable=False)

        with pytest.raises(WrongVersion):
            log.append(A, [notes("book_1", "b", version=0)], durable=False)
        with pytest.raises(WrongVersion):
            log.append(A, [notes("note_1", "b", version=0)], durable=False)
        log.append(A, [notes("note_1", "b", version=1)], durable=False)

        log.flush()
        assert texts(log.stream(A, "note_1")) == ["a", "b"]

    def test_what_did_not_wait_is_committed_all_the_same(self, log: Log) -> None:
        """An append that is not durable is committed soon, without anyone asking for it."""
        log.append(A, [notes("note_1", "a")])
        log.append(A, [notes("note_1", "b")], durable=False)

        rune = next(log.follow(A, after=1, wait=PATIENCE))

        assert texts([rune]) == ["b"]

    def test_flushing_nothing_does_nothing(self, log: Log) -> None:
        """A flush with nothing to do returns."""
        assert (log.flush(), log.flush(A)) == (0, 0)
        assert log.position == 0

    def test_flush_tells_how_far_a_conversation_goes(self, log: Log) -> None:
        """Up to there it is on disk, whether it was appended to lately or rests."""
        log.append(A, [notes("note_1", "a", "b")], durable=False)
        log.append(B, [notes("note_1", "c")], durable=False)

        assert (log.flush(A), log.flush(B), log.flush("conv_none")) == (2, 1, 0)
        log.rest(A)
        assert log.flush(A) == 2

    def test_a_conversation_that_rests_goes_on_where_it_was(self, log: Log) -> None:
        """To say that nothing is appended for a while changes nothing of what is there."""
        log.append(A, [notes("note_1", "a", "b"), notes("note_2", "c")])
        log.rest(A)
        log.rest(B)
        log.append(A, [notes("note_1", "d", version=2), notes("note_3", "e", version=0)])
        log.rest(A)

        with pytest.raises(WrongVersion):
            log.append(A, [notes("note_2", "f", version=0)])
        assert texts(log.read(A)) == ["a", "b", "c", "d", "e"]
        assert texts(log.stream(A, "note_1")) == ["a", "b", "d"]

    def test_the_log_speaks_the_codec_it_was_given(self, log: Log) -> None:
        """The log's codec knows the kinds of the one it was opened with."""
        assert log.codec.kinds == CODEC.kinds

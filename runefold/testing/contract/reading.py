"""The contract on reading: one conversation, one entity's stream, or the whole log in order."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from runefold.testing.contract.base import (
    LONG,
    A,
    B,
    Base,
    NoteJudged,
    NoteRevised,
    NoteTaken,
    Stray,
    fill,
    ids,
    notes,
    texts,
)
from runelog.errors import Refused, UnknownConversation
from runelog.rune import Change, Envelope, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.log import Log


class Reading(Base):
    """Reading a conversation, and the whole log."""

    @pytest.mark.parametrize(
        ("after", "until", "expected"),
        [
            (0, None, [1, 2, 3, 4, 5]),
            (2, None, [3, 4, 5]),
            (0, 3, [1, 2, 3]),
            (1, 4, [2, 3, 4]),
            (4, 5, [5]),
            (3, 99, [4, 5]),
            (5, None, []),
            (99, None, []),
            (1 << 62, None, []),
            (3, 3, []),
            (4, 2, []),
            (0, 0, []),
            (0, -1, []),
            (-3, 2, [1, 2]),
        ],
    )
    def test_reading_is_from_after_to_until(
        self, log: Log, after: int, until: int | None, expected: list[int]
    ) -> None:
        """The runes read have `after` < event id <= `until`, as far as there are any, in order."""
        log.append(A, [notes("note_1", "a", "b")])
        log.append(B, [notes("note_1", "x")])
        log.append(A, [notes("note_2", "c", "d", "e")])

        assert ids(log.read(A, after, until)) == expected

    def test_kinds_select(self, log: Log) -> None:
        """Only runes of the kinds asked for are yielded, with the ids they have; none, no runes."""
        runes = [NoteTaken(text="a"), NoteRevised(text="b"), NoteJudged(verdict="c")]
        log.append(A, [Change("note_1", None, [*runes, *runes])])

        assert ids(log.read(A, kinds=["note.revised"])) == [2, 5]
        assert ids(log.read(A, kinds={"note.taken", "note.judged"}, after=1, until=5)) == [3, 4]
        assert ids(log.read(A, kinds=("no.such_kind",))) == []
        assert ids(log.read(A, kinds=())) == []

    def test_a_string_is_no_set_of_kinds(self, log: Log) -> None:
        """One kind is asked for in a list or a set: a string would match by its parts."""
        log.append(A, [notes("note_1", "a")])

        with pytest.raises(Refused, match="kinds"):
            log.read(A, kinds="note.taken.twice")
        for conversation in (A, None):
            with pytest.raises(Refused, match="kinds"):
                log.follow(conversation, kinds="note.taken", wait=0)

    @pytest.mark.parametrize("odd", [1.0, "1", b"1", [1]], ids=repr)
    def test_a_cursor_is_a_whole_number(self, log: Log, odd: Any) -> None:  # noqa: ANN401 -- anything
        """What is no number of a rune is refused as such, and not told of as damage to the log."""
        log.append(A, [notes("note_1", "a", "b")])

        looks: list[Callable[[], Iterator[object]]] = [
            lambda: log.read(A, odd),
            lambda: log.read(A, 0, odd),
            lambda: log.stream(A, "note_1", odd),
            lambda: log.stream(A, "note_1", 0, odd),
            lambda: log.read_all(odd),
            lambda: log.follow(A, odd, wait=0),
            lambda: log.follow(None, odd, wait=0),
        ]
        for look in looks:
            with pytest.raises(Refused):
                list(look())

        assert ids(log.read(A)) == [1, 2]

    def test_a_long_conversation_is_read_whole(self, log: Log) -> None:
        """However long a conversation is, each rune comes once, in order, from any cursor on."""
        fill(log, A, LONG)

        expected = [str(number) for number in range(1, LONG + 1)]
        assert texts(log.read(A)) == expected
        for after in (0, 1, 254, 255, 256, 257, 1_023, 1_024, LONG - 1, LONG):
            assert ids(log.read(A, after)) == list(range(after + 1, LONG + 1))
            assert ids(log.read(A, after, after + 300)) == list(
                range(after + 1, min(after + 300, LONG) + 1)
            )

    def test_interleaved_conversations_do_not_mix(self, log: Log) -> None:
        """A conversation is read by itself, however its runes lie among those of others."""
        names = [f"conv_{number}" for number in range(20)]
        for round_ in range(30):
            for name in names:
                log.append(name, [notes("note_1", f"{name} {round_}")], durable=False)
        log.flush()

        for name in names:
            assert texts(log.read(name)) == [f"{name} {round_}" for round_ in range(30)]

    @pytest.mark.parametrize(
        "conversation", [B, "", "no such id", "../escape", "ä", "x" * 65, "x" * 5_000]
    )
    def test_an_unknown_conversation_is_refused_at_once(self, log: Log, conversation: str) -> None:
        """Asking for a conversation that is not there is refused by the call, not by iterating."""
        log.append(A, [notes("note_1", "a")])

        with pytest.raises(Refused):
            log.read(conversation)
        with pytest.raises(Refused):
            log.stream(conversation, "note_1")
        with pytest.raises(Refused):
            log.follow(conversation)
        with pytest.raises(Refused):
            log.conversation(conversation)

    def test_the_refusal_names_the_conversation(self, log: Log) -> None:
        """`UnknownConversation` says which conversation is not there."""
        for ask in (log.read, log.conversation, log.follow, log.open_work):
            with pytest.raises(UnknownConversation) as caught:
                ask(B)

            assert caught.value.conversation == B

    def test_reading_ends_where_the_log_was_when_asked(self, log: Log) -> None:
        """A reader that appends as it reads comes to an end: it reads what was there when asked."""
        fill(log, A, 600)

        seen = 0
        for _ in islice(log.read(A), 2_000):
            seen += 1
            log.append(A, [notes("note_1", "more")], durable=False)
        for _ in islice(log.stream(A, "note_1", until=300), 2_000):
            log.append(A, [notes("note_1", "more")], durable=False)
        log.flush()
        everything = 0
        for _ in islice(log.read_all(), 3_000):
            everything += 1
            log.append(B, [notes("note_1", "more")], durable=False)

        assert seen == 600
        assert everything == 1_500

    def test_readers_do_not_disturb_each_other(self, log: Log) -> None:
        """Many readers can be half-way at the same time; one that is dropped costs nothing."""
        fill(log, A, 600)
        readers = [log.read(A, after=number) for number in range(300)]
        firsts = [next(reader).event_id for reader in readers]
        del readers[::2]

        assert firsts == list(range(1, 301))
        assert [next(reader).event_id for reader in readers] == list(range(3, 302, 2))
        assert ids(readers[-1]) == list(range(302, 601))

    def test_a_kind_nobody_knows_is_kept_and_shown(self, log: Log) -> None:
        """A rune of a kind the codec does not list reads back as `Unknown`, with its fields."""
        log.append(A, [Change("note_1", None, [Stray(where="here")])])

        (rune,) = log.read(A, kinds={"stray.seen"})
        assert rune.kind == "stray.seen"
        assert rune.payload == Unknown(
            name="stray.seen", fields={"kind": "stray.seen", "where": "here"}
        )

    # -- the whole log ------------------------------------------------------------------------

    def test_everything_is_read_in_the_order_of_the_log(self, log: Log) -> None:
        """`read_all` yields the runes of all conversations, at positions 1, 2, 3 …."""
        log.append(A, [notes("note_1", "a", "b")])
        log.append(B, [notes("note_1", "c")])
        log.append(A, [notes("note_1", "d")])

        runes = [rune for rune in log.read_all() if isinstance(rune, Envelope)]
        assert texts(runes) == ["a", "b", "c", "d"]
        assert [rune.position for rune in runes] == [1, 2, 3, 4]
        assert [(rune.conversation, rune.event_id) for rune in runes] == [
            (A, 1),
            (A, 2),
            (B, 1),
            (A, 3),
        ]

    def test_everything_can_be_read_from_a_position_on(self, log: Log) -> None:
        """`read_all(after)` begins behind that position, also in the middle of an append."""
        log.append(A, [notes("note_1", *"abcdefgh")])
        log.append(B, [notes("note_1", "i")])

        for after in range(11):
            assert texts(log.read_all(after)) == list("abcdefghi")[after:]
        assert texts(log.read_all(-1)) == list("abcdefghi")

    def test_a_long_log_is_read_whole(self, log: Log) -> None:
        """However long the log is, each position comes once, in order."""
        for number in range(6):
            fill(log, f"conv_{number}", 500)

        positions = [rune.position for rune in log.read_all() if isinstance(rune, Envelope)]
        assert positions == list(range(1, LONG + 1))

    def test_an_empty_log_reads_as_nothing(self, log: Log) -> None:
        """A log without runes is at position 0, and there is nothing in it."""
        assert log.position == 0
        assert list(log.read_all()) == []
        assert list(log.conversations()) == []
        assert list(log.open_work()) == []


class Streams(Base):
    """Reading what one entity's fold sees, and its version."""

    def test_a_stream_has_what_is_owned_and_what_is_observed(self, log: Log) -> None:
        """An entity's stream is the runes it owns and those it observes, in event order."""
        log.append(A, [notes("book_1", "a")])
        log.append(A, [notes("note_1", "b", "c", observers=("book_1",)), notes("note_2", "d")])
        log.append(A, [notes("book_1", "e", observers=("note_2",))])

        assert texts(log.stream(A, "book_1")) == ["a", "b", "c", "e"]
        assert texts(log.stream(A, "note_1")) == ["b", "c"]
        assert texts(log.stream(A, "note_2")) == ["d", "e"]
        assert [log.version(A, name) for name in ("book_1", "note_1", "note_2")] == [4, 2, 2]

    def test_a_rune_counts_once_for_an_entity(self, log: Log) -> None:
        """One that both owns and observes a rune, or is listed twice, sees it once."""
        log.append(A, [notes("note_1", "a", observers=("note_1", "book_1", "book_1"))])
        log.append(A, [notes("note_1", "b", version=1), notes("book_1", "c", version=1)])

        assert texts(log.stream(A, "note_1")) == ["a", "b"]
        assert texts(log.stream(A, "book_1")) == ["a", "c"]
        assert log.version(A, "book_1") == 2

    @pytest.mark.parametrize(
        ("after", "until", "expected"),
        [
            (0, None, [2, 4, 6, 8, 10]),
            (2, None, [6, 8, 10]),
            (0, 7, [2, 4, 6]),
            (1, 8, [4, 6, 8]),
            (4, 8, []),
            (5, None, []),
            (99, None, []),
            (0, 1, []),
            (0, 0, []),
            (-1, None, [2, 4, 6, 8, 10]),
        ],
    )
    def test_a_stream_is_read_from_a_version_to_an_event(
        self, log: Log, after: int, until: int | None, expected: list[int]
    ) -> None:
        """`after` counts the entity's own runes, its version; `until` is an event id."""
        for number in range(10):
            log.append(A, [notes(f"note_{number % 2}", str(number))])

        assert ids(log.stream(A, "note_1", after, until)) == expected

    def test_a_stream_spread_thin_is_read_whole(self, log: Log) -> None:
        """However far apart a stream's runes lie, each comes once, in order, from any version."""
        for number in range(40):
            log.append(
                A,
                [notes("noise", *("x" * 10 for _ in range(50))), notes("rare", str(number))],
                durable=False,
            )
        log.append(A, [notes("noise", *("x" for _ in range(1_000)), observers=("rare",))])

        expected = [51 * (number + 1) for number in range(40)] + list(range(2_041, 3_041))
        for after in (0, 1, 39, 40, 41, 300, 1_039, 1_040):
            assert ids(log.stream(A, "rare", after)) == expected[after:]
        assert log.version(A, "rare") == 1_040

    def test_streams_of_similar_names_do_not_mix(self, log: Log) -> None:
        """Entities whose ids begin alike, or are the same in two conversations, are different."""
        names = ["a", "aa", "a-", "a_", "a0", "a" * 63, "a" * 64, "A"]
        for conversation in (A, A + "0", A[:-1]):
            log.append(conversation, [notes(name, f"{conversation} {name}") for name in names])

        for conversation in (A, A + "0", A[:-1]):
            for name in names:
                assert texts(log.stream(conversation, name)) == [f"{conversation} {name}"]

    def test_an_unknown_entity_has_no_runes(self, log: Log) -> None:
        """An entity nobody spoke of has an empty stream and version 0, wherever one looks."""
        log.append(A, [notes("note_1", "a")])
        log.append(B, [notes("note_2", "b")])

        assert list(log.stream(A, "note_2")) == []
        assert log.version(A, "note_2") == 0
        for name in ("", "no such id", "ä", "note_1\0", "x" * 5_000):
            assert list(log.stream(A, name)) == []
            assert log.version(A, name) == log.version(name, "note_1") == 0
        assert log.version("conv_unknown", "note_1") == 0

    def test_the_stream_of_an_unknown_conversation_is_refused(self, log: Log) -> None:
        """There is no stream in a conversation that is not there."""
        with pytest.raises(UnknownConversation):
            log.stream(A, "note_1")

    def test_an_entity_can_be_observed_before_it_is_born(self, log: Log) -> None:
        """What was observed before the first own rune counts: a birth may expect more than 0."""
        log.append(A, [notes("note_1", "a", observers=("note_2",))])
        log.append(A, [notes("note_2", "b", version=1)])

        assert texts(log.stream(A, "note_2")) == ["a", "b"]

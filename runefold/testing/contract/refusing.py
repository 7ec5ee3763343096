"""The contract on what cannot be appended: bad shapes, bad ids, runes too large or too deep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from runefold.testing.contract.base import (
    A,
    B,
    Base,
    NoteAttached,
    NoteNested,
    NoteTaken,
    check_untouched,
    ids,
    notes,
    picture,
    texts,
)
from runelog.codec import MAX_DEPTH, MAX_RUNE
from runelog.errors import BadId, Refused, TooLarge, UnknownConversation
from runelog.rune import Change

if TYPE_CHECKING:
    from runelog.log import Log

BAD_IDS: Final = ["", "a b", "a/b", "..", "a\0b", "ä", "a\n", "x" * 65]
MISSHAPEN: Final[dict[str, list[Any]]] = {
    "no changes": [],
    "a change without runes": [Change("note_1", None, [])],
    "one change of several without runes": [notes("note_1", "a"), Change("note_2", None, [])],
    "a version for a later change of an entity": [
        notes("note_1", "a"),
        notes("note_1", "b", version=1),
    ],
    "only a word on work": [notes("note_1", open=True)],
    "a negative version": [notes("note_1", "a", version=-1)],
    "a negative cause": [notes("note_1", "a", cause=-1)],
    "a negative deadline": [notes("note_1", "a", open=True, deadline=-1)],
    "a deadline that no index can hold": [notes("note_1", "a", open=True, deadline=1 << 63)],
    "a deadline without work": [notes("note_1", "a", open=False, deadline=5)],
    "a deadline without a word on work": [notes("note_1", "a", deadline=5)],
    "something that is no change": ["note_1"],
}


class Refusing(Base):
    """Refusing: what is not appended leaves no trace; what is only just allowed works."""

    @pytest.mark.parametrize("what", MISSHAPEN)
    def test_a_misshapen_append_is_refused(self, log: Log, what: str) -> None:
        """An append that makes no sense is refused, and nothing of it is there."""
        log.append(B, [notes("note_1", "a")])
        before = picture(log)

        with pytest.raises(Refused):
            log.append(A, MISSHAPEN[what])

        check_untouched(log, before)

    def test_changes_that_can_be_gone_through_once_are_refused(self, log: Log) -> None:
        """Changes are looked at more than once: a generator is refused, not taken for nothing."""
        log.append(A, [notes("note_1", "a")])
        before = picture(log)

        with pytest.raises(Refused):
            log.append(A, (notes("note_1", text) for text in "bc"))  # type: ignore[arg-type]  # that is the point

        check_untouched(log, before)

    def test_no_time_to_wait_is_in_the_past(self, log: Log) -> None:
        """A caller may wait for no time at all, but not for less than that."""
        log.append(A, [notes("note_1", "a")], timeout=0)
        before = picture(log)

        for timeout in (-1, float("nan"), float("inf")):
            with pytest.raises(Refused):
                log.append(A, [notes("note_1", "b")], timeout=timeout)
            with pytest.raises(Refused):
                log.follow(A, wait=timeout)

        check_untouched(log, before)

    @pytest.mark.parametrize("bad", BAD_IDS)
    @pytest.mark.parametrize("place", ["conversation", "entity", "observer", "agent", "turn"])
    def test_a_bad_id_is_refused(self, log: Log, place: str, bad: str) -> None:
        """Every id given from outside is 1 to 64 of A-Z, a-z, 0-9, _ and -; others are refused."""
        before = picture(log)
        change = Change(
            bad if place == "entity" else "note_1",
            None,
            [NoteTaken(text="a")],
            observers=("book_1", bad) if place == "observer" else (),
            agent=bad if place == "agent" else None,
            turn=bad if place == "turn" else None,
        )

        with pytest.raises(BadId):
            log.append(bad if place == "conversation" else A, [change])

        check_untouched(log, before)

    def test_the_longest_and_shortest_ids_are_taken(self, log: Log) -> None:
        """Ids of 1 and of 64 characters, of every sort that is allowed, work everywhere."""
        for name in ("a", "-", "_", "0", "Z" * 64, "a-_9" * 16):
            log.append(name, [notes(name, "x", observers=("Y" * 64,), agent=name, turn=name)])

            assert ids(log.stream(name, name)) == [1]
            assert ids(log.stream(name, "Y" * 64)) == [1]

    def test_ids_are_told_apart_by_case(self, log: Log) -> None:
        """Ids that differ only in case are different conversations and entities."""
        log.append("conv_x", [notes("note_x", "a"), notes("note_X", "b")])
        log.append("conv_X", [notes("note_x", "c")])

        assert texts(log.stream("conv_x", "note_X")) == ["b"]
        assert texts(log.read("conv_X")) == ["c"]

    def test_what_is_not_a_rune_is_refused(self, log: Log) -> None:
        """Handing in something else than runes is a bug, and leaves nothing behind."""
        log.append(A, [notes("note_1", "a")])
        before = picture(log)

        with pytest.raises(TypeError):
            log.append(
                A,
                [
                    notes("note_1", "b"),
                    Change("note_2", None, [Change]),  # type: ignore[list-item]  # no rune
                ],
            )

        check_untouched(log, before)

    @pytest.mark.parametrize("size", [1 << 20, 3 << 20])
    def test_a_large_rune_comes_back_whole(self, log: Log, size: int) -> None:
        """A rune over 1 MiB reads back as it was, its large fields and its small ones."""
        rune = NoteAttached(
            content=bytes(range(256)) * (size // 256),
            caption="ä" * (size // 4),
            pages=("short", "x" * 100_000, ""),
        )
        log.append(A, [Change("note_1", 0, [rune, NoteTaken(text="next")])])

        assert [envelope.payload for envelope in log.read(A)] == [rune, NoteTaken(text="next")]
        assert [envelope.kind for envelope in log.read(A)] == ["note.attached", "note.taken"]
        assert log.conversation(A).size < 1 << 20

    def test_a_rune_that_is_too_large_is_refused(self, log: Log) -> None:
        """A rune over 64 MiB is refused, and the runes appended with it are not there either."""
        rune = NoteAttached(content=bytes(MAX_RUNE))
        before = picture(log)

        with pytest.raises(TooLarge):
            log.append(A, [notes("note_1", "a"), Change("note_2", None, [rune])])

        check_untouched(log, before)
        with pytest.raises(UnknownConversation):
            log.read(A)

    def test_a_rune_that_is_too_deep_is_refused(self, log: Log) -> None:
        """A payload nested deeper than 64 levels is refused; one of 60 is not."""
        deep: list[object] = []
        for level in range(MAX_DEPTH):
            if level == 60:
                log.append(A, [Change("note_1", None, [NoteNested(within=deep)])])
            deep = [deep]

        before = picture(log)

        with pytest.raises(TooLarge):
            log.append(A, [notes("note_1", "a"), Change("note_2", None, [NoteNested(within=deep)])])

        check_untouched(log, before)
        assert ids(log.read(A)) == [1]

"""The contract on following: from a cursor on, what there is and then what comes."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    LONG,
    PATIENCE,
    A,
    B,
    Base,
    NoteJudged,
    NoteTaken,
    fill,
    merged,
    notes,
    some,
    texts,
)
from runelog.errors import Gone, Refused
from runelog.rune import Change, Envelope, Gap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runelog.log import Log


def places(items: Iterable[Envelope | Gap], unit: str = "event_id") -> list[int | tuple[int, int]]:
    """Return the cursors that a follower went over: one for a rune, first and last for a gap."""
    return [
        (item.first, item.last) if isinstance(item, Gap) else int(getattr(item, unit))
        for item in items
    ]


class Following(Base):
    """Following a conversation or the whole log, in one thread."""

    def test_what_is_there_comes_first(self, log: Log) -> None:
        """A follower begins behind its cursor: an event id, or a position if it follows all."""
        some(log)

        assert texts(log.follow(A, wait=0)) == ["a1", "a2", "a3"]
        assert texts(log.follow(A, after=2, wait=0)) == ["a3"]
        assert texts(log.follow(wait=0)) == ["a1", "a2", "b1", "c1", "a3", "b2"]
        assert texts(log.follow(after=4, wait=0)) == ["a3", "b2"]
        assert texts(log.follow(A, after=-1, wait=0)) == ["a1", "a2", "a3"]

    def test_what_comes_follows(self, log: Log) -> None:
        """A follower that has seen everything is given what is appended next, each rune once."""
        log.append(A, [notes("note_1", "a1")])
        one, all_ = log.follow(A, wait=PATIENCE), log.follow(wait=PATIENCE)

        assert texts([next(one), next(all_)]) == ["a1", "a1"]

        log.append(B, [notes("note_1", "b1")])
        log.append(A, [notes("note_1", "a2", "a3")])

        assert texts(islice(one, 2)) == ["a2", "a3"]
        assert texts(islice(all_, 3)) == ["b1", "a2", "a3"]

    def test_it_ends_when_nothing_came(self, log: Log) -> None:
        """After `wait` seconds without a rune the follower ends, also if there never was one."""
        log.append(A, [notes("note_1", "a")])

        assert texts(log.follow(A, wait=0.001)) == ["a"]
        assert texts(log.follow(A, after=1, wait=0)) == []
        assert texts(log.follow(after=1, wait=0.001)) == []

    def test_an_empty_log_can_be_followed(self, log: Log) -> None:
        """One may follow a log before there is anything in it."""
        follower = log.follow(wait=PATIENCE)
        log.append(A, [notes("note_1", "a")])

        assert texts([next(follower)]) == ["a"]

    def test_a_cursor_ahead_waits_for_its_turn(self, log: Log) -> None:
        """Whoever asks for what lies behind event 3 is not given events 1 to 3."""
        log.append(A, [notes("note_1", "a")])
        ahead, all_ahead = log.follow(A, after=3, wait=0), log.follow(after=4, wait=0)
        log.append(A, [notes("note_1", "b", "c", "d", "e")])

        assert texts(ahead) == ["d", "e"]
        assert texts(all_ahead) == ["e"]

    def test_followers_choose_kinds(self, log: Log) -> None:
        """A follower is given only the kinds it asked for, and gaps whatever it asked for."""
        runes = [NoteTaken(text="a"), NoteJudged(verdict="b")]
        log.append(A, [Change("note_1", None, [*runes, *runes])])
        log.append(B, [Change("note_1", None, runes)])

        assert places(log.follow(A, kinds=["note.judged"], wait=0)) == [2, 4]
        assert places(log.follow(kinds={"note.judged"}, wait=0), "position") == [2, 4, 6]
        assert places(log.follow(kinds=(), wait=0)) == []

        log.archive(B)

        assert texts(log.follow(kinds={"note.taken"}, wait=0)) == ["a", "a", "[archived]"]

    def test_a_long_log_is_followed_whole(self, log: Log) -> None:
        """However far back the cursor is, every rune comes once, in order."""
        fill(log, A, LONG)

        assert places(log.follow(A, wait=0)) == list(range(1, LONG + 1))
        assert places(log.follow(wait=0), "position") == list(range(1, LONG + 1))

    def test_gaps_are_followed_as_they_are_read(self, log: Log) -> None:
        """Whoever follows all is told of archived and erased stretches, as `read_all` tells."""
        some(log)
        log.archive(A)
        log.erase(B)

        assert merged(log.follow(wait=0)) == merged(log.read_all())

    def test_a_conversation_is_followed_through_an_archive(self, log: Log) -> None:
        """Archiving and restoring a conversation take nothing from those who follow it."""
        log.append(A, [notes("note_1", "a1", "a2")])
        follower = log.follow(A, wait=0)

        assert texts([next(follower)]) == ["a1"]

        log.archive(A)
        log.restore(A)
        log.append(A, [notes("note_1", "a3")])

        assert texts(follower) == ["a2", "a3"]

    def test_erasing_ends_those_who_follow(self, log: Log) -> None:
        """A follower of a conversation that is erased meanwhile is told so."""
        log.append(A, [notes("note_1", "a1")])
        follower = log.follow(A, wait=PATIENCE)
        next(follower)
        log.erase(A)

        with pytest.raises(Gone):
            next(follower)

    # -- falling behind -----------------------------------------------------------------------

    def test_who_is_too_far_behind_is_told_what_it_missed(self, log: Log) -> None:
        """More than `max_behind` runes back: a gap over what is skipped, then the last of them."""
        fill(log, A, 10)

        first, *rest = log.follow(A, max_behind=3, wait=0)
        assert first == Gap(1, 7, "slow", A)
        assert texts(rest) == ["8", "9", "10"]
        assert places(log.follow(A, after=2, max_behind=1, wait=0)) == [(3, 9), 10]

    def test_who_is_near_enough_misses_nothing(self, log: Log) -> None:
        """Exactly `max_behind` runes back is not too far, nor is less, or nothing at all."""
        fill(log, A, 10)

        assert places(log.follow(A, max_behind=10, wait=0)) == list(range(1, 11))
        assert places(log.follow(A, after=7, max_behind=3, wait=0)) == [8, 9, 10]
        assert places(log.follow(A, after=10, max_behind=1, wait=0)) == []
        assert places(log.follow(A, after=99, max_behind=1, wait=0)) == []

    def test_the_gap_is_in_positions_for_who_follows_all(self, log: Log) -> None:
        """The gap's unit is the cursor's: positions, and no conversation, in the whole log."""
        some(log)

        first, *rest = log.follow(after=1, max_behind=2, wait=0)
        assert first == Gap(2, 4, "slow", None)
        assert texts(rest) == ["a3", "b2"]

    def test_falling_behind_later_is_told_too(self, log: Log) -> None:
        """One that falls behind on the way is told what it missed, and ends up in front."""
        fill(log, A, 10)
        follower = log.follow(A, after=7, max_behind=3, wait=0)
        seen = places([next(follower)])
        fill(log, A, LONG)
        seen += places(follower)

        cursor = 7
        for place in seen:
            first, last = place if isinstance(place, tuple) else (place, place)
            assert first == cursor + 1
            cursor = last
        assert seen[-3:] == [LONG + 8, LONG + 9, LONG + 10]
        assert len([place for place in seen if isinstance(place, tuple)]) == 1

    def test_all_runes_count_whatever_the_kinds(self, log: Log) -> None:
        """Being behind counts runes of every kind, not only of those asked for."""
        runes = [NoteTaken(text="a"), NoteJudged(verdict="b")]
        log.append(A, [Change("note_1", None, runes * 3)])

        followed = log.follow(A, max_behind=3, kinds={"note.taken"}, wait=0)
        assert places(followed) == [(1, 3), 5]

    @pytest.mark.parametrize("max_behind", [0, -1])
    def test_no_room_at_all_is_refused(self, log: Log, max_behind: int) -> None:
        """A follower that may not be a single rune behind would never be given one."""
        with pytest.raises(Refused):
            log.follow(max_behind=max_behind)


class FollowingThreads(Base):
    """Following what other threads append."""

    def test_a_follower_gets_what_another_thread_appends(self, log: Log) -> None:
        """Each rune that is committed reaches every follower once, in order, without polling."""
        log.append(A, [notes("note_1", "0")])
        got: dict[str | None, list[str]] = {A: [], None: []}

        def listen(conversation: str | None) -> None:
            followed = log.follow(conversation, wait=PATIENCE)
            got[conversation].extend(texts(islice(followed, 201)))

        threads = [threading.Thread(target=listen, args=(name,)) for name in got]
        for thread in threads:
            thread.start()
        for number in range(1, 201):
            log.append(A, [notes("note_1", str(number))], durable=number % 5 == 0)
        for thread in threads:
            thread.join(PATIENCE)

        expected = [str(number) for number in range(201)]
        assert got == {A: expected, None: expected}

    @pytest.mark.parametrize("conversation", [A, None])
    def test_closing_ends_every_follower(self, log: Log, conversation: str | None) -> None:
        """A follower that waits for ever ends, without an error, when the log is closed."""
        log.append(A, [notes("note_1", "a")])
        ready = threading.Event()
        got: list[object] = []

        def listen() -> None:
            for item in log.follow(conversation):
                got.append(item)
                ready.set()
            got.append(None)

        thread = threading.Thread(target=listen)
        thread.start()
        assert ready.wait(PATIENCE)
        log.close()
        thread.join(PATIENCE)

        assert not thread.is_alive()
        assert len(got) == 2
        assert got[-1] is None

    @pytest.mark.parametrize("conversation", [A, None])
    def test_closing_ends_a_follower_half_way(self, log: Log, conversation: str | None) -> None:
        """A follower with much left to read ends like the others, without an error."""
        fill(log, A, LONG)
        follower = log.follow(conversation, wait=PATIENCE)
        first = next(follower)
        log.close()
        rest = places(follower)

        assert texts([first]) == ["1"]
        assert rest == list(range(2, len(rest) + 2))

    def test_a_follower_never_sees_what_is_not_committed(self, log: Log) -> None:
        """A rune that a follower was given is at or before the log's position, and can be read."""
        log.append(A, [notes("note_1", "0")])
        wrong = []

        def listen() -> None:
            for item in islice(log.follow(wait=PATIENCE), 301):
                assert isinstance(item, Envelope)
                if log.position < item.position or not list(
                    log.read(A, item.event_id - 1, item.event_id)
                ):
                    wrong.append(item.position)

        thread = threading.Thread(target=listen)
        thread.start()
        for number in range(300):
            log.append(A, [notes("note_1", str(number))], durable=False)
        thread.join(PATIENCE)

        assert not thread.is_alive()
        assert wrong == []

"""The contract on a log's handle and its segments: rolling and closing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    LONG,
    A,
    Base,
    fill,
    ids,
    notes,
    picture,
    some,
    texts,
)
from runelog.errors import Closed

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.log import Log


class Rolling(Base):
    """Segments are nobody's business but the log's."""

    def test_rolling_changes_nothing_that_can_be_seen(self, log: Log) -> None:
        """A log reads the same over many segments as over one, and goes on the same."""
        log.roll()
        some(log)
        before = picture(log)
        log.roll()
        log.roll()

        assert picture(log) == before

        log.append(A, [notes("note_1", "a4", version=2, open=True, deadline=9)])
        log.roll()
        log.append(A, [notes("note_1", "a5", version=3, open=False, observers=("book_1",))])

        assert texts(log.read(A)) == ["a1", "a2", "a3", "a4", "a5"]
        assert texts(log.stream(A, "book_1")) == ["a1", "a2", "a3", "a5"]
        assert texts(log.stream(A, "book_1", after=2)) == ["a3", "a5"]
        assert texts(log.read_all(after=4)) == ["a3", "b2", "a4", "a5"]
        assert list(log.open_work()) == []

    def test_a_long_conversation_spans_segments(self, log: Log) -> None:
        """Reading from any cursor finds the segment that holds what comes next."""
        for _ in range(6):
            fill(log, A, LONG // 6)
            log.roll()

        assert ids(log.read(A)) == list(range(1, LONG + 1))
        for after in range(0, LONG, 250):
            assert ids(log.read(A, after, after + 2)) == [after + 1, after + 2]
            assert ids(log.stream(A, "note_1", after, after + 2)) == [after + 1, after + 2]
            assert len(list(log.read_all(after))) == LONG - after

    def test_what_did_not_wait_is_not_lost_by_rolling(self, log: Log) -> None:
        """What was appended before a roll is committed by it."""
        log.append(A, [notes("note_1", "a")], durable=False)
        log.roll()
        log.flush()

        assert texts(log.read(A)) == ["a"]


class Closing(Base):
    """Closing: nothing goes through a handle that was let go of."""

    def test_a_closed_log_refuses_everything(self, log: Log) -> None:
        """After close every call is refused as `Closed`, whatever it asks for."""
        some(log)
        log.close()

        calls: list[Callable[[], object]] = [
            lambda: log.append(A, [notes("note_1", "x")]),
            lambda: log.append(A, []),
            log.flush,
            lambda: log.read(A),
            lambda: log.read("conv_unknown"),
            lambda: log.stream(A, "note_1"),
            lambda: log.version(A, "note_1"),
            log.read_all,
            lambda: log.follow(wait=0),
            lambda: log.follow(A, wait=0),
            lambda: log.conversation(A),
            log.conversations,
            log.open_work,
            lambda: log.position,
            log.roll,
            lambda: log.archive(A),
            lambda: log.restore(A),
            lambda: log.erase(A),
            log.__enter__,
        ]
        for call in calls:
            with pytest.raises(Closed):
                call()

    def test_closing_twice_does_nothing(self, log: Log) -> None:
        """A closed log can be closed again."""
        log.close()
        log.close()

    def test_leaving_the_block_closes(self) -> None:
        """A log is its own context manager, and is closed whatever happens in the block."""
        log = self.make_log()

        def fail() -> None:
            with log as same:
                assert same is log
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with pytest.raises(Closed):
            log.flush()

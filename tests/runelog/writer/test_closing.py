"""Closing a log: it lets go of everything, and says so if something could not be written."""

from __future__ import annotations

import contextlib
import resource
import threading
from typing import TYPE_CHECKING, Any

import pytest

from runelog.errors import Fenced, LogFailed, LogFull, RunefoldError
from runelog.lmdb.environment import MapFull
from runelog.repair.verify import verify
from runelog.rune import Change, Envelope
from runelog.store import Runelog
from tests.runelog.ledger import CODEC, Booked, contents, open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

A = "conv_a"


def book(log: Runelog, amount: int, *, durable: bool = True) -> None:
    """Append one rune."""
    log.append(A, [Change("book_1", None, [Booked(amount=amount)])], durable=durable)


@contextlib.contextmanager
def broken_disk() -> Iterator[None]:
    """Let every write behind the first page of a file fail, as on a disk that breaks."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def full_disk(log: Runelog) -> Iterator[None]:
    """Let each commit find its segment full, and no room for another one."""

    def full(*_: object) -> None:
        raise MapFull

    def no_room(*_: object) -> None:
        msg = "no room"
        raise LogFull(msg)

    writer: Any = log._writer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer._home, "next_segment", no_room)
        patch.setattr(writer._segment, "append", full)
        yield


def survives(directory: Path, *amounts: int) -> None:
    """Assert that the log can be opened at once, holds what was acknowledged, and goes on."""
    with open_ledger(directory) as log:
        assert contents(log) == {A: [Booked(amount=amount) for amount in amounts]}
        book(log, 99)
    assert verify(directory).problems == []


@pytest.mark.parametrize(
    ("disk", "told"), [(lambda _: broken_disk(), LogFailed), (full_disk, LogFull)]
)
def test_closing_tells_of_appends_that_were_lost(
    tmp_path: Path,
    disk: Callable[[Runelog], AbstractContextManager[None]],
    told: type[Exception],
) -> None:
    """What nobody waited for and could not be written is told by `close`, which lets go first."""
    log = open_ledger(tmp_path)
    book(log, 1)
    with disk(log):
        book(log, 2, durable=False)
        with pytest.raises(told):
            log.close()

    log.close()
    survives(tmp_path, 1)


def test_closing_tells_of_appends_that_another_writer_fenced_off(tmp_path: Path) -> None:
    """What nobody waited for before the log was taken over is told as `Fenced`."""
    log = open_ledger(tmp_path)
    book(log, 1)
    with Runelog.open(tmp_path, CODEC, take_over=True):
        book(log, 2, durable=False)
        with pytest.raises(Fenced):
            log.close()

    survives(tmp_path, 1)


def test_flushing_tells_of_appends_that_found_no_room(tmp_path: Path) -> None:
    """`flush` does not wait for what was turned away: it says so, once, and the log goes on."""
    with open_ledger(tmp_path) as log:
        book(log, 1)
        with full_disk(log):
            book(log, 2, durable=False)
            with pytest.raises(LogFull):
                log.flush()
        log.flush()
        book(log, 3, durable=False)

    survives(tmp_path, 1, 3)


def test_what_a_flush_told_is_not_told_again(tmp_path: Path) -> None:
    """Once `flush` said that appends were lost, `close` does not fail over them as well."""
    log = open_ledger(tmp_path)
    book(log, 1)
    with broken_disk():
        book(log, 2, durable=False)
        with pytest.raises(LogFailed):
            log.flush()
        log.close()

    survives(tmp_path, 1)


def test_what_an_append_told_is_not_told_again(tmp_path: Path) -> None:
    """An append that failed before the eyes of its caller does not make `close` fail as well."""
    log = open_ledger(tmp_path)
    book(log, 1)
    with broken_disk():
        with pytest.raises(LogFailed):
            book(log, 2)
        log.close()

    survives(tmp_path, 1)


def leave_by_an_error(log: Runelog) -> None:
    """Append what cannot be written, and leave the log's block by an error of one's own."""
    with log:
        book(log, 2, durable=False)
        raise ZeroDivisionError


def test_closing_does_not_hide_why_a_block_was_left(tmp_path: Path) -> None:
    """An exception that leaves the block stays the one that is raised, with a note of the other."""
    with broken_disk_after_first(tmp_path) as log, pytest.raises(ZeroDivisionError) as caught:
        leave_by_an_error(log)

    assert any("LogFailed" in note for note in caught.value.__notes__)
    survives(tmp_path, 1)


def test_leaving_a_block_tells_of_appends_that_were_lost(tmp_path: Path) -> None:
    """A block that ends well raises what `close` would."""
    with broken_disk_after_first(tmp_path) as log, pytest.raises(LogFailed), log:
        book(log, 2, durable=False)

    survives(tmp_path, 1)


@contextlib.contextmanager
def broken_disk_after_first(directory: Path) -> Iterator[Runelog]:
    """Give a log with one rune, whose disk is broken until the end of the block."""
    log = open_ledger(directory)
    book(log, 1)
    with broken_disk():
        yield log


@pytest.mark.parametrize("conversation", [A, None])
def test_those_who_follow_are_told_that_the_log_has_failed(
    tmp_path: Path, conversation: str | None
) -> None:
    """Behind the last rune there is: to wait for more would be to wait for ever."""
    with broken_disk_after_first(tmp_path) as log:
        follower = log.follow(conversation)
        found: list[object] = [next(follower)]
        waiting = threading.Thread(target=lambda: found.extend(_told(follower)))
        waiting.start()
        with pytest.raises(LogFailed):
            book(log, 2)
        waiting.join(30)
        stuck = waiting.is_alive()
        log.close()

    assert not stuck
    assert [type(each) for each in found] == [Envelope, LogFailed]


def _told(follower: Iterator[object]) -> Iterator[object]:
    """Yield what a follower is given, and last what it raises."""
    try:
        yield from follower
    except RunefoldError as error:
        yield error


def test_nothing_goes_behind_a_lost_append_unnoticed(tmp_path: Path) -> None:
    """Until somebody is told of the loss, its conversation takes no more; others do."""
    other = "conv_b"
    with open_ledger(tmp_path) as log:
        book(log, 1)
        log.append(other, [Change("book_1", None, [Booked(amount=7)])])
        with full_disk(log):
            book(log, 2, durable=False)
            with pytest.raises(LogFull):
                log.append(other, [Change("book_1", None, [Booked(amount=8)])])

        log.append(other, [Change("book_1", None, [Booked(amount=9)])])
        with pytest.raises(LogFull):
            book(log, 3)
        book(log, 4)
        assert contents(log) == {
            A: [Booked(amount=1), Booked(amount=4)],
            other: [Booked(amount=7), Booked(amount=9)],
        }


def test_a_flush_tells_each_conversation_of_its_own_losses(tmp_path: Path) -> None:
    """Whoever flushes one conversation hears of that one; the other's loss is told to the other."""
    other = "conv_b"
    with open_ledger(tmp_path) as log:
        for name in (A, other):
            log.append(name, [Change("book_1", None, [Booked(amount=1)])])
        with full_disk(log):
            for name in (A, other):
                log.append(name, [Change("book_1", None, [Booked(amount=2)])], durable=False)
            with pytest.raises(LogFull):
                log.flush(A)

        log.flush(A)
        with pytest.raises(LogFull):
            log.flush(other)
        log.flush(other)
        assert contents(log) == {A: [Booked(amount=1)], other: [Booked(amount=1)]}

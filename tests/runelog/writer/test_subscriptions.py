"""Rules about what those who follow hear of what is committed, without looking in the log."""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract import CODEC
from runefold.testing.contract.base import (
    LONG,
    PATIENCE,
    A,
    B,
    NoteAttached,
    NoteJudged,
    NoteTaken,
    fill,
    notes,
    some,
    texts,
)
from runelog.codec import MAX_INLINE
from runelog.errors import Gone
from runelog.rune import Change, Gap
from runelog.store import Runelog
from runelog.writer.subscriptions import MAX_BYTES, MAX_LATEST, MAX_RUNES, Subscriber

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from runelog.rune import Envelope
    from runelog.writer.subscriptions import Subscriptions

WANTED = NoteJudged(verdict="wanted")
UNWANTED = NoteTaken(text="unwanted")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Runelog]:
    """Give a log with one rune in it, so that there is a writer who tells."""
    with Runelog.open(tmp_path / "log", CODEC) as log:
        log.append(A, [notes("note_1", "a0")])
        log.append(B, [notes("note_1", "b0")])
        yield log


@pytest.fixture
def helper() -> Iterator[ThreadPoolExecutor]:
    """Give a thread that can wait."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def news_of(log: Runelog) -> Subscriptions:
    """Return what the writer of a log tells its followers by."""
    return log.log_directory.reader.subscriptions


def event(item: Envelope | Gap) -> int:
    """Return the event id of what must be a rune."""
    assert not isinstance(item, Gap)
    return item.event_id


def until_it_waits(subscriptions: Subscriptions, waiting: Future[Envelope | Gap]) -> None:
    """Return when the only one who listens sleeps."""
    end = time.monotonic() + PATIENCE
    while not any(subscriber.waits for subscriber in subscriptions.listening):
        assert time.monotonic() < end
        assert not waiting.done(), waiting.result()


@pytest.mark.parametrize("conversation", [A, None])
def test_what_is_heard_is_what_would_be_read(log: Runelog, conversation: str | None) -> None:
    """The same envelopes in the same order, of several changes, of blobs, and from any cursor."""
    subscriber = Subscriber(news_of(log), conversation, None)
    subscriber.subscribe(0)
    some(log)
    log.append(A, [Change("note_2", None, [WANTED, UNWANTED], observers=("note_1",), tags=("x",))])
    log.append(A, [Change("note_2", None, [NoteAttached(content=bytes(MAX_INLINE))])])
    log.append(B, [notes("note_1", "b")], durable=False)
    log.flush()
    there = [*log.follow(conversation, wait=0)]

    assert subscriber.last(0) == len(there)
    for cursor in range(len(there)):
        for stop in range(cursor + 1, len(there) + 1):
            other = Subscriber(news_of(log), conversation, None, stays=False)
            assert other.subscribe(cursor)
            assert other.take(cursor, stop) == there[cursor:stop]
    assert subscriber.take(0, len(there)) == there
    assert texts(there) == texts(log.read(A) if conversation else log.read_all())


@pytest.mark.parametrize("kinds", [set(), {"note.judged"}, {"note.attached", "note.judged"}])
@pytest.mark.parametrize("conversation", [A, None])
def test_of_some_kinds_all_is_heard_and_nothing_else(
    log: Runelog, conversation: str | None, kinds: set[str]
) -> None:
    """From any cursor what would be read; a text that looks like one of the kinds is none."""
    decoy = NoteTaken(text="kind\xabnote.judged\xa4kind")
    attached = NoteAttached(content=bytes(MAX_INLINE))
    forged = NoteAttached(content=b"\xa4kind\xabnote.judged")
    log.append(A, [Change("note_2", None, [WANTED, UNWANTED, decoy, WANTED, attached, forged])])
    log.append(B, [Change("note_2", None, [UNWANTED, WANTED])])
    log.append(A, [Change("note_2", None, [decoy])])
    there = [*log.follow(conversation, wait=0)]

    for cursor in range(len(there)):
        wanted = [item for item in there[cursor:] if not isinstance(item, Gap)]
        wanted = [item for item in wanted if item.kind in kinds]
        subscriber = Subscriber(news_of(log), conversation, kinds, stays=False)
        assert subscriber.subscribe(cursor)
        heard = subscriber.take(cursor, len(there))
        assert heard is not None
        assert [item for item in heard if item.kind in kinds] == wanted
        assert UNWANTED not in [item.payload for item in heard]
        assert [*log.follow(conversation, cursor, kinds=kinds, wait=0)] == wanted


def test_an_ear_hears_its_own_conversation(log: Runelog) -> None:
    """What others append does not reach it, and nothing of it is missed for that."""
    subscriber = Subscriber(news_of(log), A, None)

    assert subscriber.subscribe(1)
    log.append(B, [notes("note_1", "b")])
    assert subscriber.last(1) == 1
    log.append(A, [notes("note_1", "a")])
    assert subscriber.last(1) == 2
    assert not subscriber.lagging


@pytest.mark.parametrize("missed", [1, 2, 3])
@pytest.mark.parametrize("conversation", [A, None])
def test_who_missed_anything_has_to_look(
    log: Runelog, conversation: str | None, missed: int
) -> None:
    """What was heard is of no use unless it goes on right behind what the owner has, or knows of.

    One rune that was not heard is as good as many.
    """
    log.append(A, [notes("note_1", *["unheard"] * 4)])
    there = log.position if conversation is None else 5
    subscriber = Subscriber(news_of(log), conversation, None)
    assert subscriber.subscribe(there)
    log.append(A, [notes("note_1", "heard")])

    assert subscriber.take(there - missed, there + 1) is None
    assert subscriber.last(there - missed) == there - missed
    assert subscriber.lagging


def test_nobody_is_woken_for_kinds_that_are_not_wanted(
    log: Runelog, helper: ThreadPoolExecutor
) -> None:
    """It sleeps until something of its kinds comes, and is not behind for what it slept through."""
    followed = log.follow(A, 1, kinds={"note.judged"}, max_behind=2, wait=PATIENCE)
    first = helper.submit(next, followed)
    until_it_waits(news_of(log), first)
    for _ in range(9):
        log.append(A, [Change("note_1", None, [UNWANTED])])
        assert [subscriber.waits for subscriber in news_of(log).listening] == [True]
    log.append(A, [Change("note_1", None, [WANTED])])

    found = first.result(PATIENCE)
    assert event(found) == 11


def test_what_is_wanted_is_found_wherever_it_is(log: Runelog, helper: ThreadPoolExecutor) -> None:
    """However long an append is, and however many runes it has, what is wanted of it comes."""
    long = NoteTaken(text="x" * 100_000)
    followed = log.follow(A, 1, kinds={"note.judged"}, wait=PATIENCE)
    for runes in ([long, WANTED], [*[UNWANTED] * 99, WANTED]):
        first = helper.submit(next, followed)
        until_it_waits(news_of(log), first)
        log.append(A, [Change("note_1", None, [long])])
        last = log.append(A, [Change("note_1", None, runes)]).last

        assert event(first.result(PATIENCE)) == last


def test_who_is_slow_goes_deaf_and_misses_nothing(log: Runelog) -> None:
    """Little is kept for who does not take it; what was not kept comes from the log."""
    followed, large = log.follow(A, wait=0.001), log.follow(B, wait=0.001)

    assert texts([next(followed), next(large)]) == ["a0", "b0"]
    assert [subscriber.lagging for subscriber in news_of(log).listening] == [False, False]

    fill(log, A, MAX_RUNES + 1)
    for _ in range(3):
        log.append(B, [Change("note_1", None, [NoteTaken(text="x" * (MAX_BYTES // 2))])])

    assert [subscriber.lagging for subscriber in news_of(log).listening] == [True, True]
    assert [event(item) for item in followed] == [*range(2, MAX_RUNES + 3)]
    assert len([*large]) == 3


def test_the_latest_are_remembered_and_no_more(log: Runelog) -> None:
    """Who begins among the last appends needs no look in the log; who begins before them does."""
    for number in range(MAX_LATEST):
        log.append(A, [notes("note_1", str(number))], durable=False)
    log.flush()
    subscriptions = news_of(log)

    assert not Subscriber(subscriptions, A, None).subscribe(0)
    assert not Subscriber(subscriptions, B, None).subscribe(1)
    assert Subscriber(subscriptions, A, None).subscribe(1)
    assert Subscriber(subscriptions, A, None).subscribe(MAX_LATEST + 1)
    assert not subscriptions.is_live(B)
    log.append(B, [notes("note_1", "x" * (MAX_BYTES - 100))])
    assert subscriptions.is_live(B)
    assert not Subscriber(subscriptions, A, None).subscribe(1)


def test_what_a_conversation_at_rest_appended_last_is_not_held(log: Runelog) -> None:
    """Who follows it looks in the log, and so does who follows all; who follows others need not."""
    log.append(A, [notes("note_1", "a")])
    log.append(B, [notes("note_1", "b")])
    log.append(A, [notes("note_1", "c")])
    subscriptions = news_of(log)
    before = [Subscriber(subscriptions, of, None).subscribe(0) for of in (A, B, None)]
    log.rest(A)
    after = [Subscriber(subscriptions, of, None).subscribe(0) for of in (A, B, None)]

    assert before == [True, True, True]
    assert after == [False, True, False]
    assert not subscriptions.is_live(A)
    assert [event(item) for item in log.follow(A, wait=0)] == [1, 2, 3]
    assert len([*log.follow(wait=0)]) == 5
    log.append(A, [notes("note_1", "d")])
    assert [Subscriber(subscriptions, A, None).subscribe(after) for after in (2, 3)] == [
        False,
        True,
    ]
    assert [Subscriber(subscriptions, None, None).subscribe(after) for after in (4, 5)] == [
        False,
        True,
    ]


def test_who_follows_all_misses_nothing_of_a_conversation_that_comes_to_rest(log: Runelog) -> None:
    """Also if what it appended was the last of all, and nothing has come behind it."""
    log.append(A, [notes("note_1", "a")])
    log.append(B, [notes("note_1", "b")])
    log.rest(B)

    assert not Subscriber(news_of(log), None, None).subscribe(2)
    assert len([*log.follow(wait=0)]) == 4


def test_all_of_a_long_log_comes_whoever_waits(log: Runelog, helper: ThreadPoolExecutor) -> None:
    """Heard or read, or first the one and then the other: every rune once, in order."""

    def subscribe() -> list[int]:
        followed = log.follow(A, wait=PATIENCE)
        return [event(next(followed)) for _ in range(LONG + 1)]

    seen = helper.submit(subscribe)
    for number in range(LONG):
        log.append(A, [notes("note_1", str(number))], durable=number % 100 == 0)

    assert seen.result(PATIENCE) == [*range(1, LONG + 2)]


def test_erasing_reaches_one_who_waits(log: Runelog, helper: ThreadPoolExecutor) -> None:
    """It is told at once, and not when somebody else appends something."""
    first = helper.submit(next, log.follow(A, 1, wait=PATIENCE))
    until_it_waits(news_of(log), first)
    log.erase(A)

    with pytest.raises(Gone):
        first.result(PATIENCE / 2)
    with pytest.raises(Gone):
        log.follow(A)


def test_what_was_heard_and_erased_since_is_not_given(log: Runelog) -> None:
    """Also an append that was kept for a follower is gone when its conversation is erased."""
    followed = log.follow(A, wait=PATIENCE)
    next(followed)
    log.append(A, [notes("note_1", "a")])
    log.erase(A)

    with pytest.raises(Gone):
        next(followed)


def test_who_follows_no_more_leaves_nothing_behind(log: Runelog) -> None:
    """Whether it ended, was closed, was dropped, or did not wait at all."""
    assert texts(log.follow(A, wait=0.001)) == ["a0"]
    assert texts(log.follow(A, wait=0)) == ["a0"]
    closed, dropped = log.follow(A, wait=PATIENCE), log.follow(A, wait=PATIENCE)
    assert texts([next(closed), next(dropped)]) == ["a0", "a0"]
    assert len(news_of(log).listening) == 2
    assert isinstance(closed, Generator)
    closed.close()
    del dropped

    assert news_of(log).listening == []


def test_nobody_tells_a_child(log: Runelog) -> None:
    """In another process than the writer's one has to look."""
    subscriber = Subscriber(news_of(log), A, None)
    assert subscriber.subscribe(1)
    news_of(log).home._forks -= 1

    assert subscriber.lagging
    assert not subscriber.subscribe(1)

"""The log in memory keeps the contract; held back, it shows what a crash may take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract import CODEC, DurableLogContract, LogContract, picture
from runefold.testing.contract.base import A, B, notes, some, texts
from runelog.errors import UnknownConversation, WrongVersion
from runelog.memory import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.log import Log


class TestMemoryLog(LogContract):
    """`MemoryLog` is a log like any other."""

    def make_log(self, *, clock: Callable[[], int] = time.time_ns) -> Log:
        """Make a log in memory."""
        return MemoryLog(CODEC, clock)


class TestMemoryLogHoldingBack(LogContract):
    """One that holds back what nobody waits for is one too, as far as it lets go by itself."""

    test_what_did_not_wait_is_committed_all_the_same = None  # type: ignore[assignment]  # off
    test_a_follower_never_sees_what_is_not_committed = None  # type: ignore[assignment]  # off

    def make_log(self, *, clock: Callable[[], int] = time.time_ns) -> Log:
        """Make a log in memory that commits when it is told to."""
        return MemoryLog(CODEC, clock, hold=True)


def test_what_is_held_back_is_seen_by_nobody() -> None:
    """Until it is committed, an append is in no view of the log."""
    log = MemoryLog(CODEC, hold=True)
    some(log)
    before = picture(log)
    log.append(A, [notes("note_1", "x", open=True), notes("note_9", "y")], durable=False)
    log.append("conv_new", [notes("note_1", "z")], durable=False)

    assert picture(log) == before
    assert texts(log.follow(wait=0)) == texts(log.read_all())
    with pytest.raises(UnknownConversation):
        log.read("conv_new")

    log.commit_pending()

    assert texts(log.read_all(after=before["position"])) == ["x", "y", "z"]  # type: ignore[arg-type]  # an int
    assert [work.entity for work in log.open_work()] == ["note_1"]


def test_a_durable_append_commits_what_came_before() -> None:
    """What is durable is durable with everything ordered before it."""
    log = MemoryLog(CODEC, hold=True)
    log.append(A, [notes("note_1", "a")], durable=False)
    log.append(B, [notes("note_1", "b")])

    assert texts(log.read_all()) == ["a", "b"]


def test_a_power_cut_takes_what_was_held_back_and_nothing_else() -> None:
    """What is lost was never appended: ids, versions and work go on from before it."""
    log = MemoryLog(CODEC, hold=True)
    some(log)
    before = picture(log)
    log.append(A, [notes("note_1", "x", open=True, observers=("book_2",))], durable=False)
    log.append(A, [notes("note_1", "y", version=3)], durable=False)
    log.append("conv_new", [notes("note_1", "z")], durable=False)
    log.lose_pending()

    assert picture(log) == before
    with pytest.raises(WrongVersion):
        log.append(A, [notes("note_1", "x", version=4)])
    appended = log.append(A, [notes("note_1", "x", version=2)])
    assert (appended.first, appended.position) == (4, 7)
    assert log.append("conv_new", [notes("note_1", "z", version=0)]).position == 8


def test_the_same_calls_have_the_same_outcome() -> None:
    """With a clock that is given, two logs treated alike are alike, times and all."""
    first, second = (MemoryLog(CODEC, iter(range(100)).__next__) for _ in range(2))
    some(first)
    some(second)

    assert picture(first) == picture(second)


def test_no_rule_of_the_contract_hides_another() -> None:
    """Every part's tests have names of their own, or joining the parts would lose some."""
    names = [
        name
        for part in DurableLogContract.__mro__
        for name in vars(part)
        if name.startswith("test_")
    ]

    assert sorted(names) == sorted(set(names))

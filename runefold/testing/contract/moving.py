"""The contract on readers of a conversation that moves under them: to cold storage, back, away."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Final

import pytest

from runefold.testing.contract.base import PATIENCE, A, B, Base, ids, notes
from runelog.errors import Gone
from runelog.rune import Envelope, Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.log import Log

EACH: Final = 2_000
"""Runes of each of two conversations: more than any reader takes at a time."""
MOVES: Final = ("archive", "restore", "erase", "roll")
OF_ONE: Final[dict[str, Callable[[Log], Iterator[Envelope | Gap]]]] = {
    "read": lambda log: log.read(A),
    "stream": lambda log: log.stream(A, "note_1"),
    "stream of an observer": lambda log: log.stream(A, "book_1"),
    "follow": lambda log: log.follow(A, wait=0),
}
OF_ALL: Final[dict[str, Callable[[Log], Iterator[Envelope | Gap]]]] = {
    "read_all": lambda log: log.read_all(),
    "follow": lambda log: log.follow(wait=0),
}
REASONS: Final = {"archive": "archived", "restore": "moved", "erase": "erased"}


def interleave(log: Log) -> None:
    """Append to A and B in turns, until each has its runes."""
    for number in range(EACH // 5):
        for name in (A, B):
            change = notes("note_1", *[str(number)] * 5, observers=("book_1",))
            log.append(name, [change], durable=False)
        if number == EACH // 10:
            log.roll()
    log.flush()


def move(log: Log, verb: str) -> None:
    """Do something to A, or to the log, under those who read it."""
    log.roll() if verb == "roll" else getattr(log, verb)(A)


class Moving(Base):
    """Where a conversation is kept is not its readers' business, unless it is gone."""

    @pytest.mark.parametrize("taken", [0, 10])
    @pytest.mark.parametrize("verb", MOVES)
    @pytest.mark.parametrize("way", OF_ONE)
    def test_who_reads_a_conversation_that_moves_misses_nothing(
        self, log: Log, way: str, verb: str, taken: int
    ) -> None:
        """Each rune comes once, in order, wherever it is by then; only erasing ends it: `Gone`."""
        interleave(log)
        if verb == "restore":
            log.archive(A)
        reader = OF_ONE[way](log)
        seen = list(islice(reader, taken))
        move(log, verb)

        if verb == "erase":
            with pytest.raises(Gone):
                seen.extend(reader)
            assert len(seen) < EACH
        else:
            seen.extend(reader)
            assert len(seen) == EACH
        found = [item for item in seen if isinstance(item, Envelope)]
        assert ids(found) == list(range(1, len(seen) + 1))

    @pytest.mark.parametrize("taken", [0, 10])
    @pytest.mark.parametrize("verb", MOVES)
    @pytest.mark.parametrize("way", OF_ALL)
    def test_who_reads_everything_is_told_what_moved(
        self, log: Log, way: str, verb: str, taken: int
    ) -> None:
        """Every position is covered once, by a rune or by a gap that says why there is none."""
        interleave(log)
        if verb == "restore":
            log.archive(A)
        reader = OF_ALL[way](log)
        seen = list(islice(reader, taken))
        move(log, verb)
        seen.extend(reader)

        cursor = 0
        for item in seen:
            first, last = (
                (item.first, item.last) if isinstance(item, Gap) else (item.position, item.position)
            )
            assert first == cursor + 1
            cursor = last
        assert cursor == 2 * EACH
        runes = [item for item in seen if isinstance(item, Envelope)]
        gaps = [item for item in seen if isinstance(item, Gap)]
        assert ids(rune for rune in runes if rune.conversation == B) == list(range(1, EACH + 1))
        assert {gap.conversation for gap in gaps} <= {A}
        assert [gap.reason for gap in gaps[-1:]] == ([] if verb == "roll" else [REASONS[verb]])

    def test_erased_twice_over_is_gone_all_the_same(self, log: Log) -> None:
        """Archived, restored, archived and erased between two runes: what is left is `Gone`."""
        interleave(log)
        reader = log.stream(A, "note_1")
        next(reader)
        for verb in ("archive", "restore", "archive", "erase"):
            move(log, verb)

        with pytest.raises(Gone):
            list(reader)

    def test_moves_disturb_nobody(self, log: Log) -> None:
        """While a conversation goes to and fro, its runes and versions stay what they are."""
        log.append(A, [notes("note_1", *["a"] * 1_500, observers=("book_1",))])
        log.append(B, [notes("note_1", "b")])
        done = threading.Event()
        looks: list[Callable[[], int]] = [
            lambda: len(list(log.read(A))),
            lambda: len(list(log.stream(A, "book_1"))),
            lambda: log.version(A, "note_1"),
        ]

        def look(number: int) -> set[int]:
            seen = {looks[number]()}
            while not done.is_set():
                seen.add(looks[number]())
            return seen

        with ThreadPoolExecutor(len(looks)) as pool:
            looking = [pool.submit(look, number) for number in range(len(looks))]
            try:
                for _ in range(4):
                    log.archive(A)
                    log.restore(A)
            finally:
                done.set()

            assert [one.result(PATIENCE) for one in looking] == [{1_500}] * len(looks)

"""The contract on many threads: what each is told holds for all."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from runefold.testing.contract.base import PATIENCE, A, B, Base, ids, notes, texts
from runelog.errors import Cold, Gone, WrongVersion
from runelog.rune import Appended, Envelope, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.log import Log

THREADS: Final = 32
T = TypeVar("T")


def together(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Run `work` on many threads that all begin at the same moment; return what each returned."""
    start = threading.Barrier(threads)

    def one(number: int) -> T:
        start.wait(PATIENCE)
        return work(number)

    with switching_often(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


@contextmanager
def switching_often() -> Iterator[None]:
    """Have threads take turns in the middle of everything, as they would on a busy machine."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Racing(Base):
    """Many threads with one log."""

    def test_every_acknowledged_rune_is_there(self, log: Log) -> None:
        """32 threads append to their own and to a shared conversation: all there, gap-free."""

        def write(number: int) -> list[Appended]:
            places = []
            for round_ in range(10):
                text = f"{number} {round_}"
                own = notes("note_1", text, version=round_)
                places.append(log.append(f"conv_{number}", [own]))
                places.append(log.append(A, [notes(f"note_{number}", text, text)]))
            return places

        written = together(write)

        places = [place for one in written for place in one]
        taken = [
            position
            for place in places
            for position in range(place.position, place.position + place.last - place.first + 1)
        ]
        assert sorted(taken) == list(range(1, THREADS * 30 + 1))
        assert log.position == THREADS * 30
        assert ids(log.read(A)) == list(range(1, THREADS * 20 + 1))
        by_place = {rune.position: rune for rune in log.read_all() if isinstance(rune, Envelope)}
        for number, one in enumerate(written):
            rounds = [f"{number} {round_}" for round_ in range(10)]
            assert texts(log.read(f"conv_{number}")) == rounds
            for index, place in enumerate(one):
                found = [
                    by_place[place.position + at] for at in range(place.last - place.first + 1)
                ]
                assert texts(found) == [rounds[index // 2]] * len(found)
                assert ids(found) == list(range(place.first, place.last + 1))
                assert {rune.time for rune in found} == {place.time}

    def test_time_and_position_rise_together(self, log: Log) -> None:
        """Whoever appends, a later position never has an earlier time."""
        together(lambda number: [log.append(f"conv_{number}", [notes("a", "x")]) for _ in range(5)])

        times = [rune.time for rune in log.read_all() if isinstance(rune, Envelope)]
        assert len(times) == THREADS * 5
        assert times == sorted(times)

    def test_one_of_the_racers_wins(self, log: Log) -> None:
        """Of many writers that expect the same version exactly one succeeds, in every round."""
        for version in range(20):

            def race(number: int, version: int = version) -> int:
                change = notes("note_1", str(number), version=version)
                try:
                    log.append(A, [change], durable=number % 2 == 0)
                except WrongVersion as error:
                    return error.actual
                return version

            assert sorted(together(race, 8)) == [version, *[version + 1] * 7]
        log.flush()

        assert log.version(A, "note_1") == 20
        assert ids(log.read(A)) == list(range(1, 21))

    def test_losers_that_try_again_all_get_through(self, log: Log) -> None:
        """A counter that 8 threads raise by reading, deciding and appending loses no step."""

        def count(_number: int) -> None:
            for _ in range(10):
                while True:
                    seen = log.version(A, "note_1")
                    try:
                        log.append(A, [notes("note_1", str(seen), version=seen)])
                        break
                    except WrongVersion:
                        continue

        together(count, 8)

        assert texts(log.read(A)) == [str(number) for number in range(80)]

    def test_an_append_is_seen_whole_or_not_at_all(self, log: Log) -> None:
        """No reader ever sees some runes of an append, in any view, and not the others."""
        log.append(A, [notes("note_1", *"abc"), notes("note_2", "d")])
        done = threading.Event()

        def write() -> None:
            for _ in range(60):
                log.append(A, [notes("note_1", *"abc"), notes("note_2", "d")])
            done.set()

        def look() -> set[int]:
            seen = set()
            while not done.is_set():
                seen.add(len(list(log.read(A))) % 4)
                seen.add(log.conversation(A).head % 4)
                seen.add(log.version(A, "note_1") % 3)
                seen.add(log.position % 4)
                seen.add(len(list(log.read_all())) % 4)
            return seen

        with switching_often(), ThreadPoolExecutor(4) as pool:
            looking = [pool.submit(look) for _ in range(3)]
            pool.submit(write).result(PATIENCE)

            assert {tuple(one.result(PATIENCE)) for one in looking} <= {(0,), ()}

    def test_flush_covers_the_appends_of_every_thread(self, log: Log) -> None:
        """What any thread appended before its own flush can be read by it afterwards."""

        def write(number: int) -> list[str]:
            name = f"conv_{number}"
            for round_ in range(5):
                log.append(name, [notes("note_1", str(round_))], durable=False)
            log.flush()
            return texts(log.read(name))

        assert together(write) == [list("01234")] * THREADS

    def test_lifecycles_and_appends_do_not_get_into_each_other(self, log: Log) -> None:
        """Archiving, erasing and rolling under busy writers keep what was acknowledged."""
        for name in (A, B):
            log.append(name, [notes("note_1", "first")])

        def act(number: int) -> int:
            if number == 0:
                log.roll()
                log.archive(A)
                log.roll()
                log.erase(B)
                return 0
            written = 0
            for name, refusal in ((A, Cold), (B, Gone)):
                for round_ in range(10):
                    try:
                        log.append(name, [notes(f"note_{number}", str(round_))])
                        written += name == A
                    except refusal:
                        break
            return written

        written = sum(together(act, 8))

        assert log.conversation(A).state is State.ARCHIVED
        assert log.conversation(B).state is State.ERASED
        assert ids(log.read(A)) == list(range(1, written + 2))
        seen = [item for item in log.read_all() if isinstance(item, Envelope)]
        assert seen == []

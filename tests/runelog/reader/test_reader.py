"""Rules about readers of a log that others write to, move things in, or close meanwhile."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from runefold.testing.contract import CODEC
from runefold.testing.contract.base import PATIENCE, A, B, fill, ids, notes
from runefold.testing.contract.racing import switching_often
from runelog.errors import Closed, Gone, RunefoldError
from runelog.lmdb.environment import Environment
from runelog.lmdb.salvage import check_size
from runelog.reader.segments import Segment
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

SMALL = 1 << 20
COUNT = 1_500


def look(log: Runelog) -> list[int]:
    """Return how much each way of reading finds in A."""
    return [
        len(list(log.read(A))),
        len(list(log.stream(A, "note_1"))),
        log.version(A, "note_1"),
    ]


def keep_looking(directory: Path, conn: Connection) -> None:
    """Read until told to stop, through one handle and through new ones; tell what was odd."""
    odd: set[str] = set()
    with Runelog.open(directory, CODEC, readonly=True) as one:
        conn.send("ready")
        while not conn.poll():
            try:
                with Runelog.open(directory, CODEC, readonly=True) as new:
                    seen = [*look(one), *look(new)]
                    damaged = (
                        one.log_directory.segments.damaged | new.log_directory.segments.damaged
                    )
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
                odd.add(repr(error))
            else:
                if seen != [COUNT] * 6 or damaged:
                    odd.add(f"{seen} {damaged}")
    conn.send(sorted(odd))


@contextlib.contextmanager
def another_process(job: Callable[..., None], directory: Path) -> Iterator[Any]:
    """Run `job` in another process, and give our end of a pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=job, args=(directory, theirs))
    process.start()
    try:
        assert ours.poll(PATIENCE)
        yield ours
    finally:
        process.join(PATIENCE)
        process.kill()
        process.join()
        process.close()
        ours.close()
        theirs.close()


def test_a_reader_elsewhere_is_not_disturbed_by_moves(tmp_path: Path) -> None:
    """In another process too, what is archived, restored and rolled reads the same throughout."""
    with Runelog.open(tmp_path / "log", CODEC, segment_size=SMALL) as log:
        fill(log, A, COUNT)
        log.append(B, [notes("note_1", "b")])
        with another_process(keep_looking, tmp_path / "log") as reader:
            assert reader.recv() == "ready"
            for _ in range(8):
                log.archive(A)
                log.append(B, [notes("note_1", "b")])
                log.restore(A)
            reader.send("stop")
            assert reader.poll(PATIENCE)

            assert reader.recv() == []


@pytest.mark.parametrize("taken", [0, 10])
@pytest.mark.parametrize("way", ["read", "stream"])
@pytest.mark.parametrize("verbs", ["archive", "archive restore", "erase", "archive erase", "roll"])
def test_a_reader_with_its_own_handle_follows_every_move(
    tmp_path: Path, way: str, verbs: str, taken: int
) -> None:
    """One that is told nothing by the writer looks for itself, before each chunk it takes."""
    with Runelog.open(tmp_path / "log", CODEC, segment_size=SMALL) as log:
        fill(log, A, COUNT)
        with Runelog.open(tmp_path / "log", CODEC, readonly=True) as other:
            reader = other.read(A) if way == "read" else other.stream(A, "note_1")
            seen = [next(reader) for _ in range(taken)]
            for verb in verbs.split():
                log.roll() if verb == "roll" else getattr(log, verb)(A)

            if "erase" in verbs:
                with pytest.raises(Gone):
                    list(reader)
                with pytest.raises(Gone):
                    other.version(A, "note_1")
            else:
                assert ids([*seen, *reader]) == list(range(1, COUNT + 1))
                assert other.version(A, "note_1") == COUNT


def test_a_damaged_index_does_not_say_what_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of the active segment have no checksum: one that is gone is not missed there."""
    with Runelog.open(tmp_path / "log", CODEC) as log:
        fill(log, A, 1)
        sound = log.may_hold("book_")
        with monkeypatch.context() as patch:
            patch.setattr(Segment, "damaged", True)
            damaged = log.may_hold("book_")

    assert (sound, damaged) == (False, True)


def test_a_file_that_is_written_to_is_not_damaged(tmp_path: Path) -> None:
    """However often a writer commits between two glances at a header, it is not taken for odd."""
    path = tmp_path / "segment.mdb"
    env = Environment(path, map_size=SMALL, create=True)
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(1_500):
                with env.batch() as batch:
                    batch.put("meta", b"number", str(number).encode())
        finally:
            done.set()

    try:
        with switching_often(), ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not done.is_set():
                check_size(path)
            writing.result(PATIENCE)
    finally:
        env.close()


def test_closing_under_readers_tells_them_so(tmp_path: Path) -> None:
    """Whatever a thread was asking when the log was closed, it gets an answer or `Closed`."""
    with Runelog.open(tmp_path / "log", CODEC, segment_size=SMALL) as log:
        log.append(A, [notes(f"note_{number}", "a", open=True) for number in range(2_000)])
        log.roll()
    for _ in range(8):
        other = Runelog.open(tmp_path / "log", CODEC, readonly=True)
        asked: list[Callable[[], object]] = [
            partial(ask_for_all, other.open_work),
            partial(ask_for_all, other.conversations),
            partial(other.conversation, A),
            partial(other.version, A, "note_1"),
        ]
        begun = threading.Barrier(len(asked) + 1)
        with switching_often(), ThreadPoolExecutor(len(asked)) as pool:
            asking = [pool.submit(ask_until_refused, question, begun) for question in asked]
            begun.wait(PATIENCE)
            other.close()

            assert [type(one.result(PATIENCE)) for one in asking] == [Closed] * len(asked)


def ask_for_all(question: Callable[[], Iterable[object]]) -> int:
    """Return how much there is of something."""
    return len(list(question()))


def ask_until_refused(question: Callable[[], object], begun: threading.Barrier) -> RunefoldError:
    """Ask again and again, and return why no answer came in the end."""
    question()
    begun.wait(PATIENCE)
    while True:
        try:
            question()
        except RunefoldError as error:
            return error

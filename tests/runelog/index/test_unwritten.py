"""Rules about an index that follows: frames tell what its tables do not hold yet."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from runelog.errors import Corrupt, Fenced
from runelog.index import follow as follow_module
from runelog.index.follow import complete, follow
from runelog.index.laid_over import LaidOver
from runelog.index.unwritten import FOLLOWING, INDEXED, UnwrittenIndex, indexed
from runelog.lmdb.environment import Environment
from runelog.memory import MemoryLog
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change
from runelog.store import Runelog
from runelog.writer import segment_writer
from tests.runelog.ledger import CODEC, Booked, open_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runelog.lmdb.batch import Batch
    from runelog.lmdb.tables import Tables
    from runelog.log import Log

STORY: tuple[tuple[str, str, tuple[str, ...], int, bool | None, int | None], ...] = (
    ("conv_a", "book_1", ("boss",), 2, True, None),
    ("conv_b", "book_1", (), 1, True, 700),
    ("conv_a", "book_2", ("book_1", "boss"), 30, None, None),
    ("conv_a", "book_1", (), 1, False, None),
    ("conv_b", "book_2", ("book_1",), 1, True, 900),
    ("roll", "", (), 0, None, None),
    ("conv_b", "book_1", (), 3, False, None),
    ("conv_c", "book_1", ("boss",), 1, True, 0),
    ("conv_a", "book_1", ("boss",), 1, True, 100),
    ("conv_a", "book_1", (), 1, False, None),
    ("conv_b", "book_2", (), 1, None, None),
    ("conv_b", "book_2", (), 1, False, None),
)
"""Streams that go on behind a roll, and open work that ends before it, behind it, or never."""


def told(log: Log, step: tuple[str, str, tuple[str, ...], int, bool | None, int | None]) -> None:
    """Carry one step of the story out."""
    name, entity, observers, count, is_open, deadline = step
    if name == "roll":
        log.roll()
        return
    runes = [Booked(amount=at, memo=f"{name} {entity} {at}") for at in range(count)]
    change = Change(entity, None, runes, observers=observers, open=is_open, deadline=deadline)
    log.append(name, [change])


def answers(log: Log) -> dict[str, Any]:
    """Return what a log says to all that its index answers."""
    names = [found.id for found in log.conversations()]
    entities = ("book_1", "book_2", "boss", "nobody")
    return {
        "heads": [(found.id, found.head, found.size) for found in log.conversations()],
        "work": [*log.open_work()],
        "own work": {name: [*log.open_work(name)] for name in names},
        "runes": {name: [each.payload for each in log.read(name)] for name in names},
        "versions": {(n, e): log.version(n, e) for n in names for e in entities},
        "streams": {
            (n, e): [each.event_id for each in log.stream(n, e)] for n in names for e in entities
        },
    }


@pytest.fixture
def told_to_memory() -> MemoryLog:
    """Give a log in memory, whose answers are what those on disk must be."""
    return MemoryLog(CODEC)


def tables_of(view: Tables) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return all entries of an index."""
    return {table: view.scan(table) for table in FOLLOWING}


# -- killed between two commits --------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 5, 2_048])
def test_a_log_that_was_killed_answers_as_it_did(
    tmp_path: Path, told_to_memory: MemoryLog, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Killed behind any commit, wherever the tables got to: to read, and to write, it is all there.

    The copy of a log that is open is what a kill at that moment leaves.
    """
    monkeypatch.setattr(segment_writer, "MAX_RUNES", limit)
    with open_ledger(tmp_path / "log") as log:
        for at, step in enumerate(STORY):
            told(log, step)
            told(told_to_memory, step)
            expected = answers(told_to_memory)
            left = tmp_path / f"left-{at}"
            shutil.copytree(tmp_path / "log", left)
            (left / "LOCK").unlink()

            assert answers(log) == expected
            with open_ledger(left, readonly=True) as reader:
                assert answers(reader) == expected
            assert verify(left).problems == []
            with open_ledger(left) as writer:
                assert answers(writer) == expected


@pytest.mark.parametrize("killed", range(1, len(STORY)))
def test_a_log_goes_on_where_it_was_killed(
    tmp_path: Path, told_to_memory: MemoryLog, killed: int
) -> None:
    """The story is told on from what a kill left, and comes to the same end."""
    with open_ledger(tmp_path / "log") as log:
        for step in STORY[:killed]:
            told(log, step)
        shutil.copytree(tmp_path / "log", tmp_path / "left")
    (tmp_path / "left" / "LOCK").unlink()
    with open_ledger(tmp_path / "left") as log:
        for step in STORY[killed:]:
            told(log, step)
    for step in STORY:
        told(told_to_memory, step)

    with open_ledger(tmp_path / "left") as log:
        assert answers(log) == answers(told_to_memory)
    assert verify(tmp_path / "left").problems == []


def test_a_reader_follows_a_writer(tmp_path: Path, told_to_memory: MemoryLog) -> None:
    """Another handle answers from the tables and the frames behind them, after every commit."""
    with (
        open_ledger(tmp_path / "log") as log,
        open_ledger(tmp_path / "log", readonly=True) as reader,
    ):
        for step in STORY:
            told(log, step)
            told(told_to_memory, step)

            assert answers(reader) == answers(told_to_memory)


# -- what is known, and what the frames tell -------------------------------------------------------


def active_env(directory: Path) -> Environment:
    """Open the file that the story ends in."""
    return Environment(directory / "segments/000002.0.mdb", map_size=1 << 20)


def forget_index(batch: Batch) -> None:
    """Leave nothing in the tables of an index."""
    batch.delete("meta", INDEXED)
    for table in FOLLOWING:
        for key, _ in batch.scan(table):
            batch.delete(table, key)


def active_of(log: Runelog) -> Environment:
    """Return the file that a log writes to."""
    segments = log.log_directory.segments
    env = segments.segment(segments.manifest.active.number).env
    assert env is not None
    return env


@pytest.mark.parametrize("looks", [1, 2, 3, 5])
def test_what_is_told_bit_by_bit_is_what_is_told_at_once(tmp_path: Path, looks: int) -> None:
    """However often it is looked, the index is, entry for entry, what all frames tell anew."""
    with open_ledger(tmp_path / "log") as log:
        for at, step in enumerate(STORY):
            told(log, step)
            if at % looks:
                continue
            known = log.log_directory.segments.unwritten()
            with active_of(log).view() as view:
                anew = follow(view)

                assert anew.tables == known.tables
                for name in ("since", "until", "end", "runes", "size", "entries"):
                    assert getattr(anew, name) == getattr(known, name)


@pytest.mark.parametrize("limit", [1, 3, 5, 2_048])
def test_an_index_written_in_parts_is_what_frames_tell_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """However often the tables are brought up to the frames, they end as if that was done once."""
    monkeypatch.setattr(segment_writer, "MAX_RUNES", limit)
    with open_ledger(tmp_path / "log") as log:
        for step in STORY:
            told(log, step)
        with active_of(log).view() as view:
            in_parts = tables_of(complete(view))
    env = active_env(tmp_path / "log")
    with env.batch() as batch:
        forget_index(batch)
    with env.view() as view:
        at_once = tables_of(complete(view))
    env.close()

    assert in_parts == at_once


def test_the_tables_follow_within_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is appended, frames alone tell no more than so many runes."""
    monkeypatch.setattr(segment_writer, "MAX_RUNES", 10)
    with Runelog.open(tmp_path / "log", CODEC) as log:
        behind = []
        for _ in range(25):
            told(log, STORY[0])
            with active_of(log).view() as view:
                behind.append(log.position - (indexed(view) or 0))

        assert max(behind) == 10
        assert min(behind[5:]) == 2


def test_large_runes_have_the_index_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that have to be read behind the tables are bounded as well."""
    monkeypatch.setattr(segment_writer, "MAX_BYTES", 1_000)
    with open_ledger(tmp_path / "log") as log:
        log.append("conv_a", [Change("book_1", 0, [Booked(amount=1, memo="x" * 1_000)])])
        log.append("conv_a", [Change("book_1", 1, [Booked(amount=1)])])

        with active_of(log).view() as view:
            assert indexed(view) == log.position - 1


@pytest.mark.parametrize("how", ["roll", "close"])
def test_a_segment_that_is_left_has_all_of_its_index(tmp_path: Path, how: str) -> None:
    """At a roll and at a close the tables are brought up to the last frame."""
    with open_ledger(tmp_path / "log") as log:
        told(log, STORY[0])
        if how == "roll":
            log.roll()
    path = tmp_path / "log" / "segments" / "000001.0.mdb"
    env = Environment(path, map_size=1 << 20, readonly=True, lock=False)
    try:
        with env.view() as view:
            assert indexed(view) == 2
            assert follow(view).is_empty
    finally:
        env.close()


def test_an_index_that_is_missing_is_told_from_the_frames(
    tmp_path: Path, told_to_memory: MemoryLog
) -> None:
    """Without the word of `meta` no table is believed: all is told from the frames."""
    with open_ledger(tmp_path / "log") as log:
        for step in STORY:
            told(log, step)
            told(told_to_memory, step)
    (tmp_path / "log" / "CLEAN").unlink()
    env = active_env(tmp_path / "log")
    with env.batch() as batch:
        forget_index(batch)
    env.close()

    with open_ledger(tmp_path / "log", readonly=True) as reader:
        assert answers(reader) == answers(told_to_memory)
    with open_ledger(tmp_path / "log") as log:
        assert answers(log) == answers(told_to_memory)


def test_what_another_process_wrote_is_noticed(tmp_path: Path) -> None:
    """A frame behind the last that this writer left fences it off, whoever's epoch it has."""
    with open_ledger(tmp_path / "log") as log:
        told(log, STORY[0])
        with active_of(log).batch() as batch:
            batch.put("runes", (99).to_bytes(8, "big"), b"foreign")

        with pytest.raises(Fenced, match="another process"):
            told(log, STORY[0])


# -- damage ----------------------------------------------------------------------------------------


def left_unclean(tmp_path: Path) -> Path:
    """Write to a log and return what a kill leaves of it."""
    with open_ledger(tmp_path / "log") as log:
        for step in STORY[:5]:
            told(log, step)
        shutil.copytree(tmp_path / "log", tmp_path / "left")
    (tmp_path / "left" / "LOCK").unlink()
    return tmp_path / "left"


def spoilt(path: Path, before: bytes, after: bytes) -> None:
    """Change what a file says, also on older copies of a page."""
    data = path.read_bytes()
    assert before in data
    path.write_bytes(data.replace(before, after))


def test_a_damaged_rune_stops_its_conversation_only(tmp_path: Path) -> None:
    """A rune that only its frame tells of is missed where it was, and nowhere else."""
    left = left_unclean(tmp_path)
    spoilt(left / "segments" / "000001.0.mdb", b"conv_b book_2 0", b"gonv_b book_2 0")

    with open_ledger(left, readonly=True) as log:
        assert len([*log.read("conv_a")]) == 33
        assert [log.conversation(name).head for name in ("conv_a", "conv_b")] == [33, 2]
        with pytest.raises(Corrupt, match="rune 2 of conv_b"):
            list(log.read("conv_b"))
        assert len([*log.open_work("conv_b")]) == 2, "notes have a checksum of their own"


def test_runes_that_cannot_be_attributed_stop_all(tmp_path: Path) -> None:
    """Where a frame does not say whose it is, none is told to be whole; a repair saves the rest."""
    with open_ledger(tmp_path / "log") as log:
        for name in ("conv_a", "conv_b", "conv_b"):
            told(log, (name, "book_1", (), 1, None, None))
        with active_of(log).view() as view:
            data = view.get("runes", (3).to_bytes(8, "big"))
        shutil.copytree(tmp_path / "log", tmp_path / "left")
    assert data is not None
    left = tmp_path / "left"
    (left / "LOCK").unlink()
    # As if the last frame were of conv_a, whose next event would be the second one, too.
    path = left / "segments" / "000001.0.mdb"
    spoilt(path, data, data[:4] + (1).to_bytes(4, "little") + data[8:])

    with open_ledger(left, readonly=True) as log:
        for name in ("conv_a", "conv_b"):
            with pytest.raises(Corrupt, match="not certain whose"):
                list(log.read(name))
    assert repair(left).runes_lost == 0
    with open_ledger(left, readonly=True) as log:
        assert [len([*log.read(name)]) for name in ("conv_a", "conv_b")] == [1, 2]


def test_a_repair_keeps_open_work_that_only_frames_tell(tmp_path: Path) -> None:
    """What notes say of open work, and where conversations end, is saved with the runes."""
    left = left_unclean(tmp_path)
    with open_ledger(left, readonly=True) as log:
        expected = [*log.open_work()]
    spoilt(left / "segments" / "000001.0.mdb", b"conv_b book_2 0", b"gonv_b book_2 0")

    done = repair(left)

    assert (done.runes_lost, done.more_lost) == (1, False)
    with open_ledger(left, readonly=True) as log:
        assert [*log.open_work()] == expected
        assert log.conversation("conv_b").head == 2


# -- laying over -----------------------------------------------------------------------------------


@pytest.fixture
def laid(tmp_path: Path) -> Iterator[LaidOver]:
    """Give tables with entries laid over: new ones, changed ones, and some that are gone."""
    env = Environment(tmp_path / "one.mdb", map_size=1 << 20, create=True)
    with env.batch() as batch:
        for at in range(0, 600, 2):
            batch.put("work", b"%03d" % at, b"old")
    over = UnwrittenIndex()
    for at in range(300, 900, 3):
        over.add({"work": {b"%03d" % at: None if at % 6 == 0 else b"new"}})
    with env.view() as view:
        yield LaidOver(view, over)
    env.close()


def test_tables_and_what_is_laid_over_them_are_one(laid: LaidOver) -> None:
    """Asked in any way, they answer as one table that has both."""
    whole = {b"%03d" % at: b"old" for at in range(0, 600, 2)}
    whole |= {b"%03d" % at: b"new" for at in range(300, 900, 3)}
    for at in range(300, 900, 6):
        del whole[b"%03d" % at]
    entries = sorted(whole.items())
    keys = [b"%03d" % at for at in range(1000)]

    assert laid.scan("work") == entries
    assert (
        laid.scan("work", b"297", b"331", limit=9)
        == [entry for entry in entries if b"297" <= entry[0] < b"331"][:9]
    )
    assert [laid.get("work", key) for key in keys] == [whole.get(key) for key in keys]
    for key in keys:
        below = [entry for entry in entries if entry[0] <= key]
        assert laid.floor("work", key) == (below[-1] if below else None)
        assert list(laid.cover("work", [(key, b"400")])) == [
            entry
            for entry in entries
            if (below and entry[0] == below[-1][0]) or key < entry[0]
            if entry[0] < b"400"
        ]
    assert tables_of(complete(laid))["work"] == entries


def test_what_is_known_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that looks again and again reads each frame once, until the tables hold it."""
    read: list[int] = []
    take = follow_module.Trail.take

    def counted(trail: follow_module.Trail, position: int, data: bytes) -> None:
        read.append(position)
        take(trail, position, data)

    monkeypatch.setattr(follow_module.Trail, "take", counted)
    path = tmp_path / "log"
    with open_ledger(path) as log, open_ledger(path, readonly=True) as reader:
        for _ in range(3):
            told(log, STORY[0])
            assert reader.version("conv_a", "boss") == log.position

        assert read == [1, 3, 5]

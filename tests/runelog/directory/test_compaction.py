"""Archived conversations stay in segments until it is cheap to write those anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runelog.directory import rewrite
from runelog.directory.maintenance import MAX_DEAD
from runelog.index import frame
from runelog.index.records import Hole, decode_hole
from runelog.lmdb import batch
from runelog.manifest import read_manifest
from runelog.reader import order
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Gap, State
from runelog.store import Runelog
from tests.runelog.ledger import CODEC, SMALL, Booked, open_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from runelog.lmdb.environment import Environment
    from runelog.log import Log

A, B, C = "conv_a", "conv_b", "conv_c"


def fill(log: Log, *names: str, runes: int = 3) -> None:
    """Append some runes to each conversation."""
    for name in names:
        memo = f"of {name}!"
        booked = [Booked(amount=number, memo=memo) for number in range(1, runes + 1)]
        log.append(name, [Change("book_1", None, booked)])


def amounts(log: Log, name: str) -> list[int]:
    """Return what was booked in a conversation."""
    payloads = (envelope.payload for envelope in log.read(name))
    return [payload.amount for payload in payloads if isinstance(payload, Booked)]


def traces(directory: Path, name: str) -> list[str]:
    """Return the files in which there are bytes of a conversation's runes."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return [path.name for path in found if f"of {name}!".encode() in path.read_bytes()]


def segments(directory: Path) -> int:
    """Return how many files of segments there are."""
    return len([*(directory / "segments").glob("*.mdb")])


class Copied:
    """Counts the runes that are copied when segments are written anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin with none."""
        self.runes = 0
        put_all = rewrite._put_all

        def counted(env: Environment, puts: list[tuple[str, bytes, bytes]], size: int) -> None:
            self.runes += sum(frame.count(data) for table, _, data in puts if table == "runes")
            put_all(env, puts, size)

        monkeypatch.setattr(rewrite, "_put_all", counted)


# -- growth ----------------------------------------------------------------------------------------


def test_archives_add_no_segments(tmp_path: Path) -> None:
    """Conversations that come and are archived leave neither segments nor names behind."""
    count = MAX_DEAD + 50
    with open_ledger(tmp_path) as log:
        for number in range(count):
            fill(log, f"conv_{number}")
            log.archive(f"conv_{number}")

    assert segments(tmp_path) == 1
    assert len(read_manifest(tmp_path).dead) <= MAX_DEAD
    assert (tmp_path / "MANIFEST").stat().st_size < 16 << 10
    with open_ledger(tmp_path) as log:
        assert sum(each.state is State.ARCHIVED for each in log.conversations()) == count
        assert amounts(log, "conv_0") == [1, 2, 3]


def test_erasures_add_no_segments(tmp_path: Path) -> None:
    """An erased conversation is gone at once, and the active segment stays the active one."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
        for number in range(20):
            fill(log, f"conv_{number}")
            log.erase(f"conv_{number}")
            assert traces(tmp_path, f"conv_{number}") == []
        fill(log, A)

    assert segments(tmp_path) == 1
    assert verify(tmp_path, codec=CODEC).problems == []
    with open_ledger(tmp_path) as log:
        assert amounts(log, A) == [1, 2, 3, 1, 2, 3]


def test_a_segment_that_is_nearly_full_is_sealed_instead(tmp_path: Path) -> None:
    """Written anew it would need a larger map each time, and never be sealed."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
        fill(log, B, runes=8_000)
        log.erase(A)
        fill(log, C)
    now = read_manifest(tmp_path)

    assert now.active.map_size == SMALL
    assert [info.number for info in now.segments] == [1, 2]
    assert traces(tmp_path, A) == []


@pytest.mark.parametrize("sealed", [False, True])
def test_no_more_is_copied_than_was_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sealed: bool
) -> None:
    """However many conversations are archived one by one, the cost of each stays the same."""
    names = [f"conv_{number}" for number in range(200)]
    runes = 60
    with open_ledger(tmp_path) as log:
        fill(log, *names, runes=runes)
        if sealed:
            log.roll()
        copied = Copied(monkeypatch)
        for name in names:
            log.archive(name)

    assert 0 < copied.runes <= len(names) * runes


def test_an_archive_that_is_half_of_a_log_is_removed_from_its_segments(tmp_path: Path) -> None:
    """Room is given back once there is enough of it."""
    with open_ledger(tmp_path) as log:
        fill(log, B, runes=5_000)
        fill(log, A, C, runes=3_000)
        log.roll()
        log.archive(A)
        early = read_manifest(tmp_path).dead
        log.archive(C)

    assert early == (A,)
    assert read_manifest(tmp_path).dead == ()
    assert all(path.endswith(".runes") for path in traces(tmp_path, A))


# -- what is dead is not there ---------------------------------------------------------------------


@pytest.fixture(params=["active", "sealed", "both"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Make a log with an archived conversation that is still in its segments."""
    with open_ledger(tmp_path) as log:
        fill(log, A, B)
        if request.param != "active":
            log.roll()
        if request.param == "both":
            fill(log, A, B)
        log.archive(A)
        fill(log, B)
    assert read_manifest(tmp_path).dead == (A,)
    return tmp_path


def expected(directory: Path) -> list[int]:
    """Return what was booked in the conversation before it was archived."""
    with open_ledger(directory, readonly=True) as log:
        return [1, 2, 3] * (log.conversation(A).head // 3)


@pytest.mark.parametrize("readonly", [False, True])
def test_its_runes_are_read_from_the_archive(place: Path, *, readonly: bool) -> None:
    """In the order of the log there is a gap; in every other way it is archived like any other."""
    with open_ledger(place, readonly=readonly) as log:
        everything = [*log.read_all()]
        gaps = [each for each in everything if isinstance(each, Gap)]
        state = log.conversation(A).state
        found = amounts(log, A)

    assert state is State.ARCHIVED
    assert found == expected(place)
    assert {(gap.reason, gap.conversation) for gap in gaps} == {("archived", A)}
    assert sum(gap.last - gap.first + 1 for gap in gaps) == len(found)
    assert verify(place, codec=CODEC).problems == []


def test_it_can_be_restored(place: Path) -> None:
    """What was left in segments does not come to life with it."""
    before = expected(place)
    with open_ledger(place) as log:
        log.restore(A)
        fill(log, A)

        assert amounts(log, A) == [*before, 1, 2, 3]
        assert log.version(A, "book_1") == len(before) + 3
    assert verify(place, codec=CODEC).problems == []
    assert read_manifest(place).dead == ()


def test_it_can_be_erased(place: Path) -> None:
    """No byte of it is left, neither in its archive nor in a segment."""
    with open_ledger(place) as log:
        log.erase(A)

    assert traces(place, A) == []
    assert verify(place, codec=CODEC).problems == []
    with open_ledger(place) as log:
        assert log.conversation(A).state is State.ERASED
        assert len(amounts(log, B)) >= 6


def test_a_segment_is_sealed_with_it(place: Path) -> None:
    """The next segment begins, and it is still where it was."""
    before = expected(place)
    with open_ledger(place) as log:
        log.roll()
        fill(log, B)
        log.roll()
        found = amounts(log, A)
        log.restore(A)
        restored = amounts(log, A)

    assert found == restored == before
    assert verify(place, codec=CODEC).problems == []


# -- damage ----------------------------------------------------------------------------------------


def test_a_lost_catalog_is_made_anew(place: Path) -> None:
    """MANIFEST says which runes do not count."""
    before = expected(place)
    for path in place.glob("catalog.*"):
        path.unlink()
    with open_ledger(place) as log:
        assert log.conversation(A).state is State.ARCHIVED
        assert amounts(log, A) == before
        log.restore(A)
        assert amounts(log, A) == before

    assert verify(place, codec=CODEC).problems == []


def test_a_lost_manifest_is_made_anew(place: Path) -> None:
    """A conversation of which an archive has every rune is archived."""
    before = expected(place)
    (place / "MANIFEST").unlink()
    done = repair(place)

    assert (done.runes_lost, done.more_lost) == (0, False)
    assert read_manifest(place).dead == (A,)
    assert verify(place, codec=CODEC).problems == []
    with open_ledger(place) as log:
        assert log.conversation(A).state is State.ARCHIVED
        assert amounts(log, A) == before


def test_damage_to_what_is_dead_costs_nothing(tmp_path: Path) -> None:
    """Runes that are in an archive as well are not said to be lost."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
        log.roll()
        fill(log, B)
        log.archive(A)
    path = tmp_path / "segments" / "000001.0.mdb"
    data = path.read_bytes()
    at = data.index(b"of conv_a!")
    path.write_bytes(data[:at] + b"X" + data[at + 1 :])
    done = repair(tmp_path)

    assert done.runes_lost == 0
    assert verify(tmp_path, codec=CODEC).problems == []
    with open_ledger(tmp_path) as log:
        assert amounts(log, A) == amounts(log, B) == [1, 2, 3]
        log.restore(A)
        assert amounts(log, A) == [1, 2, 3]


def test_a_hole_is_read_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading everything costs as much as there is, also where few large runes come at a time."""
    names = [f"conv_{number}" for number in range(100, 108)]
    with Runelog.open(tmp_path, CODEC) as log:
        for name in names:
            fill(log, name, runes=1)
            log.append(A, [Change("book_1", None, [Booked(amount=1, memo="large")])])
        for name in names:
            log.erase(name)
        read = []

        def noted(key: bytes, stored: bytes) -> Hole:
            read.append(key)
            return decode_hole(key, stored)

        monkeypatch.setattr(batch, "_SCAN_BYTES", 1)
        monkeypatch.setattr(order, "decode_hole", noted)
        found = [*log.read_all()]

    assert sum(isinstance(item, Gap) for item in found) == len(names)
    assert len(names) <= len(read) <= 3 * len(names)

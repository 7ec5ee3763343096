"""Verify looks into archives as it looks into segments: at each rune, and whether it decodes."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from runelog.codec import MAX_INLINE, Codec
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Rune
from runelog.store import Runelog
from runelog.stream.streams import StreamReader
from tests.crash.story import compacting
from tests.runelog.ledger import CODEC, Booked, open_ledger, write_ledger

if TYPE_CHECKING:
    from pathlib import Path


class Loose(Rune, frozen=True, tag="ledger.booked"):
    """A rune of a known kind that holds what it should not."""

    amount: Any


class Later(Rune, frozen=True, tag="ledger.booked"):
    """A rune of a known kind as a later version writes it."""

    schema: ClassVar[int] = 2
    amount: int


def archived(directory: Path, *runes: Rune) -> None:
    """Archive a conversation that consists of these runes."""
    with Runelog.open(directory, Codec([type(runes[0])])) as log:
        log.append("conv_a", [Change("book_1", 0, [*runes])])
        log.archive("conv_a")


def test_an_archived_rune_that_does_not_decode_as_its_kind_is_named(tmp_path: Path) -> None:
    """Its bytes are what was written, and yet nobody can read it; its neighbours are checked."""
    archived(tmp_path / "log", Loose(amount=1), Loose(amount="much"), Loose(amount=3))

    assert verify(tmp_path / "log").problems == []
    report = verify(tmp_path / "log", codec=CODEC)
    assert [(each.where, each.severity, each.invariant) for each in report.problems] == [
        ("conv_a event 2", "fatal", "INV-CRC-VALID")
    ]
    assert "cannot be decoded" in report.problems[0].message
    assert report.runes == 3


def test_an_archived_rune_of_a_later_version_is_named(tmp_path: Path) -> None:
    """It is whole, and this version does not know what it means."""
    archived(tmp_path / "log", Later(amount=1), Later(amount=2))

    report = verify(tmp_path / "log", codec=CODEC)
    assert [(each.where, each.severity, each.invariant) for each in report.problems] == [
        (f"conv_a event {number}", "error", "INV-REPLAY-DETERMINISTIC") for number in (1, 2)
    ]


def test_an_archived_rune_is_decoded_with_its_large_fields(tmp_path: Path) -> None:
    """What was put beside the runes is in the archive with them, and is put back to decode them."""
    archived(tmp_path / "log", Booked(amount=1, memo="m" * (MAX_INLINE + 1)), Booked(amount=2))

    told: list[int] = []
    report = verify(tmp_path / "log", codec=CODEC, progress=told.append)
    with (tmp_path / "log" / "archive" / "conv_a.runes").open("rb") as file:
        assert StreamReader(file).totals.blobs == 1
    assert (report.problems, report.runes, sum(told)) == ([], 2, 2)


def test_a_tombstone_in_an_archive_is_no_rune(tmp_path: Path) -> None:
    """What a repair put in place of a lost rune is counted nowhere, wherever it is kept."""
    truth = write_ledger(tmp_path / "log")
    path = tmp_path / "log" / "segments" / "000001.0.mdb"
    path.write_bytes(path.read_bytes().replace(b"conv_3 3.2", b"gonv_3 3.2"))
    assert repair(tmp_path / "log").runes_lost == 1
    before = verify(tmp_path / "log", codec=CODEC)
    with open_ledger(tmp_path / "log") as log:
        log.archive("conv_3")

    report = verify(tmp_path / "log", codec=CODEC)

    assert before.ok
    assert report.ok
    assert before.runes == sum(map(len, truth.values())) - 1
    assert report.runes == before.runes


def test_another_ones_archive_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """A file that is sound, and has as many runes, is still not the one that belongs there."""
    with open_ledger(tmp_path / "log") as log:
        for name in ("conv_a", "conv_b"):
            log.append(name, [Change("book_1", 0, [Booked(amount=1)])])
        log.archive("conv_a", "conv_b")
    place = tmp_path / "log" / "archive"
    shutil.copyfile(place / "conv_b.runes", place / "conv_a.runes")

    report = verify(tmp_path / "log", codec=CODEC)

    assert [(each.where, each.severity) for each in report.problems] == [("conv_a", "fatal")]
    assert "another conversation" in report.problems[0].message
    assert report.runes == 1


def test_what_is_restored_meanwhile_is_not_missed(tmp_path: Path) -> None:
    """An archive that its live writer takes back while others are checked is not lost."""
    names = [f"conv_{number}" for number in range(4)]
    with open_ledger(tmp_path / "log") as log:
        for name in names:
            log.append(name, [Change("book_1", 0, [Booked(amount=1)])])
        log.archive(*names)
        waiting = names[1:]

        def restore(_: int) -> None:
            if waiting:
                log.restore(*waiting)
                waiting.clear()

        report = verify(tmp_path / "log", codec=CODEC, progress=restore)

    assert not waiting
    assert report.problems == []


@pytest.mark.parametrize(
    ("dead", "way_out"), [(True, "`runefold log repair` has"), (False, "restore it from a backup")]
)
def test_an_archive_that_is_gone_is_missed(tmp_path: Path, way_out: str, *, dead: bool) -> None:
    """It is named, and what to do about it: segments may still hold its runes."""
    with contextlib.nullcontext() if dead else compacting():
        archived(tmp_path / "log", Booked(amount=1))
    (tmp_path / "log" / "archive" / "conv_a.runes").unlink()

    report = verify(tmp_path / "log", codec=CODEC)

    assert [(each.where, each.severity) for each in report.problems] == [("conv_a", "fatal")]
    assert way_out in report.problems[0].message

"""Repair where a file is gone: what went with it is counted, or not known to anybody."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runelog.manifest import read_manifest
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Gap
from tests.runelog.ledger import Booked, open_ledger, write_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ACTIVE = "000002.0.mdb"


def gone(path: Path) -> None:
    """Lose a file."""
    path.unlink()


def blank(path: Path) -> None:
    """Lose all that is in a file."""
    path.write_bytes(bytes(path.stat().st_size))


def alone(path: Path) -> None:
    """Lose a file, and MANIFEST with it."""
    path.unlink()
    (path.parents[1] / "MANIFEST").unlink()


@pytest.mark.parametrize("lose", [gone, blank, alone])
def test_the_end_of_a_log_is_not_lost_in_silence(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """CLEAN tells how far the active segment went: with nothing left of it, that much is lost."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    first = read_manifest(directory).segments[0].last
    everything = sum(map(len, truth.values()))
    lose(directory / "segments" / ACTIVE)

    done = repair(directory)

    assert (done.runes_lost, done.more_lost) == (everything - first, False)
    assert set(done.segments) == {path.name for path in directory.glob("damaged/*")}
    assert verify(directory).problems == []
    with open_ledger(directory) as log:
        assert log.append("conv_0", [Change("x", 0, [Booked(amount=1)])]).position > everything
        assert next(log.read_all(first)) == Gap(first + 1, everything, "damaged")


@pytest.mark.parametrize("lose", [gone, blank])
def test_where_nobody_can_tell_how_much_is_lost_that_is_said(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """Of an active segment that was not closed nothing but itself tells how far it went."""
    directory = tmp_path / "log"
    write_ledger(directory)
    (directory / "CLEAN").unlink()
    lose(directory / "segments" / ACTIVE)

    done = repair(directory)

    assert done.more_lost
    assert verify(directory).problems == []


def test_a_log_without_segments_can_be_repaired(tmp_path: Path) -> None:
    """With all of them gone, what was there is lost and counted, and the log goes on."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    shutil.rmtree(directory / "segments")

    done = repair(directory)

    assert (done.runes_kept, done.runes_lost) == (0, sum(map(len, truth.values())))
    assert verify(directory).problems == []

"""Repair where two things are damaged, and neither can vouch for the other any more."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, State, Tombstone
from tests.runelog.ledger import Booked, open_ledger, write_ledger
from tests.runelog.sound_runes import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runelog.ledger import Truth

NAMES = ("000001.0.mdb", "000002.0.mdb", "000003.0.mdb")


def ledger(directory: Path) -> Truth:
    """Write a log of three segments; the last one is empty."""
    truth = write_ledger(directory)
    with open_ledger(directory) as log:
        log.roll()
    return truth


def one_rune(path: Path) -> None:
    """Change a bit of a rune, wherever a copy of it is."""
    data = path.read_bytes()
    needle = b"conv_3 3.2" if b"conv_3 3.2" in data else b"conv_3 98.2"
    assert needle in data
    path.write_bytes(data.replace(needle, b"\x73" + needle[1:]))


def everything(path: Path) -> None:
    """Leave nothing in a file."""
    path.write_bytes(bytes(path.stat().st_size))


def itself(path: Path) -> None:
    """Lose a file."""
    path.unlink()


def identity(path: Path) -> None:
    """Put another segment's file in its place."""
    other = NAMES[1] if path.name == NAMES[0] else NAMES[0]
    shutil.copyfile(path.with_name(other), path)


@pytest.mark.parametrize("spoil", [one_rune, everything, itself, identity])
@pytest.mark.parametrize("name", NAMES[:2])
def test_a_damaged_segment_is_found_without_the_manifest(
    tmp_path: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    """With the digests gone, each rune is checked: nothing that is damaged is vouched for."""
    directory = tmp_path / "log"
    truth = ledger(directory)
    spoil(directory / "segments" / name)
    (directory / "MANIFEST").unlink()

    done = repair(directory)

    assert verify(directory).problems == []
    lost = 0
    with open_ledger(directory) as log:
        for conversation, runes in truth.items():
            found = [envelope.payload for envelope in log.read(conversation)]
            lost += len(runes) - len(found)
            for seen, expected in zip(found, runes, strict=False):
                if isinstance(seen, Tombstone):
                    lost += 1
                else:
                    assert seen == expected
    assert done.runes_lost == lost
    assert lost == 1 if spoil is one_rune else lost > 1
    assert repair(directory).segments == []


def test_what_a_damaged_catalog_told_once_is_not_believed(tmp_path: Path) -> None:
    """With half of it gone and any page of a segment, what was erased or archived stays so."""
    truth = write_ledger(tmp_path / "log")
    with open_ledger(tmp_path / "log") as log:
        for work in log.open_work("conv_3"):
            log.append("conv_3", [Change(work.entity, None, [Booked(amount=0)], open=False)])
            truth["conv_3"].append(Booked(amount=0))
        log.archive("conv_3")
        log.erase("conv_2")
    (catalog,) = (tmp_path / "log").glob("catalog.*.mdb")
    first = min((tmp_path / "log" / "segments").glob("000001.*.mdb"))
    data, cut = first.read_bytes(), catalog.read_bytes()[: catalog.stat().st_size // 2]
    for page in range(2, len(data) // PAGE):
        directory = tmp_path / f"log_{page}"
        shutil.copytree(tmp_path / "log", directory)
        (directory / catalog.name).write_bytes(cut)
        damaged = data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :]
        (directory / "segments" / first.name).write_bytes(damaged)

        repair(directory)

        assert verify(directory).problems == [], page
        with open_ledger(directory) as log:
            assert log.conversation("conv_2").state is State.ERASED
            assert log.conversation("conv_3").state is State.ARCHIVED
            assert [envelope.payload for envelope in log.read("conv_3")] == truth["conv_3"]

"""Verify: a sound log has no problems, and whatever is damaged is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import lmdb
import pytest

from runelog.codec import Codec
from runelog.errors import NotALog
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Rune
from runelog.store import Runelog
from tests.runelog.ledger import CODEC, Booked, contents, open_ledger, write_ledger

if TYPE_CHECKING:
    from pathlib import Path


def flip(path: Path, needle: bytes) -> None:
    """Change one bit of what holds `needle` in a file, and of older copies of its page."""
    path.write_bytes(path.read_bytes().replace(needle, bytes([needle[0] ^ 0x04]) + needle[1:]))


def test_a_sound_log_has_no_problems(tmp_path: Path) -> None:
    """Each rune, conversation and segment is looked at once, and nothing is found."""
    truth = write_ledger(tmp_path / "log")

    told: list[int] = []
    report = verify(tmp_path / "log", progress=told.append)

    assert report.problems == []
    assert report.ok
    assert report.runes == sum(map(len, truth.values())) == sum(told)
    assert (report.conversations, report.segments) == (5, 2)


def test_a_sound_log_stays_sound_through_keeping(tmp_path: Path) -> None:
    """Archived, restored and erased conversations leave a log that verifies."""
    write_ledger(tmp_path / "log")
    with open_ledger(tmp_path / "log") as log:
        for work in list(log.open_work()):
            change = Change(work.entity, None, [Booked(amount=0)], open=False)
            log.append(work.conversation, [change])
        log.archive("conv_0", "conv_1")
        log.restore("conv_1")
        log.erase("conv_2")
        left = sum(map(len, (c for n, c in contents_of(log).items() if n != "conv_2")))

    report = verify(tmp_path / "log")

    assert report.problems == []
    assert report.runes == left


def contents_of(log: object) -> dict[str, list[object]]:
    """Return the payloads of the conversations that can be read."""
    from runelog.store import Runelog  # noqa: PLC0415 -- for the type only

    assert isinstance(log, Runelog)
    return {
        found.id: [e.payload for e in log.read(found.id)]
        for found in log.conversations()
        if found.head
    }


def test_a_damaged_rune_is_named(tmp_path: Path) -> None:
    """A flipped bit in a rune's body is reported with the rune's conversation and event id."""
    write_ledger(tmp_path / "log")
    flip(tmp_path / "log" / "segments" / "000001.0.mdb", b"conv_3 3.2")

    report = verify(tmp_path / "log")

    assert not report.ok
    assert {p.invariant for p in report.problems} >= {"INV-RUNE-IMMUTABLE", "INV-CRC-VALID"}
    found = [p for p in report.problems if p.where.startswith("conv_3 event")]
    assert [p.severity for p in found] == ["fatal"]
    assert re.fullmatch(r"conv_3 event \d+", found[0].where)


def test_an_index_that_leads_astray_is_found(tmp_path: Path) -> None:
    """Sound runes are not enough: the index must lead to each of them, and only to them."""
    write_ledger(tmp_path / "log")
    path = tmp_path / "log" / "segments" / "000002.0.mdb"
    tamper(path, b"streams")

    report = verify(tmp_path / "log")

    assert any("does not lead to its runes" in p.message for p in report.problems)


def test_a_rune_that_is_gone_is_missed(tmp_path: Path) -> None:
    """A position that neither a rune nor a hole accounts for is a gap between segments."""
    write_ledger(tmp_path / "log")
    tamper(tmp_path / "log" / "segments" / "000001.0.mdb", b"runes")

    report = verify(tmp_path / "log")

    assert any(p.invariant == "INV-SEGMENT-CONTIGUOUS" for p in report.problems)
    assert any(p.invariant == "INV-EVENTID-MONOTONIC" for p in report.problems)


def tamper(path: Path, table: bytes) -> None:
    """Delete the second entry of a table, with LMDB itself, and vouch for the file again."""
    with lmdb.open(str(path), subdir=False, max_dbs=8, map_size=1 << 20, lib_version=0) as env:
        db = env.open_db(table)
        with env.begin(write=True, db=db) as txn:
            cursor = txn.cursor()
            cursor.first()
            cursor.next()
            cursor.delete()
    (path.parent.parent / "CLEAN").unlink()


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    """Cold storage is checked from end to end like everything else."""
    write_ledger(tmp_path / "log")
    with open_ledger(tmp_path / "log") as log:
        for work in list(log.open_work("conv_4")):
            log.append("conv_4", [Change(work.entity, None, [Booked(amount=0)], open=False)])
        log.archive("conv_4")
    path = tmp_path / "log" / "archive" / "conv_4.runes"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    report = verify(tmp_path / "log")

    assert [(p.where, p.severity) for p in report.problems] == [("conv_4", "fatal")]


def test_a_log_can_be_verified_beside_its_writer(tmp_path: Path) -> None:
    """A live writer neither disturbs the check nor is disturbed by it."""
    truth = write_ledger(tmp_path / "log")
    with open_ledger(tmp_path / "log") as log:
        log.append("conv_0", [Change("book_9", 0, [Booked(amount=1)])])

        report = verify(tmp_path / "log")

        log.append("conv_0", [Change("book_9", 1, [Booked(amount=2)])])
        assert report.problems == []
        assert len(contents(log)["conv_0"]) == len(truth["conv_0"]) + 2


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    """There is nothing to verify in a directory without a manifest."""
    with pytest.raises(NotALog):
        verify(tmp_path)


def test_a_rune_that_does_not_decode_as_its_kind_is_named(tmp_path: Path) -> None:
    """Its bytes are what was written, and yet nobody can read it; its neighbours are checked."""

    class Loose(Rune, frozen=True, tag="ledger.booked"):
        amount: Any

    with Runelog.open(tmp_path / "log", Codec([Loose])) as log:
        runes = [Loose(amount=1), Loose(amount="much"), Loose(amount=3)]
        log.append("conv_a", [Change("book_1", 0, runes)])

    assert verify(tmp_path / "log").problems == []
    report = verify(tmp_path / "log", codec=CODEC)
    assert [(each.where, each.severity) for each in report.problems] == [
        ("conv_a event 2", "fatal")
    ]
    assert "cannot be decoded" in report.problems[0].message
    assert report.runes == 3


def test_a_tombstone_is_no_rune(tmp_path: Path) -> None:
    """What a repair put in place of lost runes is not counted as runes that are there."""
    truth = write_ledger(tmp_path / "log")
    flip(tmp_path / "log/segments/000001.0.mdb", b"conv_3 3.2")
    assert repair(tmp_path / "log").runes_lost == 1

    report = verify(tmp_path / "log")

    assert report.ok
    assert report.runes == sum(map(len, truth.values())) - 1

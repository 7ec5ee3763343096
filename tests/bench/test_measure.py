"""What is read off files and off the kernel is what was done."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb
import msgspec

from bench import contender, results, table
from bench.measure import commits, used, written
from bench.results import Results, Standing, load, publish
from bench.table import Row

if TYPE_CHECKING:
    import pytest

ROW = Row(name="a", ours=1.23456, peer=2.0, peer_name="p", ratio=0.61728, bar="<= 0.617", unit="ms")


def test_each_commit_of_an_lmdb_file_counts_once(tmp_path: Path) -> None:
    """Its transaction number goes up by one for each, whatever it writes."""
    with lmdb.open(str(tmp_path / "env"), subdir=False, lib_version=0) as env:
        before = commits(tmp_path)
        for number in range(7):
            with env.begin(write=True) as txn:
                txn.put(str(number).encode(), b"x" * 10_000)

        assert commits(tmp_path) - before == 7
        assert commits(tmp_path / "env") == commits(tmp_path)


def test_what_is_no_lmdb_file_has_no_commits(tmp_path: Path) -> None:
    """Files that are short, or something else, count nothing."""
    (tmp_path / "short").write_bytes(b"x")
    (tmp_path / "other").write_bytes(bytes(3 * 4096))

    assert commits(tmp_path) == 0


def test_bytes_that_are_written_are_counted(tmp_path: Path) -> None:
    """What is given to the system counts, all of it and nothing else of note."""
    before = written()
    with (tmp_path / "file").open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes(10_000))
            os.fdatasync(file.fileno())

    assert 1_000_000 <= written() - before < 1_010_000


def test_what_a_process_used_never_gets_less() -> None:
    """CPU time, switches and bytes are counted from the process's beginning."""
    before = used()
    sum(range(1_000_000))
    after = used()

    assert after.cpu > before.cpu
    assert after.switches >= before.switches
    assert after.written >= before.written


def test_a_bar_is_held_by_what_was_measured_and_not_by_what_is_shown() -> None:
    """A ratio that would clear its bar if it were rounded does not."""
    assert not ROW.is_met
    assert msgspec.structs.replace(ROW, ratio=0.617).is_met
    assert msgspec.structs.replace(ROW, bar="").is_met


def test_what_could_not_be_measured_is_missed() -> None:
    """A scene that cannot run yet is a missed bar with its reason, not a crash."""
    row = table.missed("a", "b", "<= 1", "there is no such provider")

    assert not row.is_met
    assert row.reason == "there is no such provider"


def test_what_is_published_is_read_back_with_its_verdicts(tmp_path: Path) -> None:
    """Rows without a bar are left out, and numbers have four digits."""
    spent = contender.Spent(100.0, 1.0, 2.0, 3.0, 4.0)
    found = Results(
        settings=[("peer", "as it is")],
        rows=[ROW, msgspec.structs.replace(ROW, bar="")],
        field=[Standing("ours", spent, spent, (1.0, 2.0))],
        series={"turns": {"ours": [(20.0, 1.23456)]}},
    )
    publish(found, tmp_path / "results.json")
    read = load(tmp_path / "results.json")

    assert [(row.ours, row.ok) for row in read.rows] == [(1.235, False)]
    assert read.field == found.field
    assert read.series == {"turns": {"ours": [(20.0, 1.235)]}}


def test_the_published_results_can_be_read() -> None:
    """The file bench/results.json is what `publish` writes."""
    assert load(Path(results.__file__).with_name("results.json")).rows


def test_the_best_of_some_rounds_is_the_best_of_each_figure() -> None:
    """The most turns a second, and the least of everything that they took."""
    rounds = [contender.Spent(10, 2, 3, 4, 5), contender.Spent(20, 3, 2, 5, 4)]

    assert contender.best(rounds) == contender.Spent(20, 2, 2, 4, 4)


def test_a_contender_makes_its_turns_and_says_what_they_took(tmp_path: Path) -> None:
    """Asked by lines of JSON, it answers each with one."""
    asked = [
        {"do": "turns", "sessions": 2, "turns": 3},
        {"do": "grow", "turns": 4},
        {"do": "settings"},
    ]
    answers = io.StringIO()
    contender.serve("ours", tmp_path, io.StringIO("\n".join(map(json.dumps, asked))), answers)
    first, turns, grown, settings = map(json.loads, answers.getvalue().splitlines())

    assert first["name"].startswith("runefold")
    assert turns["rate"] > 0
    assert turns["syncs"] > 0
    assert turns["written"] > 0
    assert len(grown["times"]) == 4
    assert settings["settings"]


def test_a_peer_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not crash the bench: it says what is missing."""
    entry = contender.Entry("bench.there_is_none", "Peer", "peer.sqlite")
    monkeypatch.setitem(contender.ENTRIES, "gone", entry)
    answers = io.StringIO()
    contender.serve("gone", tmp_path, io.StringIO(), answers)

    assert json.loads(answers.getvalue()) == {"missing": "No module named 'bench.there_is_none'"}

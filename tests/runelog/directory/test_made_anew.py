"""Logs of two moments, or left in the middle of a step, and what repair makes of them.

The states are those of real operations, copied at the very moment.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest

from runelog import manifest
from runelog.directory import rewrite
from runelog.directory.maintenance import Maintenance
from runelog.errors import Corrupt, OldManifest
from runelog.index.catalog import Catalog
from runelog.manifest import read_manifest, write_manifest
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Gap, State
from runelog.store import Runelog
from tests.crash.story import compacting
from tests.runelog.directory.test_compaction import amounts, fill, traces
from tests.runelog.ledger import CODEC, SMALL, Booked, open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runelog.manifest import Manifest

A, B, C = "conv_a", "conv_b", "conv_c"


def whose(directory: Path) -> set[str | None]:
    """Return the conversations whose runes are given out in the order of the log."""
    with open_ledger(directory) as log:
        return {each.conversation for each in log.read_all() if not isinstance(each, Gap)}


def copied(directory: Path, target: Path) -> Path:
    """Return a copy of a directory as it is now."""
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(directory, target)


# -- erasures --------------------------------------------------------------------------------------


def test_an_erasure_that_is_pending_in_a_copy_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its segments are from before, its MANIFEST and catalog from behind: no rune comes through."""
    directory, copy = tmp_path / "log", tmp_path / "copy"
    with open_ledger(directory) as log:
        fill(log, A, B)
        log.roll()
        fill(log, B)
        copy.mkdir()
        shutil.copytree(directory / "segments", copy / "segments")
        write = manifest.write_manifest

        def written(place: Path, new: Manifest) -> None:
            write(place, new)
            if new.pending:
                shutil.copy(place / "MANIFEST", copy / "MANIFEST")

        with monkeypatch.context() as patch:
            patch.setattr(manifest, "write_manifest", written)
            log.erase(A)
        for path in directory.glob("catalog.*.mdb"):
            shutil.copy(path, copy / path.name)
    with pytest.raises(Corrupt):
        open_ledger(copy)
    repair(copy)

    assert whose(copy) == {B}
    assert traces(copy, A) == []
    assert verify(copy, codec=CODEC).problems == []


def test_an_erasure_that_was_cut_off_survives_a_lost_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two segments was removed, the other not yet: the tombstone tells."""
    directory, left = tmp_path / "log", tmp_path / "left"
    discard = rewrite.discard
    with open_ledger(directory) as log:
        for _ in range(2):
            fill(log, A, B)
            log.roll()

        def discarded(path: Path) -> None:
            if path.name == "000002.0.mdb":
                copied(directory, left)
            discard(path)

        with monkeypatch.context() as patch:
            patch.setattr(rewrite, "discard", discarded)
            log.erase(A)
    (left / "MANIFEST").unlink()
    repair(left)

    assert whose(left) == {B}
    assert traces(left, A) == []


def test_an_archive_that_comes_back_to_an_erased_conversation_goes(tmp_path: Path) -> None:
    """Copied from a backup, it is removed at the next open."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
        log.archive(A)
        kept = (tmp_path / "archive" / f"{A}.runes").read_bytes()
        log.erase(A)
    (tmp_path / "archive" / f"{A}.runes").write_bytes(kept)
    with open_ledger(tmp_path) as log:
        assert log.conversation(A).state is State.ERASED

    assert traces(tmp_path, A) == []
    assert not (tmp_path / "archive" / f"{A}.runes").exists()
    assert verify(tmp_path, codec=CODEC).problems == []


def test_a_stray_segment_of_an_erased_conversation_goes(tmp_path: Path) -> None:
    """It is not set aside with the data in it, although no catalog knows the conversation."""
    directory, other = tmp_path / "log", tmp_path / "other"
    with open_ledger(other) as log:
        fill(log, A)
    with open_ledger(directory) as log:
        fill(log, B)
    (directory / "archive").mkdir()
    (directory / "archive" / f"{A}.erased").touch()
    shutil.copy(other / "segments" / "000001.0.mdb", directory / "segments" / "000007.0.mdb")
    with open_ledger(directory) as log:
        assert log.notices == []

    assert traces(directory, A) == []


# -- manifests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["restore", "compact"])
def test_a_manifest_from_before_the_last_step_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Also if the catalog was all that had changed since, and the writer was killed then."""
    directory, left = tmp_path / "log", tmp_path / "left"
    manifests: list[bytes] = []
    settle, write = Catalog.note_settled, manifest.write_manifest
    with open_ledger(directory) as log:
        fill(log, A, B)
        log.roll()
        fill(log, A, B)
        if step == "compact":
            log.archive(A)
        else:
            with compacting():
                log.archive(A)
        fill(log, B)

        def written(place: Path, new: Manifest) -> None:
            manifests.append((place / "MANIFEST").read_bytes())
            write(place, new)

        def settled(catalog: Catalog, revision: int) -> None:
            copied(directory, left)
            (left / "MANIFEST").write_bytes(manifests[-1])
            settle(catalog, revision)

        with monkeypatch.context() as patch, compacting():
            patch.setattr(manifest, "write_manifest", written)
            patch.setattr(Catalog, "note_settled", settled)
            log.restore(A)
    with pytest.raises(OldManifest):
        open_ledger(left)
    repair(left)
    with open_ledger(left) as log:
        found = amounts(log, A)
        log.erase(A)

    assert found == [1, 2, 3, 1, 2, 3]
    assert whose(left) == {B}
    assert traces(left, A) == []
    assert verify(left, codec=CODEC).problems == []


def test_a_log_goes_on_behind_a_manifest_that_was_made_anew(tmp_path: Path) -> None:
    """What is appended then is in the order of the log as well."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
    (tmp_path / "MANIFEST").unlink()
    repair(tmp_path)
    with open_ledger(tmp_path) as log:
        fill(log, B)
        everything = [each.conversation for each in log.read_all()]

    assert everything == [A] * 3 + [B] * 3


@pytest.mark.parametrize("gone", ["", "archived", "erased"])
def test_time_does_not_run_backwards_behind_a_manifest_that_was_made_anew(
    tmp_path: Path, gone: str
) -> None:
    """Also where the latest runes are gone, and the clock was set back since."""

    def at(time: int) -> Runelog:
        return Runelog.open(tmp_path, CODEC, segment_size=SMALL, clock=lambda: time)

    with at(1_000) as log:
        fill(log, A)
    with at(5_000) as log, compacting():
        fill(log, B)
        if gone == "archived":
            log.archive(B)
        elif gone:
            log.erase(B)
    with at(6_000) as log:
        fill(log, A)
    for name in ("MANIFEST", "CLEAN"):
        (tmp_path / name).unlink()
    repair(tmp_path)
    with at(2_000) as log:
        fill(log, A)
        times = [each.time for each in log.read(A)]

    assert times == [1_000] * 3 + [6_000] * 6


def test_empty_segments_are_no_damage(tmp_path: Path) -> None:
    """A log that was rolled twice has lost nothing with its MANIFEST."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
        log.roll()
        log.roll()
        fill(log, A)
    (tmp_path / "MANIFEST").unlink()
    done = repair(tmp_path)

    assert (done.runes_lost, done.more_lost, done.segments) == (0, False, [])
    with open_ledger(tmp_path) as log:
        assert amounts(log, A) == [1, 2, 3, 1, 2, 3]


def test_an_empty_log_without_a_manifest_is_made_anew(tmp_path: Path) -> None:
    """Opening it says to repair it, and that helps."""
    open_ledger(tmp_path).close()
    (tmp_path / "MANIFEST").unlink()
    with pytest.raises(Corrupt, match="log repair"):
        open_ledger(tmp_path)
    repair(tmp_path)
    with open_ledger(tmp_path) as log:
        fill(log, A)
        assert amounts(log, A) == [1, 2, 3]


# -- catalogs --------------------------------------------------------------------------------------


def test_an_archive_is_counted_by_itself_if_the_catalog_is_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that was cut off is finished, and the conversation has all its runes."""
    directory, left = tmp_path / "log", tmp_path / "left"
    finish = Maintenance.finish
    with open_ledger(directory) as log:
        old = (directory / "catalog.0.mdb").read_bytes()
        fill(log, A)
        log.roll()

        def finished(maintenance: Maintenance) -> None:
            copied(directory, left)
            finish(maintenance)

        monkeypatch.setattr(Maintenance, "finish", finished)
        log.archive(A)
        monkeypatch.undo()
    (left / "catalog.0.mdb").write_bytes(old)
    with open_ledger(left) as log:
        assert log.conversation(A).head == 3
        assert amounts(log, A) == [1, 2, 3]

    assert verify(left, codec=CODEC).problems == []


def test_a_reader_is_refused_a_catalog_that_does_not_know_all(tmp_path: Path) -> None:
    """It would leave conversations out; a writer brings it up to date."""
    directory, left = tmp_path / "log", tmp_path / "left"
    with open_ledger(directory) as log:
        fill(log, A)
        old = (directory / "catalog.0.mdb").read_bytes()
        log.roll()
        fill(log, B)
        copied(directory, left)
    (left / "catalog.0.mdb").write_bytes(old)
    with open_ledger(left, readonly=True) as log, pytest.raises(Corrupt, match="open the log for"):
        list(log.conversations())
    with open_ledger(left) as log:
        assert [each.id for each in log.conversations()] == [A, B]


# -- the runes that are dead -----------------------------------------------------------------------


def test_runes_that_should_be_gone_are_named(tmp_path: Path) -> None:
    """`verify` says so if a conversation is archived, and its runes in segments are not dead."""
    with open_ledger(tmp_path) as log:
        fill(log, A)
        log.roll()
        fill(log, B)
        log.archive(A)
    now = read_manifest(tmp_path)
    write_manifest(tmp_path, msgspec.structs.replace(now, dead=()))

    messages = [problem.message for problem in verify(tmp_path, codec=CODEC).problems]

    assert messages == [f"{A} is archived, and segments still hold its runes"]


def test_an_archive_that_is_lost_is_no_loss_while_segments_hold_its_runes(tmp_path: Path) -> None:
    """A repair makes the conversation live again."""
    with open_ledger(tmp_path) as log:
        fill(log, A, B)
        log.roll()
        log.archive(A)
    (tmp_path / "archive" / f"{A}.runes").unlink()
    done = repair(tmp_path)

    assert done.notes == [f"the archive of {A} is missing: its runes are those in the segments"]
    with open_ledger(tmp_path) as log:
        assert log.conversation(A).state is State.LIVE
        assert amounts(log, A) == [1, 2, 3]
    assert verify(tmp_path, codec=CODEC).problems == []


@pytest.mark.parametrize("spoil", ["a rune", "its end"])
def test_archiving_goes_on_beside_a_damaged_segment(tmp_path: Path, spoil: str) -> None:
    """What is dead in it stays there; the rest is removed."""
    spoils: dict[str, Callable[[bytes], bytes]] = {
        "a rune": lambda data: data.replace(b"of conv_b!", b"of conv_X!", 1),
        "its end": lambda data: data + bytes(4_096),
    }
    with open_ledger(tmp_path) as log:
        fill(log, A, B)
        log.roll()
        fill(log, C)
        log.archive(A)
    path = tmp_path / "segments" / "000001.0.mdb"
    path.write_bytes(spoils[spoil](path.read_bytes()))
    with open_ledger(tmp_path) as log, compacting():
        log.archive(C)
        found = amounts(log, A), amounts(log, C)

    assert found == ([1, 2, 3], [1, 2, 3])
    assert read_manifest(tmp_path).dead == (A,)


def test_a_conversation_that_was_restored_is_looked_up_again(tmp_path: Path) -> None:
    """Archived a second time, what is known of its first time does not count."""
    with open_ledger(tmp_path) as log:
        fill(log, A, runes=10)
        log.archive(A)
        log.restore(A)
        fill(log, A, runes=4_200)
        fill(log, B, runes=10)
        log.archive(A)
        found = [each.payload for each in log.read(A)]

    assert read_manifest(tmp_path).dead == ()
    assert sum(isinstance(each, Booked) for each in found) == 4_210


def test_a_dead_conversation_whose_archive_was_not_copied_is_missed(tmp_path: Path) -> None:
    """Its runes are still in a segment: it is listed, and a repair brings it back."""
    directory, copy = tmp_path / "log", tmp_path / "copy"
    with open_ledger(directory) as log:
        old = (directory / "catalog.0.mdb").read_bytes()
        fill(log, A, B)
        log.roll()
        log.archive(A)
        fill(log, B)
        copied(directory, copy)
    shutil.rmtree(copy / "archive")
    (copy / "catalog.0.mdb").write_bytes(old)
    with open_ledger(copy) as log:
        found = log.conversation(A)
        with pytest.raises(Corrupt, match=r"archive of conv_a is missing"):
            list(log.read(A))
    repair(copy)

    assert (found.state, found.head) == (State.ARCHIVED, 3)
    with open_ledger(copy) as log:
        assert amounts(log, A) == [1, 2, 3]


@pytest.mark.parametrize("spoil", ["catalog", "manifest"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_conversation_whose_archive_was_not_copied_is_missed(
    tmp_path: Path, spoil: str, *, sealed: bool
) -> None:
    """A copy has neither its runes nor its archive: it is listed, and reading it says so."""
    directory, copy = tmp_path / "log", tmp_path / "copy"
    with open_ledger(directory) as log, compacting():
        old = (directory / "catalog.0.mdb").read_bytes()
        fill(log, A, B)
        if sealed:
            log.roll()
            fill(log, B)
        log.archive(A)
        fill(log, B)
        copied(directory, copy)
    shutil.rmtree(copy / "archive")
    (copy / "catalog.0.mdb").write_bytes(old)
    if spoil == "manifest":
        (copy / "MANIFEST").unlink()
        repair(copy)
    with open_ledger(copy) as log:
        found = {each.id: (each.state, each.head) for each in log.conversations()}
        with pytest.raises(Corrupt, match="from a backup"):
            list(log.read(A))

    assert found[A] == (State.ARCHIVED, 3)
    assert found[B][0] is State.LIVE

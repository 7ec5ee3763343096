"""Rules about restoring a backup: what is there afterwards, and what does not come back."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from runelog.errors import Corrupt, Gone, Held, LogFull, NotALog, Refused
from runelog.manifest import PLACING, read_clean, read_manifest
from runelog.repair.restore import restore_backup
from runelog.repair.verify import verify
from runelog.rune import State
from runelog.transfer.placing import BACKUP, INCOMING, Place
from tests.crash.judge import observe
from tests.crash.moments import read_files
from tests.crash.story import Step, content, open_log, perform
from tests.crash.warm import walking_inside
from tests.runelog.syncs import Syncs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEPS = (
    Step("append", ("conv_a", "conv_b", "conv_e"), 2, 300),
    Step("roll"),
    Step("append", ("conv_a", "conv_e"), 1),
    Step("append", ("conv_e",), 1, 2 << 20),
    Step("archive", ("conv_b",)),
)


@pytest.fixture(autouse=True)
def walks() -> Iterator[None]:
    """Walk files in this process: a child for each would take longer than all else."""
    with walking_inside():
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a log and a backup of it."""
    told(tmp_path, *STEPS, Step("backup"))
    return tmp_path


def told(root: Path, *steps: Step) -> None:
    """Take steps in the log, and close it."""
    log = open_log(root / "log")
    for number, step in enumerate(steps, 1):
        log = perform(log, step, number)
    log.close()


def test_a_restored_log_is_the_one_that_was_backed_up(root: Path) -> None:
    """It opens at once with all that it had, is closed cleanly, and goes on as the same log."""
    before = read_files(root / "backup")
    done = restore_backup(root / "backup", root / "again")

    assert verify(root / "again").problems == []
    clean = read_clean(root / "again")
    assert clean is not None
    assert clean.revision == read_manifest(root / "again").revision
    with open_log(root / "log", readonly=True) as log, open_log(root / "again") as again:
        assert observe(again) == observe(log)
        assert done.position == log.position
        perform(again, Step("append", ("conv_a",)), 1)
    assert done.log == read_manifest(root / "log").log == read_manifest(root / "again").log
    assert (done.conversations, done.erased, done.replaced) == (3, [], None)
    assert read_files(root / "backup") == before
    left = {path.name for path in (root / "again").iterdir()}
    assert left.isdisjoint({BACKUP, PLACING, INCOMING})


def test_what_was_erased_since_stays_erased(root: Path) -> None:
    """A log that is replaced tells what was erased from it, and is kept."""
    told(root, Step("erase", ("conv_e", "conv_b")), Step("append", ("conv_late",)))
    told(root, Step("erase", ("conv_late",)))
    old = read_files(root / "log")
    done = restore_backup(root / "backup", root / "log", replace=True)
    left = b"".join(read_files(root / "log").values())

    assert done.erased == ["conv_b", "conv_e"]
    assert done.replaced == root / "log.replaced-1"
    assert read_files(root / "log.replaced-1") == old
    assert b" of conv_e " not in left
    assert not list((root / "log").glob("blobs/*/*"))
    assert verify(root / "log").problems == []
    with open_log(root / "log") as log:
        assert log.notices == []
        assert {each.id: each.state for each in log.conversations()} == {
            "conv_a": State.LIVE,
            "conv_b": State.ERASED,
            "conv_e": State.ERASED,
            "conv_late": State.ERASED,
        }
        with pytest.raises(Gone):
            perform(log, Step("append", ("conv_late",)), 1)


def test_tombstones_are_taken_from_any_log_that_is_named(root: Path) -> None:
    """Also from a damaged one; and from one that was replaced here by an earlier restore."""
    told(root, Step("erase", ("conv_e",)))
    for path in (root / "log").glob("segments/*.mdb"):
        path.write_bytes(b"")
    (root / "log" / "MANIFEST").unlink()
    first = restore_backup(root / "backup", root / "one", tombstones_from=[root / "log"])
    (root / "log").rename(root / "two.replaced-1")
    second = restore_backup(root / "backup", root / "two")

    assert first.erased == second.erased == ["conv_e"]
    with pytest.raises(NotALog):
        restore_backup(root / "backup", root / "three", tombstones_from=[root / "nowhere"])
    assert not (root / "three").exists()


def test_a_directory_that_is_not_empty_is_refused(root: Path) -> None:
    """With the way out; nothing is changed."""
    (root / "papers").mkdir()
    (root / "papers" / "letter").write_text("dear")
    shutil.copytree(root / "backup", root / "other")
    before = read_files(root)
    refusals = {
        "log": "holds a log: --replace keeps it",
        "papers": "holds other files",
        "other": "holds a backup: name another directory",
        "backup": "one inside the other",
    }
    for name, words in refusals.items():
        with pytest.raises(Refused, match=words):
            restore_backup(root / "backup", root / name)
    with open_log(root / "log"), pytest.raises(Held, match="is open for writing"):
        restore_backup(root / "backup", root / "log", replace=True)

    assert read_files(root) == before


def test_a_damaged_backup_is_not_restored(root: Path) -> None:
    """What is wrong is named, and the log that is there stays where it is."""
    victim = next((root / "backup").glob("segments/000001.*.mdb"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    before = read_files(root)
    with pytest.raises(Corrupt, match=r"the backup in .* is damaged: .* Nothing was restored"):
        restore_backup(root / "backup", root / "log", replace=True)

    assert read_files(root) == before


def test_what_is_no_backup_is_not_restored(root: Path) -> None:
    """Nothing, and a backup that was never finished."""
    (root / "begun").mkdir()
    shutil.copy(root / "backup" / BACKUP, root / "begun")
    with pytest.raises(Refused, match="never finished"):
        restore_backup(root / "begun", root / "again")
    with pytest.raises(NotALog):
        restore_backup(root / "nothing", root / "again")

    assert not (root / "again").exists()


def test_a_plain_copy_is_restored_as_well(root: Path) -> None:
    """A backup is a log, and any log can be restored from."""
    shutil.copytree(root / "log", root / "copy")
    restore_backup(root / "copy", root / "again")
    with open_log(root / "again", readonly=True) as again:
        assert len(content(again, "conv_a")) == 3


def test_an_interrupted_restore_is_begun_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is finished nothing opens there, and no empty log is made in its place."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Place, "put_in_place", interrupt)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(root / "backup", root / "again")
    with pytest.raises(NotALog, match="not finished: run it again"):
        open_log(root / "again")
    restore_backup(root / "backup", root / "again")

    assert verify(root / "again").problems == []
    with open_log(root / "again", readonly=True) as again:
        assert len(content(again, "conv_a")) == 3


def test_a_restore_that_fails_says_where_the_log_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was to be replaced has another name then; run again, the restore is finished."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Place, "put_in_place", full)
        with pytest.raises(LogFull, match=r"holds no log now: .*log\.replaced-1\. Run .* again"):
            restore_backup(root / "backup", root / "log", replace=True)
    restore_backup(root / "backup", root / "log", replace=True)

    assert verify(root / "log").problems == []
    assert verify(root / "log.replaced-1").problems == []


def test_a_restored_log_is_durable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was restored is there after a power cut: each file and each name."""
    told(root, Step("erase", ("conv_e",)))
    (root / "disk").mkdir()
    os.rename(root / "log", root / "disk" / "log.replaced-1")  # noqa: PTH104 -- not synced
    syncs = Syncs(root / "disk", monkeypatch)
    restore_backup(root / "backup", root / "disk" / "log")
    (root / "disk" / "log.replaced-1").rename(root / "old")

    assert [name for name in syncs.unsynced() if "replaced" not in name] == []

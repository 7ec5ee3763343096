"""Rules about backups: what is copied, what is reused, what goes, and what is refused."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from runelog import store
from runelog.directory.maintenance import Maintenance
from runelog.errors import Busy, Closed, Corrupt, Held, NotALog, Refused
from runelog.lmdb.page_copy import pinned
from runelog.manifest import PLACING, read_manifest
from runelog.repair.verify import verify
from runelog.rune import State
from runelog.transfer import backup
from runelog.transfer.placing import BACKUP, INCOMING
from tests.crash.judge import observe
from tests.crash.moments import STORY, read_files
from tests.crash.story import Step, content, open_log, perform, worlds
from tests.crash.warm import walking_inside
from tests.runelog.syncs import Syncs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from runelog.directory.log_directory import LogDirectory
    from runelog.lmdb.environment import Environment
    from runelog.lmdb.page_copy import PinnedPages
    from runelog.store import Runelog
    from runelog.transfer.staging import BackedUp

LARGE: Final = 2 << 20
"""So long a text goes to a blob."""


@pytest.fixture(autouse=True)
def walks() -> Iterator[None]:
    """Walk files in this process: a child for each backup would take longer than all else."""
    with walking_inside():
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Runelog]:
    """Open a log with a sealed segment, an archive, a blob and a tombstone, and hold it."""
    found = open_log(tmp_path / "log")
    steps = (
        Step("append", ("conv_a", "conv_b", "conv_c", "conv_e"), 2, 300),
        Step("append", ("conv_c",), 1, LARGE),
        Step("compact", ("conv_b",)),
        Step("erase", ("conv_e",)),
        Step("roll"),
        Step("append", ("conv_a",), 1),
    )
    take(found, *steps)
    with found:
        yield found


def take(log: Runelog, *steps: Step) -> None:
    """Take steps in a log that stays open."""
    for number, step in enumerate(steps, 1):
        perform(log, step, number)


def names(directory: Path) -> set[str]:
    """Return the names of the files in a backup that hold runes."""
    return {name for name in read_files(directory) if "/" in name or name.startswith("catalog")}


# -- what is in it ---------------------------------------------------------------------------------


def test_a_backup_is_a_log_with_all_that_was_committed(tmp_path: Path) -> None:
    """After each step of a story, it opens with the ordinary calls, and opening changes nothing."""
    log = open_log(tmp_path / "log")
    for number, (step, world) in enumerate(zip(STORY, worlds(STORY)[1:], strict=True), 1):
        log = perform(log, step, number)
        done = log.backup(tmp_path / "backup")
        before = read_files(tmp_path / "backup")
        with open_log(tmp_path / "backup") as copy:
            found, notices = observe(copy), copy.notices

        assert found == world
        assert (notices, verify(tmp_path / "backup").problems) == ([], [])
        assert (done.position, done.log) == (log.position, read_manifest(log.directory).log)
        assert read_files(tmp_path / "backup") == before
    log.close()


def test_what_nobody_waited_for_is_in_it(
    log: Runelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that was not waited for is made durable before anything is looked at."""
    seen: list[int] = []

    def back_up(home: LogDirectory, directory: Path, **options: Any) -> BackedUp:  # noqa: ANN401 -- as the real one
        seen.append(home.lookup.last_position())
        return backup.back_up(home, directory, **options)

    monkeypatch.setattr(store, "back_up", back_up)
    before = log.position
    take(log, Step("whisper", ("conv_w",), 3))
    log.backup(tmp_path / "backup")

    assert seen == [before + 3]
    with open_log(tmp_path / "backup", readonly=True) as copy:
        assert len(content(copy, "conv_w")) == 3


def test_a_reader_makes_the_same_backup(log: Runelog, tmp_path: Path) -> None:
    """A handle that only reads, beside the writer, copies what the writer's own copies."""
    log.backup(tmp_path / "one")
    with open_log(log.directory, readonly=True) as reader:
        reader.backup(tmp_path / "two")
        again = reader.backup(tmp_path / "one")

    one, two = (read_files(tmp_path / name) for name in ("one", "two"))
    assert one == two
    assert again.copied.files == 0


def test_a_backup_can_be_gone_on_with(log: Runelog, tmp_path: Path) -> None:
    """It is a log like any other: it can be appended to, archived and erased from."""
    log.backup(tmp_path / "backup")
    with open_log(tmp_path / "backup") as copy:
        take(copy, Step("append", ("conv_a",), 1), Step("restore", ("conv_b",)))
        take(copy, Step("erase", ("conv_c",)))

        assert copy.conversation("conv_b").state is State.LIVE
    assert verify(tmp_path / "backup").problems == []


@pytest.mark.parametrize("call", [1, 2], ids=["before the moment", "in the middle of it"])
@pytest.mark.parametrize(
    "step",
    [
        Step("append", ("conv_n",), 1, LARGE),
        Step("roll"),
        Step("archive", ("conv_c",)),
        Step("restore", ("conv_b",)),
        Step("erase", ("conv_c",)),
        Step("take_in", ("conv_x",), 3),
    ],
    ids=lambda step: step.do,
)
def test_what_changes_meanwhile_is_copied_as_of_one_moment(
    log: Runelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, call: int
) -> None:
    """Whatever is done while the moment is held, all files are those of one manifest."""
    calls: list[Environment] = []

    def busy(env: Environment) -> AbstractContextManager[PinnedPages]:
        calls.append(env)
        if len(calls) == call:
            take(log, step)
        return pinned(env)

    monkeypatch.setattr(backup, "pinned", busy)
    with open_log(log.directory, readonly=True) as reader:
        reader.backup(tmp_path / "backup")

    assert verify(tmp_path / "backup").problems == []
    with open_log(tmp_path / "backup", readonly=True) as copy:
        found, now = observe(copy), observe(log)
    if step.do == "append" and call == 2:
        now.pop("conv_n")  # behind the commit that is pinned
    assert found == now
    if step.do != "append":
        assert names(tmp_path / "backup") == names(log.directory)


@pytest.mark.parametrize("do", ["archive", "restore", "erase"])
def test_a_step_that_is_under_way_is_waited_for(
    log: Runelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    """Between the two manifests of a step nothing is backed up; left so, it is finished first."""
    real = Maintenance.finish

    def finish(maintenance: Maintenance) -> None:
        if not (tmp_path / "left").exists():
            with open_log(log.directory, readonly=True) as reader, monkeypatch.context() as patch:
                patch.setattr(backup, "PATIENCE", 0.0)
                with pytest.raises(Busy):
                    reader.backup(tmp_path / "backup")
            shutil.copytree(log.directory, tmp_path / "left")
        real(maintenance)

    monkeypatch.setattr(Maintenance, "finish", finish)
    take(log, Step(do, ("conv_b" if do == "restore" else "conv_c",)))
    words = rf"in the middle of `{do}`: open it for writing once"
    with (
        open_log(tmp_path / "left", readonly=True) as left,
        pytest.raises(Refused, match=words),
    ):
        left.backup(tmp_path / "backup")
    with open_log(tmp_path / "left") as left:
        left.backup(tmp_path / "backup")
    with open_log(tmp_path / "backup", readonly=True) as copy:
        assert observe(copy) == observe(log)


# -- what is copied --------------------------------------------------------------------------------


def test_nothing_is_copied_twice(log: Runelog, tmp_path: Path) -> None:
    """Of what was copied before only what may have changed is copied: segment and catalog."""
    there = len(list(log.directory.glob("segments/*.mdb")))
    first = log.backup(tmp_path / "backup")
    idle = log.backup(tmp_path / "backup")
    take(log, Step("append", ("conv_a",), 1))
    little = log.backup(tmp_path / "backup")
    inodes = {path: path.stat().st_ino for path in (tmp_path / "backup").rglob("*.runes")}
    take(log, Step("roll"), Step("append", ("conv_a",), 1))
    rolled = log.backup(tmp_path / "backup")

    # With the catalog, an archive and a blob.
    assert first.copied.files == there + 3
    assert (idle.copied.files, idle.copied.bytes, idle.removed) == (0, 0, 0)
    assert idle.reused == first.copied
    assert (little.copied.files, little.reused.files) == (1, first.copied.files - 1)
    # What was the active segment, the one that is, and the catalog.
    assert (rolled.copied.files, rolled.reused.files) == (3, first.copied.files - 2)
    assert {path: path.stat().st_ino for path in inodes} == inodes


def test_what_was_erased_goes_from_the_backup(log: Runelog, tmp_path: Path) -> None:
    """Runes, archive and blobs: no byte of it is in any file that is there, or set aside there."""
    log.backup(tmp_path / "backup")
    assert b" of conv_a " in b"".join(read_files(tmp_path / "backup").values())
    log.erase("conv_a", "conv_b", "conv_c")
    done = log.backup(tmp_path / "backup")
    left = read_files(tmp_path / "backup")

    assert done.removed >= 3
    assert {name for name in left if name.startswith(("archive", "blobs"))} == {
        f"archive/conv_{each}.erased" for each in "abce"
    }
    for each in "abc":
        assert f" of conv_{each} ".encode() not in b"".join(left.values())
    assert names(tmp_path / "backup") == names(log.directory)


def test_what_moves_to_cold_storage_and_back_moves_in_the_backup(
    log: Runelog, tmp_path: Path
) -> None:
    """Its files are those of the log, after an archive as well as after a restore."""
    for step in (Step("archive", ("conv_c",)), Step("restore", ("conv_c", "conv_b"))):
        log.backup(tmp_path / "backup")
        take(log, step)
        log.backup(tmp_path / "backup")

        assert names(tmp_path / "backup") == names(log.directory)
        with open_log(tmp_path / "backup", readonly=True) as copy:
            assert observe(copy) == observe(log)


def test_an_archive_that_was_written_anew_is_copied_anew(log: Runelog, tmp_path: Path) -> None:
    """Under its name there is another file now."""
    log.backup(tmp_path / "backup")
    take(log, Step("restore", ("conv_b",)), Step("append", ("conv_b",), 1))
    take(log, Step("archive", ("conv_b",)))
    log.backup(tmp_path / "backup")
    with open_log(tmp_path / "backup", readonly=True) as copy:
        assert content(copy, "conv_b") == content(log, "conv_b")


def test_progress_tells_of_all_bytes(log: Runelog, tmp_path: Path) -> None:
    """Those that are copied as well as those that are there already."""
    told: list[int] = []
    first = log.backup(tmp_path / "backup", progress=told.append)
    again: list[int] = []
    second = log.backup(tmp_path / "backup", progress=again.append)

    assert sum(told) == first.copied.bytes
    assert sum(again) == second.reused.bytes == first.copied.bytes


def test_all_of_it_is_durable(
    log: Runelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that returned is there after a power cut: each file and each name."""
    (tmp_path / "disk").mkdir()
    syncs = Syncs(tmp_path / "disk", monkeypatch)
    log.backup(tmp_path / "disk" / "backup")
    take(log, Step("append", ("conv_n",), 1, LARGE), Step("archive", ("conv_a",)))
    log.backup(tmp_path / "disk" / "backup")

    assert syncs.unsynced() == []


# -- what is checked -------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["segments/000001.*.mdb", "archive/*.runes", "blobs/*/*"])
def test_damage_is_not_backed_up(log: Runelog, tmp_path: Path, pattern: str) -> None:
    """The file is named with a way out, and the last backup stays as it was."""
    log.backup(tmp_path / "backup")
    before = read_files(tmp_path / "backup")
    victim = next(log.directory.glob(pattern))
    flip(victim)
    take(log, Step("append", ("conv_a",)))
    with pytest.raises(Corrupt, match=rf"{victim.name} in .* log repair"):
        log.backup(tmp_path / "other")
    (tmp_path / "backup" / victim.relative_to(log.directory)).unlink()
    with pytest.raises(Corrupt, match=rf"{victim.name} in .* log repair"):
        log.backup(tmp_path / "backup")

    left = names_and_contents(tmp_path / "backup")
    assert left == {name: data for name, data in before.items() if not name.endswith(victim.name)}
    assert not (tmp_path / "other" / "MANIFEST").exists()


@pytest.mark.parametrize(
    "pattern",
    ["segments/000001.*.mdb", "segments/*.0.mdb", "catalog.*.mdb", "archive/*.runes", "blobs/*/*"],
)
def test_a_damaged_backup_is_mended_if_it_is_verified(
    log: Runelog, tmp_path: Path, pattern: str
) -> None:
    """With `verify` what was there is read again, and what is damaged is copied again."""
    log.backup(tmp_path / "backup")
    before = read_files(tmp_path / "backup")
    flip(max((tmp_path / "backup").glob(pattern)))
    trusting = log.backup(tmp_path / "backup")
    damaged = read_files(tmp_path / "backup")
    done = log.backup(tmp_path / "backup", verify=True)

    assert trusting.copied.files == trusting.checked_again.files == 0
    assert damaged != before
    assert done.copied.files == 1
    assert done.checked_again.files == done.reused.files + 1
    assert read_files(tmp_path / "backup") == before


def flip(path: Path) -> None:
    """Change a bit in the middle of a file, and nothing else that could be seen from outside."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_file_that_is_missing_from_a_backup_is_copied_again(log: Runelog, tmp_path: Path) -> None:
    """Also without `verify`."""
    log.backup(tmp_path / "backup")
    before = read_files(tmp_path / "backup")
    next((tmp_path / "backup").glob("segments/000001.*.mdb")).unlink()
    done = log.backup(tmp_path / "backup")

    assert done.copied.files == 1
    assert read_files(tmp_path / "backup") == before


# -- what is refused -------------------------------------------------------------------------------


def test_a_directory_that_is_not_a_backup_is_refused(log: Runelog, tmp_path: Path) -> None:
    """Other files, another log, a file, the log itself, and places that are not there."""
    other = tmp_path / "other"
    with open_log(other) as second:
        take(second, Step("append", ("conv_a",)))
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "letter").write_text("dear")
    before = read_files(tmp_path)
    refusals = {
        other: "holds a log that is not a backup: name an empty directory",
        tmp_path / "papers": r"holds other files \(letter\): name an empty directory",
        tmp_path / "papers" / "letter": "is a file: name a directory",
        tmp_path / "nowhere" / "backup": "there is no directory .*nowhere: make it, or mount it",
        log.directory: "one inside the other: name a directory elsewhere",
        log.directory / "backup": "one inside the other: name a directory elsewhere",
        tmp_path: "one inside the other: name a directory elsewhere",
    }
    for directory, words in refusals.items():
        with pytest.raises(Refused, match=words):
            log.backup(directory)

    assert read_files(tmp_path) == before


def test_a_backup_of_another_log_is_refused(log: Runelog, tmp_path: Path) -> None:
    """Both are named."""
    with open_log(tmp_path / "other") as second:
        second.backup(tmp_path / "backup")
    before = read_files(tmp_path / "backup")
    with pytest.raises(Refused, match=r"backup of another log, log_\w+, not of log_\w+: back up"):
        log.backup(tmp_path / "backup")

    assert read_files(tmp_path / "backup") == before


def test_a_backup_that_is_open_or_was_written_to_is_refused(log: Runelog, tmp_path: Path) -> None:
    """It may hold what the log does not, which would be lost."""
    log.backup(tmp_path / "backup")
    with open_log(tmp_path / "backup") as copy:
        with pytest.raises(Held, match="is open for writing"):
            log.backup(tmp_path / "backup")
        take(copy, Step("append", ("conv_mine",)))
    before = read_files(tmp_path / "backup")
    with pytest.raises(Refused, match=r"was written to since .* back up into another directory"):
        log.backup(tmp_path / "backup")

    assert read_files(tmp_path / "backup") == before


@pytest.mark.parametrize("behind", [(), (Step("append", ("conv_z",), 9),), (Step("roll"),) * 2])
def test_a_backup_that_is_newer_than_the_log_is_refused(
    log: Runelog, tmp_path: Path, behind: tuple[Step, ...]
) -> None:
    """A log from an older backup, however it went on, does not take the place of a newer one."""
    log.backup(tmp_path / "old")
    take(log, Step("append", ("conv_new",)))
    log.backup(tmp_path / "new")
    with open_log(tmp_path / "old") as older:
        take(older, *behind)
        with pytest.raises(Refused, match=r"holds what the log in .* does not.*another directory"):
            older.backup(tmp_path / "new")
    with open_log(tmp_path / "new", readonly=True) as copy:
        assert len(content(copy, "conv_new")) == 1


def test_a_log_that_was_restored_goes_on_in_the_backup_it_came_from(
    log: Runelog, tmp_path: Path
) -> None:
    """Nothing would be lost by that."""
    log.backup(tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", tmp_path / "again")
    with open_log(tmp_path / "again") as again:
        take(again, Step("append", ("conv_new",)))
        again.backup(tmp_path / "backup")
    with open_log(tmp_path / "backup", readonly=True) as copy:
        assert len(content(copy, "conv_new")) == 1


def test_a_log_that_never_rests_is_refused_in_the_end(
    log: Runelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last backup is what it was."""
    log.backup(tmp_path / "backup")
    before = read_files(tmp_path / "backup")
    monkeypatch.setattr(backup, "PATIENCE", 0.0)

    def restless(env: Environment) -> AbstractContextManager[PinnedPages]:
        take(log, Step("roll"))
        return pinned(env)

    monkeypatch.setattr(backup, "pinned", restless)
    with pytest.raises(Busy, match=r"has been changing .* back it up again when"):
        log.backup(tmp_path / "backup")

    assert names_and_contents(tmp_path / "backup") == before


def names_and_contents(directory: Path) -> dict[str, bytes]:
    """Return the files of a backup, without those that the next one goes on with."""
    files = read_files(directory)
    return {name: data for name, data in files.items() if not name.startswith(INCOMING)}


def test_a_closed_log_is_not_backed_up(tmp_path: Path) -> None:
    """As with all else that is asked of it."""
    log = open_log(tmp_path / "log")
    log.close()
    with pytest.raises(Closed):
        log.backup(tmp_path / "backup")

    assert not (tmp_path / "backup").exists()


def test_a_backup_that_was_begun_is_not_taken_for_a_log(log: Runelog, tmp_path: Path) -> None:
    """Neither to read nor to write, nor is one made in its place; the next backup goes on."""
    begun = tmp_path / "backup"
    log.backup(begun)
    (begun / "MANIFEST").rename(begun / "elsewhere")
    shutil.rmtree(begun / "segments")
    with pytest.raises(NotALog, match="not finished: run it again"):
        open_log(begun)
    (begun / "elsewhere").rename(begun / "MANIFEST")
    (begun / PLACING).write_bytes(b"")
    for readonly in (True, False):
        with pytest.raises(Refused, match=r"interrupted. Run the same"):
            open_log(begun, readonly=readonly)
    with pytest.raises(Refused, match=r"interrupted. Run the same"):
        verify(begun)

    assert (begun / BACKUP).exists()

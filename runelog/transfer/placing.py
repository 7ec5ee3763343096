"""The directory that a backup or a restore is put into: prepared aside, then put in place.

    BACKUP      marks the directory, and says what the last backup left in it
    incoming/   what the next one brings, while it is being copied and checked
    PLACING     there once all of that is on the disk; until it is gone the directory does not open

Until PLACING is written a crash leaves the directory as it was. From then on all that is left to do
is in the directory itself, and `finish` does it, as often as it is called.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from runelog import manifest
from runelog.directory import garbage
from runelog.errors import Corrupt, NotALog, Refused
from runelog.files import TEMPORARY, make_directory, sync_directory
from runelog.manifest import PLACING, Clean, Lock, Manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

BACKUP: Final = "BACKUP"
INCOMING: Final = "incoming"
Purpose = Literal["backup", "restore"]
_LAST: Final = ("MANIFEST", "CLEAN", BACKUP)
"""What is put in place behind everything else."""
_LOCKS: Final = ("-lock", "LOCK")
_NOTHING: Final = frozenset({"LOCK", INCOMING, "lost+found"})
"""What may be in a directory that is empty otherwise."""


class Left(msgspec.Struct, frozen=True):
    """What a backup left in its directory."""

    purpose: Purpose
    clean: Clean | None = None
    """Of the log that was put in place last; None before the first one is."""
    commits: tuple[int, int] = (0, 0)
    """The commits of the source's active segment and catalog that were copied."""


class _Placing(msgspec.Struct, frozen=True):
    """What is left to do beside moving files out of `incoming/`."""

    purpose: Purpose
    remove: tuple[str, ...]
    """The files that are not part of the log any more."""


class Place:
    """A directory that is held while something is put into it."""

    def __init__(self, directory: Path, purpose: Purpose) -> None:
        """Name the directory; `held` takes it."""
        self.directory = directory
        self.incoming = directory / INCOMING
        self.left = Left(purpose)
        self.manifest: Manifest | None = None
        """Of the log that is there, None if there is none yet."""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep all writers and other backups out; refuse a directory that is not for this."""
        directory = self.directory
        if not directory.exists():
            if not directory.parent.is_dir():
                msg = f"there is no directory {directory.parent}: make it, or mount it, first"
                raise Refused(msg)
            make_directory(directory)
        elif not directory.is_dir():
            msg = f"{directory} is a file: name a directory"
            raise Refused(msg)
        self._check_use()
        lock = Lock(directory)
        lock.acquire()
        try:
            self._enter()
            yield
        finally:
            lock.release()

    def _check_use(self) -> None:
        """Refuse a directory that holds anything but what was put there for the same purpose."""
        directory, purpose = self.directory, self.left.purpose
        if (directory / BACKUP).exists():
            return
        if (directory / "MANIFEST").exists() or any(directory.glob("segments/*.mdb")):
            if purpose == "backup":
                msg = (
                    f"{directory} holds a log that is not a backup: name an empty directory, or "
                    "one that does not exist yet"
                )
            else:
                msg = (
                    f"{directory} holds a log: --replace keeps it under another name beside the "
                    "restored one, and what was erased there stays erased"
                )
            raise Refused(msg)
        there = {path.name for path in directory.iterdir()} - _NOTHING
        others = sorted(name for name in there if not _is_begun(name))
        if others:
            msg = (
                f"{directory} holds other files ({', '.join(others[:3])}): name an empty "
                "directory, or one that does not exist yet"
            )
            raise NotALog(msg)

    def _enter(self) -> None:
        """Look what is there, now that no other process changes it."""
        directory, purpose = self.directory, self.left.purpose
        finish(directory)
        for path in directory.iterdir():
            if _is_begun(path.name):
                path.unlink()
        mark = directory / BACKUP
        if not mark.exists():
            manifest.write_record(mark, self.left)
        try:
            self.left = manifest.read_record(mark, Left)
        except Corrupt as error:
            msg = f"{mark} is damaged: name another directory, and delete this one"
            raise Refused(msg) from error
        if self.left.purpose != purpose or (purpose == "restore" and self.left.clean):
            what = "a backup" if self.left.purpose == "backup" else "a restore that is not finished"
            msg = f"{directory} holds {what}: name another directory"
            raise Refused(msg)
        if self.left.clean is not None:
            self.manifest = manifest.read_manifest(directory)
            revision = self.left.clean.revision
            if (
                manifest.read_clean(directory) != self.left.clean
                or self.manifest.revision != revision
            ):
                msg = (
                    f"{directory} was written to since it was backed up into, and may hold what "
                    "the log does not: back up into another directory, or delete this one first"
                )
                raise Refused(msg)

    def prepare(self, now: Manifest, left: Left) -> None:
        """Write what the log says of itself to `incoming/`; `now` is to be its manifest."""
        assert left.clean is not None
        make_directory(self.incoming)
        manifest.write_record(self.incoming / "MANIFEST", now)
        manifest.write_record(self.incoming / "CLEAN", left.clean)
        if left.purpose == "backup":
            manifest.write_record(self.incoming / BACKUP, left)

    def put_in_place(self, wanted: Collection[str] = ()) -> int:
        """Make what is in `incoming/`, and what is `wanted` of the old, the log that is here.

        Returns how many files were removed.
        """
        for folder in sorted(path for path in self.incoming.rglob("*") if path.is_dir()):
            sync_directory(folder)
        sync_directory(self.incoming)
        sync_directory(self.directory)
        surplus = tuple(sorted(_surplus(self.directory, wanted)))
        manifest.write_record(self.directory / PLACING, _Placing(self.left.purpose, surplus))
        finish(self.directory)
        return sum(1 for name in surplus if not name.endswith("-lock"))


def finish(directory: Path) -> None:
    """Put in place what is ready for it, if a backup or restore got that far."""
    try:
        record = manifest.read_record(directory / PLACING, _Placing)
    except FileNotFoundError:
        return
    incoming = directory / INCOMING
    aside = sorted(path for path in incoming.rglob("*") if path.is_dir())
    changed = {directory, *(directory / folder.relative_to(incoming) for folder in aside)}
    for folder in sorted(changed):
        folder.mkdir(mode=0o700, exist_ok=True)
    # Before a file is moved to it, a directory must be there for good.
    _sync(changed)
    for path in sorted(path for path in incoming.rglob("*") if path.is_file()):
        name = path.relative_to(incoming)
        if str(name) not in _LAST and not name.name.endswith(_LOCKS):
            path.rename(directory / name)
    for old in record.remove:
        path = directory / old
        path.unlink(missing_ok=True)
        changed.add(path.parent)
    # Where a file comes to before where it goes from: it must not be lost in between.
    _sync(changed)
    _sync(aside)
    for last in _LAST:
        if (incoming / last).exists():
            (incoming / last).replace(directory / last)
    if record.purpose == "restore":
        (directory / BACKUP).unlink(missing_ok=True)
    for folder in directory.glob("blobs/*"):
        with contextlib.suppress(OSError):
            folder.rmdir()  # refused unless it is empty
    _sync({directory / "blobs", directory})
    _sync({incoming})
    (directory / PLACING).unlink()
    sync_directory(directory)
    shutil.rmtree(incoming, ignore_errors=True)
    sync_directory(directory)


def _is_begun(name: str) -> bool:
    """Return True if a file is a mark that was still being written when its process was killed."""
    return name.startswith((BACKUP, PLACING)) and name.endswith(TEMPORARY)


def _sync(folders: Collection[Path]) -> None:
    for folder in sorted(folders, reverse=True):
        with contextlib.suppress(FileNotFoundError):
            sync_directory(folder)


def _surplus(directory: Path, wanted: Collection[str]) -> Iterator[str]:
    """Yield the files of a log that are not wanted. Tombstones, and what is not ours, stay."""
    for path in directory.rglob("*"):
        name = str(path.relative_to(directory))
        if name not in wanted and path.is_file() and _is_ours(name):
            yield name


def _is_ours(name: str) -> bool:
    folder, _, rest = name.rpartition("/")
    stem = rest.removesuffix("-lock")
    if folder == "segments":
        return garbage.SEGMENT.fullmatch(stem) is not None or stem.endswith(TEMPORARY)
    if folder == "":
        return garbage.CATALOG.fullmatch(stem) is not None
    if folder == "archive":
        return rest.endswith((".runes", TEMPORARY))
    return folder.startswith("blobs/") or folder == "snapshots"

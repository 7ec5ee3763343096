"""Restoring a log from a backup, without bringing back what was erased since."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runelog import manifest
from runelog.codec import Codec
from runelog.directory import garbage
from runelog.directory.rewrite import discard
from runelog.errors import Corrupt, Fault, LogFull, Refused
from runelog.files import sound_disk, sync_directory
from runelog.manifest import PLACING, Lock
from runelog.repair.verify import verify
from runelog.rune import State
from runelog.store import Runelog
from runelog.stream.archive import Archives
from runelog.transfer.backup import Copier, check_apart
from runelog.transfer.placing import BACKUP, Place, finish
from runelog.transfer.staging import Count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_REPLACED = ".replaced-"
"""How the name of a directory goes on that a restored log took the place of."""


class Restored(msgspec.Struct):
    """What a restore did."""

    log: str
    """The id of the log."""
    position: int
    conversations: int
    """How many there are, erased ones left out."""
    copied: Count
    erased: list[str]
    """Conversations that the backup still had, and that are erased by what is known elsewhere."""
    replaced: Path | None
    """Where the log is now that was in the directory before."""


def restore_backup(
    backup: Path,
    directory: Path,
    *,
    tombstones_from: Sequence[Path] = (),
    replace: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Restored:
    """Make a log out of a backup, in a directory that is empty or does not exist yet.

    The backup is verified first. Conversations that were erased from a log in `tombstones_from`, or
    from one that was replaced here before, are erased. With `replace` a log that is in the
    directory is kept beside it under another name. `progress` is told of bytes.
    """
    backup, directory = backup.absolute(), directory.absolute()
    check_apart(backup, directory)
    with sound_disk(f"restoring {backup} to {directory}"):
        _check(backup)
        for named in tombstones_from:
            if not (named / "archive").is_dir():
                manifest.read_manifest(named)  # says what is wrong if it is no log
        replaced = _moved_aside(directory) if replace else None
    with _naming(replaced, directory), sound_disk(f"restoring {backup} to {directory}"):
        known = _tombstones([*tombstones_from, *_replaced_before(directory)])
        place = Place(directory, "restore")
        with place.held():
            return _restore(backup, place, known, replaced, progress)


@contextlib.contextmanager
def _naming(replaced: Path | None, directory: Path) -> Iterator[None]:
    """Say in a failure where the log is that was in the directory, and how to go on."""
    try:
        yield
    except (LogFull, Fault) as error:
        if replaced is None:
            raise
        msg = (
            f"{error}. {directory} holds no log now: the one that was there is {replaced}. Run the "
            f"restore again, or delete {directory} and give {replaced.name} its name back"
        )
        raise type(error)(msg) from error


def _check(backup: Path) -> None:
    """Raise unless everything in a backup is sound."""
    if (backup / PLACING).exists():
        lock = Lock(backup)
        lock.acquire()
        try:
            finish(backup)
        finally:
            lock.release()
    if (backup / BACKUP).exists() and not (backup / "MANIFEST").exists():
        msg = f"{backup} is a backup that was never finished: restore another one"
        raise Refused(msg)
    report = verify(backup)
    if not report.ok:
        problem = next(each for each in report.problems if each.severity != "warn")
        msg = (
            f"the backup in {backup} is damaged: {problem.message}. Nothing was restored: restore "
            "another backup, or copy this one and run `runefold log repair` on the copy"
        )
        raise Corrupt(msg)


def _restore(
    backup: Path,
    place: Place,
    known: set[str],
    replaced: Path | None,
    progress: Callable[[int], None] | None,
) -> Restored:
    incoming = place.incoming
    with Runelog.open(backup, Codec(), readonly=True) as source:
        copier = Copier(source.log_directory, place, progress)
        place.prepare(*copier.run())
        here = {found.id: found.state for found in source.conversations()}
    unknown = known - set(garbage.erased(incoming))
    if unknown:
        archives = Archives(incoming / "archive")
        for name in sorted(unknown):
            archives.bury(name)
        # Made anew from the segments and the tombstones, the catalog knows all that was erased.
        manifest.drop_clean(incoming)
        for path in incoming.glob("catalog.*"):
            discard(path)
        sync_directory(incoming)
    # Opening it to write erases what has a tombstone, and leaves the log closed cleanly.
    with Runelog.open(incoming, create=False) as log:
        kept = sum(found.state is not State.ERASED for found in log.conversations())
        position = log.position
    place.put_in_place()
    erased = sorted(name for name in unknown if here.get(name, State.ERASED) is not State.ERASED)
    return Restored(copier.done.log, position, kept, copier.done.copied, erased, replaced)


def _moved_aside(directory: Path) -> Path | None:
    """Give the log in a directory another name, durably; None if there is none."""
    if not ((directory / "MANIFEST").exists() or any(directory.glob("segments/*.mdb"))):
        return None
    lock = Lock(directory)
    lock.acquire()
    try:
        number = 1
        while (target := _beside(directory, number)).exists():
            number += 1
        try:
            directory.rename(target)
        except OSError as error:
            msg = (
                f"{directory} cannot be renamed ({error.strerror}): move what is in it elsewhere, "
                "and name that place with --tombstones-from"
            )
            raise Refused(msg) from error
        sync_directory(directory.parent)
    finally:
        lock.release()
    return target


def _beside(directory: Path, number: int) -> Path:
    return directory.with_name(f"{directory.name}{_REPLACED}{number}")


def _replaced_before(directory: Path) -> list[Path]:
    """Return the logs that were in a directory before others were restored to it."""
    start = directory.name + _REPLACED
    with contextlib.suppress(FileNotFoundError):
        return [path for path in directory.parent.iterdir() if path.name.startswith(start)]
    return []


def _tombstones(directories: Iterable[Path]) -> set[str]:
    """Return the conversations that were erased from logs, or were about to be."""
    found: set[str] = set()
    for directory in directories:
        found.update(garbage.erased(directory))
        with contextlib.suppress(Corrupt, Refused):
            for step in manifest.read_manifest(directory).pending:
                if step.op == "erase":
                    found.update(step.conversations)
    return found

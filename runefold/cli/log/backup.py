"""The commands that back up a log, also while it is written to, and restore it."""

from pathlib import Path
from typing import Annotated

from runefold.cli.terminal.options import Directory, Json, argument, flag, option, reading
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import many, safe, size
from runelog.repair.restore import Restored, restore_backup
from runelog.transfer.staging import Count


def backup(
    directory: Directory,
    destination: Annotated[
        Path,
        argument("DEST", "A new or empty directory, or the one with the last backup."),
    ],
    *,
    verify: Annotated[
        bool,
        flag("Also check what DEST already holds, and copy damaged files again.", "--verify"),
    ] = False,
    json: Json = False,
) -> None:
    """Copy a log to another directory, also while an app writes to it.

    DEST is a log itself, with all that was committed when the command began. Later runs copy only
    new data and remove erased conversations. Every copied file is checked.
    """
    screen = Screen()
    with (
        reading(directory) as log,
        screen.progress("backing up", _bytes_of(directory), size) as progress,
    ):
        done = log.backup(destination, verify=verify, progress=progress)
    if json:
        where = {"directory": str(directory), "destination": str(destination)}
        screen.record(done, **where, verified=verify)
        return
    copied, reused = _told(done.copied), _told(done.reused)
    how = "checked again" if verify else "checked when copied"
    screen.line(
        ("backed up", "bold green"),
        f" to {safe(str(destination))}: {copied} copied and checked, {reused} already there, {how}",
    )
    if done.removed:
        screen.line(f"removed {many(done.removed, 'file')} that the log no longer has")


def restore(
    source: Annotated[
        Path,
        argument("BACKUP", "Directory of the backup."),
    ],
    directory: Annotated[
        Path,
        argument("DIR", "A new or empty directory for the log."),
    ],
    *,
    replace: Annotated[
        bool,
        flag(
            "If DIR holds a log, move that to DIR.replaced-1. What was erased from it stays "
            "erased.",
            "--replace",
        ),
    ] = False,
    tombstones_from: Annotated[
        list[Path] | None,
        option("DIR2", "Also erase what was erased from this log, damaged or not. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Restore a log from a backup.

    The whole backup is verified first. It is not changed.
    """
    screen = Screen()
    with screen.progress("restoring", _bytes_of(source), size) as progress:
        done = restore_backup(
            source,
            directory,
            tombstones_from=tombstones_from or (),
            replace=replace,
            progress=progress,
        )
    if json:
        screen.record(done, directory=str(directory))
    else:
        _tell(screen, done, directory)


def _tell(screen: Screen, done: Restored, directory: Path) -> None:
    kept = many(done.conversations, "conversation")
    screen.line(
        ("restored", "bold green"), f" {kept} to {safe(str(directory))}, {_told(done.copied)}"
    )
    for name in done.erased:
        screen.line(f"erased {safe(name)}: it was erased after the backup was made")
    if done.replaced:
        screen.line(f"the log that was there is kept in {safe(str(done.replaced))}")


def _told(count: Count) -> str:
    return f"{many(count.files, 'file')} ({size(count.bytes)})"


def _bytes_of(directory: Path) -> int | None:
    """Return about how many bytes there are to copy; None if that cannot be told."""
    places = ("segments/*.mdb", "catalog.*.mdb", "archive/*.runes", "blobs/*/*")
    try:
        return sum(path.stat().st_size for place in places for path in directory.glob(place))
    except OSError:
        return None  # a file was removed meanwhile

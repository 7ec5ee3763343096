"""The commands that back a log up, beside its writer if there is one, and restore it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from runefold.cli.options import Directory, Json, reading
from runefold.cli.screen import Screen
from runefold.cli.wording import many, safe, size
from runelog.repair.restore import Restored, restore_backup
from runelog.transfer.staging import BackedUp, Count


def backup(
    directory: Directory,
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DEST",
            help="A directory that is empty, does not exist yet, or holds the last backup.",
            show_default=False,
        ),
    ],
    *,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read what DEST holds already as well, and copy damaged files again."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Copy a log to another directory, also while an app writes to it.

    DEST is a log itself, with all that was committed when the command began. Run again it gets
    only what is new, and what was erased is removed from it. What is copied is checked.
    """
    screen = Screen()
    with (
        reading(directory) as log,
        screen.progress("backing up", _bytes_of(directory), size) as progress,
    ):
        done = log.backup(destination, verify=verify, progress=progress)
    if json:
        screen.json(_record(done, directory, destination, verified=verify))
        return
    copied, reused = _told(done.copied), _told(done.reused)
    how = "checked again" if verify else "checked when copied"
    screen.line(
        ("backed up", "bold green"),
        f" to {safe(str(destination))}: {copied} copied and checked, {reused} there already, {how}",
    )
    if done.removed:
        screen.line(f"removed {many(done.removed, 'file')} that the log does not have any more")


def restore(
    source: Annotated[
        Path,
        typer.Argument(metavar="BACKUP", help="The directory of the backup.", show_default=False),
    ],
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Where the log is to be: a directory that is empty or does not exist yet.",
            show_default=False,
        ),
    ],
    *,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="If DIR holds a log, keep that beside it as DIR.replaced-1; "
            "what was erased from it stays erased.",
        ),
    ] = False,
    tombstones_from: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR2",
            help="A log, damaged or not: what was erased from it is erased. Repeatable.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a log out of a backup.

    The whole backup is verified first. Nothing in it is changed.
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
        screen.json(
            {
                "directory": str(directory),
                "log": done.log,
                "position": done.position,
                "conversations": done.conversations,
                "copied": _counted(done.copied),
                "erased": done.erased,
                "replaced": str(done.replaced) if done.replaced else None,
            }
        )
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


def _record(
    done: BackedUp, directory: Path, destination: Path, *, verified: bool
) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "destination": str(destination),
        "log": done.log,
        "revision": done.revision,
        "position": done.position,
        "copied": _counted(done.copied),
        "reused": _counted(done.reused),
        "checked_again": _counted(done.checked_again),
        "removed": done.removed,
        "verified": verified,
    }


def _counted(count: Count) -> dict[str, int]:
    return {"files": count.files, "bytes": count.bytes}


def _told(count: Count) -> str:
    return f"{many(count.files, 'file')} ({size(count.bytes)})"


def _bytes_of(directory: Path) -> int | None:
    """Return about how much there is to copy."""
    places = ("segments/*.mdb", "catalog.*.mdb", "archive/*.runes", "blobs/*/*")
    try:
        return sum(path.stat().st_size for place in places for path in directory.glob(place))
    except OSError:
        return None  # a file went meanwhile: there is a bar without an end

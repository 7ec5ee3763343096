"""The commands that move conversations between logs: export and import."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from runefold.cli.terminal.options import (
    Directory,
    Json,
    argument,
    errand,
    flag,
    has_segments,
    ids,
    reading,
    writing,
)
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import many, safe, size
from runelog.errors import NotALog, Refused
from runelog.files import replacing
from runelog.rune import State
from runelog.store import Runelog
from runelog.stream.stream_check import check_stream, spooled
from runelog.transfer.export_import import export, take_in

STDIO: Final = "-"
"""Stands for standard input or output."""


def send(
    directory: Directory,
    file: Annotated[
        str,
        argument("FILE", "File to write; - for standard output."),
    ],
    conversations: Annotated[
        list[str] | None,
        argument("CONVERSATION", "Ids of the conversations to export."),
    ] = None,
    *,
    everything: Annotated[
        bool, flag("Export every conversation that is not erased.", "--all")
    ] = False,
    secret: Annotated[
        bool, flag("Include secret runes. Otherwise a tombstone replaces each.", "--secret")
    ] = False,
    force: Annotated[bool, flag("Replace FILE if it exists.", "--force")] = False,
    json: Json = False,
) -> None:
    """Write conversations to a file, compressed and with checksums.

    FILE is written completely or not at all.
    """
    screen = Screen()
    chosen = ids(conversations or [])
    if everything == bool(chosen):
        msg = "name the conversations to export, or --all" + (", not both" if chosen else "")
        raise Refused(msg)
    with reading(directory) as log:
        listed = [log.conversation(name) for name in chosen] if chosen else log.conversations()
        expected = sum(found.head for found in listed if found.state is not State.ERASED)
        with (
            _writable(file, force=force) as target,
            screen.progress("exporting", expected) as progress,
        ):
            totals = export(
                log,
                target,
                chosen or None,
                secret=secret,
                created=time.time_ns(),
                progress=progress,
            )
    told = f"{many(totals.runes, 'rune')} of {many(totals.conversations, 'conversation')}"
    if file == STDIO:
        # Standard output holds the stream.
        screen.note(f"exported {told}")
        return
    taken = Path(file).stat().st_size
    if not json:
        screen.line(f"exported {told} to {safe(file)}, {size(taken)}")
        return
    counts = {name: getattr(totals, name) for name in ("conversations", "runes", "blobs")}
    screen.json({"file": file, **counts, "bytes": taken, "secret": secret})


@contextlib.contextmanager
def _writable(file: str, *, force: bool) -> Iterator[BinaryIO]:
    """Give a file to write to; it appears under its name once it is complete."""
    if file == STDIO:
        if sys.stdout.isatty():
            msg = "standard output is a terminal: name a file, or pipe the output"
            raise Refused(msg)
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if path.is_dir() or not path.parent.is_dir():
        what = f"{file} is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        msg = f"{what}: name a file to write to"
        raise Refused(msg)
    if not path.exists() or path.is_file():
        if path.exists() and not force:
            msg = f"{file} exists: name another file, or replace it with --force"
            raise Refused(msg)
        with replacing(path) as target:
            yield target
        return
    with path.open("wb") as target:
        # A named pipe or a device is written to directly.
        yield target


def receive(
    directory: Directory,
    file: Annotated[
        str,
        argument("FILE", "File to read; - for standard input."),
    ],
    *,
    create: Annotated[bool, flag("Create the log if DIR holds none.", "--create")] = False,
    json: Json = False,
) -> None:
    """Add the conversations of an exported file to a log, all of them or none.

    The whole file is checked before anything is written. Refused if the log has one of the
    conversations already, or if one was erased from it.
    """
    screen = Screen()
    with _readable(file) as source, spooled(source) as stream:
        if not (directory / "MANIFEST").exists() and not has_segments(directory):
            if not create:
                msg = f"{directory} holds no log: name another directory, or use --create"
                raise NotALog(msg)
            # Checked first: a damaged stream creates no log.
            with screen.progress("checking") as progress:
                check_stream(stream, progress)
            stream.seek(0)
            Runelog.open(directory, errand=errand()).close()
        with writing(directory) as log:
            with screen.progress("importing") as progress:
                names = take_in(log, stream, progress=progress)
            runes = sum(log.conversation(name).head for name in names)
    if json:
        screen.json({"conversations": names, "runes": runes})
    else:
        screen.line(f"imported {many(runes, 'rune')} of {many(len(names), 'conversation')}")


@contextlib.contextmanager
def _readable(file: str) -> Iterator[BinaryIO]:
    if file == STDIO:
        if sys.stdin.isatty():
            msg = "standard input is a terminal: name a file, or pipe a stream into this command"
            raise Refused(msg)
        yield sys.stdin.buffer
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115 -- closed below; errors while reading are others
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise Refused(msg) from error
    with source:
        yield source

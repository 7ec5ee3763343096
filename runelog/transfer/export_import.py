"""Export and import: conversations out of one log and into another, whole and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from runelog.errors import Refused
from runelog.reader.lookup import check_absent
from runelog.rune import State
from runelog.stream.stream_check import check_stream, spooled
from runelog.stream.streams import Source, StreamReader, entry_of, write_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runelog.log import Log
    from runelog.store import Runelog
    from runelog.stream.block_format import Totals


def export(
    log: Log,
    file: BinaryIO,
    conversations: Sequence[str] | None = None,
    *,
    secret: bool = False,
    created: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Totals:
    """Write conversations, all that are not erased unless some are named, as one stream.

    Secret runes have a tombstone in their place unless `secret`. `progress` is told of runes as
    they are written.
    """
    if conversations is None:
        names = [found.id for found in log.conversations() if found.state is not State.ERASED]
    else:
        # Asked for by name: an unknown or erased one is refused before anything is written.
        names = sorted(set(conversations))
        for name in names:
            log.read(name)
    sources = (
        Source(name, (entry_of(envelope) for envelope in log.read(name)), log.codec.blobs)
        for name in names
    )
    return write_stream(file, sources, secret=secret, created=created, progress=progress)


def take_in(
    log: Runelog, file: BinaryIO, *, progress: Callable[[int], None] | None = None
) -> list[str]:
    """Add the conversations of a stream to a log, all or none; return their ids.

    The stream is checked from end to end before anything is written. `progress` is told of runes
    twice: as they are checked and as they are written.
    """
    with spooled(file) as stream:
        check_stream(stream, progress)
        stream.seek(0)
        reader = StreamReader(stream)
        sections = list(reader.sections())
        names = [section.conversation for section in sections]
        for section in sections:
            if section.first != 1:
                msg = (
                    f"{section.conversation} begins at event {section.first} in this stream: "
                    "export it whole"
                )
                raise Refused(msg)
        check_absent(log.log_directory.lookup, names)
        put = []
        try:
            for name in names:
                put.append(name)
                for _, content in reader.blobs(name):
                    log.log_directory.blobs.put(name, content)
            log.take_in(
                [(name, reader.read(name)) for name in names],
                sum(section.size for section in sections),
                progress,
            )
        except BaseException:
            for name in put:
                # It may have failed behind the point where all of it was here.
                if log.log_directory.lookup.head(name) is None:
                    log.log_directory.blobs.drop(name)
            raise
        return names

"""Cold storage: archived conversations, one compressed and checksummed file each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from runelog.errors import BadStream, Corrupt
from runelog.files import make_directory, replacing, sync_directory
from runelog.index import Head
from runelog.rune import Envelope, State
from runelog.transfer import Source, StreamReader, entry_of, write_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runelog.blobs import FileBlobs
    from runelog.codec import Codec
    from runelog.transfer import Section

MAX_OPEN: Final = 16
_SUFFIX: Final = ".runes"
_ERASED: Final = ".erased"


class Archives:
    """The files of archived conversations, and the markers of erased ones."""

    def __init__(self, directory: Path) -> None:
        """Name the directory; it is made when the first conversation is archived."""
        self._directory = directory
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, StreamReader] = OrderedDict()
        self.codec: Codec

    def path(self, conversation: str) -> Path:
        """Return where an archived conversation is."""
        return self._directory / (conversation + _SUFFIX)

    def write(
        self, conversation: str, runes: Iterable[Envelope], blobs: FileBlobs, now: int
    ) -> None:
        """Write a conversation with all it needs, durably."""
        make_directory(self._directory)
        with replacing(self.path(conversation)) as file:
            entries = (entry_of(envelope) for envelope in runes)
            write_stream(file, [Source(conversation, entries, blobs)], secret=True, created=now)

    def drop(self, conversation: str) -> None:
        """Delete a conversation's file, durably. There need not be one."""
        with self._lock:
            reader = self._readers.pop(conversation, None)
            if reader is not None:
                reader.close()
        if self._directory.is_dir():
            self.path(conversation).unlink(missing_ok=True)
            sync_directory(self._directory)

    def bury(self, conversation: str) -> None:
        """Leave a marker that the conversation was erased, durably."""
        make_directory(self._directory)
        (self._directory / (conversation + _ERASED)).touch(mode=0o600)
        sync_directory(self._directory)

    def heads(self) -> Iterator[Head]:
        """Yield what the files say of archived and erased conversations: what a catalog is rebuilt from."""
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            if path.suffix == _ERASED:
                yield Head(path.stem, 0, 0, 0, 0, 0, State.ERASED)
            elif path.suffix == _SUFFIX:
                yield head_of(self.reader(path.stem).section(path.stem))

    def read(self, conversation: str, after: int, until: int) -> Iterator[Envelope]:
        """Yield the runes of an archived conversation."""
        try:
            for entry in self.reader(conversation).read(conversation, after, until):
                yield self.codec.envelope(
                    entry.body,
                    conversation=conversation,
                    event_id=entry.event_id,
                    position=entry.position,
                    time=entry.time,
                )
        except BadStream as error:
            msg = f"the archive of {conversation} is damaged: {error}"
            raise Corrupt(msg, conversation=conversation) from error

    def reader(self, conversation: str) -> StreamReader:
        """Return a reader of a conversation's file; the last few stay open."""
        with self._lock:
            reader = self._readers.get(conversation)
            if reader is None:
                reader = self._readers[conversation] = self._open(conversation)
                if len(self._readers) > MAX_OPEN:
                    # Not closed here: somebody may be reading from it. It closes when they let go of it.
                    self._readers.popitem(last=False)
            else:
                self._readers.move_to_end(conversation)
            return reader

    def _open(self, conversation: str) -> StreamReader:
        try:
            return StreamReader(self.path(conversation).open("rb"))
        except FileNotFoundError:
            msg = (
                f"the archive of {conversation} is missing: put {self.path(conversation).name} back"
            )
            raise Corrupt(msg, conversation=conversation) from None
        except BadStream as error:
            msg = f"the archive of {conversation} is damaged: {error}"
            raise Corrupt(msg, conversation=conversation) from error

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            while self._readers:
                self._readers.popitem()[1].close()


class LayeredBlobs:
    """Blobs of live conversations from their files, of archived ones from their archives."""

    def __init__(self, files: FileBlobs, archives: Archives) -> None:
        """Look in `files` first."""
        self._files = files
        self._archives = archives

    def put(self, conversation: str, content: bytes) -> str:
        """Store `content` durably and return its hash."""
        return self._files.put(conversation, content)

    def get(self, conversation: str, digest: str) -> bytes:
        """Return what was stored under `digest`, or raise `Corrupt`."""
        try:
            return self._files.get(conversation, digest)
        except Corrupt:
            if not self._archives.path(conversation).exists():
                raise
            return self._archives.reader(conversation).blob(conversation, digest)


def head_of(section: Section) -> Head:
    """Return the head of a conversation as its archive tells it."""
    return Head(
        section.conversation,
        section.first,
        section.last,
        section.size,
        section.first_time,
        section.last_time,
        State.ARCHIVED,
    )

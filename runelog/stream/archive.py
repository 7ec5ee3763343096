"""Cold storage: archived conversations, one compressed and checksummed file each."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from runelog.checks import check_live
from runelog.errors import BadStream, Corrupt, Gone, UnknownConversation
from runelog.files import make_directory, replacing, sync_directory
from runelog.index.records import Head
from runelog.rune import Envelope, State
from runelog.stream.stream_check import check_stream
from runelog.stream.streams import Source, StreamReader, entry_of, write_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from runelog.blobs import FileBlobs
    from runelog.codec import Codec
    from runelog.stream.stream_blocks import Section

_SUFFIX: Final = ".runes"
_ERASED: Final = ".erased"


class Archives:
    """The files of archived conversations, and the markers of erased ones."""

    def __init__(self, directory: Path) -> None:
        """Name the directory; it is made when the first conversation is archived."""
        self._directory = directory
        self.codec: Codec

    @property
    def changed(self) -> int:
        """When a file came to or went from the directory last, in nanoseconds; 0 if none did."""
        try:
            return self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

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
        # What it replaces is about to go: it must read back, from the disk as it is, to the last
        # byte.
        with self.path(conversation).open("rb") as file:
            check_stream(file)

    def drop(self, conversation: str) -> None:
        """Delete a conversation's file, durably. There need not be one."""
        if self._directory.is_dir():
            self.path(conversation).unlink(missing_ok=True)
            sync_directory(self._directory)

    def bury(self, conversation: str) -> None:
        """Leave a marker that the conversation was erased, durably."""
        make_directory(self._directory)
        (self._directory / (conversation + _ERASED)).touch(mode=0o600)
        sync_directory(self._directory)

    def head(self, conversation: str) -> Head:
        """Return what its file says of an archived conversation."""
        with self.opened(conversation) as reader:
            return head_of(reader.section(conversation))

    def heads(self) -> Iterator[Head]:
        """Yield what the files say of archived and erased conversations, to rebuild a catalog."""
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            if path.suffix == _ERASED:
                yield Head(path.stem, 0, 0, 0, 0, 0, State.ERASED)
            elif path.suffix == _SUFFIX:
                try:
                    head = self.head(path.stem)
                except Corrupt:
                    # It is there, although its length is not known: reading it says why.
                    head = Head(path.stem, 1, 1, 0, 0, 0, State.ARCHIVED)
                yield head

    def read(self, conversation: str, after: int, until: int) -> Iterator[Envelope]:
        """Yield the runes of an archived conversation."""
        with self.opened(conversation) as reader:
            for entry in reader.read(conversation, after, until):
                yield entry.envelope(self.codec, conversation)

    def checked(
        self, conversation: str, progress: Callable[[int], None] | None = None
    ) -> Iterator[Envelope]:
        """Check an archived conversation's file to the last byte, then yield its runes.

        Raises what `check_stream` raises, `FileNotFoundError` if there is no such file, and
        `UnknownConversation` if it is another one's. `progress` is told of runes as it is checked.
        """
        with self.path(conversation).open("rb") as file:
            check_stream(file, progress)
            for entry in StreamReader(file).read(conversation):
                yield entry.envelope(self.codec, conversation)

    @contextlib.contextmanager
    def opened(self, conversation: str) -> Iterator[StreamReader]:
        """Give a reader of a conversation's file; what is wrong with the file is `Corrupt`."""
        path = self.path(conversation)
        try:
            with path.open("rb") as file:
                yield StreamReader(file)
        except FileNotFoundError:
            msg = f"the archive of {conversation} is missing: restore {path.name} from a backup"
            raise Corrupt(msg, conversation=conversation) from None
        except (BadStream, UnknownConversation) as error:
            msg = f"the archive of {conversation} is damaged: {error}"
            raise Corrupt(msg, conversation=conversation) from error


class LayeredBlobs:
    """Blobs of live conversations from their files, of archived ones from their archives."""

    def __init__(
        self, files: FileBlobs, archives: Archives, head: Callable[[str], Head | None]
    ) -> None:
        """Look in `files` first; `head` tells what is known of a conversation."""
        self._files = files
        self._archives = archives
        self._head = head

    def _check(self, conversation: str) -> None:
        if (head := self._head(conversation)) is not None:
            check_live(head.id, head.state)

    def put(self, conversation: str, content: bytes) -> str:
        """Store `content` durably and return its hash, for one that can be appended to."""
        self._check(conversation)
        digest = self._files.put(conversation, content)
        try:
            self._check(conversation)
        except Gone:
            # Erased since we looked, for ever: nothing of it may come back.
            self._files.drop(conversation)
            raise
        return digest

    def get(self, conversation: str, digest: str) -> bytes:
        """Return what was stored under `digest`, or raise `Corrupt`."""
        path = self._archives.path(conversation)
        with contextlib.suppress(Corrupt):
            return self._files.get(conversation, digest)
        try:
            if path.exists():
                with self._archives.opened(conversation) as reader:
                    return reader.blob(conversation, digest)
        except Corrupt:
            if path.exists():
                raise
        # Nowhere, or restored between the two looks.
        return self._files.get(conversation, digest)


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

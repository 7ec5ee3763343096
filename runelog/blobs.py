"""Large fields, kept apart from their runes: by conversation, under the hash of their content.

A blob is durable before the rune that names it is committed, so a rune never names what a crash
took back. The other way round is harmless: a blob that no rune names is dropped with its
conversation.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from typing import TYPE_CHECKING, Final, NoReturn

from runelog.codec import MAX_RUNE, digest_of
from runelog.errors import Corrupt, Fault
from runelog.files import make_directory, replacing, room_for, sync_directory
from runelog.rune import check_id

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def is_digest(value: str) -> bool:
    """Return True if `value` can be the name of a blob."""
    return _DIGEST.fullmatch(value) is not None


class MemoryBlobs:
    """Blobs in memory.

    >>> blobs = MemoryBlobs()
    >>> blobs.get("conv_a", blobs.put("conv_a", b"long"))
    b'long'
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: dict[str, dict[str, bytes]] = {}
        self._lock = threading.Lock()

    def put(self, conversation: str, content: bytes) -> str:
        """Keep `content` and return its hash."""
        check_id(conversation, "conversation id")
        digest = digest_of(content)
        with self._lock:
            self._kept.setdefault(conversation, {}).setdefault(digest, bytes(content))
        return digest

    def get(self, conversation: str, digest: str) -> bytes:
        """Return what was put under `digest`, or raise `Corrupt`."""
        check_id(conversation, "conversation id")
        try:
            return self._kept[conversation][digest]
        except KeyError:
            _missing(conversation, digest)

    def list(self, conversation: str) -> tuple[str, ...]:
        """Return the hashes of all blobs of a conversation, in order."""
        check_id(conversation, "conversation id")
        with self._lock:
            return tuple(sorted(self._kept.get(conversation, ())))

    def drop(self, conversation: str) -> None:
        """Remove all blobs of a conversation."""
        check_id(conversation, "conversation id")
        with self._lock:
            self._kept.pop(conversation, None)


class FileBlobs:
    """Blobs as files: `<root>/<conversation>/<sha256>`, readable by their owner only."""

    def __init__(self, root: Path) -> None:
        """Keep blobs under `root`, which is made when the first one is put."""
        self.root = root
        self._named: set[str] = set()
        """Conversations whose directory is known to be durable in `root`."""
        self._lock = threading.Lock()

    def put(self, conversation: str, content: bytes) -> str:
        """Store `content` durably and return its hash; `LogFull` if there is no room for it."""
        folder = self._folder(conversation)
        digest = digest_of(content)
        path = folder / digest
        try:
            with room_for(f"blob {digest} of {conversation}"):
                self._have(conversation, folder)
                if not self._keeps(path, content):
                    with replacing(path) as file:
                        file.write(content)
        except OSError as error:
            msg = f"blob {digest} of {conversation} could not be stored: {error}"
            raise Fault(msg) from error
        return digest

    def get(self, conversation: str, digest: str) -> bytes:
        """Return what was stored under `digest`, checked, or raise `Corrupt`."""
        folder = self._folder(conversation)
        if not is_digest(digest):
            _missing(conversation, digest)
        try:
            with (folder / digest).open("rb") as file:
                content = file.read(MAX_RUNE + 1)
        except (FileNotFoundError, NotADirectoryError):
            _missing(conversation, digest)
        except OSError as error:
            msg = f"blob {digest} of {conversation} could not be read: {error}"
            raise Fault(msg) from error
        if digest_of(content) != digest:
            msg = f"blob {digest} of {conversation} is damaged: its content has another hash"
            raise Corrupt(msg, conversation=conversation)
        return content

    def list(self, conversation: str) -> tuple[str, ...]:
        """Return the hashes of all blobs of a conversation, in order."""
        folder = self._folder(conversation)
        try:
            return tuple(sorted(filter(is_digest, (path.name for path in folder.iterdir()))))
        except FileNotFoundError:
            return ()

    def drop(self, conversation: str) -> None:
        """Remove all blobs of a conversation, durably. There need not be any."""
        folder = self._folder(conversation)
        with self._lock:
            self._named.discard(conversation)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        if self.root.is_dir():
            sync_directory(self.root)

    def _folder(self, conversation: str) -> Path:
        return self.root / check_id(conversation, "conversation id")

    def _have(self, conversation: str, folder: Path) -> None:
        """Make the conversation's directory, durably: a crash may have left it unsynced."""
        with self._lock:
            if conversation in self._named and folder.is_dir():
                return
            make_directory(self.root)
            make_directory(folder)
            self._named.add(conversation)

    @staticmethod
    def _keeps(path: Path, content: bytes) -> bool:
        """Return True if `path` holds `content`, durably: who wrote it may have died too early."""
        try:
            with path.open("rb") as file:
                if file.read(len(content) + 1) != content:
                    return False
                os.fsync(file.fileno())
        except FileNotFoundError:
            return False
        sync_directory(path.parent)
        return True


def _missing(conversation: str, digest: str) -> NoReturn:
    msg = f"blob {digest:.80} of {conversation} is missing: restore it from a backup"
    raise Corrupt(msg, conversation=conversation)

"""The space a file takes on disk: reserved before it is needed, given back when it is not."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runelog.errors import Fault, LogFull
from runelog.files import NO_ROOM, room_for

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK: Final = 4 << 20
"""How much is reserved at a time, if there is as much."""
_FLOCK: Final = "hhqqi0q"
_BLOCK: Final = 512
_DESCRIPTORS: Final = Path("/proc/self/fd")


class Space:
    """The space of one file. Running out of it here costs nothing that was acknowledged."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        """Look how long the file is."""
        self._name = path.name
        self._descriptor = os.open(path, (os.O_RDONLY if readonly else os.O_RDWR) | os.O_CLOEXEC)
        self.allocated = os.fstat(self._descriptor).st_size

    def reserve(self, end: int, limit: int) -> None:
        """Allocate the file up to `end`, and some more if possible; `LogFull` if not."""
        goal = min(max(end, self.allocated + CHUNK), limit)
        if not self._allocate(goal, may_fail=goal > end):
            self._allocate(end, may_fail=False)

    def _allocate(self, end: int, *, may_fail: bool) -> bool:
        """Allocate disk space for the file up to `end`; return True if that worked."""
        start = self.allocated
        if end <= start:  # another thread was faster
            return True
        try:
            os.posix_fallocate(self._descriptor, start, end - start)
        except OSError as error:
            if error.errno not in NO_ROOM:
                msg = f"{self._name}: {error}"
                raise Fault(msg) from error
            if may_fail:
                return False
            msg = (
                f"no room for {end - start:,} more bytes of {self._name} "
                f"({error.strerror}): nothing is lost; free some disk space and append again"
            )
            raise LogFull(msg) from error
        self.allocated = os.fstat(self._descriptor).st_size
        return True

    def trim(self, used: int) -> None:
        """Cut the file to what is used of it, durably."""
        os.ftruncate(self._descriptor, used)
        os.fsync(self._descriptor)
        self.allocated = used

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def allot(path: Path, size: int) -> None:
    """Allocate at least the first `size` bytes of an existing file."""
    with room_for(path.name):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def allot_locks(path: Path, size: int) -> None:
    """Allocate LMDB's lock file, and create it if needed; `LogFull` if there is no room.

    LMDB makes such a file without any blocks and writes to it through a mapping: on a full disk,
    that ends the process. May be called only while this process does not have the environment open:
    closing a file drops all locks that a process has on it.
    """
    with room_for(path.name):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            return  # LMDB does without, or says what is wrong
        try:
            found = os.fstat(descriptor)
            if _is_locked(descriptor):
                # A process that has it open knows only the slots that were there at its open.
                size = found.st_size
            if size and (found.st_size < size or found.st_blocks * _BLOCK < size):
                os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Return True if another process holds a lock on a file, without touching it."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with contextlib.suppress(OSError):
        told = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
        return bool(struct.unpack(_FLOCK, told[: len(asked)])[0] != fcntl.F_UNLCK)
    return False


def locks_of(path: Path) -> Path:
    """Return where LMDB keeps the locks of an environment."""
    return path.with_name(path.name + "-lock")


def identity(path: Path) -> tuple[int, int] | None:
    """Return what a file is, whatever it is called; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def digest(path: Path) -> tuple[str, int]:
    """Return the SHA-256 and the length of a file."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        return found, file.tell()


@contextlib.contextmanager
def by_descriptor(path: Path) -> Iterator[str]:
    """Give a name of a file that has no other file beside it, where the system has such names.

    py-lmdb remembers the inode of the lock file beside the one it opens, even if it does not use
    it. Once that is deleted another file may get its inode, and pass for open already.
    """
    if not _DESCRIPTORS.is_dir():
        yield str(path)
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield str(_DESCRIPTORS / str(descriptor))
    finally:
        os.close(descriptor)

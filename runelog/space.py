"""The space a file takes on disk: reserved before it is needed, given back when it is not."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from runelog.errors import Fault, LogFull
from runelog.files import NO_ROOM

if TYPE_CHECKING:
    from pathlib import Path

CHUNK: Final = 4 << 20
"""How much is reserved at a time, if there is as much."""


class Space:
    """The space of one file. Running out of it here costs nothing that was acknowledged."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        """Look how long the file is."""
        self._name = path.name
        self._descriptor = os.open(path, (os.O_RDONLY if readonly else os.O_RDWR) | os.O_CLOEXEC)
        self.allocated = os.fstat(self._descriptor).st_size

    def reserve(self, end: int, limit: int) -> None:
        """Have the disk hold the file up to `end`, and some more if it can; `LogFull` if not."""
        goal = min(max(end, self.allocated + CHUNK), limit)
        if not self._allocate(goal, may_fail=goal > end):
            self._allocate(end, may_fail=False)

    def _allocate(self, end: int, *, may_fail: bool) -> bool:
        """Have the disk hold the file up to `end`; tell whether it does."""
        try:
            os.posix_fallocate(self._descriptor, self.allocated, end - self.allocated)
        except OSError as error:
            if error.errno not in NO_ROOM:
                msg = f"{self._name}: {error}"
                raise Fault(msg) from error
            if may_fail:
                return False
            msg = (
                f"no room for {end - self.allocated:,} more bytes of {self._name} "
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
        """Let go of the file."""
        os.close(self._descriptor)


def digest(path: Path) -> tuple[str, int]:
    """Return the SHA-256 and the length of a file."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        return found, file.tell()

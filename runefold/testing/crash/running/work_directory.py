"""The directory for the temporary files of a sweep: in memory if there is room."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY: Final = Path("/dev/shm")  # noqa: S108 -- directories of our own are made in it
"""A SIGKILL leaves the same there as on a disk."""
ROOM: Final = 1 << 30
"""With fewer bytes free there (a container has 64 MB), the disk is used."""
_NAME: Final = "runefold-crash-"
_BUSY: Final = "busy"
"""A file that is locked while a sweep works there."""


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Give a directory while the block runs; remove those that killed sweeps have left."""
    home = MEMORY if _has_room(MEMORY) else Path(tempfile.gettempdir())
    for left in home.glob(f"{_NAME}*"):
        with contextlib.suppress(OSError):
            _clear(left)
    work = Path(tempfile.mkdtemp(prefix=_NAME, dir=home))
    try:
        with (work / f"{_BUSY}.new").open("wb") as busy:
            fcntl.flock(busy, fcntl.LOCK_EX)
            # Renamed once it is locked, so that it is never found unlocked.
            (work / f"{_BUSY}.new").rename(work / _BUSY)
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _has_room(place: Path) -> bool:
    """Return True if directories can be made in a place, and there is room for what they hold."""
    try:
        return os.access(place, os.W_OK) and shutil.disk_usage(place).free >= ROOM
    except OSError:
        return False


def _clear(place: Path) -> None:
    """Remove a directory whose sweep has ended."""
    with (place / _BUSY).open("rb") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)

"""Files that a crash cannot split: written aside, synced, renamed, and their names synced too."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from runelog.errors import Fault, LogFailed, LogFull, Refused, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when a file cannot grow."""
TEMPORARY: Final = ".new"
"""How the name of a file ends that is still being written. After a crash it is rubbish."""

_serial = itertools.count()


def path_of(given: str | bytes | os.PathLike[str] | os.PathLike[bytes], what: str) -> Path:
    r"""Return the path that a user gives, whatever bytes it has, or refuse what can be none.

    >>> path_of(b"caf\xe9", "a log").name
    'caf\udce9'
    >>> path_of(5, "a log")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: a log is named by a path, not by a int
    """
    try:
        path = Path(os.fsdecode(given))
        data = os.fsencode(path)
    except TypeError:
        msg = f"{what} is named by a path, not by a {type(given).__name__}"
        raise Refused(msg) from None
    except UnicodeError:
        msg = f"{what} cannot be at {printable(str(given))!r}: no file has half a character there"
        raise Refused(msg) from None
    if b"\0" in data:
        msg = f"{what} cannot be at {printable(str(path))!r}: no file has a zero byte there"
        raise Refused(msg)
    return path


@contextlib.contextmanager
def room_for(what: str) -> Iterator[None]:
    """Turn a full disk into `LogFull`, naming what could not be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        msg = f"no room to write {what} ({error.strerror}): free some disk space and try again"
        raise LogFull(msg) from error


@contextlib.contextmanager
def sound_disk(what: str, failure: type[Fault] = Fault) -> Iterator[None]:
    """Turn what the system says of a disk into `LogFull` or a `failure`, naming what failed."""
    try:
        with room_for(what):
            yield
    except OSError as error:
        msg = f"{what} failed: {error}"
        raise failure(msg) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to; leaving the block puts it in the place of `path`, durably.

    If the block raises, `path` is what it was and nothing is left behind. `LogFailed` means that it
    was replaced, and that a power cut may still undo it.
    """
    aside = path.with_name(f"{path.name}.{os.getpid()}-{next(_serial)}{TEMPORARY}")
    with room_for(path.name):
        descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor, not a path
                yield file
                file.flush()
                os.fsync(descriptor)
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        try:
            sync_directory(path.parent)
        except OSError as error:
            msg = f"{path.name} was replaced, perhaps not durably: {error}"
            raise LogFailed(msg) from error


class Pinned:
    """A file kept open, to tell whether another was put in its place.

    As long as it is open no other file can have its number, however often it is replaced.
    """

    def __init__(self, path: Path) -> None:
        """Open the file that `path` leads to, if there is one."""
        self.path = path
        self._identity = None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._close = None
            return
        self._close = weakref.finalize(self, os.close, descriptor)
        self._identity = _identity(os.fstat(descriptor))

    def is_still_there(self) -> bool:
        """Return True if `path` still leads to this file, or still to none."""
        try:
            return _identity(self.path.stat()) == self._identity
        except OSError:
            return self._identity is None

    def close(self) -> None:
        """Close the file. It is not compared any more: another may have its number now."""
        if self._close is not None:
            self._close()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a private directory, durably, if there is none."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_directory(directory.parent)

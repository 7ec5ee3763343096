"""The small files of a log's directory: MANIFEST, CLEAN and LOCK.

MANIFEST says which segments there are; replacing it is the one step by which a segment is rolled,
rewritten or taken in. CLEAN is there only while the log is closed and vouches for the files that
may still be written to. LOCK is held by the one writer and names it.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import socket
import struct
import sys
import time
import weakref
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypeVar
from zlib import crc32

import msgspec

from runelog.decoders import from_json
from runelog.errors import Corrupt, Held, NewerFormat, NotALog, ReadOnly, Refused, printable
from runelog.files import NO_ROOM, TEMPORARY, replacing, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORMAT: Final = 2
_OURS: Final = frozenset(
    {
        *("MANIFEST", "LOCK", "CLEAN", "CATALOG", "CREATING", "control"),
        *("segments", "blobs", "archive", "snapshots", "damaged"),
    }
)
_MOMENT: Final = "%Y-%m-%d %H:%M:%S UTC"
PLACING: Final = "PLACING"
"""The file that is there while a backup is put in place; see `runelog.transfer.placing`."""
_FLOCK: Final = "hhqqi0q"
_PATIENCE: Final = 0.1
ERRANDS: Final = 10.0
"""How many seconds a holder is waited for that said it would let go by itself."""
_PAUSE: Final = 0.005
_T = TypeVar("_T")


class Status(enum.StrEnum):
    """What may be done with a segment."""

    ACTIVE = "active"
    SEALED = "sealed"
    DAMAGED = "damaged"


class SegmentInfo(msgspec.Struct, frozen=True):
    """One segment: its file, the positions it holds and, once sealed, its digest."""

    number: int
    first: int
    """The position of the first rune it may hold."""
    map_size: int
    generation: int = 0
    """Raised each time the segment is rewritten without some conversation."""
    status: Status = Status.ACTIVE
    last: int = 0
    since: int = 0
    """The log's time when it was begun: no later rune is earlier, wherever the former ones go."""
    digest: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number:06d}.{self.generation}.mdb"


class Pending(msgspec.Struct, frozen=True):
    """A step that was decided and may not be finished: opening the log finishes it."""

    op: str
    conversations: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """Which segments there are, in order."""

    log: str
    segments: tuple[SegmentInfo, ...]
    revision: int = 1
    """Raised with each replacement, so that an older manifest can be told from a newer one."""
    epoch: int = 1
    catalog: int = 0
    settled: int = 0
    """The revision for which the catalog was settled last; one that says less is an older one."""
    pending: tuple[Pending, ...] = ()
    dead: tuple[str, ...] = ()
    """Archived conversations whose runes are still in segments, where they do not count."""

    @property
    def active(self) -> SegmentInfo:
        """The segment that appends go to."""
        return self.segments[-1]


class Clean(msgspec.Struct, frozen=True):
    """Digest and length of the two files that are written in place, as they were closed."""

    active: tuple[str, int]
    catalog: tuple[str, int]
    position: int
    revision: int
    """Of the manifest that was current then."""
    archive: int = 0
    """When the directory of archives and tombstones changed last."""


class Unchanged(msgspec.Struct, frozen=True):
    """The catalog as it was when it was last known to be sound, and has not changed since."""

    generation: int
    digest: tuple[str, int]


def read_manifest(directory: Path) -> Manifest:
    """Read MANIFEST, or say what is in the way."""
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        msg = f"{directory} {what}: name the directory of a log"
        raise NotALog(msg)
    check_placed(directory)
    try:
        return read_record(directory / "MANIFEST", Manifest)
    except FileNotFoundError:
        msg = f"{directory} holds no log (it has no MANIFEST)"
        raise NotALog(msg) from None


def check_placed(directory: Path) -> None:
    """Refuse a directory in which a backup or a restore was not put in place to its end."""
    if (directory / PLACING).exists():
        msg = (
            f"{directory} is part of one backup and part of another: putting the files in place "
            "was interrupted. Run the same `runefold log backup` or `runefold log restore-backup` "
            "again, which finishes it; `restore-backup` from it does so as well"
        )
        raise Refused(msg)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace MANIFEST as one step that a crash cannot split."""
    # The segments it names were synced, but their names may not be durable yet.
    sync_directory(directory / "segments")
    write_record(directory / "MANIFEST", manifest)


def read_clean(directory: Path) -> Clean | None:
    """Read what the last writer left when it closed the log.

    None if it did not close it, or what it left cannot be trusted.
    """
    try:
        return read_record(directory / "CLEAN", Clean)
    except (FileNotFoundError, Corrupt, NewerFormat):
        return None


def write_clean(directory: Path, clean: Clean) -> None:
    """Vouch for the files as they are now."""
    write_record(directory / "CLEAN", clean)


def drop_clean(directory: Path) -> None:
    """Take the vouching back, durably: from now on the files change."""
    (directory / "CLEAN").unlink(missing_ok=True)
    sync_directory(directory)


def read_unchanged(directory: Path) -> Unchanged | None:
    """Read what the catalog was like if it has not changed since; None if it may have."""
    try:
        return read_record(directory / "CATALOG", Unchanged)
    except (FileNotFoundError, Corrupt, NewerFormat, Refused):
        return None


def write_unchanged(directory: Path, unchanged: Unchanged) -> None:
    """Vouch for the catalog as it is now."""
    write_record(directory / "CATALOG", unchanged)


def drop_unchanged(directory: Path) -> None:
    """Take that back, durably: from now on the catalog changes."""
    (directory / "CATALOG").unlink(missing_ok=True)
    sync_directory(directory)


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Replace a small file by one that holds a record and its checksum, durably."""
    with replacing(path) as file:
        file.write(_encode(record))


def read_record(path: Path, into: type[_T]) -> _T:
    """Read a file that `write_record` wrote."""
    return _decode(path.read_bytes(), into, path)


def _encode(record: msgspec.Struct) -> bytes:
    body = msgspec.json.format(msgspec.json.encode(record), indent=1)
    return b"runefold %d %08x\n%s\n" % (FORMAT, crc32(body), body)


def _decode(data: bytes, into: type[_T], path: Path) -> _T:
    first, _, rest = data.partition(b"\n")
    words = first.split()
    body = rest.removesuffix(b"\n")
    if (
        len(words) == 3
        and words[0] == b"runefold"
        and words[1].isdigit()
        and int(words[1]) > FORMAT
    ):
        msg = (
            f"{path} has format {int(words[1])}, and this version reads {FORMAT}: "
            "use a later version"
        )
        raise NewerFormat(msg)
    if words == [b"runefold", b"1", b"%08x" % crc32(body)]:
        msg = (
            f"{path} has format 1, which was never released, and this version reads {FORMAT}: "
            "export it with the version that wrote it, and import it into a new log"
        )
        raise Refused(msg)
    if words != [b"runefold", b"%d" % FORMAT, b"%08x" % crc32(body)]:
        msg = f"{path} is damaged: `runefold log repair` can rebuild it from the segments"
        raise Corrupt(msg)
    try:
        return from_json(into)(body)
    except msgspec.DecodeError as error:
        msg = f"{path} is damaged ({error}): `runefold log repair` can rebuild it from the segments"
        raise Corrupt(msg) from error


def foreign(directory: Path) -> Iterable[str]:
    """Return names in a directory that no log puts there."""
    names = (entry.name for entry in directory.iterdir())
    return [
        name
        for name in names
        if name not in _OURS and not name.startswith("catalog.") and not name.endswith(TEMPORARY)
    ]


class Holder(msgspec.Struct, frozen=True):
    """Who holds a log for writing, as LOCK says."""

    pid: int
    host: str
    since: float = 0.0
    """Seconds since 1970."""
    command: str = ""
    """What the process runs: without its arguments, which may hold anything."""
    errand: bool = False
    """Whether it lets go by itself soon."""

    def __str__(self) -> str:
        """Return it in words."""
        what = f" ({self.command})" if self.command else ""
        since = f" since {time.strftime(_MOMENT, time.gmtime(self.since))}" if self.since else ""
        return f"process {self.pid}{what} on {self.host}{since}"


class Lock:
    """The right to write to a log: held by one process at a time, released when it dies."""

    def __init__(self, directory: Path) -> None:
        """Name the directory; `acquire` takes the lock."""
        self.path = directory / "LOCK"
        self._fd = -1
        _locks.add(self)

    def acquire(self, *, take_over: bool = False, errand: str = "") -> None:
        """Become the writer, or raise `Held` naming who is.

        With `take_over` the present holder is not waited for: it is fenced off by its epoch and
        finds out at its next append. One that runs an errand is waited for, and so is this one if
        it names its own.
        """
        if take_over:
            self.path.unlink(missing_ok=True)
        begun = seen = time.monotonic()
        while not self._try():
            held = self._held()
            self._drop()
            now = time.monotonic()
            found = _holder(self.path.parent)
            if found is not None and found.errand:
                seen, over = now, now > begun + ERRANDS
            else:
                # An errand takes its name out of the file just before it lets go. A child that was
                # just forked keeps the lock until it is told to let go, and where looking is
                # holding, so does a process that looks whether there is a writer.
                over = now > seen + _PATIENCE
            if over:
                raise Held(held)
            time.sleep(_PAUSE)
        command = errand or PurePath(sys.argv[0] if sys.argv else "").name
        me = msgspec.json.encode(
            Holder(os.getpid(), socket.gethostname(), time.time(), printable(command), bool(errand))
        )
        with contextlib.suppress(OSError):  # without a name it is held all the same
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, me, 0)

    def _try(self) -> bool:
        """Open the file and lock it; return True if it is ours now."""
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            msg = (
                f"{self.path.parent} cannot be written ({error.strerror}): "
                "open the log with readonly=True"
            )
            raise ReadOnly(msg) from error
        try:
            # Another process may have taken the log over, and put another file in this one's place.
            return _lock(self._fd) and os.path.samestat(os.fstat(self._fd), self.path.stat())
        except FileNotFoundError:
            return False
        except BaseException:
            self._drop()
            raise

    def _held(self) -> str:
        """Return the message that names the holder of the lock."""
        if any(lock.is_beside(self._fd) for lock in _locks if lock is not self):
            return (
                f"{self.path.parent} is open for writing in this very process already: use that "
                "one, close it first, or only read it, with Runelog.open(..., readonly=True)"
            )
        return (
            f"{self.path.parent} is being written by {holder(self.path.parent)}: "
            "close it there first, use its runtime from here, with Runtime.connect(directory), or "
            "only read it, with Runelog.open(..., readonly=True)"
        )

    @property
    def identity(self) -> tuple[int, int]:
        """Which file is held, wherever LOCK leads by now."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    def is_beside(self, descriptor: int) -> bool:
        """Return True if this is held, on the same file as another one is wanted on."""
        return self._fd >= 0 and os.path.samestat(os.fstat(self._fd), os.fstat(descriptor))

    def release(self) -> None:
        """Release it. The file stays: without it two processes could hold locks on two files."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # the name of one that holds it no more
                os.ftruncate(self._fd, 0)
        self._drop()

    def _drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    # A lock ends with the last descriptor on it. A child that lives on must not keep it.
    for lock in _locks:
        lock._drop()  # noqa: SLF001 -- without a word in the file: the parent still holds it


os.register_at_fork(after_in_child=_after_fork)


def holder(directory: Path) -> str:
    """Return who holds the log for writing, as LOCK names it."""
    return str(_holder(directory) or "another process")


def _holder(directory: Path) -> Holder | None:
    try:
        return from_json(Holder)((directory / "LOCK").read_bytes())
    except (msgspec.MsgspecError, ValueError, OSError):
        return None


def writer_alive(directory: Path) -> bool:
    """Return True if some process holds the log for writing right now."""
    try:
        descriptor = os.open(directory / "LOCK", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_locked(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "linux":
    # Locks of an open file, as flock's are: they end with its last descriptor, and closing another
    # file means nothing to them. Unlike flock's, they can be looked at without being taken.

    def _lock(descriptor: int) -> bool:
        """Lock a file exclusively; return True if that worked."""
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, asked)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False
        return True

    def _is_locked(descriptor: int) -> bool:
        """Return True if a process has locked a file."""
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        told = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
        return bool(struct.unpack(_FLOCK, told)[0] != fcntl.F_UNLCK)

else:

    def _lock(descriptor: int) -> bool:
        """Lock a file exclusively; return True if that worked."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_locked(descriptor: int) -> bool:
        """Return True if a process has locked a file: one has if we cannot."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

"""One LMDB environment: opened with care, written in whole transactions, read in short ones.

The only module that imports lmdb. A segment of the log is such an environment, and so is the
catalog over the sealed segments. Nothing here knows what the tables mean.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Final

import lmdb

from runelog.errors import Closed, Corrupt, Fault, Forked, LogFailed, LogFull, ReadOnly, Refused
from runelog.salvage import check_size
from runelog.space import Space, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TABLES: Final = ("runes", "names", "heads", "events", "streams", "work", "holes", "meta")
"""The tables of a segment, see docs/FORMAT.md."""
MAX_READERS: Final = 1024
CHECK_READERS: Final = 256 << 10
"""How far a file grows until the slots of readers that died are looked for."""
_SCAN_BYTES: Final = 1 << 20
_LEAST_ROOM: Final = 64 << 10


class MapFull(Exception):
    """The environment has no pages left for this transaction; nothing of it was written."""


class Batch:
    """A transaction on an environment: reads see its own writes."""

    def __init__(self, txn: lmdb.Transaction[bytes], tables: dict[str, lmdb._Database]) -> None:
        """Wrap an open transaction; its environment ends it."""
        self._txn = txn
        self._tables = tables

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under `key`, None if there is none."""
        return self._txn.get(key, db=self._tables[table])

    def floor(self, table: str, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry with the greatest key that is not above `key`."""
        with self._txn.cursor(self._tables[table]) as cursor:
            if cursor.set_range(key):
                if cursor.key() == key or cursor.prev():
                    return cursor.item()
                return None
            return cursor.item() if cursor.last() else None

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return entries with `start` <= key < `stop`, in order.

        At most `limit`, and about a MiB of them.
        """
        found: list[tuple[bytes, bytes]] = []
        size = 0
        with self._txn.cursor(self._tables[table]) as cursor:
            if not (cursor.set_range(start) if start else cursor.first()):
                return found
            for entry in cursor.iternext():
                if stop is not None and entry[0] >= stop:
                    break
                found.append(entry)
                size += len(entry[1])
                if size >= _SCAN_BYTES or len(found) == limit:
                    break
        return found

    def cover(
        self, table: str, ranges: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield, for each (start, stop), the entries that cover it."""
        with self._txn.cursor(self._tables[table]) as cursor:
            for start, stop in ranges:
                if not cursor.set_range(start):
                    there = cursor.last()
                else:
                    there = cursor.key() == start or cursor.prev()
                while there:
                    entry = cursor.item()
                    if entry[0] >= stop:
                        break
                    yield entry
                    there = cursor.next()

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Write an entry, in place of one with the same key if there is one."""
        self._txn.put(key, value, db=self._tables[table])

    def append(self, table: str, key: bytes, value: bytes) -> None:
        """Write an entry whose key is above all others of its table."""
        if not self._txn.put(key, value, db=self._tables[table], append=True):
            msg = f"a key of the table {table} does not rise"
            raise Corrupt(msg)

    def delete(self, table: str, key: bytes) -> None:
        """Remove an entry if it is there."""
        self._txn.delete(key, db=self._tables[table])


class Environment:
    """An LMDB environment in one file."""

    def __init__(
        self,
        path: Path,
        *,
        map_size: int,
        tables: Sequence[str] = TABLES,
        readonly: bool = False,
        lock: bool = True,
        create: bool = False,
        metasync: bool = True,
    ) -> None:
        """Open the file at `path`, its size checked against its own header before it is mapped."""
        self.path = path
        self.map_size = map_size
        self.failed = False
        self._pid = os.getpid()
        if not create:
            check_size(path)
        self._shared = _share(
            path, map_size, readonly=readonly, lock=lock, create=create, metasync=metasync
        )
        self._env = self._shared.env
        self._shared.holders.add(self)
        try:
            self._space = Space(path, readonly=readonly)
        except BaseException:
            _unshare(self._shared)
            raise
        try:
            with self._errors(), _room_for_a_new(path) if create else contextlib.nullcontext():
                self._open_tables(tables, create=create)
        except BaseException:
            self._let_go()
            raise
        self._page = self._env.stat()["psize"]
        self._used = self._checked = self._measure()
        self._open = True

    def _open_tables(self, tables: Sequence[str], *, create: bool) -> None:
        if create:
            with self._env.begin(write=True) as txn:
                self._tables = {
                    name: self._env.open_db(name.encode(), txn=txn, create=True) for name in tables
                }
        else:
            self._tables = {name: self._env.open_db(name.encode(), create=False) for name in tables}

    # -- reading ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def view(self) -> Iterator[Batch]:
        """Give a consistent state to read from. Keep it short: it pins pages and a reader slot."""
        self._check()
        with self._errors():
            try:
                txn = self._env.begin()
            except lmdb.ReadersFullError:
                # Slots of readers that died are only given back when somebody looks for them.
                self._env.reader_check()
                txn = self._env.begin()
            try:
                yield Batch(txn, self._tables)
            finally:
                txn.abort()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            msg = (
                f"{self.path.name} was opened before a fork: "
                "open the log again in the child, to read"
            )
            raise Forked(msg)
        if not self._open:
            msg = f"{self.path.name} is closed"
            raise Closed(msg)

    @property
    def last_transaction(self) -> int:
        """The number of the last commit, by whichever process.

        Tells a reader whether to look again.
        """
        return self._env.info()["last_txnid"]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except lmdb.MapFullError as error:
            raise MapFull from error
        except lmdb.ReadersFullError as error:
            msg = f"{self.path.name} has {MAX_READERS} readers already: close some"
            raise Refused(msg) from error
        except (
            lmdb.CorruptedError,
            lmdb.PageNotFoundError,
            lmdb.InvalidError,
            lmdb.NotFoundError,
        ) as error:
            msg = f"{self.path.name} is damaged: {error}"
            raise Corrupt(msg) from error
        except lmdb.Error as error:
            msg = f"{self.path.name}: {error}"
            raise LogFailed(msg) from error

    # -- writing ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def batch(self) -> Iterator[Batch]:
        """Write in one transaction.

        It is committed and synced on leaving the block, undone on an exception.
        """
        self._check()
        if self.failed:
            msg = f"{self.path.name} failed in an earlier commit: close the log and open it again"
            raise LogFailed(msg)
        with self._errors():
            txn = self._env.begin(write=True)
            self._shared.writing = True
            try:
                yield Batch(txn, self._tables)
            except BaseException:
                txn.abort()
                self._shared.writing = False
                raise
            try:
                txn.commit()
            except lmdb.MapFullError:
                raise
            except BaseException:
                # The kernel may have dropped the very pages it could not write: syncing again would
                # succeed and mean nothing. Never trust this file through this handle again.
                self.failed = True
                raise
            finally:
                self._shared.writing = False
            self._used = self._measure()
            if self._used > self._checked + CHECK_READERS:
                # Grown for want of free pages: perhaps because a reader died and still pins them.
                self._env.reader_check()
                self._checked = self._used

    @property
    def used(self) -> int:
        """Bytes of the file that hold pages in use or free for reuse, as of our last commit."""
        return self._used

    def _measure(self) -> int:
        return (self._env.info()["last_pgno"] + 1) * self._page

    def reserve(self, need: int) -> None:
        """See to it that the disk holds `need` more bytes for this file; `LogFull` if it cannot."""
        end = min(self._used + need, self.map_size)
        if end > self._space.allocated:
            self._space.reserve(end, self.map_size)

    def trim(self) -> None:
        """Give reserved space that is not used back, and make the file's length durable."""
        self._space.trim(self._used)

    def digest(self) -> tuple[str, int]:
        """Return the SHA-256 and the length of the file as it is."""
        return digest(self.path)

    def check_readers(self) -> int:
        """Give back the reader slots of processes that died; return how many."""
        return self._env.reader_check()

    def close(self) -> None:
        """Unmap the file. No view may be open."""
        if self._open:
            self._open = False
            self._let_go()

    def abandon(self) -> None:
        """Forget what was inherited through a fork, without touching it."""
        del self._env, self._tables

    def _let_go(self) -> None:
        self._space.close()
        if os.getpid() == self._pid:
            _unshare(self._shared)


class _Shared:
    """An environment as this process has it open: LMDB forbids opening one twice in a process."""

    def __init__(self, env: lmdb.Environment, key: tuple[int, int], *, readonly: bool) -> None:
        self.env = env
        self.key = key
        self.readonly = readonly
        self.users = 1
        self.writing = False
        self.holders: weakref.WeakSet[Environment] = weakref.WeakSet()


_open: dict[tuple[int, int], _Shared] = {}
_guard = threading.Lock()


def _share(
    path: Path, map_size: int, *, readonly: bool, lock: bool, create: bool, metasync: bool
) -> _Shared:
    with _guard:
        key = _identity(path)
        shared = _open.get(key) if key is not None else None
        if shared is not None:
            if shared.readonly and not readonly:
                msg = (
                    f"{path.name} is open for reading in this process: "
                    "open the log for writing first, or close the reader"
                )
                raise Refused(msg)
            shared.users += 1
            return shared
        # A mapping beyond the end of the file is a bus error waiting to happen, hence check_size
        # before this; an unsynced or write-mapped file can be corrupted by a crash, hence neither
        # is on offer.
        try:
            env = lmdb.open(
                str(path),
                map_size=map_size,
                subdir=False,
                readonly=readonly,
                lock=lock,
                create=create,
                mode=0o600,
                metasync=metasync,
                max_dbs=len(TABLES),
                max_readers=MAX_READERS,
                max_spare_txns=8,
                lib_version=0,
            )
        except lmdb.Error as error:
            raise _opening(path, error) from error
        key = _identity(path)
        assert key is not None
        shared = _open[key] = _Shared(env, key, readonly=readonly)
        return shared


def _unshare(shared: _Shared) -> None:
    with _guard:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(shared.key, None)
            shared.env.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _after_fork() -> None:
    # The child holds copies of the parent's mappings, may not use them, and can open its own only
    # once they are gone. They are let go of, not closed: closing would give back reader slots that
    # the parent is using. One with a transaction under way is better left alone.
    global _guard  # noqa: PLW0603 -- another thread may have held it at the moment of the fork
    _guard = threading.Lock()
    for shared in _open.values():
        if not shared.writing:
            for holder in shared.holders:
                holder.abandon()
            del shared.env
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def _room_for_a_new(path: Path) -> Iterator[None]:
    """Tell a full disk from a broken one: to LMDB, what it cannot write whole is an I/O error."""
    try:
        yield
    except lmdb.Error as error:
        found = os.statvfs(path.parent)
        if found.f_bavail * found.f_frsize >= _LEAST_ROOM:
            raise
        msg = f"no room to begin {path.name}: free some disk space and try again"
        raise LogFull(msg) from error


def _opening(path: Path, error: lmdb.Error) -> Exception:
    if isinstance(error, (lmdb.ReadonlyError, lmdb.LockError)) or "Permission denied" in str(error):
        return ReadOnly(f"{path.name} cannot be opened for writing: {error}")
    if isinstance(error, lmdb.DiskError) or "No space" in str(error):
        return LogFull(f"no room to open {path.name}: {error}")
    if isinstance(error, (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError)):
        return Corrupt(f"{path.name} cannot be opened: {error}")
    return Fault(f"{path.name} cannot be opened: {error}")

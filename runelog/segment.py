"""One LMDB environment: opened with care, written in whole transactions, read in short ones.

The only module that imports lmdb. A segment of the log is such an environment, and so is the
catalog over the sealed segments. Nothing here knows what the tables mean.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from runelog.errors import Closed, Corrupt, Fault, Forked, LogFailed, LogFull, ReadOnly, Refused
from runelog.files import NO_ROOM
from runelog.forks import Gate
from runelog.salvage import check_size
from runelog.space import Space, allot, allot_locks, digest, identity, locks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

TABLES: Final = ("runes", "names", "heads", "events", "streams", "work", "holes", "meta")
"""The tables of a segment, see docs/FORMAT.md."""
MAX_READERS: Final = 1024
CHECK_READERS: Final = 256 << 10
"""How far a file grows until the slots of readers that died are looked for."""
_SCAN_BYTES: Final = 1 << 20
_LOCKS: Final = 192 + (MAX_READERS - 1) * 64
"""The length that LMDB gives its file of locks: a header with one reader's slot, and the others."""
_SPARE: Final = 64 << 10
"""Room for the pages that any transaction copies, however little it writes."""


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

    def end(self) -> lmdb.Transaction[bytes]:
        """Hand the transaction back: whoever still has this must not keep the environment."""
        txn = self._txn
        del self._txn, self._tables
        return txn


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
        self.readonly = readonly
        self.failed = False
        self._pid = os.getpid()
        self._metasync = metasync
        if not create:
            check_size(path)
        how = _How(map_size, tables, readonly=readonly, lock=lock, create=create, metasync=metasync)
        self._shared = _share(self, how)
        self._env = self._shared.env
        self._tables = self._shared.tables
        try:
            self._space = Space(path, readonly=readonly)
        except BaseException:
            _unshare(self._shared)
            raise
        self._page = self._shared.page
        self._used = self._checked = self._measure()
        self._open = True

    # -- reading ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def view(self) -> Iterator[Batch]:
        """Give a consistent state to read from. Keep it short: it pins pages and a reader slot."""
        self._check()
        with _inside(), self._errors():
            try:
                batch = Batch(self._env.begin(), self._tables)
            except lmdb.ReadersFullError:
                # Slots of readers that died are only given back when somebody looks for them.
                self._env.reader_check()
                batch = Batch(self._env.begin(), self._tables)
            try:
                yield batch
            finally:
                self._abort(batch)

    def _abort(self, batch: Batch) -> None:
        """End a transaction; one that came through a fork is only forgotten: it is the parent's."""
        txn = batch.end()
        if os.getpid() == self._pid:
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
        self._check()
        with _inside():
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
        if self.readonly:
            msg = f"{self.path.name} was opened for reading"
            raise ReadOnly(msg)
        if self.failed:
            msg = f"{self.path.name} failed in an earlier commit: close the log and open it again"
            raise LogFailed(msg)
        self.reserve(0)
        with _inside(), self._errors():
            batch = Batch(self._env.begin(write=True), self._tables)
            try:
                yield batch
                self._check()
            except BaseException:
                self._abort(batch)
                raise
            self._commit(batch)
            self._used = self._measure()
            if self._used > self._checked + CHECK_READERS:
                # Grown for want of free pages: perhaps because a reader died and still pins them.
                self._env.reader_check()
                self._checked = self._used

    def _commit(self, batch: Batch) -> None:
        txn = batch.end()
        try:
            txn.commit()
            if self._metasync and not self._shared.metasync:
                # Opened by somebody in this process who asked for less.
                self._env.sync(True)  # noqa: FBT003 -- takes no names
        except lmdb.MapFullError:
            raise
        except (lmdb.Error, OSError):
            # The kernel may have dropped the very pages it could not write: syncing again would
            # succeed and mean nothing. Never trust this file through this handle again.
            self.failed = True
            raise
        except BaseException:
            # An interrupt, just before the commit or just after it: it does not happen twice.
            with contextlib.suppress(lmdb.Error):
                txn.abort()
            raise

    @property
    def used(self) -> int:
        """Bytes of the file that hold pages in use or free for reuse, as of our last commit."""
        return self._used

    def _measure(self) -> int:
        return (self._env.info()["last_pgno"] + 1) * self._page

    def reserve(self, need: int) -> None:
        """See to it that the disk holds `need` more bytes for this file; `LogFull` if it cannot."""
        end = min(self._used + need + _SPARE, self.map_size)
        if end > self._space.allocated:
            self._space.reserve(end, self.map_size)

    def trim(self) -> None:
        """Give reserved space that is not used back, and make the file's length durable."""
        self._used = self._measure()  # another process may have written since our last commit
        self._space.trim(self._used)

    def digest(self) -> tuple[str, int]:
        """Return the SHA-256 and the length of the file as it is."""
        return digest(self.path)

    def check_readers(self) -> int:
        """Give back the reader slots of processes that died; return how many."""
        with _inside():
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


class _How(NamedTuple):
    """How an environment is to be opened."""

    map_size: int
    tables: Sequence[str]
    readonly: bool
    lock: bool
    create: bool
    metasync: bool


class _Shared:
    """An environment as this process has it open: LMDB forbids opening one twice in a process."""

    def __init__(self, path: Path, how: _How) -> None:
        # A reader that may write opens the file like a writer, who can then come and share it.
        # `Environment.batch` refuses to write for it all the same.
        self.readonly = how.readonly and not (how.lock and os.access(path, os.W_OK))
        self.metasync = how.metasync
        self.users = 0
        self.holders: weakref.WeakSet[Environment] = weakref.WeakSet()
        if how.lock:
            allot_locks(locks_of(path), _LOCKS)
        # A mapping beyond the end of the file is a bus error waiting to happen, hence check_size
        # before this; an unsynced or write-mapped file can be corrupted by a crash, hence neither
        # is on offer. A spare transaction keeps a reader's slot, which a forked child would give
        # back, and its parent still use: there are none.
        self.env = lmdb.open(
            str(path),
            map_size=how.map_size,
            subdir=False,
            readonly=self.readonly,
            lock=how.lock,
            create=how.create,
            mode=0o600,
            metasync=how.metasync,
            max_dbs=len(TABLES),
            max_readers=MAX_READERS,
            max_spare_txns=0,
            lib_version=0,
        )
        try:
            self.page = self.env.stat()["psize"]
            if how.create:
                allot(path, _SPARE)
            with self.env.begin(write=how.create) as txn:
                self.tables = {
                    name: self.env.open_db(name.encode(), txn=txn, create=how.create)
                    for name in how.tables
                }
        except BaseException:
            self.env.close()
            raise
        self.key = identity(path)


_open: dict[tuple[int, int] | None, _Shared] = {}
_gate = Gate()


def _share(user: Environment, how: _How) -> _Shared:
    path = user.path
    with _gate.guard:
        key = identity(path)
        shared = _open.get(key) if key is not None else None
        if shared is None:
            try:
                shared = _Shared(path, how)
            except BaseException as error:
                if how.create and key is None:
                    path.unlink(missing_ok=True)
                    locks_of(path).unlink(missing_ok=True)
                if isinstance(error, lmdb.Error):
                    raise _opening(path, error) from error
                raise
            _open[shared.key] = shared
        elif shared.readonly and not how.readonly:
            msg = (
                f"{path.name} is open in this process by a reader that may not write: "
                "open the log for writing first, or close the reader"
            )
            raise Refused(msg)
        shared.users += 1
        shared.holders.add(user)
        return shared


def _unshare(shared: _Shared) -> None:
    with _gate.guard:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(shared.key, None)
            shared.env.close()


@contextlib.contextmanager
def _inside() -> Iterator[None]:
    """Have no fork in the middle of this."""
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


def _after_fork() -> None:
    # The child holds copies of the parent's mappings, may not use them, and can open its own only
    # once they are gone.
    _gate.after_in_child()
    for shared in _open.values():
        for holder in shared.holders:
            holder.abandon()
        del shared.env, shared.tables
    _open.clear()


os.register_at_fork(
    before=_gate.before, after_in_parent=_gate.after_in_parent, after_in_child=_after_fork
)


def _opening(path: Path, error: lmdb.Error) -> Exception:
    if isinstance(error, (lmdb.ReadonlyError, lmdb.LockError)) or "Permission denied" in str(error):
        return ReadOnly(f"{path.name} cannot be opened for writing: {error}")
    if isinstance(error, lmdb.DiskError) or any(os.strerror(n) in str(error) for n in NO_ROOM):
        return LogFull(f"no room to open {path.name}: {error}")
    if isinstance(error, (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError)):
        return Corrupt(f"{path.name} cannot be opened: {error}")
    return Fault(f"{path.name} cannot be opened: {error}")

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

from runelog import forks
from runelog.errors import Closed, Corrupt, Fault, Forked, LogFailed, LogFull, ReadOnly, Refused
from runelog.files import NO_ROOM
from runelog.forks import Gate
from runelog.lmdb.batch import Batch, Transaction
from runelog.lmdb.salvage import check_size
from runelog.lmdb.space import Space, allot, allot_locks, by_descriptor, digest, identity, locks_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["CHECK_READERS", "MAX_READERS", "TABLES", "Batch", "Environment", "MapFull"]

TABLES: Final = ("runes", "names", "heads", "events", "streams", "work", "holes", "meta")
"""The tables of a segment, see docs/FORMAT.md."""
MAX_READERS: Final = 1024
CHECK_READERS: Final = 256 << 10
"""How far a file grows until the slots of readers that died are looked for."""
_LOCKS: Final = 192 + (MAX_READERS - 1) * 64
"""The length that LMDB gives its file of locks: a header with one reader's slot, and the others."""
_SPARE: Final = 64 << 10
"""Room for the pages that any transaction copies, however little it writes."""
_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.NotFoundError,
)


class MapFull(Exception):
    """The environment has no pages left for this transaction; nothing of it was written."""


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
        self._forks = forks.passed
        self._metasync = metasync
        if not create:
            check_size(path)
        how = _How(map_size, tables, readonly=readonly, lock=lock, create=create, metasync=metasync)
        self._shared = _share(self, how)
        self.adopt(self._shared)
        self._page = self._shared.page
        with contextlib.ExitStack() as undo:
            undo.callback(_unshare, self._shared)
            self._space = Space(path, readonly=readonly)
            undo.callback(self._space.close)
            with _gate:
                self.used = self._checked = self._measure()
            undo.pop_all()
        """Bytes of the file that hold pages in use or free for reuse, as of our last commit."""
        self._open = True

    # -- reading ------------------------------------------------------------------------------

    def view(self) -> AbstractContextManager[Batch]:
        """Give a consistent state to read from. Keep it short: it pins pages and a reader slot."""
        self._check()
        return Transaction(_gate, self._begin_reading, self._end_reading)

    def _begin_reading(self) -> Batch:
        try:
            try:
                return Batch(self._env.begin(), self._tables)
            except lmdb.ReadersFullError:
                # Slots of readers that died are only given back by a `reader_check`.
                self._env.reader_check()
                return Batch(self._env.begin(), self._tables)
        except lmdb.Error as error:
            raise self._meaning(error) from error

    def _end_reading(self, batch: Batch, error: BaseException | None) -> None:
        """End a transaction; one that came through a fork is only forgotten: it is the parent's."""
        txn = batch.end()
        if self._forks == forks.passed:
            txn.abort()
        if isinstance(error, lmdb.Error):
            raise self._meaning(error) from error

    def _check(self) -> None:
        if self._forks != forks.passed:
            msg = (
                f"{self.path.name} was opened before a fork: "
                "open the log again in the child, to read"
            )
            raise Forked(msg)
        if not self._open:
            msg = f"{self.path.name} is closed"
            raise Closed(msg)

    def _meaning(self, error: lmdb.Error) -> Exception:
        """Return what LMDB says went wrong, in our own words."""
        if isinstance(error, lmdb.MapFullError):
            return MapFull()
        if isinstance(error, lmdb.ReadersFullError):
            return Refused(f"{self.path.name} has {MAX_READERS} readers already: close some")
        if isinstance(error, _DAMAGE):
            return Corrupt(f"{self.path.name} is damaged: {error}")
        return LogFailed(f"{self.path.name}: {error}")

    # -- writing ------------------------------------------------------------------------------

    def batch(self, *, spare: bool = True) -> AbstractContextManager[Batch]:
        """Write in one transaction.

        It is committed and synced on leaving the block, undone on an exception. `spare` has some
        room reserved first, which changes the file: not for one that may not be ours any more.
        """
        self._check()
        if self.readonly:
            msg = f"{self.path.name} was opened for reading"
            raise ReadOnly(msg)
        if self.failed:
            msg = f"{self.path.name} failed in an earlier commit: close the log and open it again"
            raise LogFailed(msg)
        if spare:
            self.reserve(0)
        return Transaction(_gate, self._begin_writing, self._end_writing)

    def _begin_writing(self) -> Batch:
        try:
            return Batch(self._env.begin(write=True), self._tables)
        except lmdb.Error as error:
            raise self._meaning(error) from error

    def _end_writing(self, batch: Batch, error: BaseException | None) -> None:
        """Commit and sync a transaction, or undo it."""
        if error is not None:
            self._end_reading(batch, error)
            return
        try:
            self._check()
            self._commit(batch)
        except (Forked, Closed):
            self._end_reading(batch, None)
            raise
        except lmdb.Error as failure:
            raise self._meaning(failure) from failure

    def _commit(self, batch: Batch) -> None:
        txn = batch.end()
        try:
            txn.commit()
            if self._metasync and not self._shared.how.metasync:
                # Opened in this process before, with fewer tables or a smaller map.
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
        self.used = self._measure()
        if self.used > self._checked + CHECK_READERS:
            # Grown for want of free pages: perhaps because a reader died and still pins them.
            self._env.reader_check()
            self._checked = self.used

    def _measure(self) -> int:
        return int(self._env.info()["last_pgno"] + 1) * self._page

    def lacks(self, need: int) -> bool:
        """Return True if this file must grow to hold `need` more bytes."""
        return self.used + need + _SPARE > self._space.allocated < self.map_size

    def reserve(self, need: int) -> None:
        """Allocate disk space for `need` more bytes of this file; `LogFull` if there is none."""
        if self.lacks(need):
            self._space.reserve(min(self.used + need + _SPARE, self.map_size), self.map_size)

    def sync(self) -> None:
        """Make the last commit durable, if commits leave that to the next one."""
        if not self._metasync:
            self._env.sync(True)  # noqa: FBT003 -- takes no names

    def trim(self) -> None:
        """Give reserved space that is not used back, and make the file's length durable."""
        with _gate:
            self.used = self._measure()  # another process may have written since our last commit
        self._space.trim(self.used)

    def digest(self) -> tuple[str, int]:
        """Return the SHA-256 and the length of the file as it is."""
        return digest(self.path)

    def close(self) -> None:
        """Unmap the file. No view may be open."""
        if self._open:
            self._open = False
            self._let_go()

    def adopt(self, shared: _Shared) -> None:
        """Take what is open now."""
        self._env = shared.env
        self._tables = shared.tables

    def abandon(self) -> None:
        """Forget what was inherited through a fork, without touching it."""
        del self._env, self._tables

    def _let_go(self) -> None:
        self._space.close()
        if self._forks == forks.passed:
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
        self.users = 0
        self.holders: weakref.WeakSet[Environment] = weakref.WeakSet()
        self.open(path, how)
        self.key = identity(path)

    def open(self, path: Path, how: _How) -> None:
        """Open the file, and its tables."""
        self.how = how
        if how.lock:
            allot_locks(locks_of(path), _LOCKS)
        # A mapping beyond the end of the file is a bus error waiting to happen, hence check_size
        # before this; an unsynced or write-mapped file can be corrupted by a crash, hence neither
        # is on offer. A spare transaction keeps a reader's slot, which a forked child would give
        # back, and its parent still use: there are none.
        with contextlib.nullcontext(os.fsencode(path)) if how.lock else by_descriptor(path) as name:
            self.env = lmdb.open(
                name,
                map_size=how.map_size,
                subdir=False,
                readonly=how.readonly,
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
                with self.env.begin(write=True) as txn:
                    self.tables = {n: self.env.open_db(n.encode(), txn=txn) for n in how.tables}
            else:
                self.tables = {n: self.env.open_db(n.encode(), create=False) for n in how.tables}
        except BaseException:
            self.env.close()
            raise

    def make_writable(self, path: Path, how: _How) -> None:
        """Open the file anew, as a writer does, for all handles that have it open to read."""
        before = self.how
        self.env.close()
        try:
            self.open(path, how)
        except BaseException:
            self.open(path, before)
            raise
        finally:
            for holder in self.holders:
                holder.adopt(self)


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
        shared.users += 1
        shared.holders.add(user)
    if shared.how.readonly and not how.readonly:
        try:
            _make_writable(shared, path, how)
        except BaseException:
            _unshare(shared)
            raise
    return shared


def _make_writable(shared: _Shared, path: Path, how: _How) -> None:
    """Open a file that readers in this process have open for writing too: LMDB opens it once."""
    with _gate.alone() as nobody_reads:
        if not nobody_reads:
            msg = f"{path.name} is being read in this process: try again later"
            raise Refused(msg)
        if shared.how.readonly:
            try:
                shared.make_writable(path, how)
            except lmdb.Error as error:
                raise _opening(path, error) from error


def _unshare(shared: _Shared) -> None:
    with _gate.guard:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(shared.key, None)
            shared.env.close()


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
    if isinstance(error, lmdb.ReadersFullError):
        return Refused(f"{path.name} has {MAX_READERS} readers already: close some")
    if isinstance(error, (*_DAMAGE, lmdb.VersionMismatchError)):
        return Corrupt(f"{path.name} cannot be opened: {error}")
    return Fault(f"{path.name} cannot be opened: {error}")

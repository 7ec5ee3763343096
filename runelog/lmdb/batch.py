"""What is asked of a transaction, and told to it: tables by name, entries in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runelog.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

_SCAN_BYTES: Final = 1 << 20


class Batch:
    """A transaction on an environment: reads see its own writes."""

    __slots__ = ("_tables", "_txn")

    def __init__(
        self,
        txn: Any,  # noqa: ANN401 -- its type is lmdb's, which only `environment` imports
        tables: Mapping[str, object],
    ) -> None:
        """Wrap an open transaction; its environment ends it."""
        self._txn = txn
        self._tables = tables

    @property
    def commit(self) -> int:
        """The number of the last commit that this transaction sees."""
        number: int = self._txn.id()
        return number

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under `key`, None if there is none."""
        found: bytes | None = self._txn.get(key, db=self._tables[table])
        return found

    def floor(self, table: str, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry with the greatest key that is not above `key`."""
        with self._txn.cursor(self._tables[table]) as cursor:
            if cursor.set_range(key):  # noqa: SIM108 -- as a single expression it is a riddle
                there = cursor.key() == key or cursor.prev()
            else:
                there = cursor.last()
            found: tuple[bytes, bytes] | None = cursor.item() if there else None
            return found

    def last(self, table: str) -> bytes | None:
        """Return the greatest key, None if there is none."""
        with self._txn.cursor(self._tables[table]) as cursor:
            return bytes(cursor.key()) if cursor.last() else None

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
                if not there:
                    continue
                for entry in cursor.iternext():
                    if entry[0] >= stop:
                        break
                    yield entry

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Write an entry, in place of one with the same key if there is one."""
        self._txn.put(key, value, db=self._tables[table])

    def put_all(self, table: str, entries: list[tuple[bytes, bytes]]) -> None:
        """Write entries, each in place of one with the same key if there is one."""
        with self._txn.cursor(self._tables[table]) as cursor:
            cursor.putmulti(entries)

    def append_all(self, table: str, entries: list[tuple[bytes, bytes]]) -> None:
        """Write entries whose keys rise, above all others of their table."""
        with self._txn.cursor(self._tables[table]) as cursor:
            _, added = cursor.putmulti(entries, append=True)
        if added != len(entries):
            msg = f"a key of the table {table} does not rise"
            raise Corrupt(msg)

    def delete(self, table: str, key: bytes) -> None:
        """Remove an entry if it is there."""
        self._txn.delete(key, db=self._tables[table])

    def end(self) -> Any:  # noqa: ANN401 -- as above
        """Release the transaction, so that a leftover reference does not keep the environment."""
        txn = self._txn
        del self._txn, self._tables
        return txn


class Transaction:
    """A transaction for as long as a block lasts, with a gate to come in by and go out by."""

    __slots__ = ("_batch", "_begin", "_end", "_gate")

    def __init__(
        self,
        gate: AbstractContextManager[None],
        begin: Callable[[], Batch],
        end: Callable[[Batch, BaseException | None], None],
    ) -> None:
        """Take what begins it, and what ends it and is told of an exception in the block."""
        self._gate = gate
        self._begin = begin
        self._end = end

    def __enter__(self) -> Batch:
        """Begin."""
        self._gate.__enter__()
        try:
            self._batch = self._begin()
        except BaseException:
            self._gate.__exit__(None, None, None)
            raise
        return self._batch

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End."""
        try:
            self._end(self._batch, error)
        finally:
            self._gate.__exit__(None, None, None)

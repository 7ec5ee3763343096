"""The tables of a segment with what is not written of its index laid over them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from runelog.index.unwritten import FOLLOWING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runelog.index.unwritten import UnwrittenIndex
    from runelog.lmdb.tables import Tables

_SCAN_BYTES: Final = 1 << 20
_SCANNED: Final = 256
_MAX_KEY: Final = 511


class LaidOver:
    """A view of a segment that answers as if all of its index were in its tables."""

    __slots__ = ("_base", "_over")

    def __init__(self, base: Tables, over: UnwrittenIndex) -> None:
        """Lay `over` over `base`."""
        self._base = base
        self._over = over

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under `key`, None if there is none."""
        found = self._over.find(table, key) if table in FOLLOWING else None
        return self._base.get(table, key) if found is None else found[0]

    def floor(self, table: str, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry with the greatest key that is not above `key`."""
        if not self._over.has(table):
            return self._base.floor(table, key)
        entries, keys = self._over.laid(table)
        at = bisect_right(keys, key) - 1
        while at >= 0 and entries[keys[at]] is None:
            at -= 1
        own = keys[at] if at >= 0 else None
        below = self._base.floor(table, key)
        while below is not None and (own is None or below[0] > own):
            if entries.get(below[0], below[1]) is not None:
                return below
            below = self._base.floor(table, _before(below[0]))
        if own is None:
            return None
        value = entries[own]
        assert value is not None
        return own, value

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return entries with `start` <= key < `stop`: at most `limit`, and about a MiB of them."""
        if not self._over.has(table):
            return self._base.scan(table, start, stop, limit)
        found: list[tuple[bytes, bytes]] = []
        size = 0
        for entry in self._merged(table, start, stop):
            found.append(entry)
            size += len(entry[1])
            if size >= _SCAN_BYTES or len(found) == limit:
                break
        return found

    def _merged(
        self, table: str, start: bytes, stop: bytes | None
    ) -> Iterator[tuple[bytes, bytes]]:
        entries, keys = self._over.laid(table)
        at = bisect_left(keys, start)
        end = len(keys) if stop is None else bisect_left(keys, stop)
        while below := self._base.scan(table, start, stop, limit=_SCANNED):
            for entry in below:
                while at < end and keys[at] < entry[0]:
                    if (value := entries[keys[at]]) is not None:
                        yield keys[at], value
                    at += 1
                if at == end or keys[at] != entry[0]:
                    yield entry
            start = below[-1][0] + b"\0"
        for key in keys[at:end]:
            if (value := entries[key]) is not None:
                yield key, value

    def cover(
        self, table: str, ranges: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield, for each (start, stop), the entries that cover it."""
        if not self._over.has(table):
            yield from self._base.cover(table, ranges)
            return
        for start, stop in ranges:
            first = self.floor(table, start)
            key = start if first is None else first[0]
            while found := self.scan(table, key, stop):
                yield from found
                key = found[-1][0] + b"\0"


def _before(key: bytes) -> bytes:
    """Return the greatest key there can be below another one."""
    if key[-1] == 0:
        return key[:-1]
    return (key[:-1] + bytes([key[-1] - 1])).ljust(_MAX_KEY, b"\xff")


class NoTables:
    """Tables that hold nothing."""

    def get(self, table: str, key: bytes) -> bytes | None:  # noqa: ARG002 -- of a protocol
        """Return None."""
        return None

    def floor(self, table: str, key: bytes) -> tuple[bytes, bytes] | None:  # noqa: ARG002 -- as above
        """Return None."""
        return None

    def scan(
        self,
        table: str,  # noqa: ARG002 -- as above
        start: bytes = b"",  # noqa: ARG002 -- as above
        stop: bytes | None = None,  # noqa: ARG002 -- as above
        limit: int | None = None,  # noqa: ARG002 -- as above
    ) -> list[tuple[bytes, bytes]]:
        """Return nothing."""
        return []

    def cover(
        self,
        table: str,  # noqa: ARG002 -- as above
        ranges: Iterable[tuple[bytes, bytes]],  # noqa: ARG002 -- as above
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield nothing."""
        return iter(())

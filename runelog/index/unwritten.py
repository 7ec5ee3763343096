"""The part of a segment's index that is not in its tables yet.

What an append must make durable is its frame. Its index entries are kept in memory and written
with a later commit, so that most commits touch one table only. `indexed` in `meta` says up to
which position the tables hold; what comes behind it is told by the frames (`follow`).
"""

from __future__ import annotations

import threading
from bisect import insort
from typing import TYPE_CHECKING, Final

from runelog.errors import Corrupt
from runelog.index.records import PLACE, checked, encode_head, signed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runelog.index.records import Head, Tail
    from runelog.lmdb.environment import Batch
    from runelog.lmdb.tables import Tables

INDEXED: Final = b"indexed"
"""In `meta`: the last position that the tables of the index know of. Absent: they hold nothing."""
FOLLOWING: Final = ("names", "heads", "events", "streams", "work")
"""The tables that follow."""
MAX_RUNES: Final = 2_048
MAX_BYTES: Final = 1 << 20
"""So many runes, and so many bytes of them, are told by frames only, at most."""
_PAGE: Final = 4_096
_ENTRY: Final = 256
_NEWER: Final = 64
"""So many entries for a table are copied for a reader, at most."""

Entries = dict[bytes, bytes | None]
"""What tables are to have under keys; None where they are to have nothing."""


def indexed(view: Tables) -> int | None:
    """Return up to which position the tables of a segment's index hold, None if they are empty."""
    found = view.get("meta", INDEXED)
    if found is None:
        return None
    value = checked(INDEXED, found)
    if len(value) != PLACE.size:
        msg = "the table meta does not say how far the index goes"
        raise Corrupt(msg)
    position: int = PLACE.unpack(value)[0]
    return position


def encode_indexed(position: int) -> bytes:
    """Return what `meta` says of an index that holds up to a position."""
    return signed(INDEXED, PLACE.pack(position))


class IndexedConversation:
    """A conversation as the index of one segment has it, while appends are added to it."""

    __slots__ = ("events", "key", "number", "record", "tails")

    def __init__(self) -> None:
        """Begin without a place in the segment."""
        self.number: int | None = None
        self.key = b""
        """Its number, as it is in keys."""
        self.record: Head | None = None
        self.events: Tail | None = None
        self.tails: dict[str, Tail] = {}


class Changed:
    """What some appends change in the index of their segment."""

    __slots__ = (
        "end",
        "events",
        "heads",
        "names",
        "pages",
        "runes",
        "size",
        "streams",
        "until",
        "work",
    )

    def __init__(self) -> None:
        """Begin with nothing."""
        self.names: Entries = {}
        self.heads: dict[bytes, Head] = {}
        self.events: Entries = {}
        self.streams: Entries = {}
        self.work: Entries = {}
        self.end: bytes | None = None
        """The key of the last frame."""
        self.until = self.runes = self.size = 0
        self.pages = 0
        """How many pages it takes at most to write this."""

    def add_runes(
        self, place: IndexedConversation, position: int, count: int, size: int, time: int
    ) -> None:
        """Note that a conversation goes on with `count` runes of `size` bytes at a position."""
        record, events = place.record, place.events
        assert record is not None
        assert events is not None
        place.events = _add(events, position, count, self.events)
        record.head += count
        record.size += size
        record.last_time = time
        self.heads[place.key] = record
        self.until = position + count - 1
        self.runes += count
        self.size += size

    def add_stream(self, tail: Tail, position: int, stretches: Iterable[tuple[int, int]]) -> Tail:
        """Note which of the runes from a position on a stream has; return its tail."""
        for start, stop in stretches:
            tail = _add(tail, position + start, stop - start, self.streams)
        return tail

    def entries(self) -> dict[str, Entries]:
        """Return the entries as they are stored, by table."""
        return {
            "names": self.names,
            "heads": {key: encode_head(key, head) for key, head in self.heads.items()},
            "events": self.events,
            "streams": self.streams,
            "work": self.work,
        }


class UnwrittenIndex:
    """Entries of a segment's index that are not in its tables yet.

    The writer adds to its own, under the lock. What readers get of it is never changed, and copies
    only what was added last.
    """

    def __init__(self, since: int | None = None) -> None:
        """Begin with tables that hold up to `since`."""
        self.lock = threading.Lock()
        self.since = since
        """Up to which position the tables hold; None if they hold nothing."""
        self.until = since
        """The last position that is told of."""
        self.end: bytes | None = None
        """The key of the last frame there is, as the writer left it."""
        self.runes = self.size = 0
        self._pages = 0
        self._older = _nothing()
        """Entries in dictionaries that are shared, and not changed any more."""
        self._newer = _nothing()
        """What was added since, which holds where both have something."""
        self._laid: dict[str, tuple[Entries, list[bytes]]] = {}

    @property
    def is_empty(self) -> bool:
        """Return True if the tables have it all."""
        return self.until == self.since

    def has(self, table: str) -> bool:
        """Return True if there is anything for a table."""
        return bool(table in self._newer and (self._newer[table] or self._older[table]))

    def find(self, table: str, key: bytes) -> tuple[bytes | None] | None:
        """Return what a table is to have under a key, in a tuple; None if nothing is said of it."""
        for entries in (self._newer[table], self._older[table]):
            if key in entries:
                return (entries[key],)
        return None

    def laid(self, table: str) -> tuple[Entries, list[bytes]]:
        """Return all entries for a table, and their keys in order."""
        found = self._laid.get(table)
        if found is None:
            entries = {**self._older[table], **self._newer[table]}
            found = self._laid[table] = (entries, sorted(entries))
        return found

    @property
    def tables(self) -> dict[str, Entries]:
        """All entries."""
        return {table: {**self._older[table], **self._newer[table]} for table in FOLLOWING}

    def add(self, changed: Changed) -> None:
        """Take in what appends have changed."""
        entries = changed.entries()
        with self.lock:
            for table, new in entries.items():
                if not new:
                    continue
                if table in self._laid:
                    laid, keys = self._laid[table]
                    for key in new.keys() - laid.keys():
                        insort(keys, key)
                    laid.update(new)
                newer = self._newer[table]
                newer.update(new)
                if len(newer) > _NEWER:
                    self._older[table] = {**self._older[table], **newer}
                    self._newer[table] = {}
            self.until, self.end = changed.until, changed.end
            self.runes += changed.runes
            self.size += changed.size
            self._pages += changed.pages

    def written(self, until: int, end: bytes | None) -> None:
        """Drop all of it: the tables hold up to `until` now, and `end` is the last frame's key."""
        with self.lock:
            self._older, self._newer = _nothing(), _nothing()
            self._laid.clear()
            self.since, self.until, self.end = until, until, end
            self.runes = self.size = self._pages = 0

    def holds(self, view: Batch) -> bool:
        """Return True if this and the tables of a view are of the same time."""
        with self.lock:
            return view.last("runes") == self.end and indexed(view) == self.since

    def copy(self) -> UnwrittenIndex:
        """Return what it is now."""
        with self.lock:
            other = UnwrittenIndex(self.since)
            other.until = self.until
            other._older = self._older.copy()
            other._newer = {table: entries.copy() for table, entries in self._newer.items()}
            return other

    def is_due(self, changed: Changed, most: int) -> bool:
        """Return True if this is to be written with what is added to it now.

        `most` says how much space it may take then.
        """
        return (
            self.runes + changed.runes >= MAX_RUNES
            or self.size + changed.size >= MAX_BYTES
            or (self._pages + changed.pages) * _PAGE >= most
        )

    def cost(self, used: int) -> int:
        """Return the most space that writing it takes in a file of which so much is used.

        No page is copied twice in a transaction.
        """
        pages = self._pages
        return min(pages * _PAGE, used + pages * _ENTRY)

    def write(self, batch: Batch, changed: Changed | None = None) -> None:
        """Write all of it to the tables, and what appends have changed, which follows it."""
        new = changed.entries() if changed is not None else {}
        for table, entries in self.tables.items():
            merged = {**entries, **new.get(table, {})}
            puts = sorted((key, value) for key, value in merged.items() if value is not None)
            if puts:
                batch.put_all(table, puts)
            for key, value in merged.items():
                if value is None:
                    batch.delete(table, key)
        until = self.until if changed is None else changed.until
        if until is not None:
            batch.put("meta", INDEXED, encode_indexed(until))


def _add(tail: Tail, position: int, count: int, entries: Entries) -> Tail:
    """Add runes to postings, and all chunks that this changes to `entries`; return their tail."""
    longer = tail.add(position, count)
    if longer is not tail:
        entries[tail.key] = tail.runs
    entries[longer.key] = longer.runs
    return longer


def _nothing() -> dict[str, Entries]:
    return {table: {} for table in FOLLOWING}

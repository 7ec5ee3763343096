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
        self.events: dict[Tail, None] = {}
        """In the order they were first changed in: the same appends make the same file."""
        self.streams: dict[Tail, None] = {}
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
        self.events[events] = None
        longer = events.add(position, count)
        if longer is not events:
            place.events = longer
            self.events[longer] = None
        record.head += count
        record.size += size
        record.last_time = time
        self.heads[place.key] = record
        self.until = position + count - 1
        self.runes += count
        self.size += size

    def add_stream(self, tail: Tail, position: int, stretches: Iterable[tuple[int, int]]) -> Tail:
        """Note which of the runes from a position on a stream has; return its tail."""
        streams = self.streams
        for start, stop in stretches:
            longer = tail.add(position + start, stop - start)
            if longer is not tail:
                streams[tail] = None
                tail = longer
        streams[tail] = None
        return tail

    def entries(self) -> dict[str, Entries]:
        """Return the entries as they are stored, by table."""
        return {
            "names": self.names,
            "heads": {key: encode_head(key, head) for key, head in self.heads.items()},
            "events": {tail.key: tail.runs for tail in self.events},
            "streams": {tail.key: tail.runs for tail in self.streams},
            "work": self.work,
        }


class UnwrittenIndex:
    """Entries of a segment's index that are not in its tables yet.

    The writer adds to its own, under the lock; what readers have is never changed.
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
        self.tables: dict[str, Entries] = {table: {} for table in FOLLOWING}
        self._sorted: dict[str, list[bytes]] = {}

    @property
    def is_empty(self) -> bool:
        """Return True if the tables have it all."""
        return self.until == self.since

    def keys(self, table: str) -> list[bytes]:
        """Return the keys of a table's entries in order."""
        found = self._sorted.get(table)
        if found is None:
            found = self._sorted[table] = sorted(self.tables[table])
        return found

    def add(self, changed: Changed) -> None:
        """Take in what appends have changed."""
        entries = changed.entries()
        with self.lock:
            for table, new in entries.items():
                mine = self.tables[table]
                keys = self._sorted.get(table)
                if keys is not None:
                    for key in new.keys() - mine.keys():
                        insort(keys, key)
                mine.update(new)
            self.until, self.end = changed.until, changed.end
            self.runes += changed.runes
            self.size += changed.size
            self._pages += changed.pages

    def written(self, until: int, end: bytes | None) -> None:
        """Drop all of it: the tables hold up to `until` now, and `end` is the last frame's key."""
        with self.lock:
            for entries in self.tables.values():
                entries.clear()
            self._sorted.clear()
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
            other.tables = {table: entries.copy() for table, entries in self.tables.items()}
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

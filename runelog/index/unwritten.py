"""The part of a segment's index that is not in its tables yet.

What an append must make durable is its frame. Its index entries are told from that (`follow`) once
a reader asks, or they are due to be written with a later commit, so that most commits touch one
table only. `indexed` in `meta` says up to which position the tables hold.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final

from runelog.errors import Corrupt
from runelog.index.records import PLACE, checked, signed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runelog.index.records import Head, Tail
    from runelog.lmdb.environment import Batch
    from runelog.lmdb.tables import Tables

INDEXED: Final = b"indexed"
"""In `meta`: the last position that the tables of the index know of. Absent: they hold nothing."""
FOLLOWING: Final = ("names", "heads", "events", "streams", "work")
"""The tables that follow."""
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


class Place:
    """Where a conversation is in the index of one segment, while frames are followed."""

    __slots__ = ("before", "events", "groups", "key", "number", "record", "seed", "tails")

    def __init__(self, number: int, key: bytes, record: Head, events: Tail, seed: int) -> None:
        """Begin where its index ends, which counts the conversation under a number."""
        self.number = number
        self.key = key
        """Its number, as it is in keys."""
        self.record = record
        self.events = events
        self.seed = seed
        """What the checksums of its runes start from."""
        self.tails: dict[str, Tail] = {}
        """The streams, by entity."""
        self.groups: dict[tuple[str, ...], list[Tail]] = {}
        """The streams of entities that see the same runes."""
        self.before: dict[str, int] = {}
        """The versions that streams had before this segment, as far as notes said."""


class UnwrittenIndex:
    """Entries of a segment's index that are not in its tables yet.

    What a reader has of it is never changed; the next one copies only what was added last.
    """

    def __init__(self, since: int | None = None) -> None:
        """Begin with tables that hold up to `since`."""
        self.since = since
        """Up to which position the tables hold; None if they hold nothing."""
        self.until = since
        """The last position that is told of."""
        self.end: bytes | None = None
        """The key of the last frame there is."""
        self.runes = self.size = self.entries = 0
        """How much frames told, and how many entries they changed at most."""
        self.places: dict[int, Place] = {}
        """The conversations that frames told of lately, for the next to go on from: see `next`."""
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

    def add(self, changed: Mapping[str, Entries]) -> None:
        """Take in what frames have changed."""
        for table, new in changed.items():
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

    def next(self) -> UnwrittenIndex:
        """Return what it is now, to add to; only the next one goes on from its places."""
        other = UnwrittenIndex(self.since)
        other.until, other.end = self.until, self.end
        other.runes, other.size, other.entries = self.runes, self.size, self.entries
        other.places, self.places = self.places, {}
        other._older = self._older.copy()
        other._newer = {table: entries.copy() for table, entries in self._newer.items()}
        return other

    def write(self, batch: Batch) -> None:
        """Write all of it to the tables."""
        for table, entries in self.tables.items():
            puts = sorted((key, value) for key, value in entries.items() if value is not None)
            if puts:
                batch.put_all(table, puts)
            for key, value in entries.items():
                if value is None:
                    batch.delete(table, key)
        if self.until is not None:
            batch.put("meta", INDEXED, encode_indexed(self.until))


def _nothing() -> dict[str, Entries]:
    return {table: {} for table in FOLLOWING}

"""Checking the index of a segment that was not closed cleanly, or is damaged, against its runes.

Runes have checksums and their index has none: damaged, it could hide runes, or give them to others,
unnoticed. So where that cannot be ruled out, it is held against the runes first.
"""

from __future__ import annotations

import contextlib
import struct
from itertools import groupby
from typing import TYPE_CHECKING, Final
from zlib import crc32

from runelog.errors import Corrupt
from runelog.index import frame
from runelog.index.catalog import entries
from runelog.index.frame_streams import frame_streams
from runelog.index.records import NUMBER, PLACE, decode_head, runs_in, stream_prefix
from runelog.rune import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.index.records import Head
    from runelog.lmdb.tables import Tables

_STRETCH: Final = struct.Struct("<qq")


class _Trail:
    """What is remembered of some positions, in order: a checksum over the stretches of them."""

    __slots__ = ("_checksum", "_start", "_stop")

    def __init__(self) -> None:
        self._start = self._stop = self._checksum = 0

    def add(self, position: int, count: int) -> None:
        if position == self._stop:
            self._stop += count
        else:
            self._checksum = self.checksum
            self._start, self._stop = position, position + count

    @property
    def checksum(self) -> int:
        return crc32(_STRETCH.pack(self._start, self._stop), self._checksum)


class _Told:
    """What the runes of one conversation in a segment tell about it."""

    __slots__ = ("first_time", "head", "last_time", "since", "size")

    def __init__(self, since: int, time: int) -> None:
        self.since = since
        self.head = since - 1
        self.first_time = self.last_time = time
        self.size = 0

    def fits(self, head: Head) -> bool:
        """Return True if a head says the same; not all of it can be known in one segment."""
        return (
            (head.since, head.head, head.last_time) == (self.since, self.head, self.last_time)
            and (self.since > 1 or (head.first_time, head.size) == (self.first_time, self.size))
            and head.first_time <= self.first_time
            and head.size >= self.size
        )


class IndexCheck:
    """Looks at the runes of an active segment, in order, and then says what its index must be."""

    def __init__(self) -> None:
        """Begin with no rune seen."""
        self._told: dict[int, _Told] = {}
        self._trails: dict[bytes, _Trail] = {}
        self._by_streams: dict[tuple[int, str, tuple[str, ...]], list[_Trail]] = {}
        self.fault = ""
        """How the runes contradict each other; nothing if they do not."""

    def see(self, data: bytes) -> None:
        """Take notice of a frame, without looking into its runes."""
        try:
            number, first, time, count, size = frame.header(data)
        except Corrupt as error:
            self.fault = self.fault or str(error)
            return
        told = self._told.get(number)
        if told is None:
            told = self._told[number] = _Told(first, time)
        if first != told.head + 1 and not self.fault:
            self.fault = f"event {told.head + 1} of conversation {number} is missing"
        told.head = first + count - 1
        told.last_time = time
        told.size += size

    def read(self, position: int, data: bytes) -> None:
        """Take notice of who sees the runes of a sound frame."""
        number, _, _, count, _ = frame.header(data)
        self._trail(NUMBER.pack(number)).add(position, count)
        for each in frame_streams(position, count, frame.content(data)):
            at = position + each.start
            self._seen_by(number, each.owner, each.observers, at, each.stop - each.start)

    def _seen_by(
        self, number: int, owner: str, observers: tuple[str, ...], position: int, count: int
    ) -> None:
        trails = self._by_streams.get((number, owner, observers))
        if trails is None:
            entities = {owner, *observers}
            trails = [self._trail(stream_prefix(number, entity)) for entity in entities]
            self._by_streams[number, owner, observers] = trails
        for trail in trails:
            trail.add(position, count)

    def _trail(self, prefix: bytes) -> _Trail:
        trail = self._trails.get(prefix)
        if trail is None:
            trail = self._trails[prefix] = _Trail()
        return trail

    def contradicts_heads(self, view: Tables) -> str:
        """Return how names and heads contradict each other or the runes; empty if not."""
        decoded = {key: decode_head(key, stored) for key, stored in entries(view, "heads")}
        # Those that were taken out have left their head, and nothing else.
        heads = {key: head for key, head in decoded.items() if head.state is State.LIVE}
        names = sorted((number, name.decode()) for name, number in entries(view, "names"))
        if names != [(key, head.id) for key, head in heads.items()]:
            return "the names of its conversations are not those that its heads tell"
        if self.fault:
            return self.fault
        told = {NUMBER.pack(number): one for number, one in self._told.items()}
        if told.keys() != heads.keys() or not all(told[at].fits(heads[at]) for at in told):
            return "its heads do not tell of the runes that it holds"
        return ""

    def contradicts_postings(self, view: Tables) -> str:
        """Return how postings contradict the runes, all of which were read; empty if not."""
        left = dict(self._trails)
        for table in ("events", "streams"):
            for prefix, chunks in groupby(entries(view, table), _prefix):
                expected = left.pop(prefix, None)
                if expected is None or expected.checksum != self._followed(table, chunks):
                    return f"table {table} does not lead to the runes that it tells of"
        return "its index does not tell of all its runes" if left else ""

    def _followed(self, table: str, chunks: Iterator[tuple[bytes, bytes]]) -> int:
        """Return the checksum of where postings lead, 0 if they do not follow each other."""
        trail, following = _Trail(), 0
        for key, value in chunks:
            for run in runs_in(key, value):
                if not following:
                    # A stream may go on from any version; a conversation's first event is known.
                    told = self._told[NUMBER.unpack(key[:4])[0]]
                    following = told.since if table == "events" else run.first
                if run.first != following or not run.length:
                    return 0
                trail.add(run.position, run.length)
                following += run.length
        return trail.checksum


def _prefix(entry: tuple[bytes, bytes]) -> bytes:
    return entry[0][: -PLACE.size]


def contradiction(view: Tables) -> str:
    """Return how names and heads contradict each other or the runes; empty if not.

    What cannot be read contradicts nothing: reading it raises.
    """
    with contextlib.suppress(Corrupt):
        index_check = IndexCheck()
        for _, data in entries(view, "runes"):
            index_check.see(data)
        return index_check.contradicts_heads(view)
    return ""

"""The order of the whole log: all runes by position, and gaps where some are gone."""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from runelog.errors import Corrupt
from runelog.index import frame
from runelog.index.records import PLACE, decode_hole
from runelog.reader.follow import CHUNK
from runelog.rune import Gap, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.codec import Codec
    from runelog.lmdb.tables import Tables
    from runelog.reader.lookup import Lookup
    from runelog.reader.segments import Segment
    from runelog.rune import Envelope

_REASONS: Final = {State.LIVE: "moved", State.ARCHIVED: "archived", State.ERASED: "erased"}


class Order:
    """Reads everything that is committed, in the log's own order."""

    def __init__(self, lookup: Lookup, codec: Codec, check_open: Callable[[], None]) -> None:
        """Read the segments that `lookup` finds, for as long as `check_open` does not raise."""
        self._lookup = lookup
        self._codec = codec
        self._check_open = check_open

    def read(self, cursor: int, last: int) -> Iterator[Envelope | Gap]:
        """Yield the runes with `cursor` < position <= `last`, and gaps where some are gone."""
        while cursor < last:
            self._check_open()
            self._lookup.refresh()
            cursor, chunk = self._stretch(cursor, last)
            yield from chunk

    def _stretch(self, cursor: int, last: int) -> tuple[int, list[Envelope | Gap]]:
        """Take the next runes behind position `cursor` out of the segment that holds them."""
        number = self._lookup.segment_at(cursor + 1).number
        with self._lookup.segments.take(number) as (segment, view):
            info = segment.info
            if view.get("meta", b"silent"):
                # Its runes were given out before they were archived; they are back, not new.
                return min(info.last, last), []
            end = min(info.last or last, last)
            return self._from_segment(segment, view, cursor, end)

    def _from_segment(
        self, segment: Segment, view: Tables, cursor: int, last: int
    ) -> tuple[int, list[Envelope | Gap]]:
        found: list[Envelope | Gap] = []
        stop = PLACE.pack(last + 1)
        start = view.floor("runes", PLACE.pack(cursor + 1))
        key = start[0] if start else PLACE.pack(cursor + 1)
        chunk = view.scan("runes", key, stop, limit=256)
        here = [self._counted(segment, view, PLACE.unpack(at)[0], data) for at, data in chunk]
        # Holes are read only as far as this chunk goes.
        holes = _holes(view, segment, cursor, last)
        for at, what in heapq.merge(here, holes, key=itemgetter(0)):
            count = what.last - what.first + 1 if isinstance(what, Gap) else frame.count(what)
            if at + count - 1 <= cursor:
                continue
            if at > cursor + 1:
                break
            if isinstance(what, Gap):
                reason = self._why_gone(what.conversation)
                gap = Gap(cursor + 1, min(what.last, last), reason, what.conversation)
                cursor = gap.last
                before = found[-1] if found else None
                if isinstance(before, Gap) and before.conversation == gap.conversation:
                    gap = msgspec.structs.replace(gap, first=before.first)
                    del found[-1]
                found.append(gap)
            else:
                name, seed = segment.id_of(view, frame.number(what))
                _, first, time, runes, content = frame.check(what, name, seed, at)
                decoded = self._codec.envelopes(runes, content, name, first, at, time)
                found += decoded[cursor + 1 - at : last + 1 - at]
                cursor = min(at + runes - 1, last)
            if len(found) >= CHUNK:
                break
        if not found:
            msg = f"{segment.info.name} holds nothing at position {cursor + 1}"
            raise Corrupt(msg)
        return cursor, found

    def _counted(
        self, segment: Segment, view: Tables, at: int, data: bytes
    ) -> tuple[int, bytes | Gap]:
        """Return a frame with its position; a gap in its place if its runes do not count."""
        dead = self._lookup.segments.dead
        name = segment.id_of(view, frame.number(data))[0] if dead else ""
        return at, Gap(at, at + frame.count(data) - 1, "", name) if name in dead else data

    def _why_gone(self, conversation: str | None) -> str:
        """Return why runes are not in their segment: what became of their conversation since."""
        if conversation is None:
            return "damaged"
        head = self._lookup.head(conversation)
        return _REASONS[State.ARCHIVED if head is None else head.state]


def _holes(view: Tables, segment: Segment, cursor: int, last: int) -> Iterator[tuple[int, Gap]]:
    """Yield the gaps of a segment between two positions, each with where it begins."""
    start = view.floor("holes", PLACE.pack(cursor + 1))
    key = start[0] if start else PLACE.pack(cursor + 1)
    while found := view.scan("holes", key, PLACE.pack(last + 1), limit=256):
        for at, value in found:
            hole = decode_hole(at, value)
            name = segment.id_of(view, hole.number)[0] if hole.number else None
            yield hole.position, Gap(hole.position, hole.position + hole.length - 1, "", name)
        key = found[-1][0] + b"\0"

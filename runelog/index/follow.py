"""Telling from frames what the tables of a segment's index do not have yet.

The frames behind the position that `meta` names are read and checked, and what an append would have
changed in the index is told from them and their notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runelog.errors import Corrupt
from runelog.index import frame
from runelog.index.catalog import entries
from runelog.index.frame_streams import frame_streams
from runelog.index.laid_over import LaidOver, NoTables
from runelog.index.notes import Notes, decode_notes
from runelog.index.records import (
    LAST,
    NUMBER,
    PLACE,
    Head,
    Tail,
    decode_head,
    encode_work,
    load_tail,
    stream_prefix,
)
from runelog.index.unwritten import Changed, IndexedConversation, UnwrittenIndex, indexed
from runelog.rune import State

if TYPE_CHECKING:
    from runelog.index.notes import Opening, WorkNote
    from runelog.lmdb.tables import Tables


def complete(view: Tables) -> Tables:
    """Return the tables of a segment with all of its index."""
    unwritten = follow(view)
    return view if unwritten.is_empty else LaidOver(view, unwritten)


def follow(
    view: Tables, known: UnwrittenIndex | None = None, *, damaged: bool = False
) -> UnwrittenIndex:
    """Return what the frames of a segment tell of its index and its tables do not hold.

    `known` is that of an earlier time: if the tables hold no more since, only what came then is
    read. Raises `Corrupt` where a frame is not sound; of a `damaged` segment only if it is not
    certain whose that frame is.
    """
    since = indexed(view)
    last = view.floor("runes", LAST)
    if last is None:
        return UnwrittenIndex(since)
    reached = _position(last[0])
    if known is not None and known.since == since and (known.until or 0) <= reached:
        unwritten = known
    else:
        unwritten = UnwrittenIndex(since)
    unwritten.end = last[0]
    start = unwritten.until
    if start is not None and reached <= start:
        return unwritten
    base = view if since is not None else NoTables()
    trail = _Trail(base if unwritten.is_empty else LaidOver(base, unwritten), damaged=damaged)
    expected = None if start is None else start + 1
    for key, data in entries(view, "runes", PLACE.pack((start or 0) + 1)):
        position = _position(key)
        if expected is not None and position != expected:
            msg = f"the runes at position {expected} are missing"
            raise Corrupt(msg)
        expected = position + frame.count(data)
        trail.take(position, data)
        trail.changed.end = key
    unwritten.add(trail.changed)
    return unwritten


def _position(key: bytes) -> int:
    if len(key) != PLACE.size:
        msg = f"the runes at position {int.from_bytes(key, 'big')} are not where they were written"
        raise Corrupt(msg)
    position: int = PLACE.unpack(key)[0]
    return position


def work_entry(key: bytes, said: WorkNote) -> bytes | None:
    """Return what `work` has under the key of an entity by what a note says of it."""
    what = said[1]
    if what is None:
        return None
    deadline = None if isinstance(what, bool) else what
    return encode_work(key, is_open=what is not False, deadline=deadline)


class _Place(IndexedConversation):
    """A conversation that frames are followed of."""

    __slots__ = ("before", "seed")

    def __init__(self, number: int, name: str) -> None:
        super().__init__()
        self.number = number
        self.key = NUMBER.pack(number)
        self.seed = frame.seed_of(name)
        self.before: dict[str, int] = {}
        """The versions that streams had before this segment, as far as notes said."""


class _Trail:
    """Takes frames in, in their order."""

    def __init__(self, base: Tables, *, damaged: bool) -> None:
        self.changed = Changed()
        self._base = base
        self._damaged = damaged
        self._places: dict[int, _Place] = {}

    def take(self, position: int, data: bytes) -> None:
        """Take in what one frame tells."""
        number, first, time, count, size = frame.header(data)
        stored = frame.notes(data)
        notes = decode_notes(position, stored) if stored else None
        place = self._place(position, number, first, time, notes)
        record = place.record
        assert record is not None
        if first != record.head + 1:
            msg = f"event {record.head + 1} of {record.id} is missing"
            raise Corrupt(msg, conversation=record.id, event_id=record.head + 1)
        content = self._content(place, position, data)
        changed = self.changed
        changed.add_runes(place, position, count, size, time)
        changed.pages += 3
        if notes is not None:
            place.before.update(notes.before)
            for said in notes.work:
                key = place.key + said[0].encode()
                changed.work[key] = work_entry(key, said)
        if content is not None:
            self._see(place, position, count, content)

    def _place(
        self, position: int, number: int, first: int, time: int, notes: Notes | None
    ) -> _Place:
        place = self._places.get(number)
        if place is not None:
            return place
        if notes is not None and notes.opening is not None:
            place = self._opened(number, first, time, notes.opening)
        else:
            key = NUMBER.pack(number)
            stored = self._base.get("heads", key)
            if stored is None:
                msg = f"the runes at position {position} are of a conversation that is not listed"
                raise Corrupt(msg)
            record = decode_head(key, stored)
            place = _Place(number, record.id)
            place.record = record
            place.events = load_tail(self._base, "events", key) or Tail(key, first)
        self._places[number] = place
        return place

    def _opened(self, number: int, first: int, time: int, opening: Opening) -> _Place:
        place = _Place(number, opening.id)
        place.record = Head(opening.id, first, first - 1, opening.size, opening.first_time, time)
        place.events = Tail(place.key, first)
        self.changed.names[opening.id.encode()] = place.key
        return place

    def _content(self, place: _Place, position: int, data: bytes) -> bytes | None:
        """Return the runes of a frame; None if they are damaged, and certainly of this place."""
        assert place.record is not None
        try:
            return frame.check(data, place.record.id, place.seed, position)[-1]
        except Corrupt:
            if not (self._damaged and frame.fills(data)) or self._may_be_anothers(position, data):
                raise
        return None

    def _may_be_anothers(self, position: int, data: bytes) -> bool:
        """Return True if a rune of a damaged frame fits to another conversation than its own.

        Then it is the number of the frame that is damaged.
        """
        number = frame.number(data)
        heads = {NUMBER.unpack(key)[0]: decode_head(key, value).id for key, value in self._heads()}
        heads |= {each: place.record.id for each, place in self._places.items() if place.record}
        for each, name in heads.items():
            if each != number:
                parts = frame.salvage(data, name, frame.seed_of(name), position)
                if any(body is not None for body in parts.bodies):
                    return True
        return False

    def _heads(self) -> list[tuple[bytes, bytes]]:
        return [
            (key, value)
            for key, value in entries(self._base, "heads")
            if decode_head(key, value).state is State.LIVE
        ]

    def _see(self, place: _Place, position: int, count: int, content: bytes) -> None:
        """Take in whose streams the runes of a frame are in."""
        assert place.number is not None
        changed, tails = self.changed, place.tails
        for each in frame_streams(position, count, content):
            for entity in each.entities:
                tail = tails.get(entity)
                if tail is None:
                    prefix = stream_prefix(place.number, entity)
                    version = place.before.get(entity, 0)
                    tail = load_tail(self._base, "streams", prefix) or Tail(prefix, version + 1)
                tails[entity] = changed.add_stream(tail, position, ((each.start, each.stop),))
                changed.pages += 1

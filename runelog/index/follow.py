"""Telling from frames what the tables of a segment's index do not have yet.

The frames behind the position that `meta` names are read and checked, and what an append would have
changed in the index is told from them and their notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runelog.errors import Corrupt
from runelog.index import frame
from runelog.index.catalog import entries
from runelog.index.frame_streams import Seen, frame_streams, seeing
from runelog.index.laid_over import LaidOver, NoTables
from runelog.index.notes import decode_notes
from runelog.index.records import (
    LAST,
    NUMBER,
    PLACE,
    Head,
    Tail,
    decode_head,
    encode_head,
    encode_work,
    load_tail,
    stream_prefix,
)
from runelog.index.unwritten import Place, UnwrittenIndex, indexed
from runelog.rune import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runelog.index.notes import Notes, WorkNote
    from runelog.index.unwritten import Entries
    from runelog.lmdb.tables import Tables


def complete(view: Tables) -> Tables:
    """Return the tables of a segment with all of its index."""
    unwritten = follow(view)
    return view if unwritten.is_empty else LaidOver(view, unwritten)


def follow(
    view: Tables,
    known: UnwrittenIndex | None = None,
    *,
    damaged: bool = False,
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
        unwritten = known.next()
    else:
        unwritten = UnwrittenIndex(since)
    unwritten.end = last[0]
    start = unwritten.until
    if start is not None and reached <= start:
        return unwritten
    trail = Trail(view, unwritten, damaged=damaged)
    expected = None if start is None else start + 1
    for key, data in entries(view, "runes", PLACE.pack((start or 0) + 1)):
        position = _position(key)
        if expected is not None and position != expected:
            msg = f"the runes at position {expected} are missing"
            raise Corrupt(msg)
        expected = position + frame.count(data)
        trail.take(position, data)
    trail.end()
    return unwritten


def follow_appends(view: Tables, known: UnwrittenIndex, told: Iterable[Told]) -> UnwrittenIndex:
    """Return what is `known` of an index and what appends tell that came behind that."""
    unwritten = known.next()
    trail = Trail(view, unwritten)
    for each in told:
        trail.take_append(each)
    trail.end()
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


class Told(NamedTuple):
    """What the frames of an append tell of the index."""

    number: int
    first: int
    position: int
    size: int
    time: int
    runes: int
    notes: Notes | None
    seen: Seen


class Trail:
    """Takes frames in, in their order, and adds what they tell to `unwritten`."""

    def __init__(self, view: Tables, unwritten: UnwrittenIndex, *, damaged: bool = False) -> None:
        """Begin where `unwritten` ends, in a view of the segment."""
        base = view if unwritten.since is not None else NoTables()
        self._unwritten = unwritten
        self._base = base if unwritten.is_empty else LaidOver(base, unwritten)
        self._damaged = damaged
        self._places = unwritten.places
        self._met: dict[bytes, Head] = {}
        self._grown: set[Tail] = set()
        self._names: Entries = {}
        self._work: Entries = {}

    def take(self, position: int, data: bytes) -> None:
        """Take in what one frame tells."""
        number, first, time, count, size = frame.header(data)
        stored = frame.notes(data)
        notes = decode_notes(position, stored) if stored else None
        place = self._place(position, number, first, time, notes)
        content = self._content(place, position, data)
        self._tell(place, position, count, size, time, notes)
        if content is not None:
            for owner, observers, start, stop in frame_streams(position, count, content):
                self._see(place, seeing(owner, observers), position + start, stop - start)

    def take_append(self, told: Told) -> None:
        """Take in what the frames of an append would tell."""
        number, first, position, size, time, count, notes, seen = told
        place = self._place(position, number, first, time, notes)
        self._tell(place, position, count, size, time, notes)
        for entities, runes in seen:
            self._see(place, entities, position, runes)
            position += runes

    def _tell(
        self, place: Place, position: int, count: int, size: int, time: int, notes: Notes | None
    ) -> None:
        record = place.record
        self._met[place.key] = record
        record.head += count
        record.size += size
        record.last_time = time
        place.events.add(position, count)
        self._grown.add(place.events)
        if notes is not None:
            place.before.update(notes.before)
            for said in notes.work:
                key = place.key + said[0].encode()
                self._work[key] = work_entry(key, said)
        unwritten = self._unwritten
        unwritten.until = position + count - 1
        unwritten.runes += count
        unwritten.size += size
        unwritten.entries += 3

    def end(self) -> None:
        """Add all that was told to the index. Nothing more may be taken in."""
        events: Entries = {}
        streams: Entries = {}
        for tail in self._grown:
            (events if len(tail.prefix) == NUMBER.size else streams).update(tail.chunks())
        self._unwritten.add(
            {
                "names": self._names,
                "heads": {key: encode_head(key, head) for key, head in self._met.items()},
                "events": events,
                "streams": streams,
                "work": self._work,
            }
        )

    def _place(
        self, position: int, number: int, first: int, time: int, notes: Notes | None
    ) -> Place:
        """Return where a conversation is, which must go on with the event `first`."""
        place = self._places.get(number)
        if place is None:
            place = self._places[number] = self._found(position, number, first, time, notes)
        record = place.record
        if first != record.head + 1:
            msg = f"event {record.head + 1} of {record.id} is missing"
            raise Corrupt(msg, conversation=record.id, event_id=record.head + 1)
        return place

    def _found(
        self, position: int, number: int, first: int, time: int, notes: Notes | None
    ) -> Place:
        key = NUMBER.pack(number)
        if notes is not None and notes.opening is not None:
            opening = notes.opening
            record = Head(opening.id, first, first - 1, opening.size, opening.first_time, time)
            events = Tail(key, first)
            self._names[opening.id.encode()] = key
        else:
            stored = self._base.get("heads", key)
            if stored is None:
                msg = f"the runes at position {position} are of a conversation that is not listed"
                raise Corrupt(msg)
            record = decode_head(key, stored)
            events = load_tail(self._base, "events", key) or Tail(key, first)
        return Place(number, key, record, events, frame.seed_of(record.id))

    def _content(self, place: Place, position: int, data: bytes) -> bytes | None:
        """Return the runes of a frame; None if they are damaged, and certainly of this place."""
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
        heads |= {each: place.record.id for each, place in self._places.items()}
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

    def _see(self, place: Place, entities: tuple[str, ...], position: int, count: int) -> None:
        """Take in that entities see runes."""
        tails = place.groups.get(entities)
        if tails is None:
            tails = place.groups[entities] = [self._tail(place, entity) for entity in entities]
        for tail in tails:
            tail.add(position, count)
        self._grown.update(tails)
        self._unwritten.entries += len(tails)

    def _tail(self, place: Place, entity: str) -> Tail:
        """Return where an entity's stream goes on."""
        tail = place.tails.get(entity)
        if tail is None:
            prefix = stream_prefix(place.number, entity)
            version = place.before.get(entity, 0)
            tail = load_tail(self._base, "streams", prefix) or Tail(prefix, version + 1)
            place.tails[entity] = tail
        return tail

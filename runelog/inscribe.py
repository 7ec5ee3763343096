"""Writing appends into a segment: their frames, and every index entry that finds them again.

All of it happens in the caller's transaction, so that a rune and its index are there together or
not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from runelog import frame
from runelog.errors import Fenced, LogFailed
from runelog.index import (
    LAST_NUMBER,
    NUMBER,
    Head,
    Tail,
    decode_head,
    encode_head,
    encode_work,
    entries_of,
    load_tail,
    stream_prefix,
)
from runelog.seen import Seen

if TYPE_CHECKING:
    from runelog.line import Item
    from runelog.segment import Batch, Environment

_PAGE: Final = 4_096
MAX_ENTITIES: Final = 64
"""At most this many streams of a conversation are cached, with their versions and their tails. Most
have come to their end: those that go on are looked up again."""


class Past(Protocol):
    """What must be known of the segments before this one."""

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes an entity's stream holds."""
        ...

    def was_open(self, conversation: str, entity: str) -> bool:
        """Tell whether the catalog says that an entity has work left."""
        ...


class Armed(NamedTuple):
    """A segment to write to, as the writer finds it."""

    env: Environment
    epoch: int
    position: int
    """Of the last rune there is."""
    time: int
    """Of that rune; 0 if there is none."""


class Desk:
    """What the writer keeps in mind of a conversation it appends to."""

    __slots__ = (
        "complete",
        "events",
        "head",
        "id",
        "key",
        "number",
        "pending",
        "record",
        "rests",
        "seed",
        "seen",
        "stored",
        "tails",
        "versions",
    )

    def __init__(self, conversation: str, record: Head | None) -> None:
        """Begin with what the index says, if it says anything."""
        self.id = conversation
        self.seed = frame.seed_of(conversation)
        self.versions: dict[str, int] = {}
        self.seen: Seen | None = None
        """The streams that were in `versions` before."""
        self.complete = record is None
        """Whether `versions` and `seen` have every stream there is: then another one is new."""
        self.pending = 0
        self.tails: dict[str, Tail] = {}
        self.forget()
        self.resume(record)

    def resume(self, record: Head | None) -> None:
        """Go on from what the index says, if it says anything."""
        self.record = record
        self.head = record.head if record else 0
        self.rests = False
        """Whether the index has to be asked again before the next append."""

    def forget(self) -> None:
        """Drop what is known of the active segment, as it is about to be another one."""
        self.number: int | None = None
        self.key = b""
        """Its number, as it is in keys."""
        self.stored: bytes | None = None
        self.events: Tail | None = None
        self.tails.clear()

    def finished(self) -> None:
        """Note that one append is on disk, and keep no more in mind than is of use."""
        self.pending -= 1
        if len(self.tails) > MAX_ENTITIES:
            self.tails.clear()
        if not self.pending and len(self.versions) > MAX_ENTITIES:
            self._forget_versions()

    def rest(self) -> None:
        """Keep no more in mind than which streams there are. Nothing may be pending.

        What stays was there before. Anything new, however small, would lie between what is about to
        be freed, and Python could not give the memory around it back.
        """
        self.forget()
        self._forget_versions()
        self.record, self.head, self.rests = None, 0, True

    def _forget_versions(self) -> None:
        if self.complete:
            self.seen = self.seen or Seen()
            self.seen.add(self.versions)
        self.versions.clear()

    def is_new(self, entity: str) -> bool:
        """Return True if a stream that is not in `versions` certainly has no rune yet."""
        return self.complete and (self.seen is None or entity not in self.seen)


class _Changed(NamedTuple):
    """What a batch writes once it has seen all appends."""

    frames: list[tuple[bytes, bytes]]
    events: dict[Tail, None]
    """In the order they were first changed in: the same appends make the same file."""
    streams: dict[Tail, None]
    work: dict[bytes, bytes | None]
    """What is to be said of each entity, None if nothing is."""


def inscribe(batch: Batch, past: Past, items: list[Item]) -> None:
    """Write appends, in order, and bring the segment's index up to them."""
    changed = _Changed([], {}, {}, {})
    desks: dict[str, Desk] = {}
    for item in items:
        desk = item.desk
        if desk.id not in desks:
            desks[desk.id] = desk
            _sit_down(batch, desk, item)
        _write_item(batch, past, item, changed)
    batch.append_all("runes", changed.frames)
    batch.put_all("events", entries_of(changed.events))
    batch.put_all("streams", entries_of(changed.streams))
    heads = []
    for desk in desks.values():
        assert desk.record is not None
        desk.stored = encode_head(desk.key, desk.record)
        heads.append((desk.key, desk.stored))
    batch.put_all("heads", heads)
    for key, value in changed.work.items():
        if value is None:
            batch.delete("work", key)
        else:
            batch.put("work", key, value)


def _sit_down(batch: Batch, desk: Desk, item: Item) -> None:
    """Find the conversation in the active segment, and see that it is where we left it."""
    if desk.number is None:
        found = batch.get("names", desk.id.encode())
        if found is None:
            last = batch.floor("heads", LAST_NUMBER)
            desk.number = NUMBER.unpack(last[0])[0] + 1 if last else 1
            desk.key = NUMBER.pack(desk.number)
            batch.put("names", desk.id.encode(), desk.key)
            old = desk.record
            first_time = old.first_time if old else item.time
            size = old.size if old else 0
            desk.record = Head(desk.id, item.first, item.first - 1, size, first_time, item.time)
            desk.events = Tail(desk.key, item.first)
            # Takes the number at once: the next new conversation of this batch counts on from it.
            batch.put("heads", desk.key, encode_head(desk.key, desk.record))
            return
        desk.number = NUMBER.unpack(found)[0]
        desk.key = found
        desk.stored = batch.get("heads", found)
        assert desk.stored is not None
        desk.record = decode_head(found, desk.stored)
        desk.events = load_tail(batch, "events", found)
    elif batch.get("heads", desk.key) != desk.stored:
        msg = (
            f"{desk.id} was written to by another process: close this handle and open the log again"
        )
        raise Fenced(msg)
    assert desk.record is not None
    if desk.record.head != item.first - 1:
        msg = f"{desk.id} is at event {desk.record.head}, and the next one here is {item.first}"
        raise LogFailed(msg)


def _write_item(batch: Batch, past: Past, item: Item, changed: _Changed) -> None:
    desk, position, event_id = item.desk, item.position, item.first
    assert desk.number is not None
    assert desk.events is not None
    assert desk.record is not None
    frames, events, streams, work = changed
    for bodies in frame.split(item.bodies):
        data = frame.pack(desk.number, desk.seed, position, event_id, item.time, bodies)
        frames.append((frame.POSITION.pack(position), data))
        position += len(bodies)
        event_id += len(bodies)
    begin = item.position
    count = position - begin
    events[desk.events] = None
    desk.events = desk.events.add(begin, count)
    events[desk.events] = None
    tails = desk.tails
    for entity, stretches in item.touched.items():
        tail = tails[entity] if entity in tails else _tail(batch, past, item, entity)
        for start, stop in stretches:
            longer = tail.add(begin + start, stop - start)
            if longer is not tail:
                streams[tail] = None
                tail = longer
        tails[entity] = tail
        streams[tail] = None
    record = desk.record
    record.head += count
    record.size += item.size
    record.last_time = item.time
    # Of a conversation that began in this segment, none before it can say anything.
    is_older = record.since > 1
    for entity, is_open, deadline in item.work:
        key = desk.key + entity.encode()
        if is_open or (is_older and past.was_open(desk.id, entity)):
            work[key] = encode_work(key, is_open=is_open, deadline=deadline)
        else:
            work[key] = None


def _tail(batch: Batch, past: Past, item: Item, entity: str) -> Tail:
    """Return where an entity's stream goes on in this segment."""
    assert item.desk.number is not None
    prefix = stream_prefix(item.desk.number, entity)
    before = item.before.get(entity)
    if before == 0:
        return Tail(prefix, 1)
    tail = load_tail(batch, "streams", prefix)
    return tail or Tail(
        prefix, (past.version(item.desk.id, entity) if before is None else before) + 1
    )

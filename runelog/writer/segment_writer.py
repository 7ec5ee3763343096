"""Writing appends into a segment: their frames, and every index entry that finds them again.

All of it happens in the caller's transaction, so that a rune and its index are there together or
not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from runelog.errors import Fenced, LogFailed
from runelog.index import frame
from runelog.index.records import (
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
from runelog.index.stream_filter import StreamFilter

if TYPE_CHECKING:
    from runelog.lmdb.environment import Batch, Environment
    from runelog.writer.commit_queue import PendingAppend

_PAGE: Final = 4_096
MAX_ENTITIES: Final = 64
"""At most this many streams of a conversation are cached, with their versions and their tails. Most
have come to their end: those that go on are looked up again."""


class EarlierSegments(Protocol):
    """What must be known of the segments before this one."""

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes an entity's stream holds."""
        ...

    def was_open(self, conversation: str, entity: str) -> bool:
        """Return True if the catalog says that an entity has work left."""
        ...


class ActiveSegment(NamedTuple):
    """A segment to write to, as the writer finds it."""

    env: Environment
    epoch: int
    position: int
    """Of the last rune there is."""
    time: int
    """Of that rune; 0 if there is none."""


class CachedConversation:
    """What the writer caches of a conversation it appends to."""

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
        self.seen: StreamFilter | None = None
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
        """Note that one append is on disk, and shrink the cache if it is too large."""
        self.pending -= 1
        if len(self.tails) > MAX_ENTITIES:
            self.tails.clear()
        if not self.pending and len(self.versions) > MAX_ENTITIES:
            self._forget_versions()

    def rest(self) -> None:
        """Keep only which streams there are. Nothing may be pending.

        What stays was there before. Anything new, however small, would lie between what is about to
        be freed, and Python could not give the memory around it back.
        """
        self.forget()
        self._forget_versions()
        self.record, self.head, self.rests = None, 0, True

    def _forget_versions(self) -> None:
        if self.complete:
            self.seen = self.seen or StreamFilter()
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


def write_appends(batch: Batch, past: EarlierSegments, items: list[PendingAppend]) -> None:
    """Write appends, in order, and bring the segment's index up to them."""
    changed = _Changed([], {}, {}, {})
    cache: dict[str, CachedConversation] = {}
    for item in items:
        cached = item.cached
        if cached.id not in cache:
            cache[cached.id] = cached
            _prepare(batch, cached, item)
        _write_item(batch, past, item, changed)
    batch.append_all("runes", changed.frames)
    batch.put_all("events", entries_of(changed.events))
    batch.put_all("streams", entries_of(changed.streams))
    heads = []
    for cached in cache.values():
        assert cached.record is not None
        cached.stored = encode_head(cached.key, cached.record)
        heads.append((cached.key, cached.stored))
    batch.put_all("heads", heads)
    for key, value in changed.work.items():
        if value is None:
            batch.delete("work", key)
        else:
            batch.put("work", key, value)


def _prepare(batch: Batch, cached: CachedConversation, item: PendingAppend) -> None:
    """Find the conversation in the active segment, and see that it is where we left it."""
    if cached.number is None:
        found = batch.get("names", cached.id.encode())
        if found is None:
            last = batch.floor("heads", LAST_NUMBER)
            cached.number = NUMBER.unpack(last[0])[0] + 1 if last else 1
            cached.key = NUMBER.pack(cached.number)
            batch.put("names", cached.id.encode(), cached.key)
            old = cached.record
            first_time = old.first_time if old else item.time
            size = old.size if old else 0
            cached.record = Head(cached.id, item.first, item.first - 1, size, first_time, item.time)
            cached.events = Tail(cached.key, item.first)
            # Takes the number at once: the next new conversation of this batch counts on from it.
            batch.put("heads", cached.key, encode_head(cached.key, cached.record))
            return
        cached.number = NUMBER.unpack(found)[0]
        cached.key = found
        cached.stored = batch.get("heads", found)
        assert cached.stored is not None
        cached.record = decode_head(found, cached.stored)
        cached.events = load_tail(batch, "events", found)
    elif batch.get("heads", cached.key) != cached.stored:
        msg = (
            f"{cached.id} was written to by another process: "
            "close this handle and open the log again"
        )
        raise Fenced(msg)
    assert cached.record is not None
    if cached.record.head != item.first - 1:
        msg = f"{cached.id} is at event {cached.record.head}, and the next one here is {item.first}"
        raise LogFailed(msg)


def _write_item(
    batch: Batch, past: EarlierSegments, item: PendingAppend, changed: _Changed
) -> None:
    cached, position, event_id = item.cached, item.position, item.first
    assert cached.number is not None
    assert cached.events is not None
    assert cached.record is not None
    frames, events, streams, work = changed
    for bodies in frame.split(item.bodies):
        data = frame.pack(cached.number, cached.seed, position, event_id, item.time, bodies)
        frames.append((frame.POSITION.pack(position), data))
        position += len(bodies)
        event_id += len(bodies)
    begin = item.position
    count = position - begin
    events[cached.events] = None
    cached.events = cached.events.add(begin, count)
    events[cached.events] = None
    tails = cached.tails
    for entity, stretches in item.touched.items():
        tail = tails[entity] if entity in tails else _tail(batch, past, item, entity)
        for start, stop in stretches:
            longer = tail.add(begin + start, stop - start)
            if longer is not tail:
                streams[tail] = None
                tail = longer
        tails[entity] = tail
        streams[tail] = None
    record = cached.record
    record.head += count
    record.size += item.size
    record.last_time = item.time
    # Of a conversation that began in this segment, none before it can say anything.
    is_older = record.since > 1
    for entity, is_open, deadline in item.work:
        key = cached.key + entity.encode()
        if is_open or (is_older and past.was_open(cached.id, entity)):
            work[key] = encode_work(key, is_open=is_open, deadline=deadline)
        else:
            work[key] = None


def _tail(batch: Batch, past: EarlierSegments, item: PendingAppend, entity: str) -> Tail:
    """Return where an entity's stream goes on in this segment."""
    assert item.cached.number is not None
    prefix = stream_prefix(item.cached.number, entity)
    before = item.before.get(entity)
    if before == 0:
        return Tail(prefix, 1)
    tail = load_tail(batch, "streams", prefix)
    return tail or Tail(
        prefix, (past.version(item.cached.id, entity) if before is None else before) + 1
    )

"""Writing appends into a segment: their frames, and what they change in its index.

Frames are written in the caller's transaction. Index entries follow with a later one: meanwhile
frames and their notes tell them, see `unwritten`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from runelog.errors import Fenced, LogFailed
from runelog.index import frame
from runelog.index.follow import work_entry
from runelog.index.laid_over import LaidOver
from runelog.index.notes import Opening, encode_notes
from runelog.index.records import (
    LAST_NUMBER,
    NUMBER,
    Head,
    Tail,
    decode_head,
    load_tail,
    stream_prefix,
)
from runelog.index.stream_filter import StreamFilter
from runelog.index.unwritten import Changed, IndexedConversation

if TYPE_CHECKING:
    from runelog.index.notes import WorkNote
    from runelog.index.unwritten import UnwrittenIndex
    from runelog.lmdb.environment import Batch, Environment
    from runelog.lmdb.tables import Tables
    from runelog.writer.commit_queue import PendingAppend

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


class CachedConversation(IndexedConversation):
    """What the writer caches of a conversation it appends to."""

    __slots__ = ("complete", "head", "id", "pending", "rests", "seed", "seen", "versions")

    def __init__(self, conversation: str, record: Head | None) -> None:
        """Begin with what the index says, if it says anything."""
        super().__init__()
        self.id = conversation
        self.seed = frame.seed_of(conversation)
        self.versions: dict[str, int] = {}
        self.seen: StreamFilter | None = None
        """The streams that were in `versions` before."""
        self.complete = record is None
        """Whether `versions` and `seen` have every stream there is: then another one is new."""
        self.pending = 0
        self.resume(record)

    def resume(self, record: Head | None) -> None:
        """Go on from what the index says, if it says anything."""
        self.record = record
        self.head = record.head if record else 0
        self.rests = False
        """Whether the index has to be asked again before the next append."""

    def forget(self) -> None:
        """Drop what is known of the active segment, as it is about to be another one."""
        self.number = None
        self.key = b""
        self.events = None
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


def write_appends(
    batch: Batch, past: EarlierSegments, items: list[PendingAppend], unwritten: UnwrittenIndex
) -> Changed:
    """Write the frames of appends, in order; return what they change in the segment's index.

    `unwritten` is what the tables of the index do not hold before that.
    """
    last = batch.last("runes")
    if last != unwritten.end:
        msg = (
            f"{items[0].cached.id} was written to by another process, or another conversation: "
            "close this handle and open the log again"
        )
        raise Fenced(msg)
    writing = _Writing(LaidOver(batch, unwritten), past)
    for item in items:
        writing.write(item)
    batch.append_all("runes", writing.frames)
    writing.changed.end = writing.frames[-1][0]
    return writing.changed


class _Writing:
    """The appends of one transaction."""

    def __init__(self, index: Tables, past: EarlierSegments) -> None:
        self.frames: list[tuple[bytes, bytes]] = []
        self.changed = Changed()
        self._index = index
        self._past = past
        self._numbers = 0
        """The last number that a conversation has; 0 before it was looked up."""
        self._met: set[str] = set()

    def write(self, item: PendingAppend) -> None:
        """Add the frames of one append, and what it changes."""
        cached, position, event_id, changed = item.cached, item.position, item.first, self.changed
        opening = None
        if cached.id not in self._met:
            self._met.add(cached.id)
            opening = self._find(cached, item)
        changed.add_runes(cached, position, len(item.bodies), item.size, item.time)
        before: list[tuple[str, int]] = []
        tails = cached.tails
        for entity, stretches in item.touched.items():
            tail = tails[entity] if entity in tails else self._tail(item, entity, before)
            tails[entity] = changed.add_stream(tail, position, stretches)
        changed.pages += 3 + len(item.touched)
        work = self._work(item) if item.work else ()
        notes = b""
        if opening or before or work:
            notes = encode_notes(position, opening, before, work)
        assert cached.number is not None
        number, seed, time = cached.number, cached.seed, item.time
        for bodies in frame.split(item.bodies):
            data = frame.pack(number, seed, position, event_id, time, bodies, notes)
            self.frames.append((frame.POSITION.pack(position), data))
            position += len(bodies)
            event_id += len(bodies)
            notes = b""

    def _find(self, cached: CachedConversation, item: PendingAppend) -> Opening | None:
        """Find a conversation in the segment, and see that it is where we left it.

        Return what is to be said of one that has no number there yet, and gets one.
        """
        opening = None
        if cached.number is None:
            found = self._index.get("names", cached.id.encode())
            if found is None:
                opening = self._open(cached, item)
            else:
                cached.number = NUMBER.unpack(found)[0]
                cached.key = found
                stored = self._index.get("heads", found)
                assert stored is not None
                cached.record = decode_head(found, stored)
                cached.events = load_tail(self._index, "events", found)
        assert cached.record is not None
        if cached.record.head != item.first - 1:
            msg = (
                f"{cached.id} is at event {cached.record.head}, "
                f"and the next one here is {item.first}"
            )
            raise LogFailed(msg)
        return opening

    def _open(self, cached: CachedConversation, item: PendingAppend) -> Opening:
        if not self._numbers:
            last = self._index.floor("heads", LAST_NUMBER)
            self._numbers = NUMBER.unpack(last[0])[0] if last else 0
        self._numbers += 1
        cached.number = self._numbers
        cached.key = NUMBER.pack(cached.number)
        self.changed.names[cached.id.encode()] = cached.key
        old = cached.record
        first_time = old.first_time if old else item.time
        size = old.size if old else 0
        cached.record = Head(cached.id, item.first, item.first - 1, size, first_time, item.time)
        cached.events = Tail(cached.key, item.first)
        return Opening(cached.id, size, first_time)

    def _tail(self, item: PendingAppend, entity: str, earlier: list[tuple[str, int]]) -> Tail:
        """Return where an entity's stream goes on in this segment.

        Add to `earlier` the version it had before, if it had one and the segment does not say.
        """
        assert item.cached.number is not None
        prefix = stream_prefix(item.cached.number, entity)
        before = item.before.get(entity)
        if before == 0:
            return Tail(prefix, 1)
        tail = load_tail(self._index, "streams", prefix)
        if tail is None:
            if before is None:
                before = self._past.version(item.cached.id, entity)
            if before:
                earlier.append((entity, before))
            tail = Tail(prefix, before + 1)
        return tail

    def _work(self, item: PendingAppend) -> list[WorkNote]:
        """Note what entities have left to do; return it as the notes say it."""
        cached, notes = item.cached, []
        assert cached.record is not None
        # Of a conversation that began in this segment, none before it can say anything.
        is_older = cached.record.since > 1
        for entity, is_open, deadline in item.work:
            said: bool | int | None = True if deadline is None else deadline
            if not is_open:
                was_open = is_older and self._past.was_open(cached.id, entity)
                said = False if was_open else None
            note = (entity, said)
            notes.append(note)
            key = cached.key + entity.encode()
            self.changed.work[key] = work_entry(key, note)
        return notes

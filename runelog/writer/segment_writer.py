"""Writing appends into a segment: their frames, and from time to time what its index lacks.

An append writes its frames, with notes of what the index must have and no rune tells. Index entries
are told from them, see `follow`.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from runelog.errors import Closed, Fenced, LogFailed
from runelog.index import frame
from runelog.index.follow import Told, follow_appends
from runelog.index.laid_over import LaidOver
from runelog.index.notes import Notes, Opening, encode_notes
from runelog.index.records import LAST_NUMBER, NUMBER, Head
from runelog.index.stream_filter import StreamFilter
from runelog.index.unwritten import UnwrittenIndex
from runelog.lmdb.environment import MapFull
from runelog.writer.commit_queue import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runelog.index.notes import WorkNote
    from runelog.lmdb.environment import Batch, Environment
    from runelog.lmdb.tables import Tables
    from runelog.writer.commit_queue import PendingAppend, Work

MAX_ENTITIES: Final = 64
"""Of about this many streams of a conversation the versions are cached, beside those that the
tables of the index do not know of yet: most streams come to their end."""
MAX_RUNES: Final = 2_048
MAX_BYTES: Final = 1 << 20
"""About so many runes, and so many bytes of them, are told by frames only, at most."""
_ENTRY: Final = 256
_PART: Final = 16
"""The index is written before that takes this part of the map."""


class EarlierSegments(Protocol):
    """What must be known of the segments before this one."""

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes an entity's stream holds."""
        ...

    def was_open(self, conversation: str, entity: str) -> bool:
        """Return True if the catalog says that an entity has work left."""
        ...

    def active_head(self, conversation: str) -> tuple[int, Head] | None:
        """Return number and head of a conversation in this segment, None if it is not there."""
        ...


class ActiveSegment(NamedTuple):
    """A segment to write to, as the writer finds it."""

    env: Environment
    epoch: int
    position: int
    """Of the last rune there is."""
    time: int
    """Of that rune; 0 if there is none."""


class Behind:
    """What the tables of the active segment's index lack: something of these conversations."""

    def __init__(self, conversations: Iterable[str] = ()) -> None:
        """Begin with what they lack now."""
        self.conversations = set(conversations)
        self.generation = next(_generations)
        """It is another one each time that they lack nothing, and a higher one."""

    def clear(self) -> None:
        """Note that they lack nothing."""
        self.conversations.clear()
        self.generation = next(_generations)


_generations = itertools.count()


class CachedConversation:
    """What the writer caches of a conversation it appends to."""

    __slots__ = (
        "aged",
        "complete",
        "head",
        "here",
        "id",
        "number",
        "older",
        "pending",
        "record",
        "rests",
        "seed",
        "seen",
        "since",
        "versions",
    )

    def __init__(self, conversation: str, record: Head | None) -> None:
        """Begin with what the index says, if it says anything."""
        self.id = conversation
        self.seed = frame.seed_of(conversation)
        self.number: int | None = None
        """What it has in the active segment, if that is known."""
        self.here: set[str] = set()
        """Streams of which the segment says how long they were before it."""
        self.versions: dict[str, int] = {}
        """Those of the streams that were appended to lately."""
        self.older: dict[str, int] = {}
        """Those of streams that were in `versions` before, where they are not in it now."""
        self.seen: StreamFilter | None = None
        """The streams that were in `older` before."""
        self.complete = record is None
        """Whether these three have every stream there is: then another one is new."""
        self.aged = -1
        """In which generation of the index versions were dropped last."""
        self.since = 0
        """From which generation on the tables of the index know of each stream that is not in
        `versions` or `older`."""
        self.pending = 0
        self.resume(record)

    def resume(self, record: Head | None) -> None:
        """Go on from what the index says, if it says anything."""
        self.record = record
        """As it is on disk, or about to be."""
        self.head = record.head if record else 0
        self.rests = False
        """Whether the index has to be asked again before the next append."""

    def forget(self) -> None:
        """Drop what is known of the active segment, as it is about to be another one."""
        self.number = None
        self.here.clear()

    def finished(self, generation: int) -> None:
        """Note that one append is on disk, and shrink the cache if it is too large.

        What is dropped must be in the tables of the index: what has a rune behind them stays.
        """
        self.pending -= 1
        if len(self.versions) > MAX_ENTITIES // 2 and generation != self.aged and not self.pending:
            self.aged = generation
            self._age()

    def rest(self) -> None:
        """Keep only which streams there are. Nothing may be pending.

        What stays was there before. Anything new, however small, would lie between what is about to
        be freed, and Python could not give the memory around it back.
        """
        self.forget()
        self._age()
        self._age()
        self.record, self.head, self.rests = None, 0, True

    def _age(self) -> None:
        """Drop the versions of streams that were not appended to for a while."""
        if self.complete and self.older:
            self.seen = self.seen or StreamFilter()
            self.seen.add(name for name in self.older if name not in self.versions)
        self.older, self.versions = self.versions, {}
        self.here.clear()

    def is_new(self, entity: str) -> bool:
        """Return True if a stream that is not in `versions` certainly has no rune yet."""
        return self.complete and (self.seen is None or entity not in self.seen)


class Frames:
    """The frames of the appends of one transaction."""

    def __init__(self, past: EarlierSegments, numbers: int) -> None:
        """Begin with none, in a segment that gave its conversations so many numbers."""
        self.entries: list[tuple[bytes, bytes]] = []
        self.told: list[Told] = []
        """What they tell of the index."""
        self.numbers = numbers
        self._past = past

    def add(self, item: PendingAppend) -> None:
        """Add the frames of one append."""
        cached, position, event_id = item.cached, item.position, item.first
        opening = self._find(cached, item) if cached.number is None else None
        record, number = cached.record, cached.number
        assert record is not None
        assert number is not None
        if record.head != event_id - 1:
            msg = f"{cached.id} is at event {record.head}, and the next one here is {event_id}"
            raise LogFailed(msg)
        record.head += len(item.bodies)
        record.size += item.size
        record.last_time = item.time
        # Of a conversation that began in this segment, none before it can say anything.
        is_older = record.since > 1
        before = self._before(item) if is_older else ()
        work = [self._work(cached.id, each, is_older=is_older) for each in item.work]
        notes, noted = None, b""
        if opening or before or work:
            notes = Notes(opening, before, work)
            noted = encode_notes(position, notes)
        seed, time = cached.seed, item.time
        count = len(item.bodies)
        self.told.append(Told(number, event_id, position, item.size, time, count, notes, item.seen))
        for bodies in frame.split(item.bodies):
            data = frame.pack(number, seed, position, event_id, time, bodies, noted)
            self.entries.append((frame.POSITION.pack(position), data))
            position += len(bodies)
            event_id += len(bodies)
            noted = b""

    def _find(self, cached: CachedConversation, item: PendingAppend) -> Opening | None:
        """Find a conversation in the segment.

        Return what is to be said of one that has no number there yet, and gets one.
        """
        old = cached.record
        found = None if old is None else self._past.active_head(cached.id)
        if found is not None:
            cached.number, cached.record = found
            return None
        self.numbers += 1
        cached.number = self.numbers
        size, first_time = (old.size, old.first_time) if old else (0, item.time)
        cached.record = Head(cached.id, item.first, item.first - 1, size, first_time, item.time)
        return Opening(cached.id, size, first_time)

    def _before(self, item: PendingAppend) -> list[tuple[str, int]]:
        """Return streams that go on in this segment, with the version that each had before.

        Of those that are not cached any more it may be said again, which changes nothing.
        """
        cached, found = item.cached, []
        new: dict[str, int] = {}
        for entities, count in item.seen:
            for entity in entities:
                if entity not in cached.here:
                    new[entity] = new.get(entity, 0) + count
        for entity, count in new.items():
            grown = item.grown.get(entity)
            before = self._past.version(cached.id, entity) if grown is None else grown - count
            if before:
                found.append((entity, before))
        cached.here.update(new)
        return found

    def _work(self, conversation: str, work: Work, *, is_older: bool) -> WorkNote:
        """Return what an entity has left to do, as notes say it."""
        entity, is_open, deadline = work
        if is_open:
            return entity, True if deadline is None else deadline
        was_open = is_older and self._past.was_open(conversation, entity)
        return entity, False if was_open else None


def numbers_in(view: Tables) -> int:
    """Return the last number that a segment gave a conversation; 0 if none."""
    last = view.floor("heads", LAST_NUMBER)
    return NUMBER.unpack(last[0])[0] if last else 0


class SegmentWriter:
    """Appends to one segment, and brings its index up to that from time to time."""

    def __init__(self, env: Environment, past: EarlierSegments, known: UnwrittenIndex) -> None:
        """Go on behind the last frame; `known` is what the tables of the index lack."""
        self._env = env
        self._past = past
        with env.view() as view:
            self._numbers = numbers_in(LaidOver(view, known))
        self._end = known.end
        """The key of the last frame there is, as this writer left it."""
        self._known = known
        self._told: list[Told] = []
        """What the tables lack beside `known`."""
        self.behind = Behind(place.record.id for place in known.places.values())
        self._runes, self._size, self._entries = known.runes, known.size, known.entries
        """How much they lack."""
        self._frames = Frames(past, self._numbers)
        self._written: UnwrittenIndex | None = None
        """What the transaction under way wrote to the tables, if it did."""

    @property
    def owed(self) -> int:
        """The most space that writing the index takes. No page is copied twice in a transaction."""
        entries = self._entries
        return min(entries * PAGE, self._env.used + entries * _ENTRY)

    def append(self, batch: Batch, items: list[PendingAppend]) -> None:
        """Write appends in a transaction, and what the index lacks so far if that is too much.

        `committed` has to follow once that is on disk.
        """
        if batch.last("runes") != self._end:
            msg = (
                f"{items[0].cached.id} was written to by another process, or another conversation: "
                "close this handle and open the log again"
            )
            raise Fenced(msg)
        self._written = None
        if (
            self._runes >= MAX_RUNES
            or self._size >= MAX_BYTES
            or self._entries * PAGE >= self._env.map_size // _PART
        ):
            self._written = self._write_index(batch)
        self._frames = Frames(self._past, self._numbers)
        for item in items:
            self._frames.add(item)
        batch.append_all("runes", self._frames.entries)

    def committed(self, items: list[PendingAppend]) -> None:
        """Note that the last transaction is on disk."""
        if self._written is not None:
            self._begin(self._written)
        frames = self._frames
        self._end, self._numbers = frames.entries[-1][0], frames.numbers
        self._told += frames.told
        for item in items:
            self.behind.conversations.add(item.cached.id)
            self._runes += len(item.bodies)
            self._size += item.size
            self._entries += item.entries

    def _write_index(self, batch: Batch) -> UnwrittenIndex:
        written = follow_appends(batch, self._known, self._told)
        written.write(batch)
        return written

    def _begin(self, written: UnwrittenIndex) -> None:
        """Note that the tables lack nothing."""
        self._known = UnwrittenIndex(written.until)
        self._told = []
        self.behind.clear()
        self._runes = self._size = self._entries = 0

    def write_index(self, check: Callable[[Batch], None]) -> None:
        """Write all of the index in a transaction of its own, if `check` does not raise in it.

        If there is no room for it in the map, or the file is closed because another process has
        taken the log over, frames go on to tell it.
        """
        if not self._runes:
            return
        with contextlib.suppress(MapFull, Closed):
            with self._env.batch(spare=False) as batch:
                check(batch)
                self._env.reserve(self.owed)
                written = self._write_index(batch)
            self._begin(written)

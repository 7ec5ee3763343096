"""Finding things: the catalog's answers about sealed segments, the active one laid over them."""

from __future__ import annotations

import contextlib
import heapq
import threading
from bisect import bisect_right
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from runelog.errors import Closed, Corrupt, Refused
from runelog.index import frame
from runelog.index.catalog import Catalog, Span, begins, entries
from runelog.index.records import (
    LAST,
    NUMBER,
    PLACE,
    Head,
    decode_head,
    decode_hole,
    decode_work,
    load_tail,
    stream_prefix,
)
from runelog.rune import LOST, State, Work, is_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runelog.lmdb.tables import Tables
    from runelog.manifest import SegmentInfo
    from runelog.reader.segments import Segments

UNTOLD: Final = 1 << 63
"""Above every version: a stream's last one in a segment whose index cannot be believed."""
_PENDING: Final = {
    "archive": State.ARCHIVED,
    "compact": State.ARCHIVED,
    "restore": State.ARCHIVED,
    "erase": State.ERASED,
}


class _Held:
    """An open catalog, and how many ask it right now."""

    def __init__(self, catalog: Catalog, generation: int) -> None:
        self.catalog = catalog
        self.generation = generation
        self.users = 0


class Lookup:
    """The index of a whole log."""

    def __init__(self, segments: Segments, open_catalog: Callable[[], Catalog]) -> None:
        """Open the catalog when it is first asked."""
        self.segments = segments
        self._open_catalog = open_catalog
        self._held: _Held | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def catalog(self) -> Catalog:
        """The catalog, as the manifest names it now, for the writer: it closes none in use."""
        with self._lock:
            return self._current().catalog

    def asked(self) -> contextlib.AbstractContextManager[Catalog]:
        """Give the catalog to readers of its file; it stays open as long as the block lasts."""
        return self._asked()

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Catalog]:
        """Give the catalog to ask; it stays open within the block, even if the log is closed."""
        with self._lock:
            held = self._current()
            held.users += 1
        try:
            yield held.catalog
        finally:
            with self._lock:
                held.users -= 1
                if held.users == 0 and held is not self._held:
                    held.catalog.close()

    def _current(self) -> _Held:
        if self._closed:
            msg = f"the log in {self.segments.directory} is closed"
            raise Closed(msg)
        if self._held is None or self._held.generation != self.segments.manifest.catalog:
            self._let_go()
            self._held = self._opened()
        return self._held

    def _opened(self) -> _Held:
        while True:
            generation = self.segments.manifest.catalog
            try:
                catalog = self._open_catalog()
            except Corrupt:
                # A writer in another process may just have made it anew.
                self.refresh()
                if generation == self.segments.manifest.catalog:
                    raise
                continue
            # Opening it to write may have made it anew; a reader may be behind again already.
            return _Held(
                catalog, generation if self.segments.readonly else self.segments.manifest.catalog
            )

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None and held.users == 0:
            held.catalog.close()

    def close(self) -> None:
        """Close the catalog as soon as no thread uses it."""
        with self._lock:
            self._closed = True
            self._let_go()

    def refresh(self) -> None:
        """Take notice of what a writer in another process did to the manifest."""
        if self.segments.readonly:
            self.segments.refresh()

    # -- conversations ------------------------------------------------------------------------

    def head(self, conversation: str, *, frames: bool = True) -> Head | None:
        """Return what is known of a conversation, None if nothing is.

        The active segment's `frames` are not followed for what is certainly in its tables.
        """
        self.refresh()
        if not is_id(conversation):
            return None
        active = self.active_head(conversation, frames=frames)
        if active is not None:
            head: Head | None = active[1]
        else:
            with self._asked() as catalog:
                head = catalog.head(conversation)
        if head is not None and conversation in self.segments.dead:
            head.state = State.ARCHIVED
        for pending in self.segments.manifest.pending:
            if conversation in pending.conversations:
                # One that was in no sealed segment is known only by what is left to do.
                head = head or Head(conversation, 0, 0, 0, 0, 0)
                head.state = _PENDING[pending.op]
        return head

    def active_head(self, conversation: str, *, frames: bool = True) -> tuple[int, Head] | None:
        """Return number and head of a conversation in the active segment, None if it is not there.

        It is not asked whether it is to be archived or erased.
        """
        active = self.segments.manifest.active.number
        with self.segments.take(active, frames=frames) as (segment, view):
            number = segment.number_of(view, conversation)
            if number is None:
                return None
            return number, _named(view, conversation, NUMBER.pack(number))

    def heads(self) -> Iterator[Head]:
        """Yield all conversations in order of id."""
        self.refresh()
        now = self.segments.manifest
        pending = dict.fromkeys(now.dead, State.ARCHIVED)
        for step in now.pending:
            pending |= dict.fromkeys(step.conversations, _PENDING[step.op])
        before = ""
        merged = heapq.merge(self._active_heads(), self._sealed_heads(), key=lambda head: head.id)
        for head in merged:  # of two with one id, the active segment's comes first and holds
            if head.id != before:
                head.state = pending.get(head.id, head.state)
                yield head
            before = head.id

    def _active_heads(self) -> Iterator[Head]:
        number = self.segments.manifest.active.number
        start = b""
        while True:
            with self.segments.take(number) as (_, view):
                names = view.scan("names", start, limit=512)
                found = [_named(view, name.decode(), key) for name, key in names]
            yield from found
            if not names:
                return
            start = names[-1][0] + b"\0"

    def _sealed_heads(self) -> Iterator[Head]:
        after = ""
        while True:
            with self._asked() as catalog:
                found = list(islice(catalog.heads(after), 512))
            yield from found
            if not found:
                return
            after = found[-1].id

    def version(self, conversation: str, entity: str, *, frames: bool = True) -> int:
        """Return how many committed runes an entity's stream holds, as the index tells.

        Not to be asked while the active segment is damaged: its index may lie.
        """
        self.refresh()
        if not is_id(entity):
            return 0
        active = self.segments.manifest.active.number
        with self.segments.take(active, frames=frames) as (segment, view):
            number = segment.number_of(view, conversation)
            prefix = stream_prefix(number, entity) if number is not None else b""
            tail = load_tail(view, "streams", prefix) if prefix else None
        if tail is None:
            with self._asked() as catalog:
                return catalog.version(conversation, entity)
        if active in self.segments.walked:
            # It was sound by itself; whether it fits to the segments before it shows here.
            self.stream_spans(conversation, entity, tail.next - 1)
        return tail.next - 1

    def sealed_version(self, conversation: str, entity: str) -> int:
        """Return the version that an entity's stream had reached before the active segment."""
        return max((span.last for span in self._sealed_stream(conversation, entity, 0)), default=0)

    def was_open(self, conversation: str, entity: str) -> bool:
        """Return True if the catalog says that an entity has work left."""
        with self._asked() as catalog:
            return catalog.is_open(conversation, entity)

    def may_hold(self, start: str) -> bool:
        """Return False if the index tells that no entity has an id that begins with `start`.

        Of what is archived it knows no entities, and in a damaged active segment it may lie.
        """
        return any(
            head.state is State.ARCHIVED or self._may_hold(head.id, start)
            for head in self.heads()
            if head.state is not State.ERASED
        )

    def _may_hold(self, conversation: str, start: str) -> bool:
        with self.segments.take(self.segments.manifest.active.number) as (segment, view):
            number = segment.number_of(view, conversation)
            if segment.damaged or (
                number is not None and begins(view, NUMBER.pack(number) + start.encode())
            ):
                return True
        with self._asked() as catalog:
            return catalog.may_hold(conversation, start)

    # -- segments -----------------------------------------------------------------------------

    def spans(self, conversation: str, after: int) -> list[Span]:
        """Return the segments that hold a conversation behind event `after`."""
        active = self.segments.manifest.active.number
        with self.segments.take(active) as (segment, view):
            number = segment.number_of(view, conversation)
            head = None if number is None else _named(view, conversation, NUMBER.pack(number))
        own = [] if head is None else [Span(active, head.since, head.head)]
        if after > 0 and head is not None and head.since <= after + 1 and not segment.damaged:
            sealed = []  # as for followers: what is new is in the active one
        else:
            with self._asked() as catalog:
                sealed = catalog.spans(conversation, after)
        spans = [*(span for span in sealed if span.segment != active), *own]
        return [span for span in spans if span.last > after]

    def stream_spans(self, conversation: str, entity: str, after: int) -> list[Span]:
        """Return the segments that hold an entity's stream behind version `after`.

        How far it goes in a damaged active segment is `UNTOLD`, if it is there at all.
        """
        if not is_id(entity):
            return []
        own = self._active_stream(conversation, entity)
        # Also what is right before the active segment's part: it must go on from there.
        behind = after if own is None else min(after, max(own.first - 2, 0))
        spans = self._sealed_stream(conversation, entity, behind)
        if own is not None:
            spans.append(own)
        self._check_joined(conversation, entity, spans, behind)
        return [span for span in spans if span.last > after]

    def _check_joined(
        self, conversation: str, entity: str, spans: list[Span], reached: int
    ) -> None:
        """Raise `Corrupt` unless each part of a stream begins where the one before it ends.

        Runes that a repair found lost are missing, but of each of them it left a tombstone.
        """
        missing = 0
        overlaps = any(after.first <= before.last for before, after in pairwise(spans))
        for span in spans:
            missing += max(span.first - reached - 1, 0)
            reached = span.last
        if overlaps or (missing and missing > self.sealed_version(conversation, LOST)):
            msg = f"the index of {entity} in {conversation} does not join its parts"
            raise Corrupt(msg, conversation=conversation)

    def _sealed_stream(self, conversation: str, entity: str, after: int) -> list[Span]:
        active = self.segments.manifest.active.number
        with self._asked() as catalog:
            spans = catalog.stream_spans(conversation, entity, after)
        return [span for span in spans if span.segment != active]

    def _active_stream(self, conversation: str, entity: str) -> Span | None:
        """Return which versions of a stream are in the active segment, None if none are."""
        active = self.segments.manifest.active.number
        with self.segments.take(active) as (segment, view):
            number = segment.number_of(view, conversation)
            if number is None:
                return None
            if segment.damaged:
                # Its postings have no checksum: only the runes can tell.
                return Span(active, self._next_version(conversation, entity), UNTOLD)
            prefix = stream_prefix(number, entity)
            tail = load_tail(view, "streams", prefix)
            if tail is None:
                return None
            first = view.scan("streams", prefix, prefix + LAST, limit=1)[0][0]
            return Span(active, PLACE.unpack(first[-8:])[0], tail.next - 1)

    def _next_version(self, conversation: str, entity: str) -> int:
        """Return at which version a stream goes on in the active segment, if it does."""
        if self.sealed_version(conversation, LOST):
            msg = f"runes of {conversation} were lost before, and versions cannot be counted"
            raise Corrupt(msg, conversation=conversation)
        return self.sealed_version(conversation, entity) + 1

    def segment_at(self, position: int) -> SegmentInfo:
        """Return the segment that holds a position."""
        segments = self.segments.manifest.segments
        index = bisect_right(segments, position, key=lambda info: info.first) - 1
        if index < 0:
            msg = f"no segment holds position {position}"
            raise Corrupt(msg)
        return segments[index]

    def last_position(self) -> int:
        """Return the last committed position, as the active segment has it."""
        active = self.segments.manifest.active
        with self.segments.take(active.number) as (_, view):
            return last_position(view, active)

    # -- open work ----------------------------------------------------------------------------

    def work(self, conversation: str | None = None) -> Iterator[Work]:
        """Yield what has something left to do, in order of conversation and entity."""
        self.refresh()
        gone = {
            name
            for step in self.segments.manifest.pending
            if step.op != "restore"
            for name in step.conversations
        }
        active = self._active_work(conversation)
        merged = dict.fromkeys(active)
        with self._asked() as catalog:
            found = {
                (name, entity): deadline for name, entity, deadline in catalog.work(conversation)
            }
        for key in merged:
            found.pop(key, None)
        found.update({key: deadline for key, (is_open, deadline) in active.items() if is_open})
        for (name, entity), deadline in sorted(found.items(), key=lambda item: item[0]):
            if name not in gone:
                yield Work(name, entity, deadline)

    def _active_work(
        self, conversation: str | None
    ) -> dict[tuple[str, str], tuple[bool, int | None]]:
        with self.segments.take(self.segments.manifest.active.number) as (segment, view):
            start, stop = b"", None
            if conversation is not None:
                number = segment.number_of(view, conversation)
                if number is None:
                    return {}
                start, stop = NUMBER.pack(number), NUMBER.pack(number + 1)
            # Of a damaged segment all of it is read: an entry may be where it does not belong.
            listed = (
                entries(view, "work") if segment.damaged else entries(view, "work", start, stop)
            )
            told = [(key, decode_work(key, stored)) for key, stored in listed]
            return {
                (segment.id_of(view, NUMBER.unpack(key[:4])[0])[0], key[4:].decode()): work
                for key, work in told
                if key.startswith(start)
            }


def _named(view: Tables, conversation: str, number: bytes) -> Head:
    """Return the head of a conversation that has a name in a segment."""
    found = view.get("heads", number)
    if found is None:
        msg = f"{conversation} has a name in the active segment, and no head"
        raise Corrupt(msg, conversation=conversation)
    return decode_head(number, found)


def heads_in(view: Tables, state: State = State.LIVE) -> dict[str, Head]:
    """Return the heads of conversations that a segment holds runes of, or held: by their state."""
    heads = (decode_head(key, stored) for key, stored in entries(view, "heads"))
    return {head.id: head for head in heads if head.state is state}


def last_position(view: Tables, info: SegmentInfo) -> int:
    """Return the last position a segment holds, one before its first if it is empty."""
    last = view.floor("runes", LAST)
    end = PLACE.unpack(last[0])[0] + frame.count(last[1]) - 1 if last else info.first - 1
    hole = view.floor("holes", LAST)
    if hole is not None:
        taken = decode_hole(*hole)
        end = max(end, taken.position + taken.length - 1)
    return end


def last_time(view: Tables, info: SegmentInfo) -> int:
    """Return the log's time at the last rune of a segment, or when it was begun if it is empty."""
    last = view.floor("runes", LAST)
    return max(frame.time_of(last[1]), info.since) if last else info.since


def check_absent(lookup: Lookup, conversations: Iterable[str]) -> None:
    """Refuse conversations that are in a log, or were erased from it."""
    for name in conversations:
        head = lookup.head(name)
        if head is not None:
            what = "was erased from" if head.state is State.ERASED else "is already in"
            msg = f"{name} {what} this log: take it into another one"
            raise Refused(msg)

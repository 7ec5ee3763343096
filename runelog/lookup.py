"""Finding things: the catalog's answers about sealed segments, the active one laid over them."""

from __future__ import annotations

import contextlib
import heapq
import threading
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING

from runelog import frame
from runelog.catalog import Catalog, Span, entries
from runelog.errors import Closed, Corrupt
from runelog.index import (
    CLOSED,
    LAST,
    NUMBER,
    PLACE,
    Head,
    decode_deadline,
    decode_head,
    decode_hole,
    load_tail,
    stream_prefix,
)
from runelog.rune import State, Work, is_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.manifest import SegmentInfo
    from runelog.view import View
    from runelog.volumes import Volumes

_PENDING = {"archive": State.ARCHIVED, "restore": State.ARCHIVED, "erase": State.ERASED}


class _Held:
    """An open catalog, and how many ask it right now."""

    def __init__(self, catalog: Catalog, generation: int) -> None:
        self.catalog = catalog
        self.generation = generation
        self.users = 0


class Lookup:
    """The index of a whole log."""

    def __init__(self, volumes: Volumes, open_catalog: Callable[[], Catalog]) -> None:
        """Open the catalog when it is first asked."""
        self.volumes = volumes
        self._open_catalog = open_catalog
        self._held: _Held | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def catalog(self) -> Catalog:
        """The catalog, as the manifest names it now, for the writer: it closes none in use."""
        with self._lock:
            return self._current().catalog

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Catalog]:
        """Give the catalog to ask; it stays open that long, whoever closes the log meanwhile."""
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
            msg = f"the log in {self.volumes.directory} is closed"
            raise Closed(msg)
        if self._held is None or self._held.generation != self.volumes.manifest.catalog:
            self._let_go()
            self._held = self._opened()
        return self._held

    def _opened(self) -> _Held:
        while True:
            generation = self.volumes.manifest.catalog
            try:
                catalog = self._open_catalog()
            except Corrupt:
                # A writer in another process may just have made it anew.
                self.refresh()
                if generation == self.volumes.manifest.catalog:
                    raise
                continue
            # Opening it to write may have made it anew; a reader may be behind again already.
            return _Held(
                catalog, generation if self.volumes.readonly else self.volumes.manifest.catalog
            )

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None and held.users == 0:
            held.catalog.close()

    def close(self) -> None:
        """Close the catalog, as soon as nobody asks it."""
        with self._lock:
            self._closed = True
            self._let_go()

    def refresh(self) -> None:
        """Take notice of what a writer in another process did to the manifest."""
        if self.volumes.readonly:
            self.volumes.refresh()

    # -- conversations ------------------------------------------------------------------------

    def head(self, conversation: str) -> Head | None:
        """Return what is known of a conversation, None if nothing is."""
        self.refresh()
        if not is_id(conversation):
            return None
        head = self._active_head(conversation)
        if head is None:
            with self._asked() as catalog:
                head = catalog.head(conversation)
        if head is not None:
            for pending in self.volumes.manifest.pending:
                if conversation in pending.conversations:
                    head.state = _PENDING[pending.op]
        return head

    def _active_head(self, conversation: str) -> Head | None:
        with self.volumes.take(self.volumes.manifest.active.number) as (volume, view):
            number = volume.number_of(view, conversation)
            if number is None:
                return None
            found = view.get("heads", NUMBER.pack(number))
        if found is None:
            msg = f"{conversation} has a name in the active segment, and no head"
            raise Corrupt(msg, conversation=conversation)
        return decode_head(found)

    def heads(self) -> Iterator[Head]:
        """Yield all conversations in order of id."""
        self.refresh()
        pending = {
            conversation: _PENDING[step.op]
            for step in self.volumes.manifest.pending
            for conversation in step.conversations
        }
        before = ""
        merged = heapq.merge(self._active_heads(), self._sealed_heads(), key=lambda head: head.id)
        for head in merged:  # of two with one id, the active segment's comes first and holds
            if head.id != before:
                head.state = pending.get(head.id, head.state)
                yield head
            before = head.id

    def _active_heads(self) -> Iterator[Head]:
        number = self.volumes.manifest.active.number
        start = b""
        while True:
            with self.volumes.take(number) as (_, view):
                names = view.scan("names", start, limit=512)
                found = [view.get("heads", value) for _, value in names]
            yield from (decode_head(value) for value in found if value is not None)
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

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes an entity's stream holds."""
        self.refresh()
        if not is_id(entity):
            return 0
        with self.volumes.take(self.volumes.manifest.active.number) as (volume, view):
            number = volume.number_of(view, conversation)
            if number is not None:
                tail = load_tail(view, "streams", stream_prefix(number, entity))
                if tail is not None:
                    return tail.next - 1
        with self._asked() as catalog:
            return catalog.version(conversation, entity)

    def was_open(self, conversation: str, entity: str) -> bool:
        """Tell whether the catalog says that an entity has work left."""
        with self._asked() as catalog:
            return catalog.is_open(conversation, entity)

    # -- segments -----------------------------------------------------------------------------

    def spans(self, conversation: str, after: int) -> list[Span]:
        """Return the segments that hold a conversation behind event `after`."""
        active = self.volumes.manifest.active.number
        with self._asked() as catalog:
            sealed = catalog.spans(conversation, after)
        spans = [span for span in sealed if span.segment != active]
        with self.volumes.take(active) as (volume, view):
            number = volume.number_of(view, conversation)
            found = view.get("heads", NUMBER.pack(number)) if number is not None else None
        if found is not None:
            head = decode_head(found)
            spans.append(Span(active, head.since, head.head))
        return [span for span in spans if span.last > after]

    def stream_spans(self, conversation: str, entity: str, after: int) -> list[Span]:
        """Return the segments that hold an entity's stream behind version `after`."""
        if not is_id(entity):
            return []
        active = self.volumes.manifest.active.number
        with self._asked() as catalog:
            sealed = catalog.stream_spans(conversation, entity, after)
        spans = [span for span in sealed if span.segment != active]
        with self.volumes.take(active) as (volume, view):
            number = volume.number_of(view, conversation)
            if number is not None:
                prefix = stream_prefix(number, entity)
                tail = load_tail(view, "streams", prefix)
                if tail is not None:
                    first = view.scan("streams", prefix, prefix + LAST, limit=1)[0][0]
                    spans.append(Span(active, PLACE.unpack(first[-8:])[0], tail.next - 1))
        return [span for span in spans if span.last > after]

    def segment_at(self, position: int) -> SegmentInfo:
        """Return the segment that holds a position."""
        segments = self.volumes.manifest.segments
        index = bisect_right(segments, position, key=lambda info: info.first) - 1
        if index < 0:
            msg = f"no segment holds position {position}"
            raise Corrupt(msg)
        return segments[index]

    def last_position(self) -> int:
        """Return the last committed position, as the active segment has it."""
        active = self.volumes.manifest.active
        with self.volumes.take(active.number) as (_, view):
            return last_position(view, active)

    # -- open work ----------------------------------------------------------------------------

    def work(self, conversation: str | None = None) -> Iterator[Work]:
        """Yield what has something left to do, in order of conversation and entity."""
        self.refresh()
        gone = {
            name
            for step in self.volumes.manifest.pending
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
        with self.volumes.take(self.volumes.manifest.active.number) as (volume, view):
            if conversation is None:
                listed = list(entries(view, "work"))
            else:
                number = volume.number_of(view, conversation)
                if number is None:
                    return {}
                start, stop = NUMBER.pack(number), NUMBER.pack(number + 1)
                listed = list(entries(view, "work", start, stop))
            return {
                (volume.id_of(view, NUMBER.unpack(key[:4])[0])[0], key[4:].decode()): (
                    value != CLOSED,
                    None if value == CLOSED else decode_deadline(value),
                )
                for key, value in listed
            }


def last_position(view: View, info: SegmentInfo) -> int:
    """Return the last position a segment holds, one before its first if it is empty."""
    last = view.floor("runes", LAST)
    end = PLACE.unpack(last[0])[0] + frame.count(last[1]) - 1 if last else info.first - 1
    hole = view.floor("holes", LAST)
    if hole is not None:
        taken = decode_hole(*hole)
        end = max(end, taken.position + taken.length - 1)
    return end


def last_time(view: View, info: SegmentInfo) -> int:
    """Return the log's time at the last rune of a segment, or when it was begun if it is empty."""
    last = view.floor("runes", LAST)
    return max(frame.time_of(last[1]), info.since) if last else info.since

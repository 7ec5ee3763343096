"""Reading a log: one conversation, one entity's stream, everything, and what is yet to come.

Nothing here keeps a transaction open while a caller looks at what it was given: runes are taken out
of a segment in chunks (`fetch`), each in a short transaction of its own.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from runelog.checks import beginning, check_following, check_kinds, check_readable, end
from runelog.errors import Closed, Corrupt, UnknownConversation
from runelog.reader.fetch import Fetch
from runelog.reader.follow import CHUNK, Follower
from runelog.reader.lookup import UNTOLD
from runelog.reader.order import Order
from runelog.rune import Conversation, State
from runelog.writer.subscriptions import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runelog.codec import Codec
    from runelog.index.catalog import Span
    from runelog.index.records import Head
    from runelog.manifest import Manifest
    from runelog.reader.lookup import Lookup
    from runelog.rune import Envelope, Gap, Work
    from runelog.stream.archive import Archives


class _Place:
    """Where a conversation was at the last look, and what the manifest was then.

    Nothing moves unless the manifest is replaced.
    """

    def __init__(self, manifest: Manifest, head: Head) -> None:
        self.manifest = manifest
        self.head = head


class Reader:
    """Reads what is committed."""

    def __init__(self, lookup: Lookup, archives: Archives, codec: Codec) -> None:
        """Read the segments that `lookup` finds, and conversations from cold storage."""
        self._lookup = lookup
        self._segments = lookup.segments
        self._archives = archives
        self._fetch = Fetch(lookup.segments, codec)
        self._order = Order(lookup, codec, self._check_open)
        self.subscriptions = Subscriptions(codec)

    # -- conversations ------------------------------------------------------------------------

    def head(self, conversation: str) -> Head:
        """Return the head of a conversation that can be read."""
        self._check_open()
        head = self._lookup.head(conversation)
        if head is None:
            raise UnknownConversation(conversation)
        check_readable(conversation, head.state)
        return head

    def read(
        self, conversation: str, after: int, until: int | None, kinds: Collection[str] | None
    ) -> Iterator[Envelope]:
        """Yield committed runes of one conversation."""
        return chain.from_iterable(self.chunks(conversation, after, until, kinds))

    def chunks(
        self, conversation: str, after: int, until: int | None, kinds: Collection[str] | None
    ) -> Iterator[list[Envelope]]:
        """Yield committed runes of one conversation, some at a time: quicker than one by one."""
        place = self._look(conversation)
        check_kinds(kinds)
        last = end(until, place.head.head)
        found = self._chunks(place, beginning(after), last)
        if kinds is None:
            return found
        return ([one for one in chunk if one.kind in kinds] for chunk in found)

    def _look(self, conversation: str) -> _Place:
        """Find out where a conversation is that can be read."""
        while True:
            self._lookup.refresh()
            place = _Place(self._segments.manifest, self.head(conversation))
            if not self._changed(place):
                return place

    def _changed(self, place: _Place) -> bool:
        """Return True if anything may have moved since the last look."""
        self._check_open()
        self._lookup.refresh()
        return self._segments.manifest is not place.manifest

    def _stays(self, place: _Place) -> bool:
        """Return True if reading can go on; if not, the place is now where the conversation is."""
        if not self._changed(place):
            return True
        before, now = place.head.state, self._look(place.head.id)
        place.manifest, place.head = now.manifest, now.head
        # An archive once opened is read to its end, whatever replaces it.
        return before is now.head.state is State.ARCHIVED

    def _chunks(self, place: _Place, cursor: int, last: int) -> Iterator[list[Envelope]]:
        while cursor < last:
            self._stays(place)
            cold = place.head.state is State.ARCHIVED
            try:
                for chunk in (self._cold if cold else self._warm)(place.head.id, cursor, last):
                    yield chunk
                    cursor = chunk[-1].event_id
                    if not self._stays(place):
                        break
            except Corrupt:
                # What is gone may have moved just now: then ask again where it is.
                if not self._changed(place):
                    raise

    def _warm(self, conversation: str, cursor: int, last: int) -> Iterator[list[Envelope]]:
        """Take a conversation out of its segments."""
        for span in self._lookup.spans(conversation, cursor):
            for chunk in self._part(span.segment, conversation, cursor, min(span.last, last)):
                yield chunk
                cursor = chunk[-1].event_id
        if cursor < last:
            raise _lost(conversation, cursor + 1)

    def _part(
        self, segment: int, conversation: str, cursor: int, stop: int
    ) -> Iterator[list[Envelope]]:
        """Take what one segment holds of a conversation out of it, as far as event `stop`."""
        while cursor < stop:
            chunk = self._fetch.runes(segment, conversation, cursor, stop)
            if not chunk or chunk[0].event_id != cursor + 1:
                raise _lost(conversation, cursor + 1)
            yield chunk
            cursor = chunk[-1].event_id

    def _cold(self, conversation: str, cursor: int, last: int) -> Iterator[list[Envelope]]:
        """Take a conversation out of its archive."""
        runes = self._archives.read(conversation, cursor, last)
        while chunk := list(islice(runes, CHUNK)):
            yield chunk
            cursor = chunk[-1].event_id
        if cursor < last:
            raise _lost(conversation, cursor + 1)

    def stream(
        self, conversation: str, entity: str, after: int, until: int | None
    ) -> Iterator[Envelope]:
        """Yield what an entity's fold sees."""
        place = self._look(conversation)
        last = end(until, place.head.head)
        return self._stream(place, entity, beginning(after), last)

    def _stream(self, place: _Place, entity: str, version: int, last: int) -> Iterator[Envelope]:
        given = 0
        while last > 0:
            self._stays(place)
            cold = place.head.state is State.ARCHIVED
            chunks = self._cold_stream if cold else self._warm_stream
            try:
                for chunk in chunks(place.head.id, entity, version, last):
                    if chunk and chunk[0].event_id <= given:
                        # Versions are not counted where runes were lost: some come once more.
                        chunk = [one for one in chunk if one.event_id > given]  # noqa: PLW2901 -- cut, on purpose
                    yield from chunk
                    version += len(chunk)
                    given = chunk[-1].event_id if chunk else given
                    if not self._stays(place):
                        break
                else:
                    if not self._changed(place):
                        return
            except Corrupt:
                if not self._changed(place):
                    raise

    def _warm_stream(
        self, conversation: str, entity: str, version: int, last: int
    ) -> Iterator[list[Envelope]]:
        """Take an entity's stream out of its segments, as far as event `last`."""
        for span in self._lookup.stream_spans(conversation, entity, version):
            # A repair may have left out what was lost.
            version = max(version, span.first - 1)
            damaged = self._segments.is_damaged(span.segment)
            for chunk in (self._sifted if damaged else self._posted)(
                span, conversation, entity, version, last
            ):
                yield [envelope for envelope in chunk if envelope.event_id <= last]
                if chunk and chunk[-1].event_id >= last:
                    return
                version += len(chunk)

    def _posted(
        self, span: Span, conversation: str, entity: str, version: int, _last: int
    ) -> Iterator[list[Envelope]]:
        """Take a stream out of a sound segment, from where its postings say that it is."""
        while version < span.last:
            chunk = self._fetch.stream(span.segment, conversation, entity, version, span.last)
            if not chunk:
                msg = f"version {version + 1} of {entity} in {conversation} is missing"
                raise Corrupt(msg, conversation=conversation)
            yield chunk
            version += len(chunk)

    def _sifted(
        self, span: Span, conversation: str, entity: str, version: int, last: int
    ) -> Iterator[list[Envelope]]:
        """Pick a stream out of all that a damaged segment holds of its conversation.

        Postings have no checksum: damaged ones could leave runes out, or name others. The runes
        themselves say whose they are, and their event ids that none is missing.
        """
        reached, at = 0, span.first - 1
        for events in self._lookup.spans(conversation, 0):
            if events.first != reached + 1:
                raise _lost(conversation, reached + 1)
            reached = events.last
            if events.segment != span.segment:
                continue
            for chunk in self._part(
                span.segment, conversation, events.first - 1, min(events.last, last)
            ):
                seen = [one for one in chunk if _sees(entity, one)]
                yield seen[max(version - at, 0) :]
                at += len(seen)
            if span.last not in {at, UNTOLD} and last >= events.last:
                msg = f"{entity} in {conversation} is at version {at}, and not at {span.last}"
                raise Corrupt(msg, conversation=conversation)

    def _cold_stream(
        self, conversation: str, entity: str, version: int, last: int
    ) -> Iterator[list[Envelope]]:
        """Pick an entity's stream out of an archive: nothing there tells where it is."""
        for chunk in self._cold(conversation, 0, last):
            seen = [one for one in chunk if _sees(entity, one)]
            yield seen[version:]
            version = max(0, version - len(seen))

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes an entity's stream holds."""
        while True:
            try:
                place = self._look(conversation)
            except UnknownConversation:
                return 0
            if place.head.state is State.ARCHIVED:
                return sum(1 for _ in self._stream(place, entity, 0, place.head.head))
            try:
                version = self._version(place, entity)
            except Corrupt:
                if not self._changed(place):
                    raise
            else:
                if not self._changed(place):
                    return version

    def _version(self, place: _Place, entity: str) -> int:
        if not self._segments.is_damaged(place.manifest.active.number):
            return self._lookup.version(place.head.id, entity)
        version = self._lookup.sealed_version(place.head.id, entity)
        return version + sum(1 for _ in self._stream(place, entity, version, place.head.head))

    # -- the index ----------------------------------------------------------------------------

    def conversation(self, conversation: str) -> Conversation:
        """Return what the index knows of one conversation."""
        self._check_open()
        head = self._lookup.head(conversation)
        if head is None:
            raise UnknownConversation(conversation)
        return _described(head)

    def conversations(self) -> Iterator[Conversation]:
        """Yield every conversation in order of id."""
        self._check_open()
        return (_described(head) for head in self._lookup.heads())

    def open_work(self, conversation: str | None) -> Iterator[Work]:
        """Yield the entities with something left to do."""
        self._check_open()
        if conversation is not None:
            self.conversation(conversation)
        return self._lookup.work(conversation)

    def may_hold(self, start: str) -> bool:
        """Return False if the index tells that no entity has an id that begins with `start`."""
        self._check_open()
        return self._lookup.may_hold(start)

    # -- everything ---------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The position of the last committed rune."""
        self._check_open()
        if self.subscriptions.position >= 0:
            return self.subscriptions.position
        self._segments.refresh()
        return self._lookup.last_position()

    def read_all(self, after: int) -> Iterator[Envelope | Gap]:
        """Yield the committed runes of all conversations, in the log's order."""
        return self._order.read(beginning(after), self.position)

    # -- following ----------------------------------------------------------------------------

    def follow(
        self,
        conversation: str | None,
        after: int,
        *,
        kinds: Collection[str] | None,
        max_behind: int | None,
        wait: float | None,
    ) -> Iterator[Envelope | Gap]:
        """Yield runes from a cursor on, those there are and then those to come."""
        check_following(kinds, max_behind, wait)
        self._check_open()
        if conversation is None:
            follower = Follower(self.subscriptions, lambda: self.position, self._order.read, None)
        else:
            follower = self._follower(conversation)
        return follower.follow(beginning(after), kinds, max_behind, wait)

    def _follower(self, conversation: str) -> Follower:
        place = None if self.subscriptions.is_live(conversation) else self._look(conversation)

        def head() -> int:
            nonlocal place
            place = self._look(conversation)
            return place.head.head

        def read(after: int, until: int) -> Iterator[Envelope]:
            return chain.from_iterable(
                self._chunks(place or self._look(conversation), after, until)
            )

        return Follower(self.subscriptions, head, read, conversation)

    def close(self) -> None:
        """Wake those who follow; there is nothing more to come."""
        self.subscriptions.close()

    def _check_open(self) -> None:
        if self.subscriptions.closed:
            msg = "this log has been closed: open it again"
            raise Closed(msg)


def _sees(entity: str, envelope: Envelope) -> bool:
    return entity == envelope.owner or entity in envelope.observers


def _lost(conversation: str, event_id: int) -> Corrupt:
    msg = f"rune {event_id} of {conversation} is missing"
    return Corrupt(msg, conversation=conversation, event_id=event_id)


def _described(head: Head) -> Conversation:
    return Conversation(head.id, head.head, head.size, head.first_time, head.last_time, head.state)

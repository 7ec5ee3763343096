"""Reading a log: one conversation, one entity's stream, everything, and what is yet to come.

Nothing here keeps a transaction open while a caller looks at what it was given: runes are taken out
of a segment in chunks, each in a short transaction of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from runelog import frame
from runelog.errors import Closed, Corrupt, Gone, Refused, UnknownConversation
from runelog.follow import CHUNK, Follower, News
from runelog.index import NUMBER, PLACE, Run, decode_hole, postings, stream_prefix
from runelog.rune import Conversation, Gap, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runelog.codec import Codec
    from runelog.cold import Archives
    from runelog.index import Head
    from runelog.lookup import Lookup
    from runelog.rune import Envelope, Work
    from runelog.view import View
    from runelog.volumes import Volume


CHUNK_BYTES: Final = 4 << 20
"""How much is taken out of a segment at a time, about, however few runes that is."""


class _Place(NamedTuple):
    """A conversation in one segment: its number there, its id, what its checksums start from."""

    number: int
    conversation: str
    seed: int


class Reader:
    """Reads what is committed."""

    def __init__(self, lookup: Lookup, archives: Archives, codec: Codec) -> None:
        """Read the segments that `lookup` finds, and conversations from cold storage."""
        self._lookup = lookup
        self._volumes = lookup.volumes
        self._archives = archives
        self._codec = codec
        self.news = News()

    # -- conversations ------------------------------------------------------------------------

    def head(self, conversation: str) -> Head:
        """Return the head of a conversation that can be read."""
        self._check_open()
        head = self._lookup.head(conversation)
        if head is None:
            raise UnknownConversation(conversation)
        if head.state is State.ERASED:
            msg = f"{conversation} was erased: only its tombstone is left"
            raise Gone(msg)
        return head

    def read(
        self, conversation: str, after: int, until: int | None, kinds: Collection[str] | None
    ) -> Iterator[Envelope]:
        """Yield committed runes of one conversation."""
        head = self.head(conversation)
        last = head.head if until is None else min(until, head.head)
        return self._filtered(self._read(head, max(after, 0), last), kinds)

    @staticmethod
    def _filtered(found: Iterator[Envelope], kinds: Collection[str] | None) -> Iterator[Envelope]:
        if kinds is None:
            return found
        return (envelope for envelope in found if envelope.kind in kinds)

    def _read(self, head: Head, cursor: int, last: int) -> Iterator[Envelope]:
        while cursor < last:
            self._check_open()
            if head.state is State.ARCHIVED:
                yield from self._archives.read(head.id, cursor, last)
                return
            before = cursor
            for chunk in self._spans(head.id, cursor, last):
                yield from chunk
                cursor = chunk[-1].event_id
            if cursor == before:
                # Archived, erased or restored between two chunks: ask again where it is now.
                now = self.head(head.id)
                if now.state is head.state:
                    msg = f"rune {cursor + 1} of {head.id} is missing"
                    raise Corrupt(msg, conversation=head.id, event_id=cursor + 1)
                head = now

    def _spans(self, conversation: str, cursor: int, last: int) -> Iterator[list[Envelope]]:
        for span in self._lookup.spans(conversation, cursor):
            stop = min(span.last, last)
            while cursor < stop:
                chunk = self._chunk(span.segment, conversation, None, cursor, stop)
                if not chunk:
                    return
                if chunk[0].event_id != cursor + 1:
                    msg = f"rune {cursor + 1} of {conversation} is missing"
                    raise Corrupt(msg, conversation=conversation, event_id=cursor + 1)
                yield chunk
                cursor = chunk[-1].event_id

    def stream(
        self, conversation: str, entity: str, after: int, until: int | None
    ) -> Iterator[Envelope]:
        """Yield what an entity's fold sees."""
        head = self.head(conversation)
        last = head.head if until is None else min(until, head.head)
        if head.state is State.ARCHIVED:
            return self._cold_stream(head, entity, max(after, 0), last)
        return self._stream(conversation, entity, max(after, 0), last)

    def _cold_stream(self, head: Head, entity: str, after: int, last: int) -> Iterator[Envelope]:
        version = 0
        for envelope in self._read(head, 0, last):
            if entity == envelope.owner or entity in envelope.observers:
                version += 1
                if version > after:
                    yield envelope

    def _stream(
        self, conversation: str, entity: str, version: int, last: int
    ) -> Iterator[Envelope]:
        for span in self._lookup.stream_spans(conversation, entity, version):
            while version < span.last:
                self._check_open()
                chunk = self._chunk(span.segment, conversation, entity, version, span.last)
                if not chunk:
                    msg = f"version {version + 1} of {entity} in {conversation} is missing"
                    raise Corrupt(msg, conversation=conversation)
                for envelope in chunk:
                    if envelope.event_id > last:
                        return
                    yield envelope
                version += len(chunk)

    def _chunk(
        self, segment: int, conversation: str, entity: str | None, after: int, last: int
    ) -> list[Envelope]:
        """Take the next runes of a conversation, or of an entity's stream, out of one segment."""
        found: list[Envelope] = []
        with self._volumes.take(segment) as (volume, view):
            number = volume.number_of(view, conversation)
            if number is None:
                return found
            place = _Place(number, *volume.id_of(view, number))
            table = "events" if entity is None else "streams"
            prefix = NUMBER.pack(number) if entity is None else stream_prefix(number, entity)
            runs: list[Run] = []
            wanted = 0
            for run in postings(view, table, prefix, after):
                count = min(run.length, last - run.first + 1, CHUNK)
                if count <= 0:
                    break
                runs.append(Run(run.first if entity is None else 0, run.position, count))
                wanted += count
                if wanted >= CHUNK or count < run.length:
                    break
            self._take(view, place, runs, found)
        return found

    def _take(self, view: View, place: _Place, runs: list[Run], found: list[Envelope]) -> None:
        """Decode the runes of `runs`; the first ones if all of them were too much to hold."""
        pack, decode = PLACE.pack, self._codec.envelopes
        ranges = [(pack(run.position), pack(run.position + run.length)) for run in runs]
        frames = view.cover("runes", ranges)
        size = 0
        for run in runs:
            position, stop = run.position, run.position + run.length
            while position < stop:
                key, data = next(frames, (b"", b""))
                at = PLACE.unpack(key)[0] if key else stop
                skip = position - at
                if not 0 <= skip < frame.count(data):
                    raise _missing(place, run, position)
                number, first, time, runes, content = frame.check(
                    data, place.conversation, place.seed, at
                )
                event_id = run.first + position - run.position if run.first else 0
                if number != place.number or (event_id and event_id != first + skip):
                    raise _missing(place, run, position)
                decoded = decode(runes, content, place.conversation, first, at, time)
                if skip or runes > stop - at:
                    decoded = decoded[skip : stop - at]
                found += decoded
                position += len(decoded)
                size += len(data)
                if size > CHUNK_BYTES:
                    return

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes an entity's stream holds."""
        self._check_open()
        head = self._lookup.head(conversation)
        if head is None:
            return 0
        if head.state is State.ARCHIVED:
            return sum(1 for _ in self._cold_stream(head, entity, 0, head.head))
        self.head(conversation)
        return self._lookup.version(conversation, entity)

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

    # -- everything ---------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The position of the last committed rune."""
        self._check_open()
        if self.news.position >= 0:
            return self.news.position
        self._volumes.refresh()
        return self._lookup.last_position()

    def read_all(self, after: int) -> Iterator[Envelope | Gap]:
        """Yield the committed runes of all conversations, in the log's order."""
        return self._everything(max(after, 0), self.position)

    def _everything(self, cursor: int, last: int) -> Iterator[Envelope | Gap]:
        while cursor < last:
            self._check_open()
            cursor, chunk = self._stretch(cursor, last)
            yield from chunk

    def _stretch(self, cursor: int, last: int) -> tuple[int, list[Envelope | Gap]]:
        """Take the next runes behind position `cursor` out of the segment that holds them."""
        info = self._lookup.segment_at(cursor + 1)
        with self._volumes.take(info.number) as (volume, view):
            if view.get("meta", b"silent"):
                # Its runes were given out before they were archived; they are back, not new.
                return min(info.last, last), []
            end = min(info.last or last, last)
            return self._from_segment(volume, view, cursor, end)

    def _from_segment(
        self, volume: Volume, view: View, cursor: int, last: int
    ) -> tuple[int, list[Envelope | Gap]]:
        found: list[Envelope | Gap] = []
        stop = PLACE.pack(last + 1)
        start = view.floor("runes", PLACE.pack(cursor + 1))
        key = start[0] if start else PLACE.pack(cursor + 1)
        # Holes are read only as far as the frames of this chunk go.
        chunk = view.scan("runes", key, stop, limit=256)
        here: list[tuple[int, bytes | Gap]] = [(PLACE.unpack(at)[0], data) for at, data in chunk]
        end = here[-1][0] + frame.count(chunk[-1][1]) - 1 if len(here) == 256 else last
        for gap in _holes(view, volume, cursor, end):
            here.append(gap)  # noqa: PERF402 -- two kinds of things in one list, sorted next
        here.sort(key=lambda item: item[0])
        for at, what in here:
            count = what.last - what.first + 1 if isinstance(what, Gap) else frame.count(what)
            if at + count - 1 <= cursor:
                continue
            if at > cursor + 1:
                break
            if isinstance(what, Gap):
                reason = self._why_gone(what.conversation)
                found.append(Gap(cursor + 1, min(what.last, last), reason, what.conversation))
                cursor = min(what.last, last)
            else:
                name, seed = volume.id_of(view, frame.number(what))
                _, first, time, runes, content = frame.check(what, name, seed, at)
                decoded = self._codec.envelopes(runes, content, name, first, at, time)
                found += decoded[cursor + 1 - at : last + 1 - at]
                cursor = min(at + runes - 1, last)
            if len(found) >= CHUNK:
                break
        if not found:
            msg = f"{volume.info.name} holds nothing at position {cursor + 1}"
            raise Corrupt(msg)
        return cursor, found

    def _why_gone(self, conversation: str | None) -> str:
        """Say why runes are not in their segment: what became of their conversation since."""
        if conversation is None:
            return "damaged"
        head = self._lookup.head(conversation)
        return "erased" if head is not None and head.state is State.ERASED else "archived"

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
        if max_behind is not None and max_behind < 1:
            msg = f"max_behind is {max_behind}: a reader must be allowed at least one rune"
            raise Refused(msg)
        self._check_open()
        if conversation is None:
            follower = Follower(self.news, lambda: self.position, self._everything, None)
        else:
            name = conversation
            self.head(name)
            follower = Follower(
                self.news,
                lambda: self.head(name).head,
                lambda after, until: self.read(name, after, until, None),
                name,
            )
        return follower.follow(max(after, 0), kinds, max_behind, wait)

    def close(self) -> None:
        """Wake those who follow; there is nothing more to come."""
        self.news.close()

    def _check_open(self) -> None:
        if self.news.closed:
            msg = "this log has been closed: open it again"
            raise Closed(msg)


def _missing(place: _Place, run: Run, position: int) -> Corrupt:
    event_id = run.first + position - run.position if run.first else None
    msg = f"the index names runes of {place.conversation} that are not there"
    return Corrupt(msg, conversation=place.conversation, event_id=event_id)


def _described(head: Head) -> Conversation:
    return Conversation(head.id, head.head, head.size, head.first_time, head.last_time, head.state)


def _holes(view: View, volume: Volume, cursor: int, last: int) -> Iterator[tuple[int, Gap]]:
    """Yield the gaps of a segment between two positions, each with where it begins."""
    start = view.floor("holes", PLACE.pack(cursor + 1))
    key = start[0] if start else PLACE.pack(cursor + 1)
    while found := view.scan("holes", key, PLACE.pack(last + 1), limit=256):
        for at, value in found:
            hole = decode_hole(at, value)
            name = volume.id_of(view, hole.number)[0] if hole.number else None
            yield hole.position, Gap(hole.position, hole.position + hole.length - 1, "", name)
        key = found[-1][0] + b"\0"

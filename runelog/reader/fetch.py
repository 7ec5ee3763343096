"""Taking runes out of one segment, a chunk at a time, each in a short transaction of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.errors import Corrupt
from runelog.index import frame
from runelog.index.records import NUMBER, PLACE, Run, postings, stream_prefix

if TYPE_CHECKING:
    from runelog.codec import Codec
    from runelog.lmdb.tables import Tables
    from runelog.reader.segments import Segment, Segments
    from runelog.rune import Envelope

CHUNK: Final = 256
"""About how many runes are taken out of a segment at a time. Four times as many are 3 % faster to
read, but many conversations that are read at once then need four times the memory."""
CHUNK_BYTES: Final = 1 << 20
"""How much is taken out of a segment at a time, about, however few runes that is."""


class _Room(NamedTuple):
    """A conversation in one segment: its number there, its id, what its checksums start from."""

    number: int
    conversation: str
    seed: int


class Fetch:
    """Takes what the index of a segment names out of it, and checks that it is that."""

    def __init__(self, segments: Segments, codec: Codec) -> None:
        """Read from `segments`."""
        self._segments = segments
        self._codec = codec

    def runes(self, number: int, conversation: str, after: int, last: int) -> list[Envelope]:
        """Take the next runes of a conversation behind event `after`, none if there are none."""
        with self._segments.take(number) as (segment, view):
            room = _room(segment, view, conversation)
            if room is None:
                return []
            runs = _runs(view, "events", NUMBER.pack(room.number), after, last)
            return self._take(view, room, runs)

    def stream(
        self, number: int, conversation: str, entity: str, after: int, last: int
    ) -> list[Envelope]:
        """Take the next runes of an entity's stream behind version `after`."""
        with self._segments.take(number) as (segment, view):
            room = _room(segment, view, conversation)
            if room is None:
                return []
            runs = _runs(view, "streams", stream_prefix(room.number, entity), after, last)
            # Their versions say nothing about event ids.
            return self._take(view, room, [Run(0, run.position, run.length) for run in runs])

    def _take(self, view: Tables, room: _Room, runs: list[Run]) -> list[Envelope]:
        """Decode the runes of `runs`; the first ones if all of them were too much to hold."""
        pack, decode = PLACE.pack, self._codec.envelopes
        mine, conversation, seed = room
        ranges = [(pack(run.position), pack(run.position + run.length)) for run in runs]
        frames = frame.sound(view.cover("runes", ranges), conversation, seed)
        found: list[Envelope] = []
        size = 0
        for run in runs:
            position, stop = run.position, run.position + run.length
            # How far event ids and positions are apart in this run; a stream does not say.
            shift = run.first - position if run.first else None
            while position < stop:
                block = next(frames, None)
                if block is None:
                    raise _missing(room, run, position)
                at, number, first, time, runes, content = block
                end = at + runes
                if (
                    number != mine
                    or not at <= position < end
                    or (shift is not None and first - at != shift)
                ):
                    raise _missing(room, run, position)
                decoded = decode(runes, content, conversation, first, at, time)
                if at < position or end > stop:
                    decoded = decoded[position - at : stop - at]
                found += decoded
                position = end
                size += len(content)
                if size > CHUNK_BYTES:
                    return found
        return found


def _room(segment: Segment, view: Tables, conversation: str) -> _Room | None:
    """Find a conversation in a segment."""
    number = segment.number_of(view, conversation)
    if number is None:
        return None
    room = _Room(number, *segment.id_of(view, number))
    if room.conversation != conversation:
        msg = f"{segment.info.name} has {conversation} under the number of {room.conversation}"
        raise Corrupt(msg, conversation=conversation)
    return room


def _runs(view: Tables, table: str, prefix: bytes, after: int, last: int) -> list[Run]:
    """Return where the next chunk is: runs without a gap, from right behind `after` on."""
    runs: list[Run] = []
    wanted = 0
    for run in postings(view, table, prefix, after):
        count = min(run.length, last - run.first + 1, CHUNK)
        if count <= 0 or run.first != after + wanted + 1:
            break
        runs.append(run if count == run.length else Run(run.first, run.position, count))
        wanted += count
        if wanted >= CHUNK or count < run.length:
            break
    return runs


def _missing(room: _Room, run: Run, position: int) -> Corrupt:
    event_id = run.first + position - run.position if run.first else None
    msg = f"the index names runes of {room.conversation} that are not there"
    return Corrupt(msg, conversation=room.conversation, event_id=event_id)

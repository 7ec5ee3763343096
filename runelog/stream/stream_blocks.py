"""What the blocks of a stream hold: a header, runes in columns, sections that close conversations.

    header
    for each conversation, in order of id: conversation, blobs and runes, section
    trailer

A blob comes before the first block of runes that names it. A section says where each block of its
conversation lies and where the section before it is, so that a reader with the whole file at hand
goes straight to any event.

    runes: u64 first event id | u32 count | u64 first position | i64 first time
           lengths u32, position steps u64, time steps i64: count of each, byte by byte | the bodies
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from runelog.checks import MAX_NUMBER
from runelog.decoders import from_msgpack
from runelog.errors import BadId
from runelog.rune import Envelope, check_id
from runelog.stream.block_format import Block, bad

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runelog.codec import Codec

TARGET: Final = 256 << 10
"""Bytes of bodies in a block: enough to compress well, little to read for one rune."""
MAX_COUNT: Final = 1 << 16
"""The most runes in one block."""
MAX_BODY: Final = 4 << 20
"""The longest body: a payload is at most 1 MiB, larger fields being blobs, plus its envelope."""

_HEAD = struct.Struct("<QIQq")
_PLACE = struct.Struct("<QQ")
_BLOB = struct.Struct("<32sQ")
_WRAP = 1 << 64
_WIDTHS = (4, 8, 8)
_encode = msgspec.msgpack.Encoder().encode
_T = TypeVar("_T", bound=msgspec.Struct)


class Entry(NamedTuple):
    """A rune as it is stored, in its place."""

    event_id: int
    position: int
    time: int
    body: bytes

    def envelope(self, codec: Codec, conversation: str) -> Envelope:
        """Return the rune as a reader of `conversation` is given it."""
        return codec.envelope(
            self.body,
            conversation=conversation,
            event_id=self.event_id,
            position=self.position,
            time=self.time,
        )

    @property
    def content(self) -> tuple[int, int, bytes]:
        """What stays the same wherever the rune is moved to."""
        return self.event_id, self.time, self.body


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a stream says of itself."""

    created: int = 0
    """Nanoseconds since 1970, UTC."""
    secret: bool = False
    """Whether secret runes are in it; if not, each has a tombstone in its place."""
    made_by: str = "runefold"


class Opening(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What begins a conversation."""

    conversation: str
    first: int
    """Its first event id in this stream: 1, unless what came before is elsewhere."""


class Section(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What closes a conversation: what is known of it, and where everything of it lies."""

    conversation: str
    first: int
    last: int
    first_time: int
    last_time: int
    size: int
    """Bytes of its bodies."""
    start: int
    """Where its opening begins."""
    previous: int
    """Where the section before this one begins, 0 if there is none."""
    blocks: bytes
    """For each block of runes: its first event id and its offset."""
    blobs: bytes
    """For each blob: its hash and its offset."""

    @property
    def count(self) -> int:
        """How many runes there are."""
        return self.last - self.first + 1

    def places(self) -> list[tuple[int, int]]:
        """Return first event id and offset of each block of runes."""
        return list(_PLACE.iter_unpack(self.blocks))

    def digests(self) -> dict[str, int]:
        """Return hash and offset of each blob."""
        return {digest.hex(): offset for digest, offset in _BLOB.iter_unpack(self.blobs)}


class Index:
    """Gathers what a section says while its conversation is written or checked."""

    def __init__(self, opening: Opening, start: int) -> None:
        """Begin with a conversation's opening, which lies at `start`."""
        self.conversation = opening.conversation
        self.first = opening.first
        self.last = opening.first - 1
        self.start = start
        self.position = 0
        self.size = 0
        self.first_time = self.last_time = 0
        self._blocks = bytearray()
        self._blobs = bytearray()

    def add_runes(self, entries: Sequence[Entry], offset: int) -> None:
        """Note a block of runes at `offset`."""
        first, last = entries[0], entries[-1]
        if not self._blocks:
            self.first_time = first.time
        self._blocks += _PLACE.pack(first.event_id, offset)
        self.last, self.position, self.last_time = last.event_id, last.position, last.time
        self.size += sum(len(entry.body) for entry in entries)

    def add_blob(self, digest: str, offset: int) -> None:
        """Note a blob at `offset`."""
        self._blobs += _BLOB.pack(bytes.fromhex(digest), offset)

    @property
    def weight(self) -> int:
        """How many bytes the lists of places take."""
        return len(self._blocks) + len(self._blobs)

    def section(self, previous: int) -> Section:
        """Close the conversation."""
        return Section(
            conversation=self.conversation,
            first=self.first,
            last=self.last,
            first_time=self.first_time,
            last_time=self.last_time,
            size=self.size,
            start=self.start,
            previous=previous,
            blocks=bytes(self._blocks),
            blobs=bytes(self._blobs),
        )


def pack(record: msgspec.Struct) -> bytes:
    """Encode a record for its block."""
    return _encode(record)


def unpack(block: Block, into: type[_T]) -> _T:
    """Decode the record of a block, and have it in the one way in which it is written."""
    name = into.__name__.lower()
    try:
        record = from_msgpack(into)(block.content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        bad(block.offset, f"the {name} cannot be decoded ({error})")
    if _encode(record) != block.content:
        bad(block.offset, f"the {name} is not written as it should be")
    return record


def unpack_section(block: Block) -> Section:
    """Decode a section and check that it can be used: its places lie in order, between its ends."""
    section = unpack(block, Section)
    try:
        check_id(section.conversation, "conversation id")
    except BadId as error:
        bad(block.offset, f"the section cannot be: {error}")
    if len(section.blocks) % _PLACE.size or len(section.blobs) % _BLOB.size or not section.blocks:
        bad(block.offset, "the section lists places in part")
    places = section.places()
    offsets = [section.start, *(offset for _, offset in places), block.offset]
    events = [*(first for first, _ in places), section.last + 1]
    if not (_rising(offsets) and _rising(events)) or events[0] != section.first:
        bad(block.offset, "the section lists places out of order")
    if not (0 < section.first <= section.last <= MAX_NUMBER) or not (
        0 <= section.previous < section.start
    ):
        bad(block.offset, "the section has numbers that cannot be")
    return section


def pack_runes(entries: Sequence[Entry]) -> bytes:
    """Lay out consecutive runes as the content of one block."""
    count = len(entries)
    first = entries[0]
    positions = [entry.position for entry in entries]
    times = [entry.time for entry in entries]
    parts = [_HEAD.pack(first.event_id, count, first.position, first.time)]
    columns = (
        [len(entry.body) for entry in entries],
        _steps(positions),
        [step % _WRAP for step in _steps(times)],
    )
    for width, column in zip(_WIDTHS, columns, strict=True):
        parts.append(_shuffle(struct.pack(f"<{count}{'I' if width == 4 else 'Q'}", *column), width))
    parts.extend(entry.body for entry in entries)
    return b"".join(parts)


def unpack_runes(block: Block) -> list[Entry]:
    """Take a block of runes apart; what cannot be so is refused, but bodies are not looked into."""
    content, offset = block.content, block.offset
    if len(content) < _HEAD.size:
        bad(offset, "a block of runes is too short")
    event_id, count, position, time = _HEAD.unpack_from(content)
    at = _HEAD.size
    start = at + count * sum(_WIDTHS)
    if not 0 < count <= MAX_COUNT or start > len(content):
        bad(offset, f"a block of runes claims to hold {count:,}")
    columns = []
    for width in _WIDTHS:
        end = at + count * width
        plain = _unshuffle(content[at:end], width)
        columns.append(struct.unpack(f"<{count}{'I' if width == 4 else 'Q'}", plain))
        at = end
    lengths, steps, delays = columns
    if start + sum(lengths) != len(content) or max(lengths) > MAX_BODY:
        bad(offset, "the lengths of the runes in a block are not those of its content")
    if steps[0] or delays[0] or not all(steps[1:]):
        bad(offset, f"positions do not rise in the block from event {event_id}")
    entries = list(_entries(content, start, event_id, lengths, (position, steps), (time, delays)))
    last = entries[-1]
    if not 0 < position <= last.position <= MAX_NUMBER or not 0 < event_id <= last.event_id:
        bad(offset, f"the block from event {event_id} has numbers that cannot be")
    if last.event_id > MAX_NUMBER:
        bad(offset, f"the block from event {event_id} has numbers that cannot be")
    return entries


def _entries(
    content: bytes,
    at: int,
    event_id: int,
    lengths: Sequence[int],
    positions: tuple[int, Sequence[int]],
    times: tuple[int, Sequence[int]],
) -> Iterator[Entry]:
    where = accumulate(positions[1], initial=positions[0])
    when = accumulate(times[1], initial=times[0] % _WRAP)
    next(where), next(when)  # the first step, which is 0, gives the first value again
    for event, length, position, time in zip(
        range(event_id, event_id + len(lengths)), lengths, where, when, strict=True
    ):
        signed = time % _WRAP
        yield Entry(
            event,
            position,
            signed - _WRAP if signed > MAX_NUMBER else signed,
            content[at : at + length],
        )
        at += length


def _steps(values: Sequence[int]) -> list[int]:
    return [0, *(after - before for before, after in pairwise(values))]


def _shuffle(data: bytes, width: int) -> bytes:
    """Put all first bytes together, then all second …: high bytes are alike and compress away."""
    return b"".join(data[byte::width] for byte in range(width))


def _unshuffle(data: bytes, width: int) -> bytes:
    plain = bytearray(len(data))
    count = len(data) // width
    for byte in range(width):
        plain[byte::width] = data[byte * count : (byte + 1) * count]
    return bytes(plain)


def _rising(values: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(values))

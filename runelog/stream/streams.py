"""The stream by which conversations travel and rest: export, import and cold storage.

One format for all three: framed, compressed, checksummed, readable from any event on. It knows
files and stored runes, not logs; see `block_format` for blocks and `stream_blocks` for what they
hold.

    with replacing(path) as file:
        write_stream(file, [Source("conv_a", entries, blobs)], secret=True)
    with path.open("rb") as file:
        check_stream(file)
        for section, entries in StreamReader(file):
            ...
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from runelog.codec import Blobs, Codec, digest_of, tombstone
from runelog.errors import Corrupt, TooLarge, UnknownConversation
from runelog.files import room_for
from runelog.rune import Envelope, Visibility, check_id
from runelog.stream.block_format import (
    LEVEL,
    LIMITS,
    START,
    TRAILER_SIZE,
    Block,
    BlockWriter,
    Kind,
    Totals,
    bad,
    read_block,
    read_fully,
    read_preamble,
    read_totals,
)
from runelog.stream.stream_blocks import (
    MAX_BODY,
    MAX_COUNT,
    TARGET,
    Entry,
    Header,
    Index,
    Opening,
    Section,
    pack,
    pack_runes,
    unpack,
    unpack_runes,
    unpack_section,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

_PLAIN = b"\x99"
"""How a stored rune begins that names no blobs."""
_encode = msgspec.msgpack.Encoder().encode


class Source(NamedTuple):
    """A conversation to be written: its runes in order, and where their blobs are."""

    conversation: str
    entries: Iterable[Entry]
    blobs: Blobs | None = None


def entry_of(envelope: Envelope) -> Entry:
    """Return a rune as it was stored, byte for byte, from the envelope that a log gave out."""
    fields: list[object] = [
        envelope.owner,
        envelope.observers,
        envelope.agent,
        envelope.turn,
        envelope.cause,
        int(envelope.visibility),
        envelope.tags,
        envelope.schema,
        envelope.body,
    ]
    if envelope.blobs:
        fields.append(envelope.blobs)
    return Entry(envelope.event_id, envelope.position, envelope.time, _encode(fields))


def write_stream(
    file: BinaryIO,
    sources: Iterable[Source],
    *,
    secret: bool = False,
    created: int = 0,
    level: int = LEVEL,
    progress: Callable[[int], None] | None = None,
) -> Totals:
    """Write conversations, in order of id, as one stream; return what its trailer says.

    Unless `secret`, a secret rune has a tombstone in its place. `progress` is told of runes as they
    are written. Raises `Corrupt` where a source is not what a log gives out, and `LogFull` where
    there is no room; what was written until then has no trailer and is no stream.
    """
    with room_for("the stream"):
        blocks = BlockWriter(file, level)
        blocks.put(Kind.HEADER, pack(Header(created=created, secret=secret)))
        writer = _Writer(blocks, secret=secret, progress=progress)
        for source in sources:
            writer.write(source)
        return blocks.finish(writer.conversations, writer.runes, writer.blobs, writer.previous)


class _Writer:
    """Writes one conversation after the other."""

    def __init__(
        self, blocks: BlockWriter, *, secret: bool, progress: Callable[[int], None] | None
    ) -> None:
        self.conversations = self.runes = self.blobs = self.previous = 0
        self._blocks = blocks
        self._secret = secret
        self._progress = progress
        self._codec = Codec()
        self._before = ""
        self._pending: list[Entry] = []
        self._bytes = 0

    def write(self, source: Source) -> None:
        """Write one conversation, from its opening to its section."""
        conversation = check_id(source.conversation, "conversation id")
        if conversation <= self._before:
            msg = f"{conversation} comes after {self._before}: write conversations in order of id"
            raise ValueError(msg)
        index: Index | None = None
        held: set[str] = set()
        position = event_id = 0
        for entry in source.entries:
            if index is None:
                opening = Opening(conversation, entry.event_id)
                index = Index(opening, self._blocks.put(Kind.CONVERSATION, pack(opening)))
                event_id = entry.event_id - 1
            if entry.event_id != event_id + 1 or entry.position <= position or entry.event_id < 1:
                msg = f"rune {event_id + 1} of {conversation} is not where it should be"
                raise Corrupt(msg, conversation=conversation, event_id=event_id + 1)
            event_id, position = entry.event_id, entry.position
            self._add(self._presentable(source, entry, index, held), index)
        if index is None:
            msg = f"{conversation} has no runes to write"
            raise ValueError(msg)
        self._flush(index)
        self.previous = self._blocks.put(Kind.SECTION, pack(index.section(self.previous)))
        self.conversations += 1
        self._before = conversation

    def _presentable(self, source: Source, entry: Entry, index: Index, held: set[str]) -> Entry:
        """Return what is written for a rune, its blobs having been written before it."""
        body = entry.body
        if self._secret and body[:1] == _PLAIN:
            return entry
        envelope = entry.envelope(self._codec, source.conversation)
        if not self._secret and envelope.visibility is Visibility.SECRET:
            return entry._replace(body=tombstone(envelope, "secret"))
        for _, digest, _ in envelope.blobs:
            if digest in held:
                continue
            if source.blobs is None:
                msg = (
                    f"rune {entry.event_id} of {source.conversation} names blobs that are not here"
                )
                raise Corrupt(msg, conversation=source.conversation, event_id=entry.event_id)
            content = source.blobs.get(source.conversation, digest)
            index.add_blob(digest, self._blocks.put(Kind.BLOB, content))
            held.add(digest)
            self.blobs += 1
        return entry

    def _add(self, entry: Entry, index: Index) -> None:
        size = len(entry.body)
        if size > MAX_BODY:
            msg = (
                f"rune {entry.event_id} of {index.conversation} takes {size:,} bytes, "
                f"more than the {MAX_BODY:,} that a stream can hold"
            )
            raise TooLarge(msg)
        if self._pending and (self._bytes + size > TARGET or len(self._pending) >= MAX_COUNT):
            self._flush(index)
        self._pending.append(entry)
        self._bytes += size

    def _flush(self, index: Index) -> None:
        index.add_runes(self._pending, self._blocks.put(Kind.RUNES, pack_runes(self._pending)))
        self.runes += len(self._pending)
        if self._progress is not None:
            self._progress(len(self._pending))
        self._pending = []
        self._bytes = 0


class StreamReader:
    """Reads a stream that can be sought in: any conversation, from any event id on.

    What it touches it checks; what it does not touch may be damaged. `check_stream` looks at
    everything. Iterating gives every conversation with its runes. Safe to use from many threads.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read header and trailer; the reader owns the file from now on."""
        self._file = file
        self._lock = threading.Lock()
        self._latest: tuple[int, list[Entry]] = (-1, [])
        self._section: Section | None = None
        self._size = file.seek(0, 2)
        file.seek(0)
        read_preamble(read_fully(file, START))
        self.header = unpack(self._block(START, Kind.HEADER), Header)
        self.totals = read_totals(self._block(self._size - TRAILER_SIZE, Kind.TRAILER))

    def sections(self) -> Iterator[Section]:
        """Yield what is known of each conversation, in order of id."""
        offsets = [offset for offset, _ in self._backwards()]
        for offset in reversed(offsets):
            yield self._load(offset)

    def section(self, conversation: str) -> Section:
        """Return what is known of one conversation, or raise `UnknownConversation`."""
        found = self._section
        if found is None or found.conversation != conversation:
            for _, found in self._backwards():
                if found.conversation <= conversation:
                    break
            if found is None or found.conversation != conversation:
                raise UnknownConversation(conversation)
            self._section = found
        return found

    def read(self, conversation: str, after: int = 0, until: int | None = None) -> Iterator[Entry]:
        """Yield the runes with `after` < event id <= `until`; no other block is decompressed."""
        return self._read(self.section(conversation), after, until)

    def blob(self, conversation: str, digest: str) -> bytes:
        """Return one blob, checked, or raise `Corrupt` if it is not here."""
        offset = self.section(conversation).digests().get(digest)
        if offset is None:
            msg = f"blob {digest:.80} of {conversation} is not in the stream"
            raise Corrupt(msg, conversation=conversation)
        return self._blob(digest, offset)

    def blobs(self, conversation: str) -> Iterator[tuple[str, bytes]]:
        """Yield every blob of a conversation with its hash, each checked, one at a time."""
        for digest, offset in self.section(conversation).digests().items():
            yield digest, self._blob(digest, offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[tuple[Section, Iterator[Entry]]]:
        """Yield every conversation, in order of id, with its runes."""
        for section in self.sections():
            yield section, self._read(section, 0, None)

    def __enter__(self) -> Self:
        """Return the reader itself; leaving the block closes its file."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the file."""
        self.close()

    def _read(self, section: Section, after: int, until: int | None) -> Iterator[Entry]:
        last = section.last if until is None else min(until, section.last)
        places = section.places()
        firsts = [first for first, _ in places]
        for number in range(max(bisect_right(firsts, after + 1) - 1, 0), len(places)):
            first, offset = places[number]
            if first > last:
                return
            following = firsts[number + 1] if number + 1 < len(firsts) else section.last + 1
            for entry in self._runes(offset, first, following):
                if after < entry.event_id <= last:
                    yield entry

    def _runes(self, offset: int, first: int, following: int) -> list[Entry]:
        """Return the runes of one block. The latest is kept: its neighbours are asked for next."""
        known, entries = self._latest
        if known != offset:
            entries = unpack_runes(self._block(offset, Kind.RUNES))
            self._latest = (offset, entries)
        if entries[0].event_id != first or entries[-1].event_id != following - 1:
            bad(offset, "a block does not hold the runes that its section says")
        return entries

    def _blob(self, digest: str, offset: int) -> bytes:
        content = self._block(offset, Kind.BLOB).content
        if digest_of(content) != digest:
            bad(offset, f"blob {digest} has another hash")
        return content

    def _backwards(self) -> Iterator[tuple[int, Section]]:
        """Yield all sections, the last one first: each says where the one before it is."""
        offset, behind = self.totals.last, ""
        while offset:
            section = self._load(offset)
            if behind and section.conversation >= behind:
                bad(offset, f"{section.conversation} comes twice, or not in order of id")
            yield offset, section
            offset, behind = section.previous, section.conversation

    def _load(self, offset: int) -> Section:
        return unpack_section(self._block(offset, Kind.SECTION))

    def _block(self, offset: int, kind: Kind) -> Block:
        if not START <= offset < self._size:
            bad(self._size, f"it ends, and byte {offset:,} is referred to")
        with self._lock:
            self._file.seek(offset)
            block = read_block(lambda size: read_fully(self._file, size), offset)
        if block.kind is not kind:
            bad(offset, f"there is a {block.kind.name.lower()} block and not a {kind.name.lower()}")
        return block


assert LIMITS[Kind.RUNES] > MAX_BODY + MAX_COUNT * 20 + TARGET

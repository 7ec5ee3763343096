"""Small streams for tests, and the tools to make unsound ones."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgspec
import pytest

from runelog.blobs import MemoryBlobs
from runelog.codec import Codec, digest_of
from runelog.errors import BadStream, NewerFormat
from runelog.rune import Change, Rune, Visibility
from runelog.stream.block_format import BlockWriter, Kind
from runelog.stream.stream_blocks import Entry, Header, Index, Opening, Section, pack, pack_runes
from runelog.stream.stream_check import check_stream
from runelog.stream.streams import Source, StreamReader, write_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runelog.codec import Blobs


class Said(Rune, frozen=True, tag="turn.assistant_delta"):
    """A fragment of an answer."""

    text: str


class Filed(Rune, frozen=True, tag="file.read"):
    """Something that may be long."""

    name: str
    content: bytes = b""
    lines: tuple[str, ...] = ()


def entries(
    runes: Iterable[Rune],
    *,
    conversation: str = "conv_a",
    first: int = 1,
    visibility: Visibility | None = None,
    blobs: Blobs | None = None,
) -> list[Entry]:
    """Encode runes as a log would, in consecutive places."""
    codec = Codec([Said, Filed], blobs=blobs)
    return [
        Entry(
            event_id,
            3 * event_id,
            1_000 * event_id,
            codec.encode(
                conversation,
                Change("call_1", None, [rune], agent="agt_1", turn="turn_1", visibility=visibility),
            )[0],
        )
        for event_id, rune in enumerate(runes, first)
    ]


def said(*texts: str, conversation: str = "conv_a", first: int = 1) -> list[Entry]:
    """Encode fragments."""
    return entries((Said(text=text) for text in texts), conversation=conversation, first=first)


def written(*sources: Source, secret: bool = False, level: int = 3) -> bytes:
    """Write a stream."""
    file = io.BytesIO()
    write_stream(file, sources, secret=secret, level=level)
    return file.getvalue()


def sample() -> bytes:
    """Return a small stream with a bit of everything: two conversations, blocks, blobs."""
    blobs = MemoryBlobs()
    long = [Filed(name="a", content=b"x" * 1_100_000), Said(text="then")]
    return written(
        Source("conv_a", entries(long, blobs=blobs), blobs),
        Source("conv_b", said("one", "two", conversation="conv_b", first=5)),
    )


def bodies(found: Iterable[Entry]) -> Sequence[bytes]:
    """Return only the bodies."""
    return [entry.body for entry in found]


def refused(data: bytes, match: str = "at byte") -> None:
    """Hold the check to refusing `data`, and the reader to refusing it or giving the truth."""
    with pytest.raises(BadStream, match=match):
        check_stream(io.BytesIO(data))
    read_all(data)


def read_all(data: bytes) -> None:
    """Read everything there is, whatever it is: nothing but `BadStream` may come of it."""
    try:
        reader = StreamReader(io.BytesIO(data))
        for section, runes in reader:
            list(runes)
            list(reader.blobs(section.conversation))
    except (BadStream, NewerFormat):
        pass


class Hostile:
    """Writes streams whose every checksum is right, and whose content is not."""

    def __init__(self) -> None:
        """Begin as every stream does."""
        self.file = io.BytesIO()
        self.blocks = BlockWriter(self.file)
        self.previous = 0
        self.counts = [0, 0, 0]
        self.blocks.put(Kind.HEADER, pack(Header()))

    def open(self, conversation: str = "conv_a", first: int = 1) -> Index:
        """Begin a conversation."""
        opening = Opening(conversation, first)
        return Index(opening, self.blocks.put(Kind.CONVERSATION, pack(opening)))

    def runes(self, index: Index, found: Sequence[Entry]) -> None:
        """Add a block of runes."""
        index.add_runes(found, self.blocks.put(Kind.RUNES, pack_runes(found)))
        self.counts[1] += len(found)

    def blob(self, index: Index, content: bytes) -> None:
        """Add a blob."""
        index.add_blob(digest_of(content), self.blocks.put(Kind.BLOB, content))
        self.counts[2] += 1

    def close(self, section: Section) -> None:
        """End a conversation."""
        self.previous = self.blocks.put(Kind.SECTION, pack(section))
        self.counts[0] += 1

    def whole(self, found: Sequence[Entry], conversation: str = "conv_a") -> None:
        """Write one conversation."""
        index = self.open(conversation, found[0].event_id)
        self.runes(index, found)
        self.close(index.section(self.previous))

    def done(self) -> bytes:
        """Write the trailer and return the stream."""
        conversations, runes, blobs = self.counts
        self.blocks.finish(conversations, runes, blobs, self.previous)
        return self.file.getvalue()


def body(value: object) -> bytes:
    """Return a rune's body made of anything."""
    return msgspec.msgpack.encode(value)


def one(content: bytes) -> bytes:
    """Return a sound stream but for its one rune's body."""
    hostile = Hostile()
    hostile.whole([Entry(1, 1, 1, content)])
    return hostile.done()

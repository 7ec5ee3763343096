"""Small streams for tests, and the tools to make unsound ones."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from runelog.blobs import MemoryBlobs
from runelog.codec import Codec
from runelog.parts import Entry
from runelog.rune import Change, Rune, Visibility
from runelog.transfer import Source, write_stream

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

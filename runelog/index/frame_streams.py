"""Which streams the runes of a frame are in: those of its owners and observers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from runelog.encodable import UNREADABLE
from runelog.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator


Seen = list[tuple[tuple[str, ...], int]]
"""Which entities see the runes of an append, as owner and observers, and how many in a row."""


class _Envelope(msgspec.Struct, array_like=True, gc=False):
    """Of a rune's envelope, whose streams it is in."""

    owner: str
    observers: tuple[str, ...]


class FrameStreams(NamedTuple):
    """The runes from `start` to before `stop` of a frame have the same owner and observers."""

    owner: str
    observers: tuple[str, ...]
    start: int
    stop: int

    @property
    def entities(self) -> tuple[str, ...]:
        """Each entity whose stream they are in, once."""
        return seeing(self.owner, self.observers)


@lru_cache(maxsize=1_024)
def seeing(owner: str, observers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entities that see a rune, each once.

    In the order they are given in: the same appends then make the same file.

    >>> seeing("call_1", ("turn_1", "call_1", "turn_1"))
    ('call_1', 'turn_1')
    """
    return tuple(dict.fromkeys((owner, *observers)))


_decode = msgspec.msgpack.Decoder(list[_Envelope]).decode


def frame_streams(position: int, count: int, content: bytes) -> Iterator[FrameStreams]:
    """Yield whose streams the runes of a sound frame at a position are in, in their order."""
    try:
        found = _decode(b"\xdc" + count.to_bytes(2, "big") + content)
    except UNREADABLE as error:
        msg = f"the runes at position {position} cannot be decoded: {error}"
        raise Corrupt(msg) from error
    # Mostly all of them have the same: then that is told once.
    start, owner, observers = 0, found[0].owner, found[0].observers
    for at, one in enumerate(found):
        if one.owner != owner or one.observers != observers:
            yield FrameStreams(owner, observers, start, at)
            start, owner, observers = at, one.owner, one.observers
    yield FrameStreams(owner, observers, start, count)

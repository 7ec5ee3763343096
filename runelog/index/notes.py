"""What the first frame of an append says beside its runes: what the index must have of it.

With them a segment's index can be told from its frames alone. So it may follow behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from runelog.errors import Corrupt
from runelog.index.records import PLACE, checked, signed

WorkNote: TypeAlias = tuple[str, bool | int | None]
"""An entity and what `work` says of it: open until a deadline, or open (True), or closed although
the catalog may say open (False), or nothing (None)."""


class Opening(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a conversation goes on in a segment: in its first frame there."""

    id: str
    size: int
    """Bytes of its runes in the segments before."""
    first_time: int


class Notes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an append says of the index."""

    opening: Opening | None
    """Of a conversation that has no number in this segment yet."""
    before: Sequence[tuple[str, int]]
    """Streams that go on in this segment, with the version each had before."""
    work: Sequence[WorkNote]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notes).decode


def encode_notes(position: int, notes: Notes) -> bytes:
    """Return notes as they lie in the frame at `position`, with a checksum."""
    return signed(PLACE.pack(position), _encode(notes))


def decode_notes(position: int, stored: bytes) -> Notes:
    """Decode the notes in the frame at `position`; `Corrupt` if they are not what was written."""
    try:
        return _decode(checked(PLACE.pack(position), stored))
    except msgspec.DecodeError as error:
        msg = f"the notes at position {position} cannot be decoded: {error}"
        raise Corrupt(msg) from error

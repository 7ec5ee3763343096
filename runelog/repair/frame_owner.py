"""Finding the conversation of a frame when the segment's own list of names cannot tell.

The checksum of a rune starts from its conversation's id. Run backwards it gives what it started
from, and with that the id, if it is one of those that anything else in the log speaks of.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from runelog.index import frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ENOUGH: Final = 8
"""So many checksums that agree leave no doubt: no more are run backwards."""
_ONES: Final = 0xFFFF_FFFF


def _step(index: int) -> int:
    for _ in range(8):
        index = index >> 1 ^ (0xEDB8_8320 if index & 1 else 0)
    return index


_TABLE: Final = [_step(index) for index in range(256)]
_BACK: Final = {entry >> 24: index for index, entry in enumerate(_TABLE)}


def started_from(data: bytes, checksum: int) -> int:
    """Return what a checksum over `data` was started from.

    >>> from zlib import crc32
    >>> started_from(b"some bytes", crc32(b"some bytes", 4_711))
    4711
    """
    state = checksum ^ _ONES
    for byte in reversed(data):
        index = _BACK[state >> 24]
        state = ((state ^ _TABLE[index]) << 8 | index ^ byte) & _ONES
    return state ^ _ONES


def names_of(
    frames: Mapping[int, Iterable[tuple[int, bytes]]], conversations: Iterable[str]
) -> dict[int, str]:
    """Return which of `conversations` numbers stand for, given the frames that have each.

    A frame comes with its position. A number is that of the conversation which most of its
    checksums speak for: one that is damaged speaks for none, but for one in four thousand million.
    """
    by_seed = {frame.seed_of(name): name for name in conversations}
    found = {}
    for number, those in frames.items():
        votes: Counter[str] = Counter()
        for position, data in those:
            for part, checksum, salt in frame.clues(data, position):
                if name := by_seed.get(started_from(part, checksum) ^ salt):
                    votes[name] += 1
            if votes.total() >= _ENOUGH:
                break
        if votes:
            found[number] = votes.most_common(1)[0][0]
    return found

"""Counts the sound runes in the bytes of a segment, without any code of the log's.

What a repair keeps is held against this: every rune that is on a page which still tells where its
entries are, and that matches its checksum.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = 4096
LEAF = 2


def sound_runes(data: bytes, conversations: Iterable[str]) -> set[tuple[str, int]]:
    """Return the runes that can be read, as (conversation, event id)."""
    seeds = {name: crc32(name.encode()) for name in conversations}
    found = set()
    for key, value in _entries(data):
        if len(key) == 8 and len(value) > 30:
            found |= set(_runes(struct.unpack(">Q", key)[0], value, seeds))
    return found


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of every entry on a leaf of an LMDB file."""
    for start in range(0, len(data) - PAGE + 1, PAGE):
        page = data[start : start + PAGE]
        number, _, flags, lower, _ = struct.unpack_from("<QHHHH", page)
        if number != start // PAGE or flags != LEAF or not 16 < lower <= PAGE:
            continue
        for (at,) in struct.iter_unpack("<H", page[16 : lower - lower % 2]):
            if at + 8 <= PAGE:
                low, high, kind, width = struct.unpack_from("<HHHH", page, at)
                end = at + 8 + width + (high << 16 | low)
                if kind == 0 and end <= PAGE:
                    yield page[at + 8 : at + 8 + width], page[at + 8 + width : end]


def _runes(position: int, value: bytes, seeds: dict[str, int]) -> Iterator[tuple[str, int]]:
    _, _, first, time, count = struct.unpack_from("<IIQqH", value)
    start = 30 + 8 * count
    if start > len(value):
        return
    place = crc32(struct.pack("<QqI", position, time, first >> 32))
    for offset, (length, checksum) in enumerate(struct.iter_unpack("<II", value[30:start])):
        body = value[start : start + length]
        event_id = first + offset
        for name, seed in seeds.items():
            if len(body) == length and crc32(body, (seed ^ place ^ event_id) & 0xFFFFFFFF) == (
                checksum
            ):
                yield name, event_id
        start += length

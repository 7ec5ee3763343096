"""Which streams a conversation has, held in few bytes: names that are certainly not among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST: Final = 256
LARGEST: Final = 8_192
"""Bytes of the first part, and of the largest: 16 bits of a checksum tell its bits apart."""
BYTES_A_NAME: Final = 1
"""Of names that were not added, each full part then takes about 5 % for one that was."""


class StreamFilter:
    """A Bloom filter that grows: it knows every name that was added, and few others seem to be.

    It does not use `hash`, which differs between processes: the same appends then look up the same
    streams.

    >>> seen = StreamFilter()
    >>> seen.add(["turn_1", "turn_2"])
    >>> "turn_1" in seen, "turn_3" in seen
    (True, False)
    """

    __slots__ = ("_parts", "_room")

    def __init__(self) -> None:
        """Begin with no name."""
        self._parts: list[bytearray] = []
        self._room = 0
        """How many more names the last part takes."""

    def add(self, names: Iterable[str]) -> None:
        """Add names."""
        for name in names:
            if not self._room:
                size = min(len(self._parts[-1]) * 4, LARGEST) if self._parts else FIRST
                self._parts.append(bytearray(size))
                self._room = size // BYTES_A_NAME
            self._room -= 1
            bits, mark = self._parts[-1], crc32(name.encode())
            last = len(bits) * 8 - 1
            one, other = mark & last, mark >> 16 & last
            bits[one >> 3] |= 1 << (one & 7)
            bits[other >> 3] |= 1 << (other & 7)

    def __contains__(self, name: str) -> bool:
        """Return False if the name was certainly not added."""
        mark = crc32(name.encode())
        for bits in self._parts:
            last = len(bits) * 8 - 1
            one, other = mark & last, mark >> 16 & last
            if bits[one >> 3] >> (one & 7) & 1 and bits[other >> 3] >> (other & 7) & 1:
                return True
        return False

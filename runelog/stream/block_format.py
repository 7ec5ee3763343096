"""Blocks: how a stream of runes lies in a file.

    magic, u32 format version, u32 checksum of both
    blocks, one after the other; the last one is the trailer and nothing follows it

    a block: u8 type | u8 flags | u16 zero | u32 raw length | u32 stored length | checksum[16]
             content

The checksum is BLAKE2b over the block's offset, its head and its content as stored, so that a block
that was changed, moved or swapped is never taken for another. Nothing here trusts a length: each
type of block has a limit, and what is decompressed is bounded by what was declared.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, NoReturn
from zlib import crc32

from runelog.errors import BadStream, NewerFormat, TooLarge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC: Final = b"\x93RUNES\r\n"
"""A byte that is not text, a name, and a line end that a careless transfer would alter."""
VERSION: Final = 1
LEVEL: Final = 9
"""How hard to compress: past this, hours of processor time buy a few per cent."""
MAX_LEVEL: Final = 19

_PREAMBLE = struct.Struct("<8sII")
_HEAD = struct.Struct("<BBHII")
_OFFSET = struct.Struct("<Q")
_TOTALS = struct.Struct("<QQQQ32s")
_CHECK = 16
_COMPRESSED = 1
_WINDOW = 23
"""Log of the largest window: what a decompressor may have to hold besides its output."""

FRAME: Final = _HEAD.size + _CHECK
"""Bytes of a block besides its content."""
START: Final = _PREAMBLE.size
"""Where the first block begins."""


class Kind(enum.IntEnum):
    """What a block holds."""

    HEADER = 1
    CONVERSATION = 2
    BLOB = 3
    RUNES = 4
    SECTION = 5
    TRAILER = 6


LIMITS: Final = {
    Kind.HEADER: 4 << 10,
    Kind.CONVERSATION: 4 << 10,
    Kind.BLOB: 64 << 20,
    Kind.RUNES: 8 << 20,
    Kind.SECTION: 16 << 20,
    Kind.TRAILER: _TOTALS.size,
}
"""The most a block of each kind may hold, in bytes before compression."""

TRAILER_SIZE: Final = FRAME + _TOTALS.size


class Totals(NamedTuple):
    """What the trailer says of the whole stream."""

    conversations: int
    runes: int
    blobs: int
    last: int
    """Where the last section block begins, 0 if there is none."""
    digest: bytes
    """BLAKE2b over every byte before the trailer."""


class Block(NamedTuple):
    """One block as read: what it is, where it begins and ends, and its content."""

    kind: Kind
    offset: int
    end: int
    content: bytes


def bad(offset: int, why: str) -> NoReturn:
    """Refuse a stream, naming the byte where it goes wrong."""
    msg = f"the stream is damaged, or is not one of runefold's: at byte {offset:,}, {why}"
    raise BadStream(msg)


class BlockWriter:
    """Writes blocks to a file, one after the other, from its present position on."""

    def __init__(self, file: BinaryIO, level: int = LEVEL) -> None:
        """Write the preamble."""
        if not 1 <= level <= MAX_LEVEL:
            msg = f"compression level {level} is not between 1 and {MAX_LEVEL}"
            raise ValueError(msg)
        self.offset = 0
        self._file = file
        self._digest = hashlib.blake2b(digest_size=32)
        self._options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: level,
            zstd.CompressionParameter.window_log: _WINDOW,
        }
        start = MAGIC + VERSION.to_bytes(4, "little")
        self._write(start + crc32(start).to_bytes(4, "little"))

    def put(self, kind: Kind, content: bytes) -> int:
        """Write one block and return where it begins."""
        offset = self.offset
        if len(content) > LIMITS[kind]:
            name, limit = kind.name.lower(), LIMITS[kind]
            msg = f"a {name} block of {len(content):,} bytes is over its limit of {limit:,}"
            raise TooLarge(msg)
        stored, flags = content, 0
        if kind is not Kind.TRAILER:
            packed = zstd.compress(content, options=self._options)
            if len(packed) < len(content):
                stored, flags = packed, _COMPRESSED
        head = _HEAD.pack(kind, flags, 0, len(content), len(stored))
        self._write(head + _checksum(offset, head, stored))
        self._write(stored)
        return offset

    def finish(self, conversations: int, runes: int, blobs: int, last: int) -> Totals:
        """Write the trailer, which vouches for all that was written."""
        totals = Totals(conversations, runes, blobs, last, self._digest.digest())
        self.put(Kind.TRAILER, _TOTALS.pack(*totals))
        self._file.flush()
        return totals

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self.offset += len(data)
        view = memoryview(data)
        while view:
            # An unbuffered file may take less than it is given.
            view = view[self._file.write(view) :]


def read_preamble(data: bytes) -> None:
    """Check the first bytes of a stream: it is one of ours, and of a version that can be read."""
    if len(data) < START:
        bad(len(data), "it ends before it has begun")
    magic, version, checksum = _PREAMBLE.unpack(data)
    if magic != MAGIC:
        bad(0, "it does not begin as a stream of runes does")
    if checksum != crc32(data[:-4]):
        bad(8, "the format version does not match its checksum")
    if version > VERSION:
        msg = f"the stream has format {version}, this version reads {VERSION}: use a later version"
        raise NewerFormat(msg)
    if version != VERSION:
        bad(8, f"it claims format {version}, which there never was")


def read_block(
    read: Callable[[int], bytes], offset: int, seen: Callable[[bytes], None] | None = None
) -> Block:
    """Read one block at `offset` from `read`, check it and decompress it.

    What was read is also given to `seen`, unless the block is the trailer.
    """
    head = _take(read, offset, FRAME)
    number, flags, zero, raw, size = _HEAD.unpack_from(head)
    try:
        kind = Kind(number)
    except ValueError:
        bad(offset, f"there is a block of unknown type {number}")
    name = kind.name.lower()
    if zero or flags > _COMPRESSED:
        bad(offset, f"a {name} block has flags that mean nothing")
    if raw > LIMITS[kind]:
        bad(offset, f"a {name} block claims {raw:,} bytes, more than the limit of {LIMITS[kind]:,}")
    if size > raw or (size < raw) != flags:
        bad(offset, f"the lengths of a {name} block contradict each other")
    stored = _take(read, offset + FRAME, size)
    if head[_HEAD.size :] != _checksum(offset, head[: _HEAD.size], stored):
        bad(offset, f"a {name} block does not match its checksum")
    if seen is not None and kind is not Kind.TRAILER:
        seen(head)
        seen(stored)
    content = _decompress(stored, raw, offset) if flags else stored
    return Block(kind, offset, offset + FRAME + size, content)


def read_totals(block: Block) -> Totals:
    """Take a trailer apart."""
    if block.kind is not Kind.TRAILER or len(block.content) != _TOTALS.size:
        bad(block.offset, "there is no trailer")
    return Totals(*_TOTALS.unpack(block.content))


def read_fully(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or as many as there are: a pipe gives less at a time."""
    data = file.read(size) or b""
    if len(data) == size or not data:
        return data
    parts = [data]
    missing = size - len(data)
    while missing and (data := file.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def _take(read: Callable[[int], bytes], offset: int, size: int) -> bytes:
    data = read(size)
    if len(data) != size:
        bad(offset + len(data), "it ends in the middle of a block: it was cut short")
    return data


def _checksum(offset: int, head: bytes, stored: bytes) -> bytes:
    check = hashlib.blake2b(_OFFSET.pack(offset), digest_size=_CHECK)
    check.update(head)
    check.update(stored)
    return check.digest()


def _decompress(stored: bytes, raw: int, offset: int) -> bytes:
    """Decompress to exactly `raw` bytes, never producing more than one beyond that."""
    unpack = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW})
    try:
        content = unpack.decompress(stored, max_length=raw + 1)
        if len(content) == raw and not unpack.eof:
            # The frame's last bytes may still wait for room; anything they hold is too much.
            content += unpack.decompress(b"", max_length=1)
    except (zstd.ZstdError, EOFError, MemoryError) as error:
        bad(offset, f"a block cannot be decompressed ({error})")
    if len(content) != raw or not unpack.eof or unpack.unused_data:
        bad(offset, "a block does not decompress to the length it declares")
    return content

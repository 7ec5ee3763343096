"""What the tables of a segment mean: heads, postings, open work; and how to find runes with them.

Postings are the runs of positions at which a conversation, or an entity's stream, goes on. They are
kept in chunks, each under the first event id (or version) it tells of:

    u64 base position | runs of (u32 distance from base, u16 count)

A chunk grows in place until it is full, so that an append costs an entry of six bytes, not a key.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import msgspec

from runelog.errors import Corrupt
from runelog.rune import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.lmdb.tables import Tables

NUMBER = struct.Struct(">I")
PLACE = struct.Struct(">Q")
_BASE = struct.Struct("<Q")
_RUN = struct.Struct("<IH")
_HOLE = struct.Struct("<IIB")
_DEADLINE = struct.Struct("<q")
_CHECKSUM = struct.Struct("<I")
MAX_CHUNK: Final = _BASE.size + 80 * _RUN.size
MAX_COUNT: Final = 0xFFFF
LAST: Final = b"\xff" * 8
"""Above every place."""
LAST_NUMBER: Final = b"\xff" * 4
_CLOSED: Final = b""
"""In `work`: this entity has nothing left to do, although the catalog may say that it has."""


class Head(msgspec.Struct, array_like=True, gc=False):
    """What the index keeps of a conversation.

    In a segment, `since` is the first event it holds there.
    """

    id: str
    since: int
    head: int
    size: int
    first_time: int
    last_time: int
    state: State = State.LIVE


class Run(msgspec.Struct, frozen=True, gc=False):
    """`length` runes at consecutive positions from `position`.

    The first has event id or version `first`.
    """

    first: int
    position: int
    length: int


class Hole(NamedTuple):
    """Positions whose runes were taken out of a segment, whose they were and why."""

    position: int
    length: int
    number: int
    reason: State


_encode_head = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(Head).decode


def signed(key: bytes, value: bytes) -> bytes:
    """Return a value as it is stored where no runes can tell whether it is still right."""
    return value + _CHECKSUM.pack(crc32(value, crc32(key)))


def checked(key: bytes, stored: bytes) -> bytes:
    """Return the value before its checksum; `Corrupt` if it or its key is not what was written."""
    value = stored[: -_CHECKSUM.size]
    if stored != signed(key, value):
        msg = "an entry of the index does not match its checksum"
        raise Corrupt(msg)
    return value


def encode_head(key: bytes, head: Head) -> bytes:
    """Return a head as it is stored under `key`."""
    return signed(key, _encode_head(head))


def decode_head(key: bytes, stored: bytes) -> Head:
    """Decode a head that is stored under `key`."""
    try:
        return _decode_head(checked(key, stored))
    except msgspec.DecodeError as error:
        msg = f"a head record of the index cannot be decoded: {error}"
        raise Corrupt(msg) from error


def encode_work(key: bytes, *, is_open: bool, deadline: int | None = None) -> bytes:
    """Return what `work` says under `key` of an entity: whether it has something left to do."""
    open_until = _DEADLINE.pack(-1 if deadline is None else deadline)
    return signed(key, open_until if is_open else _CLOSED)


def decode_work(key: bytes, stored: bytes) -> tuple[bool, int | None]:
    """Decode what `work` says: whether there is something left to do, and a deadline if any."""
    value = checked(key, stored)
    if value == _CLOSED:
        return False, None
    if len(value) != _DEADLINE.size:
        msg = "a deadline of the index cannot be decoded"
        raise Corrupt(msg)
    deadline: int = _DEADLINE.unpack(value)[0]
    return True, None if deadline < 0 else deadline


def stream_prefix(number: int, entity: str) -> bytes:
    """Return the start of the keys of an entity's postings in `streams`."""
    return NUMBER.pack(number) + entity.encode() + b"\0"


# -- postings ----------------------------------------------------------------------------------


class Tail:
    """The last chunk of some postings, and those that were filled up before it."""

    __slots__ = ("_full", "_runs", "base", "key", "next", "prefix", "start", "stop")

    def __init__(self, prefix: bytes, first: int) -> None:
        """Begin a chunk whose first event or version is `first`."""
        self.prefix = prefix
        self.next = first
        """The event or version that comes next."""
        self._full: list[tuple[bytes, bytes]] = []
        self._begin()

    def _begin(self) -> None:
        self.key = self.prefix + PLACE.pack(self.next)
        self.base = -1
        self.start = self.stop = -1
        """Where the last run begins and ends: it may yet grow."""
        self._runs = b""
        """The chunk without its last run, as it is stored."""

    def go_on(self, stored: bytes, last: Run) -> None:
        """Take a chunk as it is stored, and its last run."""
        self.base = _BASE.unpack_from(stored)[0]
        self._runs = stored[: -_RUN.size]
        self.next = last.first + last.length
        self.start = last.position
        self.stop = last.position + last.length

    def add(self, position: int, count: int) -> None:
        """Note `count` more runes from `position` on."""
        if position == self.stop and position + count - self.start <= MAX_COUNT:
            self.stop += count
            self.next += count
            return
        while count > MAX_COUNT:
            self.add(position, MAX_COUNT)
            position += MAX_COUNT
            count -= MAX_COUNT
        if self.base >= 0:
            self._runs = self._stored()
            if len(self._runs) >= MAX_CHUNK or position - self.base > 0xFFFF_FFFF:
                self._full.append((self.key, self._runs))
                self._begin()
        if self.base < 0:
            self.base = position
            self._runs = _BASE.pack(position)
        self.start = position
        self.stop = position + count
        self.next += count

    def chunks(self) -> list[tuple[bytes, bytes]]:
        """Return the chunks that were not asked for as they are, the last one at the end."""
        full, self._full = self._full, []
        return [*full, (self.key, self._stored())]

    def _stored(self) -> bytes:
        return self._runs + _RUN.pack(self.start - self.base, self.stop - self.start)


def load_tail(view: Tables, table: str, prefix: bytes) -> Tail | None:
    """Return the last chunk of the postings under `prefix`, None if there are none."""
    found = view.floor(table, prefix + LAST)
    if found is None or not _belongs(found[0], prefix):
        return None
    tail = Tail(prefix, PLACE.unpack(found[0][len(prefix) :])[0])
    if runs := [*runs_in(*found)]:
        tail.go_on(found[1], runs[-1])
    return tail


def postings(view: Tables, table: str, prefix: bytes, after: int) -> Iterator[Run]:
    """Yield the runs under `prefix` behind event id or version `after`, cut to begin there."""
    start = view.floor(table, prefix + PLACE.pack(after + 1))
    key = start[0] if start and _belongs(start[0], prefix) else prefix + PLACE.pack(after + 1)
    while True:
        chunks = view.scan(table, key, prefix + LAST, limit=16)
        for found, value in chunks:
            if not _belongs(found, prefix):
                return
            yield from runs_in(found, value, after)
        if len(chunks) < 16:
            return
        key = chunks[-1][0] + b"\0"


def _belongs(key: bytes, prefix: bytes) -> bool:
    return len(key) == len(prefix) + PLACE.size and key.startswith(prefix)


def runs_in(key: bytes, value: bytes, after: int = -1) -> Iterator[Run]:
    """Yield the runs of one chunk of postings behind `after`, cut to begin there."""
    if len(value) < _BASE.size or (len(value) - _BASE.size) % _RUN.size:
        msg = "a chunk of postings has a damaged length"
        raise Corrupt(msg)
    first = PLACE.unpack(key[-PLACE.size :])[0]
    if not first:
        msg = "a chunk of postings begins before the first rune there can be"
        raise Corrupt(msg)
    base = _BASE.unpack_from(value)[0]
    for distance, count in _RUN.iter_unpack(value[_BASE.size :]):
        skip = after + 1 - first
        if skip <= 0:
            yield Run(first, base + distance, count)
        elif skip < count:
            yield Run(first + skip, base + distance + skip, count - skip)
        first += count


# -- holes -------------------------------------------------------------------------------------


def encode_hole(hole: Hole) -> tuple[bytes, bytes]:
    """Return the entry of `holes` that tells of runes taken out."""
    key = PLACE.pack(hole.position)
    return key, signed(key, _HOLE.pack(hole.number, hole.length, int(hole.reason)))


def decode_hole(key: bytes, stored: bytes) -> Hole:
    """Decode an entry of `holes`."""
    try:
        number, count, reason = _HOLE.unpack(checked(key, stored))
        return Hole(PLACE.unpack(key)[0], count, number, State(reason))
    except (struct.error, ValueError) as error:
        msg = "an entry of the table of holes cannot be decoded"
        raise Corrupt(msg) from error

"""Frames: how the runes of one append lie on disk.

A frame holds consecutive runes of one conversation, appended at one time. Its key is the position
of its first rune in the whole log, so keys only ever rise. Each rune has a checksum over its
place (conversation, event id, position), its time and its body, so that a rune that was damaged,
moved or swapped is never taken for another. One more checksum over the whole frame is what a reader
compares; the runes' own then tell which of them is damaged, and which is not.

    u32 checksum of all that follows
    u32 conversation number in this segment | u64 first event id | i64 time | u16 count
    u32 length of the notes | count x (u32 length, u32 checksum)
    the bodies, one after the other | the notes

The notes of an append's first frame say what the index must have of it and its runes do not tell;
see `notes`.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from runelog.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

TARGET: Final = 780
"""Bytes of a frame, about: five fill a page of 4 KiB with little waste."""
LARGE_TARGET: Final = 1_980
"""The same for an append that fills pages by itself: two fill a page, and no more than two fit."""
LARGE: Final = 8_192
MAX_RUNES: Final = 0xFFFF

_HEADER = struct.Struct("<IIQqHI")
_ENTRY = struct.Struct("<II")
_BASE = struct.Struct("<QqI")
POSITION = struct.Struct(">Q")
"""A frame's key: big-endian, so that byte order is numeric order."""
_MASK = 0xFFFF_FFFF


class Frame(NamedTuple):
    """A frame taken apart: where its runes belong, and their bodies."""

    number: int
    first: int
    time: int
    bodies: list[bytes]


Block = tuple[int, int, int, int, bytes]
"""A sound frame: number, first event id, time, how many runes, their bodies in one piece.

A plain tuple, because reading spends its time here.
"""


def seed_of(conversation: str) -> int:
    """Return what the checksums of this conversation's runes start from."""
    return crc32(conversation.encode())


def split(bodies: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Cut the bodies of one append into frames of a good and even size."""
    runes = len(bodies)
    size = sum(map(len, bodies)) + 8 * runes
    if size <= TARGET:
        return [bodies]
    target = TARGET if size < LARGE else LARGE_TARGET
    frames = -(-size // target)
    fit = min(target // (max(map(len, bodies)) + 8), MAX_RUNES)
    if fit and -(-runes // fit) <= frames + 1:
        # All of about one size, as they mostly are: cut by their number.
        return _evenly(bodies, -(-runes // fit))
    return list(_by_size(bodies, size / frames, target))


def _evenly(bodies: Sequence[bytes], frames: int) -> list[Sequence[bytes]]:
    cut = []
    start = 0
    for left in range(frames, 0, -1):
        stop = start + (len(bodies) - start) // left
        cut.append(bodies[start:stop])
        start = stop
    return cut


def _by_size(bodies: Sequence[bytes], share: float, target: int) -> Iterator[Sequence[bytes]]:
    """Cut at even shares of the whole, so that no frame is a crumb."""
    start, before, filled = 0, 0, 0
    goal = share
    for index, body in enumerate(bodies):
        more = len(body) + 8
        if index > start and (
            filled + more / 2 > goal
            or filled - before + more > target
            or index - start >= MAX_RUNES
        ):
            yield bodies[start:index]
            start, before = index, filled
            goal = max(goal + share, filled + share)
        filled += more
    yield bodies[start:]


def pack(
    number: int,
    seed: int,
    position: int,
    first: int,
    time: int,
    bodies: Sequence[bytes],
    notes: bytes = b"",
) -> bytes:
    """Lay out one frame."""
    base = seed ^ crc32(_BASE.pack(position, time, first >> 32))
    table: list[int] = []
    note = table.append
    event_id = first
    for body in bodies:
        note(len(body))
        # Of what a checksum starts from, zlib takes the lower 32 bits by itself.
        note(crc32(body, base ^ event_id))
        event_id += 1
    count = event_id - first
    head = _layout(count)(number, first, time, count, len(notes), *table)
    rest = head + b"".join(bodies) + notes
    return crc32(rest, seed ^ position ^ position >> 32).to_bytes(4, "little") + rest


@lru_cache(maxsize=128)
def _layout(count: int) -> Callable[..., bytes]:
    """Return what packs a frame up to its bodies, without its checksum."""
    return struct.Struct(f"<IQqHI{2 * count}I").pack


def count(data: bytes) -> int:
    """Return how many runes a frame holds, without taking it apart."""
    return int.from_bytes(data[24:26], "little")


def header(data: bytes) -> tuple[int, int, int, int, int]:
    """Return number, first event id, time, count of runes, and how many bytes their bodies take.

    Nothing of it is checked but that all of it is there.
    """
    if len(data) < _HEADER.size:
        msg = "a frame is cut short"
        raise Corrupt(msg)
    _, number, first, time, runes, noted = _HEADER.unpack_from(data)
    return number, first, time, runes, len(data) - _HEADER.size - _ENTRY.size * runes - noted


def content(data: bytes) -> bytes:
    """Return the bodies of a frame that is sound, in one piece."""
    *_, runes, noted = _HEADER.unpack_from(data)
    return data[_HEADER.size + _ENTRY.size * runes : len(data) - noted]


def notes(data: bytes) -> bytes:
    """Return the notes of a frame, which have a checksum of their own."""
    noted = _HEADER.unpack_from(data)[-1]
    return data[len(data) - noted :] if noted else b""


def fills(data: bytes) -> bool:
    """Return True if a frame is as long as its header and the lengths of its runes say."""
    *_, runes, noted = _HEADER.unpack_from(data)
    start = _HEADER.size + _ENTRY.size * runes
    lengths = (length for length, _ in _ENTRY.iter_unpack(data[_HEADER.size : start]))
    return bool(runes > 0 and start <= len(data) and start + sum(lengths) + noted == len(data))


def number(data: bytes) -> int:
    """Return the conversation number of a frame, without taking it apart."""
    return int.from_bytes(data[4:8], "little")


def first_event(data: bytes) -> int:
    """Return the first event id of a frame, without taking it apart."""
    return int.from_bytes(data[8:16], "little")


def time_of(data: bytes) -> int:
    """Return when the runes of a frame were appended, without taking it apart."""
    return int.from_bytes(data[16:24], "little", signed=True)


def check(data: bytes, conversation: str, seed: int, position: int) -> Block:
    """Return what a frame holds; raise `Corrupt`, naming a rune, if it is damaged."""
    if len(data) > _HEADER.size:
        checksum, number, first, time, runes, noted = _HEADER.unpack_from(data)
        if crc32(data[4:], (seed ^ position ^ position >> 32) & _MASK) == checksum:
            start = _HEADER.size + 8 * runes
            return number, first, time, runes, data[start : len(data) - noted]
    parts = salvage(data, conversation, seed, position)
    event_id = parts.first + (parts.bodies.index(None) if None in parts.bodies else 0)
    msg = f"rune {event_id} of {conversation} does not match its checksum"
    raise Corrupt(msg, conversation=conversation, event_id=event_id)


def sound(
    entries: Iterable[tuple[bytes, bytes]], conversation: str, seed: int
) -> Iterator[tuple[int, int, int, int, int, bytes]]:
    """Yield of each entry, a frame under its key, its position and what it holds, as `check` does.

    Reading spends its time here, hence no call for each of them, unless one is damaged.
    """
    place, header, size = POSITION.unpack, _HEADER.unpack_from, _HEADER.size
    for key, data in entries:
        (position,) = place(key)
        if len(data) > size:
            checksum, number, first, time, runes, noted = header(data)
            # Here too, zlib takes the lower 32 bits by itself.
            if crc32(data[4:], seed ^ position ^ position >> 32) == checksum:
                content = data[size + 8 * runes : -noted] if noted else data[size + 8 * runes :]
                yield position, number, first, time, runes, content
                continue
        yield (position, *check(data, conversation, seed, position))


def unpack(data: bytes, conversation: str, seed: int, position: int) -> Frame:
    """Take a frame apart; raise `Corrupt` naming a rune if it does not match its checksum."""
    number, first, time, runes, _ = check(data, conversation, seed, position)
    parts = salvage(data, conversation, seed, position)
    bodies = [body for body in parts.bodies if body is not None]
    if len(bodies) != runes:
        event_id = parts.first + parts.bodies.index(None)
        msg = f"rune {event_id} of {conversation} does not match its checksum"
        raise Corrupt(msg, conversation=conversation, event_id=event_id)
    return Frame(number, first, time, bodies)


class Salvaged(NamedTuple):
    """A frame taken apart as far as it is sound: None stands for a body that is damaged."""

    number: int
    first: int
    time: int
    bodies: list[bytes | None]


def salvage(data: bytes, conversation: str, seed: int, position: int) -> Salvaged:
    """Take a frame apart and keep what is sound; raise `Corrupt` if not even its header fits."""
    size = len(data)
    if size < _HEADER.size:
        msg = f"a frame of {conversation} is cut short"
        raise Corrupt(msg, conversation=conversation)
    _, number, first, time, count, noted = _HEADER.unpack_from(data)
    start = _HEADER.size + 8 * count
    if count == 0 or start > size:
        msg = f"the frame of {conversation} from event {first} has a damaged header"
        raise Corrupt(msg, conversation=conversation, event_id=first)
    base = seed ^ crc32(_BASE.pack(position, time, first >> 32))
    bodies: list[bytes | None] = []
    event_id = first
    for length, checksum in _ENTRY.iter_unpack(data[_HEADER.size : start]):
        body = data[start : start + length]
        sound = len(body) == length and crc32(body, (base ^ event_id) & _MASK) == checksum
        bodies.append(body if sound else None)
        start += length
        event_id += 1
    if start + noted != size and None not in bodies:
        msg = f"the frame of {conversation} from event {first} has bytes left over"
        raise Corrupt(msg, conversation=conversation, event_id=first)
    return Salvaged(number, first, time, bodies)


def clues(data: bytes, position: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield what tells whose a frame is: bytes, their checksum, and a number.

    The checksum over the bytes started from the seed of the frame's conversation, XOR the number.
    """
    size = len(data)
    if size < _HEADER.size:
        return
    whole, _, first, time, count, _ = _HEADER.unpack_from(data)
    yield data[4:], whole, (position ^ position >> 32) & _MASK
    start = _HEADER.size + 8 * count
    if start > size:
        return
    base = crc32(_BASE.pack(position, time, first >> 32))
    for offset, (length, checksum) in enumerate(_ENTRY.iter_unpack(data[_HEADER.size : start])):
        if start + length > size:
            return
        yield data[start : start + length], checksum, (base ^ first + offset) & _MASK
        start += length

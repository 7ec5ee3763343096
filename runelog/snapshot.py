"""Snapshots: a cache of states, so that replay need not begin at the beginning.

Nothing here is authoritative. One file a conversation, only ever appended to, holds states,
each once under its hash, and marks: at this event, these entities had these states. A mark lists
only what changed since the one before it, so that a file grows with what happened and not with its
square.

    magic, u32 format version, u32 checksum of both
    records: u8 type | 3 bytes zero | u32 length | SHA-256 of the content | u32 checksum | content

A torn tail, a flipped bit, another version or no file at all only mean that a snapshot is not used.
Nothing is synced: what a crash takes is made again.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import hashlib
import os
import struct
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import msgspec

from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

VERSION: Final = 1
MAX_CACHED: Final = 2_000
"""How many marks of entities are kept in memory, over all conversations; one takes some 500 bytes.
They are looked at when a conversation wakes and each time its states are kept."""
MAX_CONVERSATIONS: Final = 64
"""How many conversations they may be of."""

_MAGIC = b"\x93SNAPS\r\n"
_PREAMBLE = struct.Struct("<8sII")
_RECORD = struct.Struct("<BxxxI32sI")
_CHECKED = _RECORD.size - 4
_start = _MAGIC + VERSION.to_bytes(4, "little")
_START = _start + crc32(_start).to_bytes(4, "little")


class Key(NamedTuple):
    """Whose state: of which lifecycle, folded by which version of it, of which entity."""

    lifecycle: str
    version: int
    entity: str
    """Empty for a fold of the whole conversation."""


class Kept(NamedTuple):
    """A state to be kept."""

    version: int
    """How many runes of its stream were folded."""
    anchor: bytes
    """A hash of the last rune that was folded: of another history, the snapshot is not used."""
    state: bytes


class Snapshot(NamedTuple):
    """A state as it was kept, at an event."""

    event_id: int
    version: int
    anchor: bytes
    state: bytes


class _Type(enum.IntEnum):
    STATE = 1
    MARK = 2


class _Entity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    key: Key
    version: int
    anchor: bytes
    digest: bytes


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    event_id: int
    entities: list[_Entity]


class _Record(NamedTuple):
    type: _Type
    digest: bytes
    at: int
    """Where its content begins."""
    size: int


_Place = tuple[int, int, bytes, bytes]
"""Event id, version, anchor and the state's hash: sorted by event id."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Mark).decode


class _Index:
    """What one file holds, as far as it is sound."""

    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.end = 0
        """Where the last sound record ends; 0 if not even the preamble is sound."""
        self.torn = False
        self.states: dict[bytes, tuple[int, int]] = {}
        self.marks: dict[Key, list[_Place]] = {}
        self.weight = 0

    def floor(self, key: Key, event_id: int) -> int:
        """Return how many marks of `key` are at or before `event_id`."""
        return bisect_right(self.marks.get(key, ()), event_id, key=lambda place: place[0])

    def add(self, mark: _Mark) -> None:
        """Take a mark in. They need not come in order; of two at one event the later one counts."""
        for entity in mark.entities:
            places = self.marks.setdefault(entity.key, [])
            number = self.floor(entity.key, mark.event_id)
            again = number > 0 and places[number - 1][0] == mark.event_id
            place = (mark.event_id, entity.version, entity.anchor, entity.digest)
            places[number - again : number] = [place]
            self.weight += not again


class Snapshots:
    """The snapshots of a log: `<root>/<conversation>.snap`, readable by their owner only."""

    def __init__(self, root: Path, max_cached: int = MAX_CACHED) -> None:
        """Keep snapshots under `root`, which is made when the first one is saved."""
        self.root = root
        self.problems: deque[str] = deque(maxlen=100)
        """What was found unsound and not used, the latest."""
        self._max = max_cached
        self._indexes: OrderedDict[str, _Index] = OrderedDict()
        self._lock = threading.Lock()

    def save(self, conversation: str, event_id: int, states: Mapping[Key, Kept]) -> bool:
        """Keep the states of entities as they are at `event_id`, which must be durable in the log.

        Only what changed since the mark before is written. Says whether all is kept: a cache that
        cannot be written is a problem to be noted, not a failure.
        """
        path = self._path(conversation)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock, _opened(path, os.O_RDWR | os.O_CREAT) as file:
                # One process at a time: another may be appending, or cutting a torn tail off.
                fcntl.flock(file, fcntl.LOCK_EX)
                index = self._refresh(conversation, file)
                mark = _changed(index, event_id, states)
                if mark.entities:
                    self._append(file, index, mark, states)
                    self._evict(conversation)
        except OSError as error:
            self._forget(conversation)
            self.problems.append(f"no snapshot of {conversation} at {event_id}: {error}")
            return False
        return True

    def load(self, conversation: str, key: Key, until: int) -> Snapshot | None:
        """Return the newest sound snapshot at or before `until`, None if there is none.

        `until` is never beyond the log's own head: a snapshot that is, is of runes that were lost.
        """
        path = self._path(conversation)
        try:
            with self._lock, _opened(path, os.O_RDONLY) as file:
                index = self._refresh(conversation, file)
                self._evict(conversation)
                places = index.marks.get(key, [])
                for number in reversed(range(index.floor(key, until))):
                    event_id, version, anchor, digest = places[number]
                    state = self._state(conversation, file, index, digest)
                    if state is not None:
                        return Snapshot(event_id, version, anchor, state)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.problems.append(f"the snapshots of {conversation} cannot be read: {error}")
        return None

    def drop(self, conversation: str) -> None:
        """Remove all snapshots of a conversation. There need not be any."""
        path = self._path(conversation)
        with self._lock:
            self._indexes.pop(conversation, None)
            path.unlink(missing_ok=True)

    def verify(self, conversation: str) -> list[str]:
        """Look at every byte kept of a conversation and return what is unsound, as sentences."""
        found: list[str] = []
        try:
            with _opened(self._path(conversation), os.O_RDONLY) as file:
                index = _Index(0)
                found.extend(
                    f"the {record.type.name.lower()} at byte {record.at:,} of the snapshots of "
                    f"{conversation} does not match its hash"
                    for record in _scan(file, index)
                    if _content(file, record) is None
                )
                if index.torn:
                    found.append(
                        f"the snapshots of {conversation} are not readable from byte "
                        f"{index.end:,} on"
                    )
        except FileNotFoundError:
            pass
        except OSError as error:
            found.append(f"the snapshots of {conversation} cannot be read: {error}")
        return found

    def _path(self, conversation: str) -> Path:
        return self.root / f"{check_id(conversation, 'conversation id')}.snap"

    def _refresh(self, conversation: str, file: int) -> _Index:
        """Return what the file holds, reading only what was added since it was last looked at."""
        status = os.fstat(file)
        index = self._indexes.get(conversation)
        if index is None or index.inode != status.st_ino or status.st_size < index.end:
            index = self._indexes[conversation] = _Index(status.st_ino)
        self._indexes.move_to_end(conversation)
        if status.st_size == index.end:
            return index
        noted = index.torn
        for record in _scan(file, index):
            if record.type is _Type.STATE:
                # The last of a name counts: it was written because the one before was damaged.
                index.states[record.digest] = (record.at, record.size)
            elif (mark := _read_mark(file, record)) is not None:
                index.add(mark)
            else:
                self.problems.append(
                    f"a mark in the snapshots of {conversation} does not match its hash"
                )
        if index.torn and not noted:
            self.problems.append(
                f"the snapshots of {conversation} are not readable from byte {index.end:,} on"
            )
        return index

    def _state(self, conversation: str, file: int, index: _Index, digest: bytes) -> bytes | None:
        at, size = index.states.get(digest, (0, 0))
        state = _content(file, _Record(_Type.STATE, digest, at, size)) if at else None
        if at and state is None:
            # Forgotten, so that it is written again when it is next kept.
            del index.states[digest]
            self.problems.append(f"a state in the snapshots of {conversation} has another hash")
        return state

    @staticmethod
    def _append(file: int, index: _Index, mark: _Mark, states: Mapping[Key, Kept]) -> None:
        parts = [] if index.end else [_START]
        at = index.end or len(_START)
        added: dict[bytes, tuple[int, int]] = {}
        for entity in mark.entities:
            if entity.digest not in index.states and entity.digest not in added:
                state = states[entity.key].state
                parts.append(_record(_Type.STATE, entity.digest, state))
                added[entity.digest] = (at + _RECORD.size, len(state))
                at += len(parts[-1])
        content = _encode(mark)
        parts.append(_record(_Type.MARK, hashlib.sha256(content).digest(), content))
        # Behind a torn tail nothing would be found again.
        os.ftruncate(file, index.end)
        os.lseek(file, index.end, os.SEEK_SET)
        data = memoryview(b"".join(parts))
        size = len(data)
        while data:
            data = data[os.write(file, data) :]
        index.end += size
        index.torn = False
        index.states |= added
        index.add(mark)

    def _evict(self, current: str) -> None:
        """Forget what was used longest ago while there is too much, but never the current one."""
        total = sum(index.weight for index in self._indexes.values())
        while total > self._max or len(self._indexes) > MAX_CONVERSATIONS:
            if next(iter(self._indexes)) == current:
                return
            total -= self._indexes.popitem(last=False)[1].weight

    def _forget(self, conversation: str) -> None:
        with self._lock:
            self._indexes.pop(conversation, None)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _changed(index: _Index, event_id: int, states: Mapping[Key, Kept]) -> _Mark:
    """Return the mark that says what is new at `event_id`."""
    entities = []
    for key, kept in states.items():
        digest = hashlib.sha256(kept.state).digest()
        number = index.floor(key, event_id)
        place = index.marks[key][number - 1] if number else None
        known = place is not None and place[1:] == (kept.version, kept.anchor, digest)
        if not known or digest not in index.states:
            entities.append(_Entity(key, kept.version, kept.anchor, digest))
    return _Mark(event_id, entities)


def _record(kind: _Type, digest: bytes, content: bytes) -> bytes:
    head = _RECORD.pack(kind, len(content), digest, 0)[:_CHECKED]
    return head + crc32(head).to_bytes(4, "little") + content


def _scan(file: int, index: _Index) -> Iterator[_Record]:
    """Yield the records behind `index.end` and move it along; states are not read, only passed."""
    size = os.fstat(file).st_size
    index.torn = index.end < size
    if index.end == 0:
        if os.pread(file, _PREAMBLE.size, 0) != _START:
            return
        index.end = _PREAMBLE.size
    while index.end < size:
        head = os.pread(file, _RECORD.size, index.end)
        if len(head) < _RECORD.size:
            return
        number, length, digest, checksum = _RECORD.unpack(head)
        at = index.end + _RECORD.size
        if checksum != crc32(head[:_CHECKED]) or number not in (1, 2) or at + length > size:
            return
        yield _Record(_Type(number), digest, at, length)
        index.end = at + length
    index.torn = False


def _content(file: int, record: _Record) -> bytes | None:
    content = os.pread(file, record.size, record.at)
    return content if hashlib.sha256(content).digest() == record.digest else None


def _read_mark(file: int, record: _Record) -> _Mark | None:
    content = _content(file, record)
    try:
        return None if content is None else _decode(content)
    except msgspec.DecodeError:
        return None

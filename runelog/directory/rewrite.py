"""Segments made anew: without some conversations, or out of conversations that come from elsewhere.

A new file is built aside and named by the next manifest or by none; the file it replaces is not
touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from runelog.directory.garbage import is_blank
from runelog.errors import Corrupt
from runelog.files import TEMPORARY, sync_directory
from runelog.index import frame, stamps
from runelog.index.catalog import entries
from runelog.index.follow import follow_appends
from runelog.index.frame_streams import frame_streams
from runelog.index.records import NUMBER, PLACE, Hole, decode_head, encode_head, encode_hole, signed
from runelog.index.unwritten import INDEXED, UnwrittenIndex, encode_indexed, indexed
from runelog.lmdb.environment import Environment
from runelog.manifest import SegmentInfo, Status
from runelog.reader.lookup import last_position, last_time
from runelog.writer.commit_queue import PendingAppend
from runelog.writer.segment_writer import CachedConversation, Frames, numbers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from runelog.lmdb.environment import Batch
    from runelog.lmdb.tables import Tables
    from runelog.rune import State
    from runelog.stream.stream_blocks import Entry
    from runelog.writer.segment_writer import EarlierSegments

_BATCH: Final = 1_024
_ITEM: Final = 256
_ROOM: Final = 16 << 20
_NUMBERED: Final = ("events", "streams", "work")


class Birth(NamedTuple):
    """To which log a new segment belongs, and which revision of its manifest names it first."""

    log: str
    revision: int


def create(
    path: Path,
    info: SegmentInfo,
    birth: Birth,
    epoch: int,
    *,
    aside: bool = False,
    silent: bool = False,
    made: Environment | None = None,
) -> Environment:
    """Make an empty segment; `LogFull` and the like leave nothing of it behind.

    With `aside` it is filled before MANIFEST names it: `sealed` then says that it is complete. Its
    file may have been `made` ahead.
    """
    env = made or empty(path, info)
    try:
        env.reserve(1)
        with env.batch() as batch:
            batch.put("meta", b"epoch", NUMBER.pack(epoch))
            batch.put("meta", b"segment", msgspec.json.encode(info))
            stamps.begin(batch, *birth, aside=aside)
            if silent:
                batch.put("meta", b"silent", b"1")
        sync_directory(path.parent)
    except BaseException:
        env.close()
        discard(path)
        raise
    return env


def discard(path: Path) -> None:
    """Delete a segment's files."""
    path.unlink(missing_ok=True)
    path.with_name(path.name + "-lock").unlink(missing_ok=True)


def sealed(env: Environment, info: SegmentInfo, last: int, *, aside: bool = False) -> SegmentInfo:
    """Trim a segment to its length, take its digest, and return what the manifest says of it.

    One that was built `aside` says from now on that it is complete.
    """
    if aside:
        with env.batch() as batch:
            stamps.complete(batch)
    env.trim()
    digest, size = env.digest()
    return msgspec.structs.replace(info, status=Status.SEALED, last=last, digest=digest, size=size)


def without(
    view: Tables, old: SegmentInfo, path: Callable[[SegmentInfo], Path], drop: dict[str, State]
) -> SegmentInfo:
    """Build the next generation of a segment without the runes of some conversations.

    Every rune that stays is checked: a copy with a digest of its own must not vouch for damage.
    The next generation of the active segment is active.
    """
    # Filling a map takes more room than what ends up in it: pages are copied on the way.
    room = max(old.map_size, 2 * (old.size or path(old).stat().st_size) + _ROOM)
    new = msgspec.structs.replace(old, generation=old.generation + 1, map_size=room)
    numbers: dict[int, State] = {}
    for name, reason in drop.items():
        found = view.get("names", name.encode())
        if found is not None:
            numbers[NUMBER.unpack(found)[0]] = reason
    env = empty(path(new), new)
    try:
        _fill(env, _puts(view, numbers, last_position(view, old)))
        if old.status is Status.ACTIVE:
            # Time does not run backwards, although the last rune may be gone.
            new = msgspec.structs.replace(new, since=last_time(view, old))
            with env.batch() as batch:
                batch.put("meta", b"segment", msgspec.json.encode(new))
        result = sealed(env, new, old.last, aside=True)
        if old.status is Status.ACTIVE:
            size = old.map_size if 2 * env.used <= old.map_size else room
            result = msgspec.structs.replace(new, map_size=size)
        sync_directory(path(new).parent)
    except BaseException:
        env.close()
        discard(path(new))
        raise
    env.close()
    return result


def empty(path: Path, info: SegmentInfo) -> Environment:
    """Make a file for a segment, and remove a blank one in its place, which is a leftover.

    The caller syncs the directory.
    """
    if path.exists() and not is_blank(path):
        msg = (
            f"{path.name} is in the way of a new segment, and holds runes: open the log again, "
            "which removes it if its runes are elsewhere, or else sets it aside"
        )
        raise Corrupt(msg)
    discard(path)
    # A file that a power cut tore apart would not tell that it is new: it gets its name once it
    # is on the disk as an environment that is sound and empty.
    new = path.with_name(path.name + TEMPORARY)
    discard(new)
    try:
        Environment(new, map_size=info.map_size, create=True).close()
        new.rename(path)
    finally:
        discard(new)
    return Environment(path, map_size=info.map_size)


def _fill(env: Environment, puts: Iterable[tuple[str, bytes, bytes]]) -> None:
    """Write entries of tables in transactions of a good size."""
    pending: list[tuple[str, bytes, bytes]] = []
    size = 0
    for put in puts:
        pending.append(put)
        size += len(put[1]) + len(put[2])
        if len(pending) >= _BATCH or size > 1 << 20:
            _put_all(env, pending, size)
            pending, size = [], 0
    _put_all(env, pending, size)


def _put_all(env: Environment, puts: list[tuple[str, bytes, bytes]], size: int) -> None:
    env.reserve(2 * size + 64 * 4096)
    with env.batch() as batch:
        for table, key, value in puts:
            batch.put(table, key, value)


def _puts(view: Tables, drop: dict[int, State], last: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield what the new generation holds up to position `last`, table by table and in order."""
    yield from _runes(view, drop)
    for key, value in entries(view, "holes"):
        yield "holes", key, value
    for key, value in entries(view, "names"):
        if NUMBER.unpack(value)[0] not in drop:
            yield "names", key, value
    yield from _heads(view, drop)
    for table in _NUMBERED:
        for key, value in entries(view, table):
            if NUMBER.unpack(key[:4])[0] not in drop:
                yield table, key, value
    # Last: as long as a segment does not describe itself, it was never completed.
    yield "meta", stamps.ASIDE, signed(stamps.ASIDE, stamps.BUILDING)
    for key, value in entries(view, "meta"):
        if key not in {stamps.ASIDE, INDEXED}:
            yield "meta", key, value
    yield "meta", INDEXED, encode_indexed(last)


def _runes(view: Tables, drop: dict[int, State]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the frames that stay, and a hole for each stretch of those that do not."""
    hole: Hole | None = None
    names: dict[int, tuple[str, int]] = {}
    for key, data in entries(view, "runes"):
        number = frame.number(data)
        position, count = PLACE.unpack(key)[0], frame.count(data)
        if number not in drop:
            if number not in names:
                at = NUMBER.pack(number)
                name = decode_head(at, view.get("heads", at) or b"").id
                names[number] = (name, frame.seed_of(name))
            frame.unpack(data, *names[number], position)
            yield "runes", key, data
            continue
        if hole and hole.number == number and hole.position + hole.length == position:
            hole = hole._replace(length=hole.length + count)
            continue
        if hole:
            yield ("holes", *encode_hole(hole))
        hole = Hole(position, count, number, drop[number])
    if hole:
        yield ("holes", *encode_hole(hole))


def _heads(view: Tables, drop: dict[int, State]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield all heads; one of a dropped conversation tells only that it was, and why it is not."""
    for key, value in entries(view, "heads"):
        reason = drop.get(NUMBER.unpack(key)[0])
        if reason is None:
            yield "heads", key, value
        else:
            head = decode_head(key, value)
            head.size = head.first_time = head.last_time = 0
            head.state = reason
            yield "heads", key, encode_head(key, head)


class _NoPast:
    """Conversations that are new here have no versions from before."""

    def version(self, conversation: str, entity: str) -> int:  # noqa: ARG002 -- of a protocol
        return 0

    def was_open(self, conversation: str, entity: str) -> bool:  # noqa: ARG002 -- as above
        return False

    def active_head(self, conversation: str) -> None:
        """Return None: who is there is known already."""


def fill(
    env: Environment,
    first: int,
    conversations: Iterable[tuple[str, Iterable[Entry]]],
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write whole conversations into an empty segment from `first` on; return the last position."""
    position = first
    for conversation, found in conversations:
        cached = CachedConversation(conversation, None)
        pending: list[PendingAppend] = []
        for run in _runs(found):
            pending.append(_item(cached, run, position))
            position += len(run)
            if sum(len(item.bodies) for item in pending) >= _BATCH:
                commit_all(env, _NoPast(), pending)
                pending = []
            if progress is not None:
                progress(len(run))
        commit_all(env, _NoPast(), pending)
    return position - 1


def commit_all(env: Environment, past: EarlierSegments, items: list[PendingAppend]) -> None:
    """Write appends into a segment that is made aside, and all of its index with them."""
    if not items:
        return
    env.reserve(sum(item.cost for item in items))
    with env.batch() as batch:
        frames = Frames(past, numbers_in(batch))
        for item in items:
            frames.add(item)
        batch.append_all("runes", frames.entries)
        known = UnwrittenIndex(indexed(batch))
        follow_appends(batch, known, frames.told).write(batch)


def _runs(found: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Group runes that were appended at one time: these can share a frame."""
    run: list[Entry] = []
    size = 0
    for entry in found:
        if run and (entry.time != run[0].time or len(run) >= _ITEM or size > 1 << 20):
            yield run
            run, size = [], 0
        run.append(entry)
        size += len(entry.body)
    if run:
        yield run


def _item(cached: CachedConversation, run: list[Entry], position: int) -> PendingAppend:
    bodies = [entry.body for entry in run]
    return made(cached, bodies, run[0].event_id, position, run[0].time)


def made(
    cached: CachedConversation, bodies: list[bytes], first: int, position: int, time: int
) -> PendingAppend:
    """Return an append of runes as they are stored, at the place that they have."""
    groups = frame_streams(position, len(bodies), b"".join(bodies))
    item = PendingAppend(bodies, [(each.entities, each.stop - each.start) for each in groups])
    item.cached, item.first, item.position, item.time = cached, first, position, time
    return item


def epoch_of(batch: Batch) -> int:
    """Return the epoch of the writer that a segment belongs to."""
    found = batch.get("meta", b"epoch")
    return NUMBER.unpack(found)[0] if found else 0

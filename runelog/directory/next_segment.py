"""The segment that follows the active one: prepared while appends go on, and begun in a moment.

To begin it takes a new file, and all that the active segment's index says has to be in the catalog.
Both are done ahead, in steps; what is appended meanwhile is taken in again. So appends wait only
for what came last, for a digest and for MANIFEST. A crash in between leaves an empty file that no
manifest names, and a catalog that knows something of the active segment, which nobody asks it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from runelog.directory import rewrite
from runelog.errors import LogFull
from runelog.index import frame
from runelog.index.catalog import entries
from runelog.index.frame_streams import frame_streams
from runelog.index.records import NUMBER, PLACE
from runelog.lmdb.environment import Environment
from runelog.lmdb.space import identity
from runelog.manifest import SegmentInfo
from runelog.reader.lookup import last_position, last_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runelog.directory.log_directory import LogDirectory
    from runelog.index.catalog import Catalog, Touched
    from runelog.lmdb.tables import Tables

WORTH: Final = 1 << 20
"""A segment that uses fewer bytes is taken into the catalog at once."""
ROUNDS: Final = 4
"""How often what was appended meanwhile is taken in, before appends have to wait for the rest."""
FEW: Final = 256
"""So few streams of it need no further round."""


class _Ahead(NamedTuple):
    """How much of a segment a catalog has ahead of its sealing."""

    segment: int
    generation: int
    catalog: int
    """The generations of the files: of others, nothing is known."""
    upto: int
    """The last position of which all is in."""


class NextSegment:
    """Prepares what follows the active segment of a log."""

    def __init__(self, home: LogDirectory, map_size: int) -> None:
        """Begin with nothing prepared; segments are `map_size` bytes, or more if need be."""
        self._home = home
        self._map_size = map_size
        self._file: tuple[Path, tuple[int, int] | None] | None = None
        """A new file: its name, and which file that is."""
        self._ahead: _Ahead | None = None

    def steps(self) -> Iterator[None]:
        """Prepare it a little in each step, as long as the active segment stays the same."""
        segments = self._home.segments
        active = segments.manifest.active
        env = segments.segment(active.number).env
        if env is None or env.used < WORTH:
            return
        with self._home.owned():
            if segments.manifest.active != active:
                return
            with contextlib.suppress(LogFull):
                self._make_file(active)
        yield
        yield from self._take_all_in(active)
        for _ in range(ROUNDS):
            with self._home.owned():
                if not self._is_of(active) or self._take_in_rest(active) <= FEW:
                    return
            yield

    def seal(self, need: int) -> SegmentInfo:
        """Seal the active segment and begin the next one, with room for `need` bytes."""
        home, segments = self._home, self._home.segments
        old = segments.manifest.active
        env = segments.segment(old.number).env
        assert env is not None
        with env.view() as view:
            last, latest = last_position(view, old), last_time(view, old)
        new = SegmentInfo(
            number=old.number + 1,
            first=last + 1,
            map_size=max(self._map_size, 2 * need),
            since=latest,
        )
        self._create(new)
        try:
            home.catch_up()
            with segments.take(old.number) as (_, tables):
                self._merge(home.lookup.catalog, old, tables)
            done = rewrite.sealed(env, old, last)
            segments.verified.add((old.number, old.generation))
            now = segments.manifest
            segments.publish(msgspec.structs.replace(now, segments=(*now.segments[:-1], done, new)))
        except BaseException:
            home.discard([new])
            raise
        return new

    # -- the file -----------------------------------------------------------------------------

    def _make_file(self, active: SegmentInfo) -> None:
        info = SegmentInfo(number=active.number + 1, first=0, map_size=self._map_size)
        path = self._home.segments.path(info)
        rewrite.empty(path, info).close()
        self._file = path, identity(path)

    def _create(self, info: SegmentInfo) -> None:
        """Make the segment that the next manifest names, out of the file that is there for it."""
        home, path = self._home, self._home.segments.path(info)
        made, self._file = self._file, None
        env = None
        if made == (path, identity(path)) and info.map_size == self._map_size:
            env = Environment(path, map_size=info.map_size)
        rewrite.create(path, info, home.birth(), home.owner.epoch, made=env).close()

    def discard(self) -> None:
        """Remove a file that nothing came of."""
        made, self._file = self._file, None
        if made is not None and identity(made[0]) == made[1]:
            rewrite.discard(made[0])

    # -- the catalog --------------------------------------------------------------------------

    def _is_of(self, active: SegmentInfo) -> bool:
        """Return True if what is in the catalog ahead is of this segment, as it is now."""
        now = self._home.segments.manifest
        known = (active.number, active.generation, now.catalog)
        return now.active == active and self._ahead is not None and self._ahead[:3] == known

    def _take_all_in(self, active: SegmentInfo) -> Iterator[None]:
        segments, catalog = self._home.segments, self._home.lookup.catalog
        with segments.take(active.number) as (segment, view):
            if segment.env is not None:
                # What the catalog knows must not be lost here.
                segment.env.sync()
            upto = last_position(view, active)
        begun = _Ahead(active.number, active.generation, segments.manifest.catalog, upto)
        at: tuple[bytes, bytes] | None = (b"", b"")
        while at is not None:
            with self._home.owned():
                now = segments.manifest
                if now.active != active or now.catalog != begun.catalog:
                    return
                with segments.take(active.number) as (_, view):
                    at = catalog.merge_some(active.number, view, segments.dead, at)
            yield
        self._ahead = begun

    def _take_in_rest(self, active: SegmentInfo) -> int:
        """Take in what was appended since; return of how many streams that was."""
        segments, ahead = self._home.segments, self._ahead
        assert ahead is not None
        with segments.take(active.number) as (_, view):
            touched = _since(view, ahead.upto)
            self._home.lookup.catalog.merge(active.number, view, segments.dead, touched, ahead=True)
            self._ahead = ahead._replace(upto=last_position(view, active))
        return sum(map(len, touched.values()))

    def _merge(self, catalog: Catalog, active: SegmentInfo, view: Tables) -> None:
        """Take the segment into the catalog for good: all that is not in yet."""
        ahead, touched = self._ahead, None
        if ahead is not None and self._is_of(active):
            touched = _since(view, ahead.upto)
        self._ahead = None
        catalog.merge(active.number, view, self._home.segments.dead, touched)


def _since(view: Tables, position: int) -> Touched:
    """Return which streams of which conversations have runes behind a position."""
    touched: Touched = {}
    for key, data in entries(view, "runes", PLACE.pack(position + 1)):
        streams = touched.setdefault(NUMBER.pack(frame.number(data)), set())
        at = PLACE.unpack(key)[0]
        for each in frame_streams(at, frame.count(data), frame.content(data)):
            streams.update(each.entities)
    return touched

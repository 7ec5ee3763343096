"""Repair: what is damaged is set aside, what is readable goes on, what is lost is marked as lost.

A damaged segment is read as far as it is sound and written anew. A rune that cannot be read has a
tombstone in its place, so that event ids stay gap-free. The damaged file itself is kept in
`damaged/`, before the log goes on without it: a better tool may read more of it later.
`runelog.repair.repair_archives` does the same for what lies beside the segments.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from runelog import manifest
from runelog.directory import garbage, rewrite
from runelog.directory.damaged import keep_aside
from runelog.directory.known_heads import (
    known_heads,
    reach,
    resting_heads,
    settle_missing,
    settle_resting,
)
from runelog.directory.rewrite import Birth
from runelog.errors import Corrupt, NotALog
from runelog.files import make_directory, sync_directory
from runelog.index.catalog import TABLES as CATALOG_TABLES
from runelog.index.catalog import Catalog
from runelog.index.check_in_child import check_file
from runelog.index.follow import complete
from runelog.index.records import (
    LAST_NUMBER,
    NUMBER,
    Head,
    Hole,
    encode_head,
    encode_hole,
    encode_work,
)
from runelog.lmdb import environment, space
from runelog.lmdb.salvage import SalvageView
from runelog.manifest import Clean, Lock, Manifest, SegmentInfo, Status
from runelog.reader.lookup import heads_in, last_time
from runelog.repair.find_segments import Expected, expected_events, find_segments
from runelog.repair.recovered_data import RecoveredData, RecoveredRune
from runelog.repair.repair_archives import lost_body, repair_archives, repair_blobs
from runelog.rune import State
from runelog.stream.archive import Archives
from runelog.writer.segment_writer import CachedConversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.lmdb.environment import Batch, Environment
    from runelog.writer.commit_queue import PendingAppend


class Repaired(msgspec.Struct):
    """What a repair did."""

    segments: list[str] = []
    """The files that were set aside."""
    runes_kept: int = 0
    runes_lost: int = 0
    more_lost: bool = False
    """Whether more may be lost than can be counted: nothing tells how far a damaged file went."""
    notes: list[str] = []


def repair(directory: Path, *, progress: Callable[[int], None] | None = None) -> Repaired:
    """Bring a damaged log back into a state that can be written to, losing nothing readable.

    `progress` is told of runes as they are rescued. A sound log is left as it is.
    """
    if not ((directory / "MANIFEST").is_file() or (directory / "segments").is_dir()):
        msg = f"{directory} holds neither a MANIFEST nor segments: there is no log to repair"
        raise NotALog(msg)
    lock = Lock(directory)
    lock.acquire(errand="runefold log repair")
    try:
        return _Repair(directory, progress).run()
    finally:
        lock.release()


class _Repair:
    def __init__(self, directory: Path, progress: Callable[[int], None] | None) -> None:
        self._directory = directory
        self._progress = progress
        self._done = Repaired()
        self._expected = Expected({}, set(), set())
        self._heads: dict[str, int] = {}
        """The last event id of each conversation in the segments before the one at hand."""
        self._final = 0
        """The number of the last segment."""
        self._birth = Birth("", 0)
        """What new segments say of themselves."""
        self._clean: Clean | None = None
        """What CLEAN says, if the log was closed cleanly."""
        self._active: dict[str, Head] = {}
        """What the active segment holds, if it is sound."""
        self._dropped: list[Head] = []
        """Conversations that sound segments held before they were archived."""
        self._made_manifest = False
        """Whether the manifest was made from the segments."""
        self._dead: tuple[str, ...] = ()
        """Conversations whose runes in segments do not count: they are archived."""

    def run(self) -> Repaired:
        for path in garbage.half_written(self._directory):
            path.unlink(missing_ok=True)
        found = self._manifest()
        self._birth = Birth(found.log, found.revision + 1)
        archives = Archives(self._directory / "archive")
        missing = [name for name in found.dead if not archives.path(name).exists()]
        for name in missing:
            note = f"the archive of {name} is missing: its runes are those in the segments"
            self._done.notes.append(note)
        self._dead = tuple(name for name in found.dead if name not in missing)
        clean = manifest.read_clean(self._directory)
        if clean is not None and clean.revision == found.revision:
            self._clean = clean
        damaged = {info.number for info in found.segments if not self._is_sound(info)}
        self._look_at_the_catalog(found)
        rebuilt = bool(damaged or self._done.notes)
        self._repair_beside(found)
        if not rebuilt:
            return self._done
        if damaged:
            self._expected = expected_events(self._directory, found, damaged)
        self._final = found.segments[-1].number
        manifest.drop_clean(self._directory)
        make_directory(self._directory / "segments")
        generation = found.catalog + 1
        path = self._directory / f"catalog.{generation}.mdb"
        rewrite.discard(path)
        catalog = Catalog(path, create=True)
        try:
            segments = [
                self._rescue(info, catalog, _since(found, info))
                if info.number in damaged
                else self._keep(info, catalog)
                for info in found.segments
            ]
            if segments[-1].status is not Status.ACTIVE:
                segments.append(self._begin(segments[-1]))
            old = self._directory / f"catalog.{found.catalog}.mdb"
            resting = resting_heads(self._directory, old)
            dead = self._guess_dead(catalog) if self._made_manifest else self._dead
            settle_resting(catalog, resting, self._active, dead)
            settle_missing(catalog, self._dropped, self._active)
            new = msgspec.structs.replace(
                found,
                dead=dead,
                segments=tuple(segments),
                catalog=generation,
                revision=self._birth.revision,
                settled=self._birth.revision,
            )
            catalog.note_settled(new.settled)
            manifest.write_manifest(self._directory, new)
        finally:
            catalog.close()
        for info in found.segments:
            if info.number in damaged:
                rewrite.discard(self._path(info))
        sync_directory(self._directory / "segments")
        return self._done

    def _repair_beside(self, found: Manifest) -> None:
        """Mend archives and blobs, which are files of their own."""
        heads = known_heads(self._directory / f"catalog.{found.catalog}.mdb")
        archives = repair_archives(self._directory, heads)
        for mended in itertools.chain(archives, repair_blobs(self._directory)):
            self._done.segments.append(mended.name)
            self._done.notes.append(mended.note)
            self._done.runes_kept += mended.kept
            self._done.runes_lost += mended.lost

    def _manifest(self) -> Manifest:
        """Read MANIFEST, or make one from the segments if it is damaged, missing or too old."""
        try:
            found = manifest.read_manifest(self._directory)
        except (Corrupt, NotALog) as error:
            self._made_manifest = True
            rebuilt = find_segments(self._directory, error)
            self._done.notes.append("MANIFEST was rebuilt from the segments")
            return rebuilt
        newer = garbage.newer_files(self._directory, found)
        newest = garbage.newest_revision(self._path(found.active), found.log)
        if newest > found.revision:
            newer[found.active.name] = newest
        if newer:
            why = f"MANIFEST was older than {' and '.join(newer)}"
        elif replaced := self._replaced(found):
            why = f"{' and '.join(replaced)} is missing, and there is another generation of it"
        else:
            return found
        self._made_manifest = True
        self._done.notes.append(f"{why}: MANIFEST was rebuilt from the segments")
        for step in found.pending:
            if step.op == "erase":
                # Opening the log carries it out again, wherever the runes are.
                for name in step.conversations:
                    Archives(self._directory / "archive").bury(name)
        return find_segments(self._directory, Corrupt(why), found)

    def _replaced(self, found: Manifest) -> list[str]:
        """Return the segments that are missing where another generation of them is not."""
        others = garbage.unnamed_segments(self._directory, found)
        numbers = {garbage.place(path)[0] for path in others if not garbage.is_blank(path)}
        missing = [info for info in found.segments if not self._path(info).exists()]
        return [info.name for info in missing if info.number in numbers]

    def _path(self, info: SegmentInfo) -> Path:
        return self._directory / "segments" / info.name

    def _is_sound(self, info: SegmentInfo) -> bool:
        path = self._path(info)
        if not path.exists():
            self._done.notes.append(f"{info.name} is missing: all that only it held is lost")
            return False
        if info.status is Status.SEALED:
            return space.digest(path) == (info.digest, info.size)
        if info.status is Status.DAMAGED:
            return False
        if self._clean is not None:
            return space.digest(path) == self._clean.active
        try:
            check_file(path)
        except Corrupt:
            return False
        return True

    def _look_at_the_catalog(self, found: Manifest) -> None:
        """Rebuild the catalog if it is not sound."""
        path = self._directory / f"catalog.{found.catalog}.mdb"
        try:
            if self._clean is None:
                check_file(path, tables=CATALOG_TABLES)
                catalog = Catalog(path, readonly=True)
                try:
                    catalog.check_age(found)
                finally:
                    catalog.close()
            elif space.digest(path) == self._clean.catalog:
                return
            else:
                self._done.notes.append(f"{path.name} was damaged and is rebuilt")
        except (Corrupt, FileNotFoundError):
            self._done.notes.append(f"{path.name} was damaged or out of date, and is rebuilt")

    def _keep(self, info: SegmentInfo, catalog: Catalog) -> SegmentInfo:
        """Take a sound segment's index into the catalog."""
        active = info.status is Status.ACTIVE
        env = environment.Environment(
            self._path(info), map_size=info.map_size, readonly=not active, lock=active
        )
        try:
            with env.view() as found:
                view = complete(found)
                self._dropped += heads_in(view, State.ARCHIVED).values()
                if active:
                    self._active = heads_in(view)
                else:
                    catalog.merge(info.number, view, self._dead)
        finally:
            env.close()
        for head in catalog.heads():
            self._heads[head.id] = head.head
        for name in self._dead:
            self._heads[name] = max((span.last for span in catalog.spans(name, 0)), default=0)
        return info

    def _guess_dead(self, catalog: Catalog) -> tuple[str, ...]:
        """Return the archived conversations of which segments hold no more than their archives.

        Without a MANIFEST nothing tells which of the two counts. To be archived was decided last:
        a conversation that goes on has more runes than its archive.
        """
        erased = {*garbage.erased(self._directory)}
        return tuple(
            head.id
            for head in Archives(self._directory / "archive").heads()
            if head.state is State.ARCHIVED
            and head.id not in erased
            and (head.id in self._active or catalog.spans(head.id, 0))
            and reach(catalog, head.id, self._active) <= head.head
        )

    def _begin(self, last: SegmentInfo) -> SegmentInfo:
        with SalvageView.open(self._path(last)) as view:
            since = last_time(view, last)
        info = SegmentInfo(
            number=last.number + 1,
            first=last.last + 1,
            map_size=last.map_size,
            since=since,
        )
        rewrite.create(self._path(info), info, self._birth, 0).close()
        return info

    # -- one damaged segment ------------------------------------------------------------------

    def _rescue(self, info: SegmentInfo, catalog: Catalog, since: int) -> SegmentInfo:
        """Write a damaged segment anew out of what can be read of it."""
        recovered = self._recovered(info)
        if info.status is not Status.SEALED and info.number == self._final:
            # Only if it was closed cleanly does anything beside itself tell how far it went.
            if self._clean is not None:
                last = max(self._clean.position, info.last, info.first - 1)
                info = msgspec.structs.replace(info, last=last)
            elif not recovered.knows_ends:
                self._done.more_lost = True
        runes, unknown = recovered.complete(
            info, self._heads, self._expected.ends[info.number], since
        )
        if not info.generation or recovered.knows_holes or info.number not in self._expected.told:
            # Else nothing is missing there: it was archived or erased before.
            self._done.runes_lost += sum(hole.length for hole in unknown)
        holes = [*recovered.holes.values(), *unknown]
        last = max(
            [info.last, info.first - 1]
            + [rune.position for rune in runes[-1:]]
            + [hole.position + hole.length - 1 for hole in holes]
        )
        new = msgspec.structs.replace(
            info, generation=self._next_generation(info), status=Status.SEALED
        )
        env = rewrite.create(self._path(new), new, self._birth, 0, aside=True)
        try:
            self._write(env, catalog, runes, holes, recovered)
            done = rewrite.sealed(env, new, last, aside=True)
            with env.view() as view:
                catalog.merge(info.number, view, self._dead)
        finally:
            env.close()
        for rune in runes:
            self._heads[rune.conversation] = rune.event_id
        return done

    def _next_generation(self, info: SegmentInfo) -> int:
        """Return a generation of a segment of which there is no file."""
        found = map(garbage.place, garbage.segments(self._directory))
        return (
            max([info.generation, *(each for number, each in found if number == info.number)]) + 1
        )

    def _recovered(self, info: SegmentInfo) -> RecoveredData:
        """Read what can be read of a damaged segment, which is kept aside; of a missing one, none.

        Problems of the empty file that stands for a missing one are left out.
        """
        path = self._path(info)
        if not path.exists():
            return RecoveredData(SalvageView.of(b"", info.name), info, 0)
        keep_aside(self._directory, path)
        with SalvageView.open(path) as view:
            recovered = RecoveredData(view, info, path.stat().st_size, self._expected.names)
        self._done.segments.append(info.name)
        self._done.notes.extend(recovered.notes)
        return recovered

    def _write(
        self,
        env: Environment,
        catalog: Catalog,
        runes: list[RecoveredRune],
        holes: list[Hole],
        recovered: RecoveredData,
    ) -> None:
        cache: dict[str, CachedConversation] = {}
        items: list[PendingAppend] = []
        past = _Before(catalog)
        for run in _runs(runes):
            items.append(self._item(cache, catalog, run))
            if len(items) >= 256:
                rewrite.commit_all(env, past, items)
                items = []
        rewrite.commit_all(env, past, items)
        env.reserve(64 * len(holes) + 64 * len(recovered.work) + (1 << 20))
        with env.batch() as batch:
            _put_holes(batch, holes, recovered)
            for (name, entity), (is_open, deadline) in recovered.work.items():
                cached = cache.get(name)
                if cached is not None and cached.number is not None:
                    key = NUMBER.pack(cached.number) + entity
                    batch.put("work", key, encode_work(key, is_open=is_open, deadline=deadline))

    def _item(
        self, cache: dict[str, CachedConversation], catalog: Catalog, run: list[RecoveredRune]
    ) -> PendingAppend:
        first = run[0]
        cached = cache.get(first.conversation)
        if cached is None:
            cached = cache[first.conversation] = CachedConversation(
                first.conversation, catalog.head(first.conversation)
            )
        bodies = []
        for rune in run:
            if rune.body is None:
                # One that is archived has its runes there.
                self._done.runes_lost += rune.conversation not in self._dead
                bodies.append(lost_body(rune.conversation))
            else:
                self._done.runes_kept += 1
                bodies.append(rune.body)
        if self._progress is not None:
            self._progress(len(run))
        return rewrite.made(cached, bodies, first.event_id, first.position, first.time)


def _since(found: Manifest, damaged: SegmentInfo) -> int:
    """Return when a segment was begun, or when the one behind it was: all in it is older."""
    return next(
        (info.since for info in found.segments if info.number >= damaged.number and info.since), 0
    )


def _runs(runes: list[RecoveredRune]) -> Iterator[list[RecoveredRune]]:
    """Group runes that can share an append: consecutive, of one conversation and time."""
    run: list[RecoveredRune] = []
    for rune in runes:
        if run and not (
            rune.position == run[-1].position + 1
            and rune.event_id == run[-1].event_id + 1
            and (rune.conversation, rune.time) == (run[0].conversation, run[0].time)
            and len(run) < 256
        ):
            yield run
            run = []
        run.append(rune)
    if run:
        yield run


def _put_holes(batch: Batch, holes: list[Hole], recovered: RecoveredData) -> None:
    """Note what was taken out of the segment before, and the positions that nothing is known of."""
    numbers: dict[int, int] = {}
    last = batch.floor("heads", LAST_NUMBER)
    number = NUMBER.unpack(last[0])[0] if last else 0
    for hole in holes:
        name = recovered.name_of(hole.number)
        if name is not None and hole.number not in numbers:
            number += 1
            numbers[hole.number] = number
            head = Head(name, 0, 0, 0, 0, 0, hole.reason)
            batch.put("heads", NUMBER.pack(number), encode_head(NUMBER.pack(number), head))
        batch.put("holes", *encode_hole(hole._replace(number=numbers.get(hole.number, 0))))


class _Before:
    """The catalog of the segments before this one, as far as the index needs it."""

    def __init__(self, catalog: Catalog) -> None:
        self.version = catalog.version
        self.was_open = catalog.is_open

    def active_head(self, conversation: str) -> None:
        """Return None: who is there is known already."""

"""The directory of an open log, and everything that is in it.

Knows how to tell in what state a log was left, and how a segment follows another. What is in the
directory is described in docs/FORMAT.md; `create` makes it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from runelog import manifest
from runelog.blobs import FileBlobs
from runelog.directory import garbage, rewrite
from runelog.directory.damaged import set_aside
from runelog.directory.known_heads import resting_heads, settle_missing, settle_resting
from runelog.directory.next_segment import NextSegment
from runelog.directory.owner import Owner
from runelog.directory.rewrite import Birth
from runelog.directory.unchanged import UnchangedCatalog
from runelog.errors import Corrupt, OldManifest, ReadOnly
from runelog.files import sync_directory
from runelog.index import stamps
from runelog.index.catalog import TABLES as CATALOG_TABLES
from runelog.index.catalog import Catalog
from runelog.index.check_in_child import check_files
from runelog.index.records import NUMBER
from runelog.lmdb import space
from runelog.lmdb.environment import TABLES
from runelog.manifest import Clean, SegmentInfo
from runelog.reader.lookup import Lookup, heads_in, last_position, last_time
from runelog.reader.reader import Reader
from runelog.reader.segments import Segments
from runelog.rune import State
from runelog.snapshot import Snapshots
from runelog.stream.archive import Archives, LayeredBlobs
from runelog.stream.streams import entry_of
from runelog.writer.segment_writer import ActiveSegment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runelog.codec import Codec
    from runelog.index.catalog import Span
    from runelog.lmdb.environment import Environment
    from runelog.manifest import Lock
    from runelog.rune import Envelope

SEAL_AT_CLOSE: Final = 1 << 20
"""A larger active segment is sealed on closing the log: an open after a kill reads what was written
since the last close, and not what was there before."""


class LogDirectory:
    """The files of an open log."""

    def __init__(
        self, directory: Path, codec: Codec, lock: Lock | None, *, segment_size: int, relaxed: bool
    ) -> None:
        """Read the manifest, to read only if without a lock; `settle_in` looks further."""
        self.directory = directory
        self.readonly = lock is None
        self._clean: Clean | None = None
        self._catalog_fault: tuple[int, Corrupt | None] = (-1, None)
        """What is wrong with the catalog of a log that was not closed cleanly, by generation."""
        self._touched = False
        self.untidy = False
        """Whether there may be archives of conversations that are live."""
        self.dead_spans: dict[str, list[Span]] = {}
        """Where archived conversations are still in segments, as far as it was looked up."""
        self.notices: list[str] = []
        """What opening the log did that an operator should know."""
        self.archives = Archives(directory / "archive")
        self.blobs = FileBlobs(directory / "blobs")
        self.snapshots = Snapshots(directory / "snapshots")
        self.segments = Segments(directory, readonly=self.readonly)
        self.segments.metasync = not relaxed
        self.owner = Owner(self.segments, lock)
        self.next = NextSegment(self, segment_size)
        self.unchanged = UnchangedCatalog(self)
        self.lookup = Lookup(self.segments, self._open_catalog)
        self.codec = codec.with_blobs(LayeredBlobs(self.blobs, self.archives, self.lookup.head))
        self.archives.codec = self.codec
        self.reader = Reader(self.lookup, self.archives, self.codec)

    def settle_in(self) -> None:
        """Look how the last writer left the log, and finish what it did not."""
        held = self.readonly and manifest.writer_alive(self.directory)
        if self.readonly and not os.access(self.directory / "segments", os.W_OK):
            if held:
                msg = (
                    f"{self.directory} is being written to and cannot be written by this user, "
                    "so readers cannot announce themselves: read it as the user that writes it"
                )
                raise ReadOnly(msg)
            self.segments.lock_files = False
        clean = None if held else manifest.read_clean(self.directory)
        if clean is not None and clean.revision == self.segments.manifest.revision:
            self._clean = clean
            self.segments.vouch = self._vouch
        elif not held:
            self._check_in_child()
        self._check_manifest()
        self.untidy = self._clean is None
        if not self.readonly:
            self._check_whole()
            self.sweep()
            self._sweep_erased()
            if self.untidy:
                self._sweep_half_written()

    def _check_whole(self) -> None:
        """Raise `Corrupt` if a segment is missing: nothing is changed in half of a log."""
        there = {path.name for path in (self.directory / "segments").iterdir()}
        gone = [info.name for info in self.segments.manifest.segments if info.name not in there]
        if gone:
            names = gone[0] if len(gone) == 1 else f"{gone[0]} and {len(gone) - 1} more"
            msg = (
                f"{names} missing from {self.directory / 'segments'}: put back what is missing, "
                "read the rest with readonly=True, or run `runefold log repair`"
            )
            raise Corrupt(msg)

    def _check_manifest(self) -> None:
        """Raise `OldManifest` if segments prove that a later manifest than this was published."""
        newer: list[str] = []
        changed = True
        while changed:
            now = self.segments.manifest
            newer = [*garbage.newer_files(self.directory, now)]
            if self._clean is None:
                number = now.active.number
                with contextlib.suppress(Corrupt), self.segments.take(number) as (_, view):
                    if stamps.newest(view) > now.revision:
                        newer.append(now.active.name)
            # A live writer may have replaced it since it was read.
            changed = self.segments.refresh()
        if newer:
            msg = (
                f"MANIFEST in {self.directory} is older than {' and '.join(newer)} beside it, and "
                "may not name all that is there. Nothing was changed: put the current MANIFEST "
                "back, or run `runefold log repair`, which makes one from the segments"
            )
            raise OldManifest(msg)

    def _vouch(self) -> tuple[str, int] | None:
        """Return what CLEAN says of the active segment now.

        A writer may have come since we were opened.
        """
        clean = manifest.read_clean(self.directory)
        return clean.active if clean is not None else None

    def _check_in_child(self) -> None:
        """Check the active segment and the catalog in a child process, which may die of it.

        A catalog that has not changed since a digest was taken of it matches that.
        """
        now = self.segments.manifest
        catalog = self._catalog_path(now.catalog)
        files = [(self.segments.path(now.active), TABLES), (catalog, CATALOG_TABLES)]
        if self.unchanged.is_still(now.catalog, catalog):
            del files[1]
        fault, *beside = check_files(*files)
        self._catalog_fault = now.catalog, beside[0] if beside else None
        if fault is None:
            self.segments.walked.add(now.active.number)
        else:
            self.segments.damaged.add(now.active.number)

    def _catalog_path(self, generation: int) -> Path:
        return self.directory / f"catalog.{generation}.mdb"

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Keep every other writer out while files change; `Fenced` if one has taken the log over.

        Ends with a change of the active segment: what comes after that needs a section of its own.
        """
        # Opened first: the thread that opens it holds the lookup's lock and may wait for a section.
        _ = self.lookup.catalog
        with self.owner.section():
            yield

    def stamp(self) -> None:
        """Write the revision of the last published manifest into the active segment.

        Before the catalog changes: should an older manifest come back then, it is noticed.
        """
        with self.owned():
            pass

    def sweep(self) -> None:
        """Remove segments that this process has replaced, and files that hold nothing."""
        if self.segments.superseded or garbage.temporary(self.directory, self.segments.manifest):
            with self.owner.section():
                # What names these files no more must not come back without them.
                sync_directory(self.directory)
                if self.discard(self.segments.superseded):
                    self.segments.superseded.clear()
                for path in garbage.temporary(self.directory, self.segments.manifest):
                    path.unlink(missing_ok=True)
                # What was erased must not come back with the file that it was in.
                sync_directory(self.directory / "segments")

    def collect(self) -> None:
        """Remove segments that MANIFEST does not name and that are proven to be rubbish.

        Any other is set aside in `damaged/`, and named in `notices`.
        """
        if not garbage.unnamed_segments(self.directory, self.segments.manifest):
            return
        erased = {*garbage.erased(self.directory)}
        with self.owned():
            for path in garbage.unnamed_segments(self.directory, self.segments.manifest):
                why = garbage.missing_elsewhere(path, self._read, erased)
                if not why:
                    rewrite.discard(path)
                    continue
                aside = set_aside(self.directory, path)
                self.notices.append(
                    f"{path.name} is not named by MANIFEST, and {why}: "
                    f"it was set aside as damaged/{aside.name}"
                )

    def _read(self, conversation: str, after: int) -> Iterator[Envelope]:
        return self.reader.read(conversation, after, None, None)

    def _sweep_erased(self) -> None:
        """Remove blobs and snapshots that came to an erased conversation after its end."""
        left = garbage.remains(self.directory)
        if left:
            with self.owner.section():
                for name in left:
                    self.forget(name)

    def come_back(self) -> list[str]:
        """Return conversations that were erased and are back, with files from an earlier time.

        There are none if the log was closed cleanly and no tombstone has come or gone since.
        """
        if self._clean is not None and self._clean.archive == self.archives.changed:
            return []
        found = [self.lookup.head(name) for name in garbage.erased(self.directory)]
        return [head.id for head in found if head is not None and head.state is not State.ERASED]

    def _sweep_half_written(self) -> None:
        """Remove what a killed process left unfinished, before such files are written again."""
        if garbage.half_written(self.directory):
            with self.owner.section():
                for path in garbage.half_written(self.directory):
                    path.unlink(missing_ok=True)

    def forget(self, conversation: str) -> None:
        """Delete all that lies beside the segments and is of an erased conversation alone."""
        self.archives.drop(conversation)
        self.blobs.drop(conversation)
        self.snapshots.drop(conversation)
        for path in garbage.traces(self.directory, conversation):
            path.unlink(missing_ok=True)
            sync_directory(path.parent)

    def _sweep_archives(self) -> None:
        """Remove archives of conversations whose runes are all in the segments, checked."""
        for name in garbage.archived(self.directory):
            with contextlib.suppress(Corrupt):
                if garbage.is_live(self.lookup, name) and self._is_prefix(name):
                    self.archives.drop(name)
        self.untidy = False

    def _is_prefix(self, conversation: str) -> bool:
        """Return True if the segments hold each rune of an archive, byte for byte."""
        live = self._read(conversation, 0)
        with self.archives.opened(conversation) as archive:
            return all(
                (envelope := next(live, None)) is not None
                and entry_of(envelope).content == entry.content
                for entry in archive.read(conversation)
            )

    def discard(self, infos: Iterable[SegmentInfo]) -> bool:
        """Delete the files of segments that came to nothing: those that no manifest names.

        Return False if MANIFEST cannot be read, and nothing was done.
        """
        disk = self.segments.on_disk()
        if disk is None:
            return False
        named = {info.name for info in (*disk.segments, *self.segments.manifest.segments)}
        for info in infos:
            if info.name not in named:
                rewrite.discard(self.segments.path(info))
        return True

    # -- the catalog --------------------------------------------------------------------------

    def _open_catalog(self) -> Catalog:
        generation = self.segments.manifest.catalog
        path = self._catalog_path(generation)
        clean = self._clean
        lock = self.segments.lock_files
        try:
            if clean is not None:
                if (
                    space.digest(path) != clean.catalog
                    and manifest.read_clean(self.directory) == clean
                ):
                    raise Corrupt(f"{path.name} does not match its digest")  # noqa: EM102, TRY301 -- below
            elif (fault := self._catalog_fault[1]) and self._catalog_fault[0] == generation:
                raise fault
            catalog = Catalog(path, readonly=self.readonly, lock=lock)
            self._check_catalog(catalog)
        except (Corrupt, FileNotFoundError) as error:
            if self.readonly:
                msg = (
                    f"{path.name} is damaged or out of date: "
                    "open the log for writing once, which rebuilds it"
                )
                raise Corrupt(msg) from error
            return self._rebuild_catalog()
        if not self.readonly:
            catalog.before_change = self.unchanged.ends
            try:
                self._catch_up(catalog)
            except BaseException:
                catalog.close()
                raise
        return catalog

    def _check_catalog(self, catalog: Catalog) -> None:
        """Raise `Corrupt`, and close a catalog, if it is not from the same time as MANIFEST."""
        if self._clean is not None or (self.readonly and manifest.writer_alive(self.directory)):
            return  # CLEAN vouches for both, or a live writer may just be changing them
        try:
            catalog.check_age(self.segments.manifest, complete=self.readonly)
        except BaseException:
            catalog.close()
            raise

    def catch_up(self) -> None:
        """Merge every sealed segment into the catalog."""
        self._catch_up(self.lookup.catalog)

    def _catch_up(self, catalog: Catalog) -> None:
        """Take in segments that were sealed or installed just before a crash."""
        merged = catalog.merged
        if self.segments.manifest.active.number <= merged + 1:
            return
        with self.owner.section():
            for info in self.segments.manifest.segments[:-1]:
                if info.number > merged:
                    self.touch()
                    self._merge(info, catalog)

    def _merge(self, info: SegmentInfo, catalog: Catalog) -> None:
        """Take a segment into the catalog, unless what it leaves out would be forgotten by that."""
        with self.segments.take(info.number) as (segment, view):
            if segment.damaged:
                raise Corrupt(f"{info.name} is damaged: run `runefold log repair`")  # noqa: EM102 -- short
            catalog.merge(info.number, view, self.segments.dead)

    def _rebuild_catalog(self) -> Catalog:
        with self.owner.section():
            return self._rebuilt_catalog()

    def _rebuilt_catalog(self) -> Catalog:
        """Make the catalog anew from the segments and the archives."""
        self.touch()
        generation = self.segments.manifest.catalog + 1
        path, old = self._catalog_path(generation), self._catalog_path(generation - 1)
        rewrite.discard(path)
        catalog = Catalog(path, create=True)
        catalog.before_change = self.unchanged.ends
        try:
            for info in self.segments.manifest.segments[:-1]:
                self._merge(info, catalog)
            now = self.segments.manifest
            with self.segments.take(now.active.number) as (_, view):
                active = heads_in(view)
            settle_resting(catalog, resting_heads(self.directory, old), active, now.dead)
            for info in now.segments:
                with self.segments.take(info.number) as (_, view):
                    dropped = heads_in(view, State.ARCHIVED)
                settle_missing(catalog, dropped.values(), active)
            settled = now.revision + 1
            catalog.note_settled(settled)
            self.segments.publish(msgspec.structs.replace(now, catalog=generation, settled=settled))
        except BaseException:
            catalog.close()
            raise
        self.sweep()
        return catalog

    # -- writing ------------------------------------------------------------------------------

    def arm(self) -> ActiveSegment:
        """Become ready to write: the first thing that changes a file since the log was opened."""
        with self.owner.section() as batch:
            active = self.segments.manifest.active
            env = self.segments.segment(active.number).env
            if env is None or batch is None:
                msg = (
                    f"{active.name} is damaged, and nothing can be appended behind it: "
                    "what is sound can be read; `runefold log repair` sets the rest aside"
                )
                raise Corrupt(msg)
            self.touch()
            env.reserve(0)
            epoch = rewrite.epoch_of(batch) + 1
            batch.put("meta", b"epoch", NUMBER.pack(epoch))
            armed = ActiveSegment(
                env, epoch, last_position(batch, active), last_time(batch, active)
            )
        self.owner.epoch = epoch
        self.reader.subscriptions.announce(armed.position)
        return armed

    def touch(self) -> None:
        """Take back what CLEAN vouches for, once, before the first write."""
        if (self.directory / "CLEAN").exists():
            # What it says of the active segment is checked first: afterwards that is not possible.
            self.segments.segment(self.segments.manifest.active.number)
        if not self._touched:
            # Also where it is gone: its removal may not be durable yet.
            manifest.drop_clean(self.directory)
            self._touched = True
        self.segments.vouch = None

    def next_segment(self, need: int = 0) -> Environment:
        """Seal the active segment and begin one with room for `need` bytes."""
        with self.owner.no_way_back():
            with self.owned():
                new = self.next.seal(need)
            fresh = self.segments.segment(new.number).env
            assert fresh is not None
            return fresh

    def birth(self) -> Birth:
        """Return what a segment says of itself that the next manifest names."""
        now = self.segments.manifest
        return Birth(now.log, now.revision + 1)

    def leave_clean(self) -> None:
        """Vouch for the files that the next writer goes on with; `Fenced` if it is here already."""
        active = self.segments.manifest.active
        if active.number in self.segments.damaged or (self.directory / "CLEAN").exists():
            return
        env = self.segments.segment(active.number).env
        if env is None:
            return
        if self.owner.epoch and env.used > min(SEAL_AT_CLOSE, env.map_size // 2):
            env = self.next_segment()
            active = self.segments.manifest.active
        with self.owned():
            self.next.discard()
            if self.untidy:
                self._sweep_archives()
        with self.owned():
            # CLEAN says which manifest was published; the segment may not change any more.
            self.segments.stamped = True
            with env.view() as view:
                position = last_position(view, active)
            self.reader.close()
            catalog = self.lookup.catalog.env
            env.trim()
            catalog.trim()
            revision, sound = self.segments.manifest.revision, catalog.digest()
            self.unchanged.vouch_for(sound)
            manifest.write_clean(
                self.directory,
                Clean(env.digest(), sound, position, revision, self.archives.changed),
            )

    def close(self) -> None:
        """Unmap and close everything."""
        self.reader.close()
        self.lookup.close()
        self.segments.close()

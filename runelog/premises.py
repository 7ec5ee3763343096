"""The premises of a log: its directory, and everything that is in it.

Knows how to tell in what state a log was left, and how a segment follows another. What is in the
directory is described in docs/FORMAT.md; `founding` makes it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from runelog import manifest, rewrite, space, tidy
from runelog.blobs import FileBlobs
from runelog.catalog import TABLES as CATALOG_TABLES
from runelog.catalog import Catalog
from runelog.cold import Archives, LayeredBlobs
from runelog.errors import Corrupt, ReadOnly, Refused
from runelog.files import sync_directory
from runelog.index import NUMBER
from runelog.inscribe import Armed
from runelog.lookup import Lookup, last_position, last_time
from runelog.manifest import Clean, SegmentInfo
from runelog.mending import resting_heads
from runelog.owner import Owner
from runelog.reader import Reader
from runelog.rune import State
from runelog.snapshot import Snapshots
from runelog.volumes import Volumes
from runelog.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runelog.codec import Codec
    from runelog.manifest import Lock
    from runelog.segment import Environment

SEAL_AT_CLOSE: Final = 32 << 20
"""A larger active segment is sealed on closing the log: the next writer need not check it first."""


class Premises:
    """The files of an open log."""

    def __init__(
        self, directory: Path, codec: Codec, lock: Lock | None, *, segment_size: int, relaxed: bool
    ) -> None:
        """Read the manifest, to read only if without a lock; `settle_in` looks further."""
        self.directory = directory
        self.readonly = lock is None
        self._segment_size = segment_size
        self._clean: Clean | None = None
        self._touched = False
        self.untidy = False
        """Whether there may be archives of conversations that are live."""
        self.archives = Archives(directory / "archive")
        self.blobs = FileBlobs(directory / "blobs")
        self.snapshots = Snapshots(directory / "snapshots")
        self.volumes = Volumes(directory, readonly=self.readonly)
        self.volumes.metasync = not relaxed
        self.owner = Owner(self.volumes, lock)
        self.lookup = Lookup(self.volumes, self._open_catalog)
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
            self.volumes.lock_files = False
        self._clean = None if held else manifest.read_clean(self.directory)
        if self._clean is not None:
            self.volumes.vouch = self._vouch
        elif not held:
            self._walk()
        self.untidy = self._clean is None
        if not self.readonly:
            self.sweep()
            self._sweep_erased()
            if self.untidy:
                self._sweep_half_written()

    def _vouch(self) -> tuple[str, int] | None:
        """Return what CLEAN says of the active segment now.

        A writer may have come since we were opened.
        """
        clean = manifest.read_clean(self.directory)
        return clean.active if clean is not None else None

    def _walk(self) -> None:
        """Let a child process go through the active segment: if that dies of it, we do not."""
        active = self.volumes.manifest.active
        try:
            walk(self.volumes.path(active))
            self.volumes.walked.add(active.number)
        except Corrupt:
            self.volumes.damaged.add(active.number)

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Keep every other writer out while files change; `Fenced` if one has taken the log over.

        Ends with a change of the active segment: what comes after that needs a section of its own.
        """
        # Opened first: whoever opens it holds the lookup's lock and may wait for a section.
        _ = self.lookup.catalog
        with self.owner.section():
            yield

    def sweep(self) -> None:
        """Remove what a crash left behind: files that the manifest does not name."""
        if tidy.rubbish(self.directory, self.volumes.manifest):
            with self.owner.section():
                # What names these files no more must not come back without them.
                sync_directory(self.directory)
                for path in tidy.rubbish(self.directory, self.volumes.manifest):
                    path.unlink(missing_ok=True)

    def _sweep_erased(self) -> None:
        """Remove blobs and snapshots that came to an erased conversation after its end."""
        left = tidy.remains(self.directory)
        if left:
            with self.owner.section():
                for name in left:
                    self.blobs.drop(name)
                    self.snapshots.drop(name)

    def _sweep_half_written(self) -> None:
        """Remove what somebody was killed over, before anything of the kind is written again."""
        if tidy.half_written(self.directory):
            with self.owner.section():
                for path in tidy.half_written(self.directory):
                    path.unlink(missing_ok=True)

    def forget(self, conversation: str) -> None:
        """Delete all that lies beside the segments and is of an erased conversation alone."""
        self.archives.drop(conversation)
        self.blobs.drop(conversation)
        self.snapshots.drop(conversation)
        for path in tidy.traces(self.directory, conversation):
            path.unlink(missing_ok=True)
            sync_directory(path.parent)

    def _sweep_archives(self) -> None:
        """Remove archives of conversations that are live."""
        for name in tidy.archived(self.directory):
            with contextlib.suppress(Corrupt):
                if tidy.is_live(self.lookup, name):
                    self.archives.drop(name)
        self.untidy = False

    def discard(self, infos: Iterable[SegmentInfo]) -> None:
        """Delete the files of segments that came to nothing: those that no manifest names."""
        disk = self.volumes.on_disk()
        if disk is not None:
            named = {info.name for info in (*disk.segments, *self.volumes.manifest.segments)}
            for info in infos:
                if info.name not in named:
                    rewrite.discard(self.volumes.path(info))

    # -- the catalog --------------------------------------------------------------------------

    def _open_catalog(self) -> Catalog:
        generation = self.volumes.manifest.catalog
        path = self.directory / f"catalog.{generation}.mdb"
        clean = self._clean
        lock = self.volumes.lock_files
        try:
            if clean is not None:
                if (
                    space.digest(path) != clean.catalog
                    and manifest.read_clean(self.directory) == clean
                ):
                    raise Corrupt(f"{path.name} does not match its digest")  # noqa: EM102, TRY301 -- below
            elif not (self.readonly and manifest.writer_alive(self.directory)):
                walk(path, tables=CATALOG_TABLES)
            catalog = Catalog(path, readonly=self.readonly, lock=lock)
        except (Corrupt, FileNotFoundError) as error:
            if self.readonly:
                msg = f"{path.name} is damaged: open the log for writing once, which rebuilds it"
                raise Corrupt(msg) from error
            return self._rebuild_catalog()
        if not self.readonly:
            try:
                self._catch_up(catalog)
            except BaseException:
                catalog.close()
                raise
        return catalog

    def catch_up(self) -> None:
        """Have the catalog know every sealed segment."""
        self._catch_up(self.lookup.catalog)

    def _catch_up(self, catalog: Catalog) -> None:
        """Take in segments that were sealed or installed just before a crash."""
        merged = catalog.merged
        if self.volumes.manifest.active.number <= merged + 1:
            return
        with self.owner.section():
            for info in self.volumes.manifest.segments[:-1]:
                if info.number > merged:
                    self.touch()
                    self._merge(info, catalog)

    def _merge(self, info: SegmentInfo, catalog: Catalog) -> None:
        """Take a segment into the catalog, unless what it leaves out would be forgotten by that."""
        with self.volumes.take(info.number) as (volume, view):
            if volume.damaged:
                raise Corrupt(f"{info.name} is damaged: run `runefold log repair`")  # noqa: EM102 -- short
            catalog.merge(info.number, view)

    def _rebuild_catalog(self) -> Catalog:
        with self.owner.section():
            return self._rebuilt_catalog()

    def _rebuilt_catalog(self) -> Catalog:
        """Make the catalog anew from the segments and the archives."""
        self.touch()
        generation = self.volumes.manifest.catalog + 1
        path = self.directory / f"catalog.{generation}.mdb"
        old = self.directory / f"catalog.{generation - 1}.mdb"
        rewrite.discard(path)
        catalog = Catalog(path, create=True)
        try:
            for info in self.volumes.manifest.segments[:-1]:
                self._merge(info, catalog)
            for head in resting_heads(self.directory, old):
                if catalog.head(head.id) is None:
                    catalog.settle(head)
            self.volumes.publish(msgspec.structs.replace(self.volumes.manifest, catalog=generation))
        except BaseException:
            catalog.close()
            raise
        self.sweep()
        return catalog

    # -- writing ------------------------------------------------------------------------------

    def arm(self) -> Armed:
        """Become ready to write: the first thing that changes a file since the log was opened."""
        with self.owner.section() as batch:
            active = self.volumes.manifest.active
            env = self.volumes.volume(active.number).env
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
            armed = Armed(env, epoch, last_position(batch, active), last_time(batch, active))
        self.owner.epoch = epoch
        self.reader.news.announce(armed.position)
        return armed

    def touch(self) -> None:
        """Take back what CLEAN vouches for, once, before the first write."""
        if (self.directory / "CLEAN").exists():
            # What it says of the active segment is checked first: afterwards nobody could.
            self.volumes.volume(self.volumes.manifest.active.number)
        if not self._touched:
            # Also where it is gone: whoever removed it may have failed to make that durable.
            manifest.drop_clean(self.directory)
            self._touched = True
        self.volumes.vouch = None

    def next_segment(self, need: int = 0) -> Environment:
        """Seal the active segment and begin one with room for `need` bytes."""
        with self.owner.no_way_back():
            with self.owned():
                new = self._seal(need)
            fresh = self.volumes.volume(new.number).env
            assert fresh is not None
            return fresh

    def _seal(self, need: int) -> SegmentInfo:
        old = self.volumes.manifest.active
        env = self.volumes.volume(old.number).env
        assert env is not None
        with env.view() as view:
            last, latest = last_position(view, old), last_time(view, old)
        new = SegmentInfo(
            number=old.number + 1,
            first=last + 1,
            map_size=max(self._segment_size, 2 * need),
            since=latest,
        )
        rewrite.create(self.volumes.path(new), new, self.owner.epoch).close()
        try:
            self.catch_up()
            with env.view() as view:
                self.lookup.catalog.merge(old.number, view)
            done = rewrite.sealed(env, old, last)
            self.volumes.verified.add((old.number, old.generation))
            now = self.volumes.manifest
            self.volumes.publish(
                msgspec.structs.replace(now, segments=(*now.segments[:-1], done, new))
            )
        except BaseException:
            self.discard([new])
            raise
        return new

    def leave_clean(self) -> None:
        """Vouch for the files that the next writer goes on with; `Fenced` if it is here already."""
        active = self.volumes.manifest.active
        if active.number in self.volumes.damaged or (self.directory / "CLEAN").exists():
            return
        env = self.volumes.volume(active.number).env
        if env is None:
            return
        if self.owner.epoch and env.used > min(SEAL_AT_CLOSE, env.map_size // 2):
            env = self.next_segment()
            active = self.volumes.manifest.active
        with self.owned():
            if self.untidy:
                self._sweep_archives()
            with env.view() as view:
                position = last_position(view, active)
            self.reader.close()
            catalog = self.lookup.catalog.env
            env.trim()
            catalog.trim()
            manifest.write_clean(self.directory, Clean(env.digest(), catalog.digest(), position))

    def close(self) -> None:
        """Unmap and close everything."""
        self.reader.close()
        self.lookup.close()
        self.volumes.close()


def check_absent(lookup: Lookup, conversations: Iterable[str]) -> None:
    """Refuse conversations that are in a log, or were erased from it."""
    for name in conversations:
        head = lookup.head(name)
        if head is not None:
            what = "was erased from" if head.state is State.ERASED else "is already in"
            msg = f"{name} {what} this log: take it into another one"
            raise Refused(msg)

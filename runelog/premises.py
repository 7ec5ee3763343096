"""The premises of a log: its directory, and everything that is in it.

Knows how a log is made, how to tell in what state it was left, and how a segment follows another.
What is in the directory is described in docs/FORMAT.md.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from runelog import manifest, rewrite, space
from runelog.blobs import FileBlobs
from runelog.catalog import TABLES as CATALOG_TABLES
from runelog.catalog import Catalog
from runelog.cold import Archives, LayeredBlobs
from runelog.errors import Corrupt, Fault, Fenced, LogFailed, NotALog, ReadOnly, Refused
from runelog.files import TEMPORARY, make_directory, sync_directory
from runelog.index import NUMBER
from runelog.inscribe import Armed
from runelog.lookup import Lookup, last_position, last_time
from runelog.manifest import Clean, Lock, Manifest, SegmentInfo
from runelog.reader import Reader
from runelog.rune import State
from runelog.snapshot import Snapshots
from runelog.volumes import Volumes
from runelog.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runelog.codec import Codec
    from runelog.segment import Batch, Environment

_TAKEN: Final = (
    "another process has taken this log over: nothing more can be written through this handle"
)
SEAL_AT_CLOSE: Final = 32 << 20
"""A larger active segment is sealed on closing the log: the next writer need not check it first."""


class Premises:
    """The files of an open log."""

    def __init__(
        self, directory: Path, codec: Codec, *, readonly: bool, segment_size: int, relaxed: bool
    ) -> None:
        """Read the manifest; `settle_in` looks further."""
        self.directory = directory
        self.readonly = readonly
        self.epoch = 0
        """The epoch of our own writer, 0 while nothing was written."""
        self._segment_size = segment_size
        self._clean: Clean | None = None
        self._touched = False
        self.untidy = False
        """Whether there may be archives of conversations that are live."""
        self._owning = threading.RLock()
        self._sections = 0
        self._lock_file = None if readonly else _identity(directory / "LOCK")
        self.archives = Archives(directory / "archive")
        self.blobs = FileBlobs(directory / "blobs")
        self.snapshots = Snapshots(directory / "snapshots")
        self.codec = codec.with_blobs(LayeredBlobs(self.blobs, self.archives))
        self.archives.codec = self.codec
        self.volumes = Volumes(directory, readonly=readonly)
        self.volumes.metasync = not relaxed
        self.lookup = Lookup(self.volumes, self._open_catalog)
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
        except Corrupt:
            self.volumes.damaged.add(active.number)

    # -- owning the log -----------------------------------------------------------------------

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Keep every other writer out while files change; `Fenced` if one has taken the log over.

        Ends with a change of the active segment: what comes after that needs a section of its own.
        """
        # Opened first: whoever opens it holds the lookup's lock and may wait for a section.
        _ = self.lookup.catalog
        with self._section():
            yield

    @contextlib.contextmanager
    def _section(self) -> Iterator[Batch | None]:
        """Hold the mutex of the active segment, which every writer needs to become one.

        Without the segment, if that is damaged: nobody can become a writer then.
        """
        with self._owning:
            while not self._sections:
                active = self.volumes.manifest.active
                with contextlib.ExitStack() as stack:
                    batch = None
                    if self._usable(active):
                        # Taken, so that it stays open when the manifest no longer names it.
                        volume, _ = stack.enter_context(self.volumes.take(active.number))
                        assert volume.env is not None
                        batch = stack.enter_context(volume.env.batch())
                    self._check_ours(batch)
                    if self.volumes.on_disk() == self.volumes.manifest:
                        self._sections = 1
                        try:
                            yield batch
                        finally:
                            self._sections = 0
                        return
                # The writer before us did one thing more, after we read it.
                if self.epoch or not self.volumes.refresh():
                    raise Fenced(_TAKEN)
            yield None

    def _usable(self, active: SegmentInfo) -> bool:
        try:
            return self.volumes.volume(active.number).env is not None
        except Corrupt:
            return False

    def _check_ours(self, batch: Batch | None) -> None:
        if _identity(self.directory / "LOCK") != self._lock_file:
            raise Fenced(_TAKEN)
        if self.epoch and batch is not None and rewrite.epoch_of(batch) != self.epoch:
            raise Fenced(_TAKEN)

    @contextlib.contextmanager
    def no_way_back(self) -> Iterator[None]:
        """Fail the handle over whatever goes wrong once the manifest is replaced.

        The writer may then have a segment in hand that is none any more.
        """
        before = self.volumes.manifest
        try:
            yield
        except Fault:
            raise
        except BaseException as error:
            if self.volumes.manifest is before:
                raise
            msg = f"a change of segments was cut short, close the log and open it again: {error!r}"
            raise LogFailed(msg) from error

    # -- tidying up ---------------------------------------------------------------------------

    def sweep(self) -> None:
        """Remove what a crash left behind: files that the manifest does not name."""
        if not self._rubbish():
            return
        with self._section():
            # What names these files no more must not come back without them.
            sync_directory(self.directory)
            for path in self._rubbish():
                path.unlink(missing_ok=True)

    def _rubbish(self) -> list[Path]:
        listed = {info.name for info in self.volumes.manifest.segments}
        current = f"catalog.{self.volumes.manifest.catalog}.mdb"
        found = [
            path
            for path in (self.directory / "segments").iterdir()
            if path.name.removesuffix("-lock") not in listed
        ]
        for path in self.directory.iterdir():
            stale = path.name.startswith("catalog.") and path.name.removesuffix("-lock") != current
            if stale or path.name.endswith(TEMPORARY) or path.name == "CREATING":
                found.append(path)
        return found

    def discard(self, infos: Iterable[SegmentInfo]) -> None:
        """Delete the files of segments that came to nothing: those that no manifest names."""
        disk = self.volumes.on_disk()
        if disk is None:
            return
        named = {*disk.segments, *self.volumes.manifest.segments}
        names = {info.name for info in named}
        for info in infos:
            if info.name not in names:
                rewrite.discard(self.volumes.path(info))

    def _sweep_erased(self) -> None:
        """Remove blobs and snapshots that came to an erased conversation after its end."""
        erased = _names(self.directory / "archive", ".erased")
        left = erased & (
            _names(self.directory / "blobs") | _names(self.directory / "snapshots", ".snap")
        )
        if left:
            with self._section():
                for name in left:
                    self.blobs.drop(name)
                    self.snapshots.drop(name)

    def tidy(self) -> None:
        """Remove archives of conversations that are live, every rune of them in the segments."""
        for name in sorted(_names(self.directory / "archive", ".runes")):
            with contextlib.suppress(Corrupt):
                if self._is_live(name):
                    self.archives.drop(name)
        self.untidy = False

    def _is_live(self, name: str) -> bool:
        head = self.lookup.head(name)
        if head is None or head.state is not State.LIVE:
            return False
        reached = 0
        for span in self.lookup.spans(name, 0):
            if span.first != reached + 1 or span.segment in self.volumes.damaged:
                return False
            reached = span.last
        return reached == head.head

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
        with self._section():
            for info in self.volumes.manifest.segments[:-1]:
                if info.number > merged:
                    self.touch()
                    with self.volumes.take(info.number) as (_, view):
                        catalog.merge(info.number, view)

    def _rebuild_catalog(self) -> Catalog:
        with self._section():
            return self._rebuilt_catalog()

    def _rebuilt_catalog(self) -> Catalog:
        """Make the catalog anew from the segments and the archives."""
        self.touch()
        generation = self.volumes.manifest.catalog + 1
        path = self.directory / f"catalog.{generation}.mdb"
        rewrite.discard(path)
        catalog = Catalog(path, create=True)
        try:
            for info in self.volumes.manifest.segments[:-1]:
                with (
                    contextlib.suppress(
                        Corrupt
                    ),  # what a damaged segment does not tell stays untold
                    self.volumes.take(info.number) as (_, view),
                ):
                    catalog.merge(info.number, view)
            for head in self.archives.heads():
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
        with self._section() as batch:
            active = self.volumes.manifest.active
            env = self.volumes.volume(active.number).env
            if env is None or batch is None:
                msg = (
                    f"{active.name} is damaged, and nothing can be appended behind it: "
                    "what is sound can be read; `runefold log repair` sets the rest aside"
                )
                raise Corrupt(msg)
            self.touch()
            epoch = rewrite.epoch_of(batch) + 1
            batch.put("meta", b"epoch", NUMBER.pack(epoch))
            armed = Armed(env, epoch, last_position(batch, active), last_time(batch, active))
        self.epoch = epoch
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
        with self.no_way_back():
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
        rewrite.create(self.volumes.path(new), new, self.epoch).close()
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
        if self.epoch and env.used > min(SEAL_AT_CLOSE, env.map_size // 2):
            env = self.next_segment()
            active = self.volumes.manifest.active
        with self.owned():
            if self.untidy:
                self.tidy()
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


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell a file from one that took its place: while we have it open, its number is not reused."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _names(directory: Path, suffix: str = "") -> set[str]:
    """Return the names in a directory that end so, without that."""
    try:
        found = os.listdir(directory)
    except FileNotFoundError:
        return set()
    return {name.removesuffix(suffix) for name in found if name.endswith(suffix)}


def check_absent(lookup: Lookup, conversations: Iterable[str]) -> None:
    """Refuse conversations that are in a log, or were erased from it."""
    for name in conversations:
        head = lookup.head(name)
        if head is not None:
            what = "was erased from" if head.state is State.ERASED else "is already in"
            msg = f"{name} {what} this log: take it into another one"
            raise Refused(msg)


def acquire(directory: Path, *, create: bool, take_over: bool) -> Lock:
    """Become the writer of the log in a directory, or of the one that is to be made there."""
    if directory.exists() and not directory.is_dir():
        msg = f"{directory} is a file: name the directory of a log"
        raise NotALog(msg)
    if not (directory / "MANIFEST").exists():
        if not create:
            msg = f"{directory} holds no log (it has no MANIFEST)"
            raise NotALog(msg)
        if _holds_segments(directory) and not (directory / "CREATING").exists():
            msg = (
                f"{directory} has segments and no MANIFEST: "
                "`runefold log repair` can rebuild it from them"
            )
            raise Corrupt(msg)
        if directory.exists() and (others := manifest.foreign(directory)):
            msg = (
                f"{directory} holds other files ({', '.join(sorted(others)[:3])}) and no log: "
                "name an empty directory, or one that does not exist yet"
            )
            raise NotALog(msg)
        try:
            make_directory(directory)
        except OSError as error:
            msg = f"{directory} cannot be made: {error.strerror}"
            raise ReadOnly(msg) from error
    lock = Lock(directory)
    lock.acquire(take_over=take_over)
    return lock


def _holds_segments(directory: Path) -> bool:
    folder = directory / "segments"
    return folder.is_dir() and any(path.suffix == ".mdb" for path in folder.iterdir())


def create_log(directory: Path, segment_size: int) -> None:
    """Make an empty log. Its manifest comes last: before that there is no log, only leftovers.

    CREATING tells leftovers of this from a log that lost its manifest.
    """
    (directory / "CREATING").touch(mode=0o600)
    sync_directory(directory)
    make_directory(directory / "segments")
    info = SegmentInfo(number=1, first=1, map_size=segment_size)
    path = directory / "segments" / info.name
    env = rewrite.create(path, info, 0)
    catalog_path = directory / "catalog.0.mdb"
    rewrite.discard(catalog_path)
    catalog = Catalog(catalog_path, create=True)
    try:
        env.trim()
        catalog.env.trim()
        vouched = Clean(env.digest(), catalog.env.digest(), 0)
    finally:
        catalog.close()
        env.close()
    manifest.write_clean(directory, vouched)
    manifest.write_manifest(
        directory, Manifest(log=f"log_{secrets.token_hex(8)}", segments=(info,))
    )
    (directory / "CREATING").unlink()

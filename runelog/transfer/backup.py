"""Backing up a log while it is written: a consistent copy, made again by copying what is new.

Sealed segments and blobs never change under their names, archives are replaced as a whole. They are
copied first, as long as that takes. Then one moment is held: the manifest is read, the active
segment and the catalog are pinned by read transactions, the few files that came meanwhile are
opened, and the manifest is read once more. If it is the same, all of these belong together, and can
be copied from what is pinned and open, whatever the writer does. If not, it is done once more.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from runelog import manifest
from runelog.errors import Busy, Corrupt, Refused
from runelog.files import sound_disk
from runelog.index.catalog import TABLES as CATALOG_TABLES
from runelog.index.check_in_child import check_files
from runelog.index.records import LAST
from runelog.lmdb import space
from runelog.lmdb.environment import TABLES
from runelog.lmdb.page_copy import PinnedPages, pinned
from runelog.lmdb.salvage import SalvageView
from runelog.manifest import Clean, Status
from runelog.reader.lookup import last_position
from runelog.transfer.placing import Left, Place
from runelog.transfer.staging import BackedUp, Item, Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.directory.log_directory import LogDirectory
    from runelog.index.catalog import Catalog
    from runelog.manifest import Manifest, SegmentInfo

    Progress = Callable[[int], None]

PATIENCE: Final = 60.0
"""How many seconds a moment is tried for in which the manifest stays the same."""
_PAUSE: Final = 0.002
_MANY: Final = 200
"""How many files are held open at once."""


class _Moment(NamedTuple):
    """All that belongs to a log at one moment."""

    wanted: dict[str, Item]
    late: dict[str, BinaryIO]
    position: int
    active: PinnedPages
    catalog: PinnedPages


class _Changed(Exception):
    """The log went on before everything could be pinned."""


def back_up(
    home: LogDirectory, directory: Path, *, verify: bool = False, progress: Progress | None = None
) -> BackedUp:
    """Copy an open log to a directory that is a backup of it afterwards; see `Runelog.backup`."""
    check_apart(home.directory, directory)
    place = Place(directory, "backup")
    with sound_disk(f"backing up to {directory}"), place.held():
        copier = Copier(home, place, progress, verify=verify)
        now, left = copier.run()
        if place.manifest != now or place.left != left or copier.staging.staged:
            place.prepare(now, left)
            copier.done.removed = place.put_in_place(copier.wanted)
        else:
            shutil.rmtree(place.incoming, ignore_errors=True)
    return copier.done


def check_apart(source: Path, directory: Path) -> None:
    """Refuse two directories of which one is, or is in, the other."""
    one, other = source.resolve(), directory.resolve()
    if one == other or one in other.parents or other in one.parents:
        msg = f"{directory} and {source} are one inside the other: name a directory elsewhere"
        raise Refused(msg)


class Copier:
    """Copies what a place lacks of a log into its `incoming/`."""

    def __init__(
        self, home: LogDirectory, place: Place, progress: Progress | None, *, verify: bool = False
    ) -> None:
        """Read the log at `home`; with `verify`, check what is in the place already as well."""
        self.staging = Staging(home.directory, place, progress, verify=verify)
        self.done = self.staging.done
        self.wanted: set[str] = set()
        """The names of all files that belong to the log."""
        self._home = home
        self._source = home.directory
        self._place = place
        self._verify = verify

    def run(self) -> tuple[Manifest, Left]:
        """Copy what is new; return the manifest, and what the place holds once it is in place."""
        self._check_line()
        self.staging.clear()
        # What takes long, and may change meanwhile.
        self.staging.bring(self.staging.listed(self._manifest()))
        patience = time.monotonic() + PATIENCE
        while (found := self._try()) is None:
            if time.monotonic() > patience:
                msg = (
                    f"the log in {self._source} has been changing for {PATIENCE:.0f} s without a "
                    "moment to copy it in: back it up again when fewer conversations are "
                    "archived, restored and erased. The last backup is what it was"
                )
                raise Busy(msg)
            self.staging.bring(self.staging.listed(self._manifest()))
            time.sleep(_PAUSE)
        return found

    def _try(self) -> tuple[Manifest, Left] | None:
        """Copy all that is missing as of one moment; None if the log went on too early."""
        now = self._manifest()
        try:
            with contextlib.ExitStack() as files:
                with self.staging.quiet(), self._held(now, files) as moment:
                    left = self._take_pinned(now, moment)
                for name, file in moment.late.items():
                    self.staging.take(name, moment.wanted[name], file)
        except _Changed:
            return None
        self._check_copies(now)
        self.wanted = {*moment.wanted, *_written(now)}
        self.staging.settle(self.wanted)
        for name in moment.wanted.keys() - self.staging.staged.keys():
            self.staging.reuse(name, moment.wanted[name].size)
        self.done.log, self.done.revision = now.log, now.revision
        self.done.position = moment.position
        return now, left

    # -- the moment ---------------------------------------------------------------------------

    def _manifest(self) -> Manifest:
        home = self._home
        if home.readonly:
            home.segments.refresh()
        now = home.segments.manifest
        broken = [info.name for info in now.segments[:-1] if info.status is not Status.SEALED]
        if broken:
            raise self.staging.damaged(broken[0], "is set aside as damaged")
        return now

    @contextlib.contextmanager
    def _held(self, now: Manifest, files: contextlib.ExitStack) -> Iterator[_Moment]:
        """Hold the moment of a manifest; `_Changed` if it is over. `files` keeps what is open."""
        home = self._home
        with contextlib.ExitStack() as stack:
            try:
                segment, _ = stack.enter_context(home.segments.take(now.active.number))
                if segment.env is None:
                    raise self.staging.damaged(now.active.name, "is damaged")
                active = stack.enter_context(pinned(segment.env))
                position = last_position(active.view, now.active)
                catalog = stack.enter_context(home.lookup.asked())
                index = stack.enter_context(pinned(catalog.env))
                # Behind the active segment: whatever its runes name is there by now.
                wanted = self.staging.listed(now)
                missing = [
                    name for name, item in wanted.items() if not self.staging.has(name, item)
                ]
                if len(missing) > _MANY:
                    raise _Changed
                late: dict[str, BinaryIO] = {
                    name: files.enter_context((self._source / name).open("rb")) for name in missing
                }
            except (Corrupt, FileNotFoundError):
                if self._is_over(now):
                    raise _Changed from None
                raise
            if self._is_over(now) or not _is_of(catalog, now):
                raise _Changed
            yield _Moment(wanted, late, position, active, index)

    def _is_over(self, now: Manifest) -> bool:
        """Return True if a manifest is not the current one, or a step is under way."""
        if now.pending:
            if self._home.readonly and not manifest.writer_alive(self._source):
                step = now.pending[0].op
                msg = (
                    f"the log in {self._source} was left in the middle of `{step}`: open it for "
                    "writing once, which finishes that, and back it up then"
                )
                raise Refused(msg)
            return True
        return self._home.segments.on_disk() != now

    def _take_pinned(self, now: Manifest, moment: _Moment) -> Left:
        """Copy the active segment and the catalog, unless they are what was copied last."""
        old, left = self._place.manifest, self._place.left
        names = _written(now)
        pins = (moment.active, moment.catalog)
        kept: list[tuple[str, int] | None] = [None, None]
        if old is not None and left.clean is not None:
            same = (old.active == now.active, old.catalog == now.catalog)
            vouched = (left.clean.active, left.clean.catalog)
            for at in (0, 1):
                if same[at] and left.commits[at] == pins[at].commit:
                    kept[at] = vouched[at] if self._is_kept(names[at], vouched[at]) else None
        digests = [
            found or self._copy_pinned(name, pages)
            for name, pages, found in zip(names, pins, kept, strict=True)
        ]
        clean = Clean(digests[0], digests[1], moment.position, now.revision)
        return Left(self._place.left.purpose, clean, (pins[0].commit, pins[1].commit))

    def _is_kept(self, name: str, vouched: tuple[str, int]) -> bool:
        """Return True if a file that was copied from something pinned is still there."""
        path = self._place.directory / name
        found = path.stat().st_size == vouched[1] if path.exists() else False
        if found and self._verify:
            found = space.digest(path) == vouched
            self.done.checked_again.add(vouched[1])
        if found:
            self.staging.reuse(name, vouched[1])
        return found

    def _copy_pinned(self, name: str, pages: PinnedPages) -> tuple[str, int]:
        with self.staging.created(name) as file:
            found = pages.copy_to(file)
        self.staging.copied(name, *found)
        return found

    # -- before and after ---------------------------------------------------------------------

    def _check_line(self) -> None:
        """Refuse a place whose log is another one, or has gone on without this one."""
        old = self._place.manifest
        if old is None:
            return
        now = self._manifest()
        where = self._place.directory
        way_out = "back up into another directory"
        if old.log != now.log:
            msg = f"{where} is a backup of another log, {old.log}, not of {now.log}: {way_out}"
            raise Refused(msg)
        here = {info.number: info for info in now.segments}
        other = [
            info.name
            for info in old.segments
            if info.number in here and not _is_same(info, here[info.number])
        ]
        if old.revision > now.revision or other or self._lacks_last(old, now):
            msg = (
                f"{where} holds what the log in {self._source} does not: it is newer, or the log "
                f"was restored from an older backup and went another way since. Nothing was "
                f"changed: {way_out}"
            )
            raise Refused(msg)

    def _lacks_last(self, old: Manifest, now: Manifest) -> bool:
        """Return True if the last runes of the backup are not in the segment they came from."""
        names = {info.name for info in now.segments}
        path = self._place.directory / "segments" / old.active.name
        if old.active.name not in names or not path.exists():
            return False  # written anew since, or missing from the backup and copied again
        with SalvageView.open(path) as view:
            last = view.floor("runes", LAST)
        if last is None:
            return False
        try:
            with self._home.segments.take(old.active.number) as (segment, view):
                return (
                    segment.info.name == old.active.name and view.get("runes", last[0]) != last[1]
                )
        except Corrupt:
            if self._is_over(now):
                return False
            raise

    def _check_copies(self, now: Manifest) -> None:
        """Check the copies of files that are written to in a child process, every entry."""
        files = [
            (self._place.incoming / name, tables)
            for name, tables in zip(_written(now), (TABLES, CATALOG_TABLES), strict=True)
            if name in self.staging.staged
        ]
        for fault in check_files(*files) if files else ():
            if fault is not None:
                msg = (
                    f"the copy of {self._source} is damaged: {fault}. The last backup is what it "
                    "was: `runefold log verify` shows how far the damage goes"
                )
                raise Corrupt(msg) from fault


def _written(now: Manifest) -> tuple[str, str]:
    """Return the names of the files that are written in place: active segment and catalog."""
    return f"segments/{now.active.name}", f"catalog.{now.catalog}.mdb"


def _is_same(old: SegmentInfo, now: SegmentInfo) -> bool:
    """Return True if two manifests may speak of one segment, at two times."""
    sealed = old.name == now.name and old.status is Status.SEALED
    # An active segment that was written anew tells the time of the last rune it had.
    later = old.generation < now.generation and old.since < now.since
    return (
        old.first == now.first
        and (old.since == now.since or later)
        and (not sealed or old.digest == now.digest)
    )


def _is_of(catalog: Catalog, now: Manifest) -> bool:
    """Return True if a catalog is from the same time as a manifest, and nothing is under way."""
    try:
        catalog.check_age(now)
    except Corrupt:
        return False
    return True

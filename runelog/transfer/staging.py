"""The files of a log that do not change under their names, on their way to another directory.

Sealed segments, blobs, archives and tombstones: listed, compared with what is there already, copied
into `incoming/` and checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import msgspec

from runelog.blobs import is_digest
from runelog.directory import garbage
from runelog.errors import BadStream, Corrupt
from runelog.files import room_for
from runelog.lmdb import space
from runelog.rune import is_id
from runelog.stream.stream_check import check_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.manifest import Manifest
    from runelog.transfer.placing import Place

    Progress = Callable[[int], None]

_BLOCK: Final = 1 << 20
_ARCHIVE: Final = ".runes"
_TOMBSTONE: Final = ".erased"


class Count(msgspec.Struct):
    """So many files, of so many bytes together."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one more file."""
        self.files += 1
        self.bytes += size


class BackedUp(msgspec.Struct):
    """What a backup did."""

    log: str = ""
    """The id of the log."""
    revision: int = 0
    """Of the manifest that was copied."""
    position: int = 0
    """All that was committed up to this position is in the backup."""
    copied: Count = msgspec.field(default_factory=Count)
    """What was new. All of it was checked: digests, checksums, every rune of the active segment."""
    reused: Count = msgspec.field(default_factory=Count)
    """What an earlier backup has copied, and checked then."""
    checked_again: Count = msgspec.field(default_factory=Count)
    """Of what was reused, what was read and checked once more."""
    removed: int = 0
    """Files that are not part of the log any more: of what was erased, archived or brought back."""


class Item(NamedTuple):
    """A file that belongs to a log and does not change."""

    size: int
    digest: str = ""
    """The SHA-256 that its content must have; empty if it has checksums of its own."""
    changed: int = 0
    """When it was written; for archives, which may be replaced."""


class Staging:
    """Copies what a place lacks of a log into its `incoming/`."""

    def __init__(
        self, source: Path, place: Place, progress: Progress | None, *, verify: bool
    ) -> None:
        """Copy from `source`; with `verify`, check what is in the place already as well."""
        self.done = BackedUp()
        self.staged: dict[str, Item] = {}
        """What was copied, by name."""
        self._source = source
        self._place = place
        self._verify = verify
        self._progress = progress
        self._untold: int | None = None
        """Bytes that were done while user code may not be called."""
        self._sound: dict[str, bool] = {}
        """What was found of files that were there already."""
        old = place.manifest
        self._known = {f"segments/{info.name}": info for info in old.segments} if old else {}

    def listed(self, now: Manifest) -> dict[str, Item]:
        """Return what belongs to the log beside the active segment and the catalog."""
        found = {
            f"segments/{info.name}": Item(info.size, info.digest) for info in now.segments[:-1]
        }
        gone = set(garbage.erased(self._source))
        found |= {f"archive/{name}{_TOMBSTONE}": Item(0) for name in gone}
        for entry in _scan(self._source / "archive"):
            name = entry.name.removesuffix(_ARCHIVE)
            if name != entry.name and is_id(name) and name not in gone:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    found[f"archive/{entry.name}"] = Item(
                        status.st_size, changed=status.st_mtime_ns
                    )
        for folder in _scan(self._source / "blobs"):
            if not is_id(folder.name) or folder.name in gone:
                continue
            for entry in _scan(Path(folder.path)):
                if is_digest(entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        name = f"blobs/{folder.name}/{entry.name}"
                        found[name] = Item(entry.stat().st_size, entry.name)
        return found

    def has(self, name: str, item: Item) -> bool:
        """Return True if a file need not be copied any more."""
        return self.staged.get(name) == item or (self._fits(name, item) and self._trusted(name))

    def _fits(self, name: str, item: Item) -> bool:
        """Return True if the file is in place already, by all that can be told from outside."""
        info = self._known.get(name)
        if info is not None and (info.digest, info.size) != (item.digest, item.size):
            return False
        if info is None and name.startswith("segments/"):
            return False
        try:
            status = (self._place.directory / name).stat()
        except OSError:
            return False
        return status.st_size == item.size and item.changed in (0, status.st_mtime_ns)

    def _trusted(self, name: str) -> bool:
        return self._sound.get(name, not self._verify or name.endswith(_TOMBSTONE))

    def bring(self, wanted: dict[str, Item]) -> None:
        """Copy what is missing; what goes meanwhile is not missed."""
        for name, item in wanted.items():
            if self.staged.get(name) == item:
                continue
            if self._fits(name, item):
                if self._verify and name not in self._sound and not name.endswith(_TOMBSTONE):
                    self._sound[name] = self._is_sound(self._place.directory / name, item)
                    self.done.checked_again.add(item.size)
                if self._trusted(name):
                    continue
            if self._is_staged(name, item):
                self.staged[name] = item
                self.reuse(name, item.size)
                continue
            with (
                contextlib.suppress(FileNotFoundError),
                (self._source / name).open("rb") as file,
            ):
                self.take(name, item, file)

    def _is_staged(self, name: str, item: Item) -> bool:
        """Return True if a backup that was interrupted has copied a file, synced or not."""
        path = self._place.incoming / name
        if not item.digest or not path.is_file() or path.stat().st_size != item.size:
            return False
        if not self._is_sound(path, item):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return True

    def take(self, name: str, item: Item, file: BinaryIO) -> None:
        """Copy a file, and check the copy."""
        status = os.fstat(file.fileno())
        if not item.digest and item.changed:
            # It may have been replaced since it was listed: what is copied is what is open.
            item = Item(status.st_size, changed=status.st_mtime_ns)
        found = hashlib.sha256()
        with self.created(name) as target:
            while block := file.read(_BLOCK):
                target.write(block)
                found.update(block)
                self.tell(len(block))
            target.flush()
            if item.changed:
                os.utime(target.fileno(), ns=(item.changed, item.changed))
        if item.digest and found.hexdigest() != item.digest:
            raise self.damaged(name, "does not match its digest")
        if item.changed:
            try:
                with (self._place.incoming / name).open("rb") as copy:
                    check_stream(copy)
            except BadStream as error:
                raise self.damaged(name, f"cannot be read: {error}") from error
        self.staged[name] = item
        if not name.endswith(_TOMBSTONE):
            self.done.copied.add(status.st_size)

    @staticmethod
    def _is_sound(path: Path, item: Item) -> bool:
        """Return True if a file is what it was when it was copied."""
        if item.digest:
            return space.digest(path) == (item.digest, item.size)
        try:
            if item.changed:
                with path.open("rb") as file:
                    check_stream(file)
        except BadStream:
            return False
        return True

    @contextlib.contextmanager
    def created(self, name: str) -> Iterator[BinaryIO]:
        """Give a new file in `incoming/`; it is synced on leaving the block."""
        path = self._place.incoming / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with room_for(f"{name} in {self._place.directory}"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor, not a path
                yield file
                file.flush()
                os.fsync(descriptor)

    def clear(self) -> None:
        """Remove what an interrupted backup left in `incoming/`, unless a digest tells what it is.

        That is not copied again.
        """
        kept = {"segments", "blobs"}
        for path in self._place.incoming.glob("*"):
            if path.name in kept:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def settle(self, wanted: set[str]) -> None:
        """Remove what was copied, now or by an interrupted backup, and is not wanted any more."""
        self.staged = {name: item for name, item in self.staged.items() if name in wanted}
        for path in self._place.incoming.rglob("*"):
            if path.is_file() and str(path.relative_to(self._place.incoming)) not in self.staged:
                path.unlink()

    def copied(self, name: str, digest: str, size: int) -> None:
        """Take note of a file that was written to `created`."""
        self.staged[name] = Item(size, digest)
        self.done.copied.add(size)
        self.tell(size)

    def reuse(self, name: str, size: int) -> None:
        """Count a file that need not be copied."""
        if not name.endswith(_TOMBSTONE):
            self.done.reused.add(size)
            self.tell(size)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Hold back progress while the block lasts, and report it afterwards."""
        self._untold = 0
        try:
            yield
        finally:
            held, self._untold = self._untold, None
        self.tell(held)

    def tell(self, count: int) -> None:
        """Report bytes that are done."""
        if self._untold is not None:
            self._untold += count
        elif self._progress is not None and count:
            self._progress(count)

    def damaged(self, name: str, what: str) -> Corrupt:
        """Return the error that a file of the log is damaged."""
        return Corrupt(
            f"{name} in {self._source} {what}, and is not backed up. The last backup is what it "
            "was: `runefold log verify` shows how far the damage goes, `runefold log repair` sets "
            "it aside"
        )


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [*found]
    except (FileNotFoundError, NotADirectoryError):
        return []

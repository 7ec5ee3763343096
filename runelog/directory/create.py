"""Creating a log: becoming its writer, and the files of an empty one."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from runelog import manifest
from runelog.directory import rewrite
from runelog.directory.rewrite import Birth
from runelog.errors import Corrupt, NotALog, ReadOnly
from runelog.files import make_directory, sync_directory
from runelog.index.catalog import Catalog
from runelog.manifest import Clean, Lock, Manifest, SegmentInfo

if TYPE_CHECKING:
    from pathlib import Path


def acquire(directory: Path, *, create: bool, take_over: bool, errand: str = "") -> Lock:
    """Become the writer of the log in a directory, or of the one that is to be made there."""
    if directory.exists() and not directory.is_dir():
        msg = f"{directory} is a file: name the directory of a log"
        raise NotALog(msg)
    if not (directory / "MANIFEST").exists():
        if not create:
            msg = f"{directory} holds no log (it has no MANIFEST)"
            raise NotALog(msg)
        manifest.check_placed(directory)
        if (directory / "BACKUP").exists():
            msg = (
                f"{directory} is being made by `runefold log backup` or `restore-backup`, and is "
                "not finished: run it again"
            )
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
        take_over = False  # another process may still be making it
        try:
            make_directory(directory)
        except OSError as error:
            msg = f"{directory} cannot be made: {error.strerror}"
            raise ReadOnly(msg) from error
    lock = Lock(directory)
    lock.acquire(take_over=take_over, errand=errand)
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
    new = Manifest(log=f"log_{secrets.token_hex(8)}", segments=(info,))
    path = directory / "segments" / info.name
    catalog_path = directory / "catalog.0.mdb"
    rewrite.discard(catalog_path)
    with contextlib.ExitStack() as stack:
        env = rewrite.create(path, info, Birth(new.log, new.revision), 0)
        stack.callback(env.close)
        catalog = Catalog(catalog_path, create=True)
        stack.callback(catalog.close)
        env.trim()
        catalog.env.trim()
        vouched = Clean(env.digest(), catalog.env.digest(), 0, new.revision)
    manifest.write_clean(directory, vouched)
    manifest.write_manifest(directory, new)
    (directory / "CREATING").unlink()

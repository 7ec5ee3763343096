"""A catalog that has not changed since a digest was taken of it: an open need not walk it.

The digest is in the file CATALOG, which goes, durably, before the catalog changes. It is taken when
the log is closed and, while appends go on, when a segment was sealed: hardly anything else changes
the catalog. So an open after a kill compares it, which takes a hundredth of what a walk does.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runelog import manifest
from runelog.lmdb import space
from runelog.manifest import Unchanged

if TYPE_CHECKING:
    from pathlib import Path

    from runelog.directory.log_directory import LogDirectory


class UnchangedCatalog:
    """Vouches for the catalog of a log as long as it does not change."""

    def __init__(self, home: LogDirectory) -> None:
        """Begin without having looked."""
        self._home = home
        self._may_be_told = True
        """Whether there may be a file CATALOG."""

    def is_still(self, generation: int, path: Path) -> bool:
        """Return True if the catalog is what it was when a digest was taken of it."""
        told = manifest.read_unchanged(self._home.directory)
        with contextlib.suppress(OSError):
            return told is not None and told == Unchanged(generation, space.digest(path))
        return False

    def ends(self) -> None:
        """Take back what was said, once, before the catalog changes."""
        if self._may_be_told:
            manifest.drop_unchanged(self._home.directory)
            self._may_be_told = False

    def vouch(self) -> None:
        """Take a digest while appends go on; nothing is said if the catalog changed meanwhile."""
        home, catalog = self._home, self._home.lookup.catalog
        with catalog.env.view() as view:
            before = view.commit
        found = catalog.env.digest()
        with home.owned(), catalog.env.view() as view:
            if view.commit == before and catalog is home.lookup.catalog:
                self.vouch_for(found)

    def vouch_for(self, digest: tuple[str, int]) -> None:
        """Say of the catalog that it has this digest; nobody else may change it meanwhile."""
        home = self._home
        now = Unchanged(home.segments.manifest.catalog, digest)
        if manifest.read_unchanged(home.directory) != now:
            # Before: should the write be interrupted, it may be there all the same.
            self._may_be_told = True
            manifest.write_unchanged(home.directory, now)

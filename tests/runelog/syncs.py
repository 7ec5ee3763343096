"""What a power cut could take back: the names and contents in a directory that were not synced.

While a `Syncs` is in place it watches every sync that this process asks for. A content that differs
from what it was at its last sync is not durable, and neither is a name that its directory did not
have, or still had, at the directory's last sync. What was there before is not known to be durable.
What LMDB writes it syncs by itself, out of our sight: those contents are left out.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_LMDBS: Final = ".mdb"
_LOCKS: Final = ("-lock", "LOCK")
"""Files that only serve to be locked: they may be there or not."""


class Syncs:
    """Knows what below a directory is durable."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        """Begin with nothing known to be durable."""
        self._root = root
        self._names: dict[Path, frozenset[str]] = {}
        """Which names each directory had when it was last synced."""
        self._contents: dict[int, bytes] = {}
        """What each file held when it was last synced, by its number."""
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            self._note(descriptor)

        patch.setattr(os, "fsync", fsync)

    def _note(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if stat.S_ISDIR(found.st_mode):
            self._names[path] = _names_in(path)
        elif not path.name.endswith(_LMDBS):
            self._contents[found.st_ino] = path.read_bytes()

    def is_durable(self, path: Path) -> bool:
        """Return True if the directory that holds `path` was synced while it had that name."""
        path = path.resolve()
        return path.name in self._names.get(path.parent, ())

    def unsynced(self) -> list[str]:
        """Return what could be lost now: directories' names and files' contents, by their path."""
        return sorted(self._unsynced(self._root.resolve()))

    def _unsynced(self, folder: Path) -> Iterator[str]:
        there, durable = _names_in(folder), self._names.get(folder, frozenset())
        for name in there ^ durable:
            yield f"name {(folder / name).relative_to(self._root.resolve())}"
        for name in there:
            path = folder / name
            if path.is_dir():
                yield from self._unsynced(path)
            elif not name.endswith(_LMDBS) and self._is_at_risk(path):
                yield f"content {path.relative_to(self._root.resolve())}"

    def _is_at_risk(self, path: Path) -> bool:
        content = path.read_bytes()
        # One that was made and never written to is empty, whatever is synced.
        return content != b"" and self._contents.get(path.stat().st_ino) != content


def _names_in(folder: Path) -> frozenset[str]:
    return frozenset(each.name for each in folder.iterdir() if not each.name.endswith(_LOCKS))

"""The folder `damaged/` of a log: what is damaged is kept there and never replaced."""

from __future__ import annotations

import filecmp
import os
import shutil
from typing import TYPE_CHECKING

from runelog.files import make_directory, replacing, sync_directory

if TYPE_CHECKING:
    from pathlib import Path


def free_name(aside: Path, name: str) -> Path:
    """Return where a damaged file can be kept: nothing that is there already is replaced."""
    make_directory(aside)
    target, count = aside / name, 0
    while target.exists():
        count += 1
        target = aside / f"{name}.{count}"
    return target


def set_aside(directory: Path, path: Path, name: str = "") -> Path:
    """Move a file to `damaged/`, under `name` if given, durably; return where it is now."""
    target = free_name(directory / "damaged", name or path.name)
    path.rename(target)
    sync_directory(target.parent)
    sync_directory(path.parent)
    return target


def keep_aside(directory: Path, path: Path) -> None:
    """Link or copy a damaged file to `damaged/`, durably, so that the one at `path` may go.

    Before anything takes its place: the next writer removes files that MANIFEST does not name.
    """
    aside = directory / "damaged"
    target = aside / path.name
    if not target.exists() or not filecmp.cmp(path, target, shallow=False):
        target = free_name(aside, path.name)
        try:
            os.link(path, target)
        except OSError:
            # Not every file system can give a file two names.
            with path.open("rb") as damaged, replacing(target) as file:
                shutil.copyfileobj(damaged, file)
    sync_directory(aside)

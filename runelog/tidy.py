"""What should not be in a log's directory any more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runelog.files import TEMPORARY
from runelog.rune import State

if TYPE_CHECKING:
    from pathlib import Path

    from runelog.lookup import Lookup


def half_written(directory: Path) -> list[Path]:
    """Return the archives, blobs and copies of damaged files that somebody was killed over.

    What is just being written looks the same: to be asked only while nothing is.
    """
    places = ("archive/*", "blobs/*/*", "damaged/*")
    return [path for place in places for path in directory.glob(place + TEMPORARY)]


def traces(directory: Path, conversation: str) -> list[Path]:
    """Return the files, whole or in part, that a conversation's runes or blobs are still in.

    Its archives, and what a repair set aside that is of nobody else. Segments are of many.
    """
    own = re.compile(rf"{re.escape(conversation)}\.(runes|[0-9a-f]{{64}})(\..+)?")
    return [
        path
        for place in ("archive", "damaged")
        for path in directory.glob(f"{place}/{conversation}.*")
        if own.fullmatch(path.name)
    ]


def remains(directory: Path) -> set[str]:
    """Return the erased conversations that have blobs or snapshots, come too late to be erased."""
    kept = (
        _names(directory / "blobs")
        | _names(directory / "snapshots", ".snap")
        | _names(directory / "archive", ".runes")
    )
    return kept & _names(directory / "archive", ".erased") if kept else kept


def erased(directory: Path) -> list[str]:
    """Return the conversations that have a tombstone."""
    return sorted(_names(directory / "archive", ".erased"))


def archived(directory: Path) -> list[str]:
    """Return the conversations that have an archive, whether they are archived or not."""
    return sorted(_names(directory / "archive", ".runes"))


def is_live(lookup: Lookup, name: str) -> bool:
    """Tell whether a conversation needs no archive: all its runes are in sound segments."""
    head = lookup.head(name)
    if head is None or head.state is not State.LIVE:
        return False
    reached = 0
    for span in lookup.spans(name, 0):
        if span.first != reached + 1 or span.segment in lookup.volumes.damaged:
            return False
        reached = span.last
    return reached == head.head


def _names(directory: Path, suffix: str = "") -> set[str]:
    """Return the names in a directory that end so, without their ends."""
    try:
        found = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return set()
    return {name.removesuffix(suffix) for name in found if name.endswith(suffix)}

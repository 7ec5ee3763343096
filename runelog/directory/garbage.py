"""Files in a log's directory that MANIFEST does not name: rubbish that is proven, and the rest.

A crash leaves files that were being made or had just been replaced. MANIFEST alone does not prove
that: it may be older than they are. A segment is rubbish if its own file says that it was never
completed, if it holds no runes, or if each of its runes can be read elsewhere in the log.
"""

from __future__ import annotations

import contextlib
import re
import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from runelog.errors import Corrupt, Gone, RunefoldError, UnknownConversation
from runelog.files import TEMPORARY
from runelog.index import frame, stamps
from runelog.index.catalog import entries
from runelog.index.follow import complete
from runelog.index.records import NUMBER, PLACE, decode_head
from runelog.lmdb.salvage import SalvageView
from runelog.manifest import read_clean
from runelog.rune import State
from runelog.stream.streams import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from runelog.lmdb.tables import Tables
    from runelog.manifest import Manifest
    from runelog.reader.lookup import Lookup
    from runelog.rune import Envelope

    Read: TypeAlias = Callable[[str, int], Iterator[Envelope]]

SEGMENT: Final = re.compile(r"(\d{6,})\.(\d+)\.mdb")
"""The name of a segment's file: number and generation."""
CATALOG: Final = re.compile(r"catalog\.(\d+)\.mdb")
_LOCK: Final = "-lock"
_MADE: Final = 2
"""The commits that make an empty segment: its tables, and what it says of itself."""
_BLOCK: Final = 1 << 20
_NONSENSE: Final = (struct.error, UnicodeDecodeError, IndexError)
"""What becomes of reading keys and values that are not what was written."""


def segments(directory: Path) -> list[Path]:
    """Return the files of all segments, by number and generation."""
    folder = directory / "segments"
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in found if SEGMENT.fullmatch(path.name)), key=place)


def place(path: Path) -> tuple[int, int]:
    """Return number and generation of a segment, as its file is called."""
    match = SEGMENT.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2])


def unnamed_segments(directory: Path, manifest: Manifest) -> list[Path]:
    """Return the segment files that a manifest does not name."""
    named = {info.name for info in manifest.segments}
    return [path for path in segments(directory) if path.name not in named]


def temporary(directory: Path, manifest: Manifest) -> list[Path]:
    """Return files that hold nothing by themselves.

    Files that were still being written, catalogs that were made anew (each is rebuilt from the
    segments), and LMDB's lock files without their segment.
    """
    current = f"catalog.{manifest.catalog}.mdb"
    found = [
        path
        for path in directory.iterdir()
        if _is_temporary(path)
        or path.name == "CREATING"
        or (CATALOG.fullmatch(name := path.name.removesuffix(_LOCK)) and name != current)
    ]
    folder = directory / "segments"
    for path in folder.iterdir() if folder.is_dir() else ():
        segment = path.name.removesuffix(_LOCK)
        lonely = segment != path.name and not (folder / segment).exists()
        if _is_temporary(path) or (lonely and SEGMENT.fullmatch(segment)):
            found.append(path)
    return found


def _is_temporary(path: Path) -> bool:
    """Return True if a file was still being written, or is LMDB's lock file of such a one."""
    return path.name.removesuffix(_LOCK).endswith(TEMPORARY)


def newer_files(directory: Path, manifest: Manifest) -> dict[str, int]:
    """Return the files that prove a later manifest than this one, each with its revision.

    The file of the active segment is not among them, as it may be written to: see `newest`.
    """
    proven = {
        path.name: newest_revision(path, manifest.log)
        for path in unnamed_segments(directory, manifest)
    }
    clean = read_clean(directory)
    if clean is not None:
        proven["CLEAN"] = clean.revision
    return {name: found for name, found in proven.items() if found > manifest.revision}


def newest_revision(path: Path, log: str) -> int:
    """Return the newest revision of the manifest of `log` that a segment's file proves; else 0."""
    with (
        contextlib.suppress(Corrupt, FileNotFoundError, *_NONSENSE),
        SalvageView.open(path) as view,
    ):
        if stamps.log_of(view) == log:
            return stamps.newest(view)
    return 0


def was_never_completed(path: Path) -> bool:
    """Return True if a segment's own file says that it was still being made.

    A power cut may leave the last commit torn. If that is one of those that make an empty segment,
    there is nothing to lose in it.
    """
    try:
        if not any(any(block) for block in _blocks(path)):
            return True
        with SalvageView.open(path) as view:
            if view.commits is not None and view.commits <= _MADE:
                return True
            return not view.check() and stamps.is_unfinished(view)
    except (Corrupt, FileNotFoundError, *_NONSENSE):
        return False


def is_blank(path: Path) -> bool:
    """Return True if a segment's file was never completed, or holds no runes nor traces of any."""
    if was_never_completed(path):
        return True
    try:
        with SalvageView.open(path) as view:
            tables = ("runes", "holes", "heads")
            return not view.check() and not any(view.scan(table, limit=1) for table in tables)
    except (Corrupt, FileNotFoundError, *_NONSENSE):
        return False


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def missing_elsewhere(path: Path, read: Read, erased: Collection[str]) -> str:
    """Return in words why a segment's file cannot go; nothing if `read` gives all its runes.

    `read(conversation, after)` yields runes as the log has them. Those of a conversation that was
    `erased` do not count.
    """
    if is_blank(path):
        return ""
    try:
        with SalvageView.open(path) as view:
            if problems := view.check():
                return f"it is damaged: {problems[0]}"
            return _missing(complete(view), read, erased)
    except (RunefoldError, FileNotFoundError, KeyError, *_NONSENSE) as error:
        return f"it cannot be compared with the log: {error}"


def _missing(view: Tables, read: Read, erased: Collection[str]) -> str:
    """Compare each rune of a segment, byte for byte, with what the log has in its place."""
    names = {key: decode_head(key, value).id for key, value in entries(view, "heads")}
    kept: dict[str, Iterator[Envelope] | None] = {}
    for key, data in entries(view, "runes"):
        name = names[NUMBER.pack(frame.number(data))]
        found = frame.unpack(data, name, frame.seed_of(name), PLACE.unpack(key)[0])
        if name not in kept:
            try:
                kept[name] = None if name in erased else read(name, found.first - 1)
            except Gone:
                kept[name] = None
            except UnknownConversation:
                return f"{name} is nowhere else"
        there = kept[name]
        if there is None:
            continue
        for event_id, body in enumerate(found.bodies, found.first):
            envelope = next(there, None)
            content = (event_id, found.time, body)
            if envelope is None or entry_of(envelope).content != content:
                return f"event {event_id} of {name} is nowhere else"
    return ""


def half_written(directory: Path) -> list[Path]:
    """Return the archives, blobs and copies of damaged files that a killed process left unfinished.

    What is just being written looks the same: to be asked only while nothing is.
    """
    places = ("archive/*", "blobs/*/*", "damaged/*")
    return [path for place in places for path in directory.glob(place + TEMPORARY)]


def traces(directory: Path, conversation: str) -> list[Path]:
    """Return the files, whole or in part, that a conversation's runes or blobs are still in.

    Its archives, and files of its own that a repair set aside. Segments hold many conversations.
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
    """Return True if a conversation needs no archive: all its runes are in sound segments."""
    head = lookup.head(name)
    if head is None or head.state is not State.LIVE:
        return False
    reached = 0
    for span in lookup.spans(name, 0):
        if span.first != reached + 1 or span.segment in lookup.segments.damaged:
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

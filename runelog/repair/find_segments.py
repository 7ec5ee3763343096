"""Finding out which segments there are when the manifest cannot say."""

from __future__ import annotations

import contextlib
import secrets
import struct
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from runelog.decoders import from_json
from runelog.directory import garbage
from runelog.errors import Corrupt, RunefoldError
from runelog.index import frame, stamps
from runelog.index.catalog import MERGED, decode_span, entries
from runelog.index.follow import complete, follow
from runelog.index.index_check import IndexCheck
from runelog.index.records import NUMBER, PLACE, Head, checked, decode_head
from runelog.lmdb import space
from runelog.lmdb.salvage import SalvageView
from runelog.manifest import Manifest, SegmentInfo, Status, read_clean
from runelog.reader.lookup import last_position
from runelog.rune import State, is_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from runelog.lmdb.tables import Tables

_NONSENSE: Final = (struct.error, UnicodeDecodeError, IndexError, KeyError)
"""What becomes of reading keys and values that are not what was written."""


def find_segments(directory: Path, error: Exception, old: Manifest | None = None) -> Manifest:
    """Rebuild a manifest from the files of segments; raise `error` if there are none.

    `old` is a manifest that is out of date: what it says of a file that still matches its digest
    holds.
    """
    found: dict[int, list[Path]] = defaultdict(list)
    folder = directory / "segments"
    for path in garbage.segments(directory):
        found[garbage.place(path)[0]].append(path)
    log = old.log if old is not None else _log_of(found)
    own = {number: _of_log(paths, log) for number, paths in found.items()}
    files = {number: done for number, paths in own.items() if (done := _completed(paths))}
    # One that is followed by others, or that is alone, was completed and holds nothing.
    top = max(files, default=max(own, default=0))
    files |= {number: own[number] for number in own if number not in files and number <= top}
    files = {number: paths for number, paths in files.items() if paths}
    if not files:
        raise error
    known = {info.name: info for info in old.segments} if old is not None else {}
    infos = _arranged(
        [
            _chosen(files[number], known) if number in files else _damaged(number)
            for number in range(1, max(files) + 1)
        ]
    )
    last = infos[-1]
    if last.status is Status.SEALED and not _is_aside(folder / last.name):
        infos[-1] = msgspec.structs.replace(last, status=Status.ACTIVE, last=0, digest="", size=0)
    catalogs = map(garbage.CATALOG.fullmatch, (path.name for path in directory.iterdir()))
    clean = read_clean(directory)
    own_files = (path for paths in files.values() for path in paths)
    return Manifest(
        log=log,
        segments=tuple(infos),
        revision=max(
            1 if old is None else old.revision,
            0 if clean is None else clean.revision,
            *(garbage.newest_revision(path, log) for path in own_files),
        ),
        catalog=max((int(match[1]) for match in catalogs if match), default=0),
    )


def _arranged(infos: list[SegmentInfo]) -> list[SegmentInfo]:
    """Make segments follow each other: a damaged one fills the gap between sound ones."""
    found: list[SegmentInfo] = []
    for at, info in enumerate(infos):
        first, last = info.first, info.last
        if info.status is Status.DAMAGED:
            first = found[-1].last + 1 if found else 1
            last = max(last, first - 1)
        if at + 1 == len(infos):
            last = 0 if info.status is Status.DAMAGED else last
        elif infos[at + 1].status is not Status.DAMAGED:
            last = infos[at + 1].first - 1
        found.append(msgspec.structs.replace(info, first=first, last=last))
    return found


def _log_of(files: dict[int, list[Path]]) -> str:
    """Return the log that most segments say they belong to, a new id if none says so."""
    found = Counter(
        name for paths in files.values() for path in paths if (name := _named_log(path))
    )
    return found.most_common(1)[0][0] if found else f"log_{secrets.token_hex(8)}"


def _named_log(path: Path) -> str:
    with contextlib.suppress(Corrupt, *_NONSENSE), SalvageView.open(path) as view:
        return stamps.log_of(view)
    return ""


def _of_log(paths: list[Path], log: str) -> list[Path]:
    """Return the files that may be segments of a log."""
    return [path for path in paths if _named_log(path) in ("", log)]


def _completed(paths: list[Path]) -> list[Path]:
    return [path for path in paths if not garbage.was_never_completed(path)]


def _chosen(paths: list[Path], known: dict[str, SegmentInfo]) -> SegmentInfo:
    """Return what is known of a segment: of its first generation that is sound.

    While that is still there, the log may not have gone on with the one made from it, unless that
    one reaches further.
    """
    found: list[SegmentInfo] = []
    for path in paths:
        info = known.get(path.name)
        if info is None or space.digest(path) != (info.digest, info.size):
            info = _describe(path)
        found.append(info)
    sound = [info for info in found if info.status is not Status.DAMAGED]
    return max(sound or found[:1], key=lambda info: info.last)


def _is_aside(path: Path) -> bool:
    with SalvageView.open(path) as view:
        return stamps.is_aside(view)


def _describe(path: Path) -> SegmentInfo:
    """Return what a segment's own file says of it."""
    number, generation = garbage.place(path)
    digest, size = space.digest(path)
    with SalvageView.open(path) as view:
        try:
            info = _told(view, number)
            last = last_position(view, info)
        except (RunefoldError, msgspec.DecodeError, *_NONSENSE):
            return _damaged(number, generation, _reached(view, size), size)
    return msgspec.structs.replace(
        info,
        number=number,
        generation=generation,
        status=Status.SEALED,
        last=last,
        digest=digest,
        size=size,
    )


def _damaged(number: int, generation: int = 0, last: int = 0, size: int = 0) -> SegmentInfo:
    """Return what can be said of a segment that is damaged, or missing."""
    return SegmentInfo(
        number=number,
        generation=generation,
        first=1,
        last=last,
        map_size=max(256 << 20, 2 * size),
        status=Status.DAMAGED,
    )


def _reached(view: SalvageView, size: int) -> int:
    """Return the last position that can be read in a damaged segment, 0 if there is none."""
    found = [
        (PLACE.unpack(key)[0], frame.count(data))
        for key, data in view.salvage("runes")
        if len(key) == PLACE.size
    ]
    # A rune takes at least this much: what lies further behind the first is damage.
    most = min(found, default=(0, 0))[0] + size // 24
    return max((place + count - 1 for place, count in found if place + count <= most), default=0)


def _told(view: SalvageView, number: int) -> SegmentInfo:
    """Return what a sound segment says of itself; raise if it is not sound, or another one.

    Without a manifest there is no digest to hold it against, so every rune and posting is checked.
    """
    if problems := view.check():
        raise Corrupt(problems[0])
    info = from_json(SegmentInfo)(view.get("meta", b"segment") or b"")
    return _checked(info, complete(view), number)


def _checked(info: SegmentInfo, view: Tables, number: int) -> SegmentInfo:
    """Return what a segment says of itself if its runes and its index say nothing else."""
    heads = {key: decode_head(key, value) for key, value in entries(view, "heads")}
    for table in ("holes", "work"):
        for key, value in entries(view, table):
            checked(key, value)
    index_check = IndexCheck()
    places = [PLACE.unpack(key)[0] for key, _ in entries(view, "holes")]
    for key, data in entries(view, "runes"):
        name, place = heads[NUMBER.pack(frame.number(data))].id, PLACE.unpack(key)[0]
        frame.unpack(data, name, frame.seed_of(name), place)
        index_check.see(data)
        index_check.read(place, data)
        places.append(place)
    fault = index_check.fault or index_check.contradicts_postings(view)
    if any(heads[at].id != name.decode() for name, at in entries(view, "names")):
        fault = "the names of its conversations are not those that its heads tell"
    if info.number != number or info.first != min(places, default=info.first):
        fault = "it is another segment"
    if fault:
        raise Corrupt(fault)
    return info


class Expected(NamedTuple):
    """What the rest of a log knows of its damaged segments."""

    ends: dict[int, dict[str, int]]
    """For each of them, where its conversations must have ended in it."""
    names: set[str]
    """The conversations that are not erased: what is found may be theirs."""
    told: set[int]
    """The segments of which the catalog tells everything: what it does not tell was not there."""


def expected_events(directory: Path, found: Manifest, damaged: set[int]) -> Expected:
    """Return what must have been in damaged segments.

    The catalog knows, if it can be read; and where a conversation goes on in a later segment, what
    came before must have been in an earlier one.
    """
    expected = Expected({number: {} for number in damaged}, _named(directory), set())
    later: dict[str, int] = {}
    for info in reversed(found.segments):
        if info.number in damaged:
            expected.ends[info.number].update(later)
        path = directory / "segments" / info.name
        if path.exists():
            with SalvageView.open(path) as view:
                for head in heads_of(view):
                    if head.state is State.LIVE:
                        later[head.id] = head.since - 1
                        expected.names.add(head.id)
    path = directory / f"catalog.{found.catalog}.mdb"
    if path.exists():
        with SalvageView.open(path) as view:
            _ask_catalog(directory, view, expected, found.dead)
    expected.names.difference_update(marker.stem for marker in directory.glob("archive/*.erased"))
    return expected


def _ask_catalog(
    directory: Path, view: SalvageView, expected: Expected, dead: Collection[str]
) -> None:
    """Take from the catalog where conversations end in damaged segments, unless they were moved."""
    doubts = not view.complete("spans")
    # They may be told of all the same where the catalog is damaged, and older pages are read.
    elsewhere = {path.stem for path in directory.glob("archive/*")}.difference(dead)
    for key, stored in view.salvage("spans", _is_span):
        try:
            span = decode_span(key, stored)
            name = key[:-9].decode()
        except (Corrupt, UnicodeDecodeError):
            doubts = True
            continue
        if name in elsewhere:
            continue
        expected.names.add(name)
        if span.segment in expected.ends:
            expected.ends[span.segment][name] = span.last
    with contextlib.suppress(Corrupt):
        merged = view.get("meta", MERGED)
        if merged is not None and not doubts:
            last = NUMBER.unpack(checked(MERGED, merged))[0]
            expected.told.update(number for number in expected.ends if number <= last)


def _named(directory: Path) -> set[str]:
    """Return the conversations that something beside the segments is named after."""
    return {path.stem for path in directory.glob("archive/*.runes")} | {
        path.name for path in directory.glob("blobs/*") if is_id(path.name)
    }


def _is_span(key: bytes, stored: bytes) -> bool:
    return len(stored) == 16 and key[-9:-8] == b"\0" and is_id(key[:-9].decode("ascii", "replace"))


def heads_of(view: SalvageView) -> Iterator[Head]:
    """Yield the heads of conversations that a segment, damaged or not, can tell."""
    with contextlib.suppress(Corrupt, *_NONSENSE):
        over = follow(view, damaged=True)
        for key, value in over.tables["heads"].items():
            yield decode_head(key, value or b"")
    for key, value in view.salvage("heads"):
        if len(key) == 4:
            with contextlib.suppress(Corrupt):
                yield decode_head(key, value)

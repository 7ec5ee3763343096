"""Finding out which segments there are when the manifest cannot say."""

from __future__ import annotations

import contextlib
import re
import secrets
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from runelog import segment, space
from runelog.catalog import MERGED, decode_span, entries
from runelog.errors import Corrupt, RunefoldError
from runelog.index import NUMBER, Head, checked, decode_head
from runelog.lookup import last_position
from runelog.manifest import Manifest, SegmentInfo, Status
from runelog.rune import State, is_id
from runelog.salvage import SalvageView

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME: Final = re.compile(r"(\d{6,})\.(\d+)\.mdb")
_CATALOG: Final = re.compile(r"catalog\.(\d+)\.mdb")


def find_segments(directory: Path, error: Exception) -> Manifest:
    """Rebuild a manifest from the files of segments; raise `error` if there are none.

    Of two generations of a segment the older one counts: the newer may be one that a crash left
    unfinished.
    """
    found: dict[int, Path] = {}
    folder = directory / "segments"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = _NAME.fullmatch(path.name)
        if match:
            number = int(match[1])
            if number not in found or _generation(path) < _generation(found[number]):
                found[number] = path
    if not found:
        raise error
    infos = [_describe(found[number]) for number in sorted(found)]
    for before, after in pairwise(infos):
        if after.number != before.number + 1:
            msg = f"there is no segment between {before.name} and {after.name}: put it back first"
            raise Corrupt(msg) from error
    segments = [
        msgspec.structs.replace(info, last=after.first - 1) for info, after in pairwise(infos)
    ]
    last = infos[-1]
    active = msgspec.structs.replace(
        last, status=Status.ACTIVE if last.status is Status.SEALED else last.status, digest=""
    )
    generation = max(
        (int(match[1]) for path in directory.iterdir() if (match := _CATALOG.fullmatch(path.name))),
        default=0,
    )
    return Manifest(
        log=f"log_{secrets.token_hex(8)}", segments=(*segments, active), catalog=generation
    )


def _generation(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[2])


def _describe(path: Path) -> SegmentInfo:
    """Return what a segment's own file says of it."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    digest, size = space.digest(path)
    with SalvageView.open(path) as view:
        try:
            told = view.get("meta", b"segment")
            info = msgspec.json.decode(told or b"", type=SegmentInfo)
            for table in segment.TABLES:
                for _ in entries(view, table):
                    pass
            last = last_position(view, info)
        except (RunefoldError, msgspec.DecodeError):
            positions = [int.from_bytes(key, "big") for key, _ in view.salvage("runes")]
            return SegmentInfo(
                number=int(match[1]),
                generation=int(match[2]),
                first=min(positions, default=1),
                map_size=max(256 << 20, 2 * size),
                status=Status.DAMAGED,
            )
    return msgspec.structs.replace(
        info,
        number=int(match[1]),
        generation=int(match[2]),
        status=Status.SEALED,
        last=last,
        digest=digest,
        size=size,
    )


class Expected(NamedTuple):
    """What the rest of a log knows of its damaged segments."""

    ends: dict[int, dict[str, int]]
    """For each of them, where its conversations must have ended in it."""
    names: set[str]
    """The conversations that are not erased: what is found may be theirs."""
    told: set[int]
    """The segments of which the catalog tells everything: what it does not tell was not there."""


def expected_events(directory: Path, found: Manifest, damaged: set[int]) -> Expected:
    """Tell what must have been in damaged segments.

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
                for head in _heads(view):
                    if head.state is State.LIVE:
                        later[head.id] = head.since - 1
                        expected.names.add(head.id)
    path = directory / f"catalog.{found.catalog}.mdb"
    if path.exists():
        with SalvageView.open(path) as view:
            _ask_catalog(view, expected)
    expected.names.difference_update(marker.stem for marker in directory.glob("archive/*.erased"))
    return expected


def _ask_catalog(view: SalvageView, expected: Expected) -> None:
    """Take from the catalog where conversations end in damaged segments."""
    doubts = not view.complete("spans")
    for key, stored in view.salvage("spans", _is_span):
        try:
            span = decode_span(key, stored)
            name = key[:-9].decode()
        except (Corrupt, UnicodeDecodeError):
            doubts = True
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


def _heads(view: SalvageView) -> Iterator[Head]:
    for key, value in view.salvage("heads"):
        if len(key) == 4:
            with contextlib.suppress(Corrupt):
                yield decode_head(key, value)

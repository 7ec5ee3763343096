"""Mending what lies beside the segments: archives, and the blobs of large fields.

An archive is read block by block, as far as its blocks match their checksums, and written anew. A
blob is right or it is not: a damaged one is only set aside, as nothing can be made of it. Whatever
is damaged is kept in `damaged/`.
"""

from __future__ import annotations

import contextlib
import filecmp
import mmap
import os
import re
import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.blobs import FileBlobs, MemoryBlobs, is_digest
from runelog.codec import Codec
from runelog.cold import Archives
from runelog.errors import BadStream, Corrupt, RunefoldError
from runelog.files import make_directory, replacing, sync_directory
from runelog.framing import FRAME, START, Block, Kind, read_block
from runelog.index import Head, decode_head
from runelog.parts import Entry, Opening, unpack, unpack_runes, unpack_section
from runelog.rune import LOST, Change, State, Tombstone, is_id
from runelog.salvage import SalvageView
from runelog.transfer import Source, check_stream, write_stream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from runelog.catalog import Catalog

_BLOCK: Final = re.compile(rb"[\x01-\x06][\x00\x01]\x00\x00")
"""How a block begins: type, flags, and a zero."""
_codec = Codec()


class Mended(NamedTuple):
    """What was done about one damaged file."""

    name: str
    """Of the file in `damaged/`."""
    kept: int
    lost: int
    note: str


def lost_body(conversation: str) -> bytes:
    """Return what is stored in place of a rune that cannot be read."""
    return _codec.encode(conversation, Change(LOST, None, [Tombstone(reason="damaged")]))[0]


def known_heads(catalog: Path) -> dict[str, Head]:
    """Return what a catalog, damaged or not, tells of conversations."""
    heads = {}
    if catalog.exists():
        with SalvageView.open(catalog) as view:
            for key, stored in view.salvage("heads"):
                with contextlib.suppress(Corrupt):
                    head = decode_head(key, stored)
                    heads[head.id] = head
    return heads


def resting_heads(directory: Path, catalog: Path) -> Iterator[Head]:
    """Yield archived and erased conversations, as their files tell and then as a catalog does.

    An archive that is missing is missed only as long as somebody knows of it.
    """
    yield from Archives(directory / "archive").heads()
    for head in known_heads(catalog).values():
        if head.state is State.ARCHIVED:
            yield head


def settle_resting(
    catalog: Catalog, resting: Iterable[Head], active: Mapping[str, Head], dead: Collection[str]
) -> None:
    """Have a catalog that was made from the segments know archived and erased conversations.

    `active` tells what the active segment holds, which is not in the catalog. Where segments hold
    the runes as well, those count, unless they are `dead` or the archive has more of them.
    """
    for head in resting:
        known = catalog.head(head.id)
        if known is not None and known.state is not State.LIVE:
            continue
        if head.state is State.ERASED and (head.id in active or catalog.spans(head.id, 0)):
            # Its runes are back. As long as it and their places are known, opening the log erases
            # them.
            if known is None:
                end = reach(catalog, head.id, active)
                catalog.settle(Head(head.id, 1, end, 0, 0, 0, State.ARCHIVED), dead=True)
            continue
        if head.id in dead or reach(catalog, head.id, active) < max(head.head, 1):
            catalog.settle(head, dead=head.id in dead)
    for name in dead:
        # Its archive is missing, as in a copy: that must show, and not be forgotten.
        if catalog.head(name) is None and (end := reach(catalog, name, active)):
            catalog.settle(Head(name, 1, end, 0, 0, 0, State.ARCHIVED), dead=True)


def settle_missing(catalog: Catalog, dropped: Iterable[Head], active: Mapping[str, Head]) -> None:
    """Have a catalog know conversations that segments say were archived, and nothing else tells of.

    Their archives are missing, as in a copy: that must show, and not be forgotten.
    """
    for head in dropped:
        if head.id not in active and catalog.head(head.id) is None:
            head.since = 1
            catalog.settle(head)


def reach(catalog: Catalog, conversation: str, active: Mapping[str, Head]) -> int:
    """Return up to which event the segments hold a conversation without a gap."""
    reached = 0
    for span in catalog.spans(conversation, 0):
        if span.first != reached + 1:
            return reached
        reached = span.last
    own = active.get(conversation)
    return own.head if own is not None and own.since <= reached + 1 else reached


def mend_archives(directory: Path, heads: dict[str, Head]) -> Iterator[Mended]:
    """Write each damaged archive anew, with tombstones for what cannot be read of it.

    `heads` tell which conversations are archived, and how many runes each must have.
    """
    for path in sorted(directory.glob("archive/*.runes")):
        head = heads.get(path.stem)
        if not is_id(path.stem) or (head is not None and head.state is not State.ARCHIVED):
            continue
        try:
            with path.open("rb") as file:
                check_stream(file)
        except BadStream:
            yield _mend_archive(directory, path, head)


def mend_blobs(directory: Path) -> Iterator[Mended]:
    """Set each damaged blob aside."""
    blobs = FileBlobs(directory / "blobs")
    for path in sorted(directory.glob("blobs/*/*")):
        conversation, digest = path.parent.name, path.name
        if not is_id(conversation) or not is_digest(digest):
            continue
        try:
            blobs.get(conversation, digest)
        except Corrupt:
            target = set_aside(directory, path, f"{conversation}.{digest}")
            note = (
                f"blob {digest} of {conversation} is damaged: "
                "runes that need it cannot be read until it is restored from a backup"
            )
            yield Mended(target.name, 0, 0, note)


def _room(aside: Path, name: str) -> Path:
    """Return where a damaged file can be kept: nothing that is there already is replaced."""
    make_directory(aside)
    target, count = aside / name, 0
    while target.exists():
        count += 1
        target = aside / f"{name}.{count}"
    return target


def set_aside(directory: Path, path: Path, name: str = "") -> Path:
    """Move a file to `damaged/`, under `name` if given, durably; return where it is now."""
    target = _room(directory / "damaged", name or path.name)
    path.rename(target)
    sync_directory(target.parent)
    sync_directory(path.parent)
    return target


def keep_aside(directory: Path, path: Path) -> None:
    """Have a damaged file in `damaged/` as well, durably, so that the one at `path` may go.

    Before anything takes its place: whoever opens the log next removes files that nobody names.
    """
    aside = directory / "damaged"
    target = aside / path.name
    if not target.exists() or not filecmp.cmp(path, target, shallow=False):
        target = _room(aside, path.name)
        try:
            os.link(path, target)
        except OSError:
            # Not every file system can give a file two names.
            with path.open("rb") as damaged, replacing(target) as file:
                shutil.copyfileobj(damaged, file)
    sync_directory(aside)


# -- archives ----------------------------------------------------------------------------------


def _mend_archive(directory: Path, path: Path, head: Head | None) -> Mended:
    conversation = path.stem
    target = _room(directory / "damaged", path.name)
    with path.open("rb") as damaged, replacing(target) as file:
        shutil.copyfileobj(damaged, file)
    found = _Remains(target, conversation)
    entries = list(found.entries(head))
    with replacing(path) as file:
        write_stream(file, [Source(conversation, entries, found.blobs)], secret=True)
    lost = len(entries) - found.kept
    note = f"the archive of {conversation} was damaged and is written anew"
    return Mended(target.name, found.kept, lost, note)


class _Remains:
    """What is left of a damaged archive."""

    def __init__(self, path: Path, conversation: str) -> None:
        self.blobs = MemoryBlobs()
        self.kept = 0
        self._conversation = conversation
        self._last = 0
        self._runes: dict[int, Entry] = {}
        whose = {conversation}
        for block in _sound_blocks(path):
            with contextlib.suppress(RunefoldError):
                if block.kind is Kind.CONVERSATION:
                    whose.add(unpack(block, Opening).conversation)
                elif block.kind is Kind.SECTION:
                    section = unpack_section(block)
                    whose.add(section.conversation)
                    self._last = max(self._last, section.last)
                elif block.kind is Kind.BLOB:
                    self.blobs.put(conversation, block.content)
                elif block.kind is Kind.RUNES:
                    runes = unpack_runes(block)
                    self._runes.update((entry.event_id, entry) for entry in runes)
        if len(whose) > 1:
            # A file that was put in another's place: nothing in it is of this conversation.
            self._runes.clear()
            self._last = 0

    def entries(self, head: Head | None) -> Iterator[Entry]:
        """Yield each rune that the conversation has, or what stands for it."""
        last = max([head.head if head else 0, self._last, 1, *self._runes])
        first = min(self._runes, default=0)
        time = self._runes[first].time if first else head.first_time if head else 0
        position = 0
        for event_id in range(1, last + 1):
            entry = self._runes.get(event_id)
            if entry is None or not self._is_whole(entry):
                where = entry.position if entry else position + 1
                entry = Entry(event_id, where, time, lost_body(self._conversation))
            else:
                self.kept += 1
            position, time = entry.position, entry.time
            yield entry

    def _is_whole(self, entry: Entry) -> bool:
        """Tell whether all blobs of a rune are here."""
        try:
            envelope = _codec.envelope(
                entry.body,
                conversation=self._conversation,
                event_id=entry.event_id,
                position=entry.position,
                time=entry.time,
            )
        except Corrupt:
            return False
        held = self.blobs.list(self._conversation) if envelope.blobs else ()
        return all(digest in held for _, digest, _ in envelope.blobs)


def _sound_blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of a stream that match their checksums, wherever they begin."""
    with path.open("rb") as file, contextlib.ExitStack() as stack:
        if path.stat().st_size <= START:
            return
        data = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        at = START
        while match := _BLOCK.search(data, at):
            at = match.start()
            block = _block(data, at)
            if block is not None:
                yield block
                at = block.end
                continue
            # What a damaged block holds is anybody's bytes: if its length leads to the next one,
            # nothing in it is taken for a block.
            behind = at + FRAME + int.from_bytes(data[at + 8 : at + 12], "little")
            at = behind if behind == len(data) or _block(data, behind) is not None else at + 1


def _block(data: mmap.mmap, offset: int) -> Block | None:
    at = offset

    def read(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    try:
        return read_block(read, offset)
    except BadStream:
        return None

"""Repair of the files beside the segments: archives, and the blobs of large fields.

An archive is read block by block, as far as its blocks match their checksums, and written anew. A
blob is right or it is not: a damaged one is only set aside, as nothing can be made of it. Whatever
is damaged is kept in `damaged/`.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.blobs import FileBlobs, MemoryBlobs, is_digest
from runelog.codec import Codec
from runelog.directory.damaged import free_name, set_aside
from runelog.errors import BadStream, Corrupt, RunefoldError
from runelog.files import replacing
from runelog.rune import LOST, Change, State, Tombstone, is_id
from runelog.stream.block_format import FRAME, START, Block, Kind, read_block
from runelog.stream.stream_blocks import Entry, Opening, unpack, unpack_runes, unpack_section
from runelog.stream.stream_check import check_stream
from runelog.stream.streams import Source, write_stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runelog.index.records import Head


_BLOCK: Final = re.compile(rb"[\x01-\x06][\x00\x01]\x00\x00")
"""How a block begins: type, flags, and a zero."""
_codec = Codec()


class RepairedFile(NamedTuple):
    """What was done about one damaged file."""

    name: str
    """Of the file in `damaged/`."""
    kept: int
    lost: int
    note: str


def lost_body(conversation: str) -> bytes:
    """Return what is stored in place of a rune that cannot be read."""
    return _codec.encode(conversation, Change(LOST, None, [Tombstone(reason="damaged")]))[0]


def repair_archives(directory: Path, heads: dict[str, Head]) -> Iterator[RepairedFile]:
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
            yield _repair_archive(directory, path, head)


def repair_blobs(directory: Path) -> Iterator[RepairedFile]:
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
            yield RepairedFile(target.name, 0, 0, note)


# -- archives ----------------------------------------------------------------------------------


def _repair_archive(directory: Path, path: Path, head: Head | None) -> RepairedFile:
    conversation = path.stem
    target = free_name(directory / "damaged", path.name)
    with path.open("rb") as damaged, replacing(target) as file:
        shutil.copyfileobj(damaged, file)
    found = _Remains(target, conversation)
    entries = list(found.entries(head))
    with replacing(path) as file:
        write_stream(file, [Source(conversation, entries, found.blobs)], secret=True)
    lost = len(entries) - found.kept
    note = f"the archive of {conversation} was damaged and is written anew"
    return RepairedFile(target.name, found.kept, lost, note)


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
        """Return True if all blobs of a rune are here."""
        try:
            envelope = entry.envelope(_codec, self._conversation)
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
            # A damaged block holds arbitrary bytes: if its length leads to the next one,
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

"""Taking a stream in: everything in it is looked at before anything of it is believed.

`check_stream` reads a stream once, from its first byte to its last, in memory that does not grow
with it, and either vouches for all of it or refuses it with `BadStream`, naming the byte where it
goes wrong.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, NoReturn

import msgspec

from runelog.blobs import is_digest
from runelog.checks import MAX_NUMBER
from runelog.codec import MAX_DEPTH, Codec, check_depth, digest_of
from runelog.errors import BadId, Corrupt, TooLarge
from runelog.files import room_for
from runelog.rune import Envelope, Tombstone, Visibility, check_id, kind_of
from runelog.stream.block_format import (
    LIMITS,
    START,
    Block,
    Kind,
    Totals,
    bad,
    read_block,
    read_fully,
    read_preamble,
    read_totals,
)
from runelog.stream.stream_blocks import (
    Entry,
    Header,
    Index,
    Opening,
    unpack,
    unpack_runes,
    unpack_section,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CONTAINERS: Final = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
_MAPS: Final = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_CHUNK: Final = 1 << 20
_TOMBSTONE: Final = kind_of(Tombstone)
_builtins = msgspec.msgpack.Decoder(dict[str, object]).decode


class Checked(NamedTuple):
    """What a sound stream says of itself."""

    header: Header
    totals: Totals
    size: int
    """Bytes of the stream."""


class _Kind(msgspec.Struct, gc=False):
    kind: str


class _Held(NamedTuple):
    """What is remembered of a blob: whether it can be a text, and which kind of payload."""

    text: bool
    kind: str | None


_kind = msgspec.msgpack.Decoder(_Kind).decode


def check_stream(file: BinaryIO, progress: Callable[[int], None] | None = None) -> Checked:
    """Check all of a stream, from the file's present position to its end; it need not be seekable.

    Raises `BadStream` if it is damaged, cut short, or made to do harm, and `NewerFormat` if a later
    version is needed. `progress` is told of runes as they are checked.
    """
    return _Checker(file, progress).run()


@contextlib.contextmanager
def spooled(file: BinaryIO) -> Iterator[BinaryIO]:
    """Give a file that can be sought in: `file` itself, or a copy on disk of a pipe's data."""
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as copy:
        with room_for("a copy of the stream"):
            while data := file.read(_CHUNK):
                copy.write(data)
            copy.flush()
        copy.seek(0)
        yield copy


class _Checker:
    """Walks the blocks of a stream in the one order in which they may come."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None] | None) -> None:
        self._file = file
        self._progress = progress
        self._digest = hashlib.blake2b(digest_size=32)
        self._offset = 0
        self._codec = Codec()
        self._header = Header()
        self._before = ""
        self._index: Index | None = None
        self._held: dict[str, _Held] = {}
        self._unnamed: set[str] = set()
        self._conversations = self._runes = self._blobs = self._previous = 0

    def run(self) -> Checked:
        """Check everything."""
        start = read_fully(self._file, START)
        read_preamble(start)
        self._digest.update(start)
        self._offset = START
        block = self._next()
        if block.kind is not Kind.HEADER:
            bad(block.offset, f"there is a {_name(block)} block where the header should be")
        self._header = unpack(block, Header)
        while (block := self._next()).kind is not Kind.TRAILER:
            self._take(block)
        return self._finish(block)

    def _next(self) -> Block:
        block = read_block(self._read, self._offset, self._digest.update)
        self._offset = block.end
        return block

    def _read(self, size: int) -> bytes:
        return read_fully(self._file, size)

    def _take(self, block: Block) -> None:
        index = self._index
        if index is None:
            if block.kind is not Kind.CONVERSATION:
                bad(block.offset, f"there is a {_name(block)} block outside of any conversation")
            self._open(block)
        elif block.kind is Kind.BLOB:
            self._take_blob(block, index)
        elif block.kind is Kind.RUNES:
            self._take_runes(block, index)
        elif block.kind is Kind.SECTION:
            self._close(block, index)
        else:
            bad(block.offset, f"there is a {_name(block)} block inside of {index.conversation}")

    def _open(self, block: Block) -> None:
        opening = unpack(block, Opening)
        try:
            conversation = check_id(opening.conversation, "conversation id")
        except BadId as error:
            bad(block.offset, str(error))
        if conversation <= self._before:
            bad(block.offset, f"{conversation} comes twice, or not in order of id")
        if not 0 < opening.first <= MAX_NUMBER:
            bad(block.offset, f"{conversation} begins at event {opening.first}")
        self._before = conversation
        self._index = Index(opening, block.offset)

    def _close(self, block: Block, index: Index) -> None:
        section = unpack_section(block)
        if section != index.section(self._previous):
            bad(block.offset, f"the section of {index.conversation} is not what was read of it")
        if self._unnamed:
            bad(block.offset, f"no rune of {index.conversation} names blob {min(self._unnamed)}")
        self._conversations += 1
        self._previous = block.offset
        self._held.clear()
        self._index = None

    def _take_blob(self, block: Block, index: Index) -> None:
        digest = digest_of(block.content)
        if digest in self._held:
            bad(block.offset, f"blob {digest} of {index.conversation} comes twice")
        self._held[digest] = _Held(_is_text(block.content), _kind_in(block.content))
        self._unnamed.add(digest)
        index.add_blob(digest, block.offset)
        self._blobs += 1
        self._bound(block, index)

    def _take_runes(self, block: Block, index: Index) -> None:
        entries = unpack_runes(block)
        first = entries[0]
        if first.event_id != index.last + 1:
            bad(block.offset, f"event {first.event_id} comes where {index.last + 1} should")
        if first.position <= index.position:
            bad(block.offset, f"positions do not rise at event {first.event_id}")
        for entry in entries:
            self._check(entry, block.offset, index.conversation)
        index.add_runes(entries, block.offset)
        self._runes += len(entries)
        self._bound(block, index)
        if self._progress is not None:
            self._progress(len(entries))

    @staticmethod
    def _bound(block: Block, index: Index) -> None:
        """Stop before what is remembered of a conversation outgrows what a section can hold."""
        if index.weight > LIMITS[Kind.SECTION]:
            bad(block.offset, f"{index.conversation} is in too many pieces")

    def _check(self, entry: Entry, offset: int, conversation: str) -> None:
        """Check one rune: its envelope, its payload, and the blobs it names."""

        def refuse(why: object) -> NoReturn:
            bad(offset, f"rune {entry.event_id} of {conversation} is unsound: {why}")

        body = entry.body
        try:
            # Nothing can be nested deeper than it has bytes that may open a list or a map.
            if len(body) - len(body.translate(None, _CONTAINERS)) > MAX_DEPTH:
                check_depth(body, MAX_DEPTH + 1)
            envelope = entry.envelope(self._codec, conversation)
            fields = _builtins(envelope.body)
            kind = envelope.kind
            _check_ids(envelope)
        except (Corrupt, TooLarge, BadId, msgspec.DecodeError, ValueError, TypeError) as error:
            refuse(error)
        if not 0 <= envelope.cause <= MAX_NUMBER or not 0 <= envelope.schema <= MAX_NUMBER:
            refuse("its numbers cannot be")
        if (
            envelope.visibility is Visibility.SECRET
            and not self._header.secret
            and kind != _TOMBSTONE
        ):
            refuse("it is secret, and the header says that there is no such rune")
        for path, digest, text in envelope.blobs:
            held = self._held.get(digest) if is_digest(digest) else None
            if held is None:
                refuse(f"it names blob {digest:.80}, which does not come before it")
            if not _fits(held, kind, fields, path, text=text):
                refuse(f"it has no place for blob {digest}")
            self._unnamed.discard(digest)

    def _finish(self, block: Block) -> Checked:
        totals = read_totals(block)
        if self._index is not None:
            bad(block.offset, f"the trailer comes before the end of {self._index.conversation}")
        found = Totals(
            self._conversations, self._runes, self._blobs, self._previous, self._digest.digest()
        )
        if totals != found:
            bad(block.offset, "the trailer does not match what was read")
        if self._file.read(1):
            bad(block.end, "something follows the trailer")
        return Checked(self._header, totals, block.end)


def _name(block: Block) -> str:
    return block.kind.name.lower()


def _check_ids(envelope: Envelope) -> None:
    check_id(envelope.owner, "entity id")
    for observer in envelope.observers:
        check_id(observer, "observer id")
    if envelope.agent is not None:
        check_id(envelope.agent, "agent id")
    if envelope.turn is not None:
        check_id(envelope.turn, "turn id")


def _fits(
    held: _Held, kind: str, fields: object, path: tuple[str | int, ...], *, text: bool
) -> bool:
    """Return True if a blob can be put back where its rune says: a place left empty for it."""
    if not path:
        return held.kind == kind and not text
    for key in path:
        if isinstance(fields, dict) and isinstance(key, str):
            fields = fields.get(key, False)
        elif isinstance(fields, list) and isinstance(key, int) and 0 <= key < len(fields):
            fields = fields[key]
        else:
            return False
    return fields is None and (held.text or not text)


def _is_text(content: bytes) -> bool:
    """Return True if `content` is UTF-8, without making one long string of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(content), _CHUNK):
            decoder.decode(content[at : at + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _kind_in(content: bytes) -> str | None:
    """Return the kind of the payload that `content` is, None if it is none."""
    if content[:1] == b"" or content[0] not in _MAPS:
        return None
    try:
        check_depth(content)
        return _kind(content).kind
    except (TooLarge, msgspec.DecodeError, ValueError):
        return None

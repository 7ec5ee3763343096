"""The catalog: an index over all sealed segments, so that nothing is looked for in each of them.

It tells for every conversation its head, the segments that hold it, the versions of its entities
and its open work. Only sealing a segment, archiving and erasing write to it; what happens in the
active segment is laid over it by `lookup`. It can be rebuilt from the segments at any time.
Every value ends with a checksum: a crash leaves nothing else that could tell whether it is right.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from runelog.errors import Corrupt
from runelog.index.records import (
    LAST,
    NUMBER,
    PLACE,
    Head,
    checked,
    decode_head,
    decode_work,
    encode_head,
    encode_work,
    load_tail,
    signed,
    stream_prefix,
)
from runelog.lmdb.environment import Environment
from runelog.rune import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from runelog.lmdb.tables import Tables
    from runelog.manifest import Manifest

TABLES: Final = ("heads", "spans", "streams", "work", "meta")
MAP_SIZE: Final = 64 << 30
"""Address space, not disk: room for some hundred million entities without ever resizing."""
_PAGE: Final = 512
_CHUNK: Final = 2_048
"""How many entries are written in one transaction, so that little room is needed at a time."""
_LMDB_PAGE: Final = 4_096
_DEPTH: Final = 5
MERGED: Final = b"merged"
"""In `meta`: the number of the last segment that was taken in."""
SETTLED: Final = b"settled"
"""In `meta`: the revision of the manifest for which the catalog was last settled."""
_SLACK: Final = 24
"""Pages that any transaction may need: the way down each tree, and the list of free pages."""
_SOME: Final = 512
"""How many entries are written in one transaction while appends go on."""
_Put = tuple[str, bytes, bytes | None]
"""Table, key and value of an entry to write; without a value it is to go."""
Touched: TypeAlias = dict[bytes, set[str]]
"""Entities whose streams have changed, by the number of their conversation in a segment."""


class Span(NamedTuple):
    """Events (or versions) `first` to `last` are in segment `segment`."""

    segment: int
    first: int
    last: int


def decode_span(key: bytes, stored: bytes) -> Span:
    """Decode an entry of `spans` or `streams`."""
    value = checked(key, stored)
    return Span(NUMBER.unpack(value[:4])[0], PLACE.unpack(key[-8:])[0], PLACE.unpack(value[4:])[0])


def _encode_span(key: bytes, segment: int, last: int) -> bytes:
    return signed(key, NUMBER.pack(segment) + PLACE.pack(last))


def _scoped(conversation: str, entity: str = "") -> bytes:
    return conversation.encode() + b"\0" + (entity.encode() + b"\0" if entity else b"")


class Catalog:
    """An index over the sealed segments, in an environment of its own."""

    def __init__(
        self, path: Path, *, readonly: bool = False, lock: bool = True, create: bool = False
    ):
        """Open the catalog's file."""
        self.before_change: Callable[[], None] = _nothing
        """Called before each write."""
        self.env = Environment(
            path,
            map_size=MAP_SIZE,
            tables=TABLES,
            readonly=readonly,
            lock=lock,
            create=create,
        )

    # -- asking -------------------------------------------------------------------------------

    def head(self, conversation: str) -> Head | None:
        """Return what is known of a conversation."""
        key = conversation.encode()
        with self.env.view() as view:
            found = view.get("heads", key)
        return decode_head(key, found) if found is not None else None

    def version(self, conversation: str, entity: str) -> int:
        """Return the version an entity had reached when the last segment was sealed."""
        prefix = _scoped(conversation, entity)
        with self.env.view() as view:
            found = view.floor("streams", prefix + LAST)
        return decode_span(*found).last if found and found[0].startswith(prefix) else 0

    def may_hold(self, conversation: str, start: str) -> bool:
        """Return True if there was an entity whose id begins so, as of the last sealed segment."""
        with self.env.view() as view:
            return begins(view, _scoped(conversation) + start.encode())

    def spans(self, conversation: str, after: int) -> list[Span]:
        """Return which segments hold the conversation behind event `after`, in order."""
        return self._spans("spans", _scoped(conversation), after)

    def stream_spans(self, conversation: str, entity: str, after: int) -> list[Span]:
        """Return which segments hold an entity's stream behind version `after`, in order."""
        return self._spans("streams", _scoped(conversation, entity), after)

    def _spans(self, table: str, prefix: bytes, after: int) -> list[Span]:
        with self.env.view() as view:
            start = view.floor(table, prefix + PLACE.pack(after + 1))
            key = start[0] if start and start[0].startswith(prefix) else prefix
            found = view.scan(table, key, prefix + LAST)
        spans = (decode_span(key, value) for key, value in found if len(key) == len(prefix) + 8)
        return [span for span in spans if span.last > after]

    def heads(self, after: str = "") -> Iterator[Head]:
        """Yield every conversation in order of id, without holding a transaction meanwhile."""
        start = after.encode() + b"\0" if after else b""
        while True:
            with self.env.view() as view:
                found = view.scan("heads", start, limit=_PAGE)
            yield from (decode_head(key, stored) for key, stored in found)
            if not found:
                return
            start = found[-1][0] + b"\0"

    def work(self, conversation: str | None = None) -> Iterator[tuple[str, str, int | None]]:
        """Yield (conversation, entity, deadline) of all open when the last segment was sealed."""
        start = _scoped(conversation) if conversation else b""
        stop = conversation.encode() + b"\1" if conversation else None
        while True:
            with self.env.view() as view:
                found = view.scan("work", start, stop, limit=_PAGE)
            for key, stored in found:
                _, deadline = decode_work(key, stored)
                whose, _, entity = key.partition(b"\0")
                yield whose.decode(), entity.decode(), deadline
            if not found:
                return
            start = found[-1][0] + b"\0"

    def is_open(self, conversation: str, entity: str) -> bool:
        """Return True if an entity was open when the last segment was sealed."""
        with self.env.view() as view:
            return view.get("work", _scoped(conversation) + entity.encode()) is not None

    # -- telling ------------------------------------------------------------------------------

    def merge(
        self,
        segment: int,
        view: Tables,
        dead: Collection[str] = (),
        touched: Touched | None = None,
        *,
        ahead: bool = False,
    ) -> None:
        """Take in what a segment's own index says. Doing it twice changes nothing.

        Of conversations that are `dead` in it, only where they are. In several transactions, as
        there may be much of it. That it is done is in the last. In the order of the catalog's own
        keys, so that each transaction copies few of its pages: LMDB keeps the memory of as many as
        the largest one has copied.

        If all but some streams was taken in `ahead` of its sealing, those that were `touched` since
        will do. What is open is not taken in ahead: what closes in a segment that also opened it
        is not told of.
        """
        ids = _by_id(view, touched)
        puts = itertools.chain(
            self._heads(segment, view, ids, dead),
            _streams(segment, view, ids) if touched is None else _some(segment, view, ids, touched),
        )
        if not ahead:
            own = ids if touched is None else _by_id(view, _with_work(view))
            merged = ("meta", MERGED, signed(MERGED, NUMBER.pack(segment)))
            puts = itertools.chain(puts, self._work(view, own, dead), [merged])
        while chunk := list(itertools.islice(puts, _CHUNK)):
            self._write(chunk)

    def merge_some(
        self, segment: int, view: Tables, dead: Collection[str], at: tuple[bytes, bytes]
    ) -> tuple[bytes, bytes] | None:
        """Take in heads and streams of some conversations ahead, from `at` on, in one transaction.

        Return where to go on: a conversation, and where in its streams; None if that was all.
        """
        name, start = at
        puts: list[_Put] = []
        following: tuple[bytes, bytes] | None = None
        while following is None and (found := view.scan("names", name, limit=1)):
            if len(puts) >= _SOME:
                following = name, start
                break
            name, number = found[0]
            ids = {number: name.decode()}
            puts += self._heads(segment, view, ids, dead)
            for put, prefix in _streams_from(segment, view, ids, start):
                puts.append(put)
                if len(puts) >= _SOME:
                    following = name, prefix + LAST + b"\xff"
                    break
            name, start = name + b"\0", b""
        if puts:
            self._write(puts)
        return following

    def _heads(
        self, segment: int, view: Tables, ids: dict[bytes, str], dead: Collection[str]
    ) -> Iterator[_Put]:
        """Yield heads and spans of the segment's conversations; leave out of `ids` who has none.

        One that was archived or erased stays so, unless this segment is what brought it back.
        """
        for key in [*ids]:
            stored = view.get("heads", key)
            assert stored is not None
            head = decode_head(key, stored)
            place = _scoped(head.id) + PLACE.pack(head.since)
            span = ("spans", place, _encode_span(place, segment, head.head))
            if head.id in dead:
                del ids[key]
                yield span
                continue
            if self._is_settled(head.id) and view.get("meta", b"silent") is None:
                del ids[key]
                continue
            own = head.id.encode()
            yield "heads", own, encode_head(own, head)
            yield span

    def _work(self, view: Tables, ids: dict[bytes, str], dead: Collection[str]) -> Iterator[_Put]:
        """Yield what the segment left open, and what it closed."""
        silent = view.get("meta", b"silent") is not None
        for key, stored in entries(view, "work"):
            name = ids.get(key[:4])
            if name is not None and name not in dead and (silent or not self._is_settled(name)):
                is_open, deadline = decode_work(key, stored)
                own = _scoped(name) + key[4:]
                value = encode_work(own, is_open=True, deadline=deadline) if is_open else None
                yield "work", own, value

    def _is_settled(self, conversation: str) -> bool:
        """Return True if a conversation was archived or erased."""
        known = self.head(conversation)
        return known is not None and known.state is not State.LIVE

    def _write(self, puts: list[_Put]) -> None:
        self.before_change()
        self._reserve(len(puts), sum(len(key) + len(value or b"") for _, key, value in puts))
        with self.env.batch() as batch:
            for table, key, value in puts:
                if value is None:
                    batch.delete(table, key)
                else:
                    batch.put(table, key, value)

    def _reserve(self, count: int, size: int) -> None:
        """Reserve room for a transaction of `count` entries, of `size` bytes in all.

        Every page on the way to an entry is copied, but none of them twice.
        """
        copied = min(_DEPTH * count, self.env.used // _LMDB_PAGE)
        made = 3 * (size + 16 * count) // _LMDB_PAGE
        self.env.reserve((copied + made + _SLACK) * _LMDB_PAGE)

    @property
    def settled(self) -> int:
        """The revision of the manifest that this catalog is at least as new as; see `Manifest`."""
        with self.env.view() as view:
            found = view.get("meta", SETTLED)
        return PLACE.unpack(checked(SETTLED, found))[0] if found is not None else 0

    def check_age(self, now: Manifest, *, complete: bool = False) -> None:
        """Raise `Corrupt` unless the catalog is from the same time as a manifest.

        It may know less of sealed segments, unless it must be `complete`, and of what was begun
        last it may know already.
        """
        settled = self.settled
        if settled < now.settled:
            msg = f"{self.env.path.name} is older than MANIFEST"
            raise Corrupt(msg)
        if complete and self.merged + 1 < now.active.number:
            msg = f"{self.env.path.name} does not know all sealed segments"
            raise Corrupt(msg)
        # A segment that was about to be sealed may be known already.
        if self.merged > now.active.number or (settled > now.settled and not now.pending):
            msg = f"{self.env.path.name} is newer than MANIFEST"
            raise Corrupt(msg)

    def note_settled(self, revision: int) -> None:
        """Put down that the catalog knows all that was archived, restored or erased by now."""
        self._write([("meta", SETTLED, signed(SETTLED, PLACE.pack(revision)))])

    @property
    def merged(self) -> int:
        """The number of the last segment that was taken in, 0 if none."""
        with self.env.view() as view:
            found = view.get("meta", MERGED)
        return NUMBER.unpack(checked(MERGED, found))[0] if found is not None else 0

    def settle(self, head: Head, *, dead: bool = False) -> None:
        """Put down that a conversation was archived or erased: its head stays, its places go.

        If it is `dead` in segments, the places of its runes stay.
        """
        key = head.id.encode()
        # First of all: who still finds places in here must not take them for a live conversation's.
        self._write([("heads", key, encode_head(key, head))])
        start, stop = _scoped(head.id), key + b"\1"
        for table in ("streams", "work") if dead else ("spans", "streams", "work"):
            while True:
                with self.env.view() as view:
                    found = view.scan(table, start, stop, limit=_PAGE)
                if not found:
                    break
                self._write([(table, old, None) for old, _ in found])

    def close(self) -> None:
        """Unmap the catalog."""
        self.env.close()


def _nothing() -> None:
    """Do nothing."""


def _by_id(view: Tables, some: Collection[bytes] | None = None) -> dict[bytes, str]:
    """Return the live conversations of a segment by their numbers there, in order of their ids."""
    live = []
    heads = entries(view, "heads")
    if some is not None:
        heads = ((key, stored) for key in some if (stored := view.get("heads", key)) is not None)
    for key, stored in heads:
        head = decode_head(key, stored)
        if head.state is State.LIVE:
            live.append((head.id, key))
    return {key: name for name, key in sorted(live)}


def _streams(segment: int, view: Tables, ids: dict[bytes, str]) -> Iterator[_Put]:
    """Yield for each entity which versions the segment holds."""
    return (put for put, _ in _streams_from(segment, view, ids, b""))


def _streams_from(
    segment: int, view: Tables, ids: dict[bytes, str], start: bytes
) -> Iterator[tuple[_Put, bytes]]:
    """Yield that from a key on, each with the beginning of the keys of its stream."""
    for number, conversation in ids.items():
        current = b""
        stop = NUMBER.pack(NUMBER.unpack(number)[0] + 1)
        for key, _ in entries(view, "streams", start or number, stop):
            prefix = key[:-8]
            if prefix != current:
                current = prefix
                yield _stream(segment, view, conversation, key), prefix


def _some(segment: int, view: Tables, ids: dict[bytes, str], touched: Touched) -> Iterator[_Put]:
    """Yield that of some streams."""
    for number, conversation in ids.items():
        for entity in sorted(touched[number]):
            prefix = stream_prefix(NUMBER.unpack(number)[0], entity)
            first, _ = view.scan("streams", prefix, prefix + LAST, limit=1)[0]
            yield _stream(segment, view, conversation, first)


def _stream(segment: int, view: Tables, conversation: str, first: bytes) -> _Put:
    """Return the entry of a stream, of whose postings `first` is the first key."""
    prefix = first[:-8]
    tail = load_tail(view, "streams", prefix)
    assert tail is not None
    place = _scoped(conversation, prefix[4:-1].decode()) + first[-8:]
    return "streams", place, _encode_span(place, segment, tail.next - 1)


def _with_work(view: Tables) -> set[bytes]:
    """Return the numbers of conversations in which something was opened or closed."""
    return {key[:4] for key, _ in entries(view, "work")}


def begins(view: Tables, prefix: bytes) -> bool:
    """Return True if the key of an entry of `streams` begins with a prefix."""
    found = view.floor("streams", prefix + b"\xff")
    return found is not None and found[0].startswith(prefix)


def entries(
    view: Tables, table: str, start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield a table, or a stretch of it, page by page, within one view."""
    while found := view.scan(table, start, stop, limit=1024):
        yield from found
        start = found[-1][0] + b"\0"

"""The trees of an LMDB file, walked without LMDB and without trust.

They are made of the pages of `runelog.lmdb.pages`. A walk ends whatever the bytes are: no page is
visited twice, and none that lies deeper than LMDB would go.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.errors import Corrupt
from runelog.lmdb.pages import (
    BIG,
    HEADER_SIZE,
    MAX_DEPTH,
    META_SIZE,
    NO_PAGE,
    PAGE_SIZES,
    PLAIN,
    Meta,
    Page,
    overflow_pages,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Self

    from runelog.lmdb.pages import Node

_GUESS_FROM: Final = 64
_key = itemgetter(0)


class Entry(NamedTuple):
    """A key and its value."""

    key: bytes
    value: bytes


class Damage(NamedTuple):
    """A stretch of keys, `low` <= key < `high`, of which some cannot be read."""

    low: bytes
    high: bytes | None
    why: str
    rival: int = 0
    """Who else claims the page."""

    def holds(self, key: bytes) -> bool:
        """Return True if `key` lies in the stretch."""
        return self.low <= key and (self.high is None or key < self.high)


class File:
    """An LMDB file, read page by page."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        """Read a file of `size` bytes through `read(length, offset)`."""
        self.size = size
        self.close: Callable[[], None] = lambda: None
        self._read = read
        self.page = functools.lru_cache(maxsize=64)(self.parse)
        self.metas = self._find_metas()
        sound = [meta.page_size for meta in self.metas if not meta.fault]
        self.page_size = sound[0] if sound else self._guess_page_size()
        self.pages = size // self.page_size

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file at `path`. It is not mapped: cutting it meanwhile does no harm."""
        file = path.open("rb", buffering=0)
        try:
            size = os.fstat(file.fileno()).st_size
            opened = cls(lambda length, at: os.pread(file.fileno(), length, at), size)
        except BaseException:
            file.close()
            raise
        opened.close = file.close
        return opened

    # -- pages ------------------------------------------------------------------------------------

    def _find_metas(self) -> tuple[Meta, Meta]:
        """Return both meta pages. The second can be found even if the first is lost."""
        first = Meta.parse(self._bytes(META_SIZE, 0), 0)
        places = PAGE_SIZES if first.fault else (first.page_size,)
        second = [Meta.parse(self._bytes(META_SIZE, place), 1) for place in places]
        for place, meta in zip(places, second, strict=True):
            if not meta.fault and meta.page_size == place:
                return first, meta
        fault = second[0].fault or "is not where it says"
        return first, second[0]._replace(fault=fault)

    def _guess_page_size(self) -> int:
        """Return the size by which most pages are where they say that they are."""

        def fit(size: int) -> int:
            numbers = range(2, min(_GUESS_FROM, self.size // size))
            places = (self._bytes(8, number * size) for number in numbers)
            return sum(map(int.__eq__, numbers, (int.from_bytes(n, sys.byteorder) for n in places)))

        return max(PAGE_SIZES, key=fit)

    def _bytes(self, length: int, at: int) -> bytes:
        try:
            return self._read(length, at)
        except OSError:
            # A page that the disk cannot read is as lost as one behind the end of the file.
            return b""

    def parse(self, number: int, *, native: bool = False) -> Page:
        """Read one page of a tree; `page` does the same and keeps a few."""
        if number >= self.pages:
            msg = f"page {number} lies behind the end of the file"
            raise Corrupt(msg)
        data = self._bytes(self.page_size, number * self.page_size)
        if len(data) < self.page_size:
            msg = f"page {number} cannot be read"
            raise Corrupt(msg)
        return Page.parse(data, number, native=native)

    def overflow(self, number: int) -> int:
        """Return how many pages the large value at page `number` spans, 0 if there is none."""
        header = self._bytes(HEADER_SIZE, number * self.page_size) if number < self.pages else b""
        span = overflow_pages(header, number) if len(header) == HEADER_SIZE else 0
        return span if number + span <= self.pages else 0

    def value(
        self, page: Page, node: Node, claimed: bytearray, kind: int = PLAIN, owner: int = 1
    ) -> bytes:
        """Return what a node holds. A large value claims its pages: no two share one."""
        if node.flags == kind:
            return page.data[node.at : node.at + node.size]
        if node.flags != BIG or kind != PLAIN:
            msg = f"page {page.number} has an entry of another kind"
            raise Corrupt(msg)
        number = int.from_bytes(page.data[node.at : node.at + 8], sys.byteorder)
        span = self.overflow(number)
        if HEADER_SIZE + node.size > span * self.page_size:
            msg = f"page {page.number} has a large value that is not to be found at page {number}"
            raise Corrupt(msg)
        _claim(claimed, number, span, owner)
        value = self._bytes(node.size, number * self.page_size + HEADER_SIZE)
        if len(value) < node.size:
            msg = f"page {number} and what follows cannot be read"
            raise Corrupt(msg)
        return value

    def swapped(self, older: Meta, newer: Meta) -> bool:
        """Return True if the file shows that `newer` is in fact the older of two commits.

        A commit frees the page on which the one before it listed its tables, and lists that last.
        When LMDB fails to write a meta page it leaves one behind that has the roots of the failed
        commit and the number and length of an older one. A real later commit is never shorter.
        """
        return (
            older.last_page >= newer.last_page
            and newer.tables.root in self._freed(older)
            and older.tables.root not in self._freed(newer)
        )

    def _freed(self, meta: Meta) -> tuple[int, ...]:
        """Return the pages that a commit freed, none if that cannot be read."""
        for found in self.entries(meta.free.root, backwards=True, native=True):
            if isinstance(found, Damage):
                break
            count = len(found.value) // 8
            return struct.unpack_from(f"={count}Q", found.value)[1:]
        return ()

    # -- trees ------------------------------------------------------------------------------------

    def entries(
        self,
        root: int,
        start: bytes = b"",
        stop: bytes | None = None,
        *,
        backwards: bool = False,
        native: bool = False,
        kind: int = PLAIN,
        claimed: bytearray | None = None,
        owner: int = 1,
    ) -> Iterator[Entry | Damage]:
        """Yield a stretch of a tree in order, damage before the entries that it leaves in doubt.

        Pages are marked as the `owner`'s in `claimed`, which tells for each page whose it is.
        """
        claimed = bytearray(self.pages) if claimed is None else claimed
        waiting: list[tuple[int, bytes, bytes | None, int]] = [(root, b"", None, 1)]
        while waiting and root != NO_PAGE:
            number, low, high, depth = waiting.pop()
            rival = claimed[number] if number < self.pages else 0
            try:
                page = self.page(number, native=native)
                nodes, fault = _within(page, low, high)
                if nodes:  # A page that belongs elsewhere is not claimed: its owner may come yet.
                    _claim(claimed, number, 1, owner)
            except Corrupt as error:
                yield Damage(low, high, str(error), rival)
                continue
            if page.branch and depth == MAX_DEPTH:
                nodes, fault = [], "lies too deep"
            if fault:
                yield Damage(low, high, f"page {number} {fault}")
            if page.branch:
                below = [
                    (node.child, node.key or low, bound, depth + 1)
                    for node, bound in zip(nodes, _bounds(nodes, high), strict=True)
                    if (bound is None or bound > start) and (stop is None or node.key < stop)
                ]
                waiting += below if backwards else below[::-1]
            else:
                nodes = _stretch(nodes, start, stop)
                for node in reversed(nodes) if backwards else nodes:
                    yield self._entry(page, node, claimed, kind, owner)

    def _entry(
        self, page: Page, node: Node, claimed: bytearray, kind: int, owner: int
    ) -> Entry | Damage:
        try:
            return Entry(node.key, self.value(page, node, claimed, kind, owner))
        except Corrupt as error:
            return Damage(node.key, node.key + b"\0", str(error))


def _claim(claimed: bytearray, number: int, span: int, owner: int) -> None:
    if claimed.count(0, number, number + span) < span:
        msg = f"page {number} is used twice"
        raise Corrupt(msg)
    claimed[number : number + span] = bytes([owner]) * span


def _within(page: Page, low: bytes, high: bytes | None) -> tuple[list[Node], str]:
    """Return the nodes that may be on a page, given its parent, and what is wrong with others."""
    # A branch's first key is empty, and stands for whatever the lower bound is.
    first = 1 if page.nodes and not page.nodes[0].key else 0
    start = bisect_left(page.nodes, low, lo=first, key=_key)
    stop = len(page.nodes) if high is None else bisect_left(page.nodes, high, lo=first, key=_key)
    if (start, stop) == (first, len(page.nodes)):
        return page.nodes, page.fault
    return page.nodes[:first] + page.nodes[start:stop], page.fault or "has keys of another place"


def _bounds(nodes: list[Node], high: bytes | None) -> list[bytes | None]:
    """Return the first key behind each child of a branch."""
    return [*(node.key for node in nodes[1:]), high] if nodes else []


def _stretch(nodes: list[Node], start: bytes, stop: bytes | None) -> list[Node]:
    end = len(nodes) if stop is None else bisect_left(nodes, stop, key=_key)
    return nodes[bisect_left(nodes, start, key=_key) : end]

"""The pages of an LMDB file, taken apart without LMDB and without trust.

Covers what this project writes: the format of LMDB 0.9 on 64 bit in the host's byte order, tables
with byte-ordered keys and without duplicates. Whatever the bytes are, the worst that comes of them
is `Corrupt`.

    a page    u64 number | u16 unused | u16 flags | u16 lower | u16 upper
              slots up to `lower`: u16 each, where a node begins, in key order
              nodes from `upper` to the end of the page, without a gap
    a node    u32 size | u16 flags | u16 length of the key | key | value
              (on a branch, size and flags are the number of the page below; there is no value)
    overflow  u64 number | u16 unused | u16 flags | u32 pages | a value too large for a node
"""

from __future__ import annotations

import struct
import sys
from operator import lt
from typing import Final, NamedTuple

from runelog.errors import Corrupt

MAGIC: Final = 0xBEEFC0DE
VERSION: Final = 1
PAGE_SIZES: Final = tuple(1 << bits for bits in range(9, 16))
META_SIZE: Final = 152
HEADER_SIZE: Final = 16
NO_PAGE: Final = (1 << 64) - 1
MAX_PAGE: Final = (1 << 48) - 1
MAX_KEY: Final = 511
MAX_DEPTH: Final = 32

BRANCH, LEAF, OVERFLOW, META = 0x01, 0x02, 0x04, 0x08
"""What a page can be."""
PLAIN, BIG, RECORD = 0x00, 0x01, 0x02
"""What a leaf's node can hold: a value, the number of an overflow page, a table's description."""
_INTEGER_KEYS: Final = 0x08

_HEADER = struct.Struct("=QHHHH")
_OVERFLOW = struct.Struct("=QHHI")
_NODE = struct.Struct("=IHH")
_RECORD = struct.Struct("=IHHQQQQQ")
_META = struct.Struct("=IIQQ48s48sQQ")


class Record(NamedTuple):
    """The description of one table."""

    pad: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int

    @classmethod
    def parse(cls, data: bytes) -> Record | None:
        """Take a table's description apart; None if it cannot be one of ours."""
        record = cls._make(_RECORD.unpack(data)) if len(data) == _RECORD.size else None
        return record if record and not record.flags and record.depth <= MAX_DEPTH else None


class Meta(NamedTuple):
    """A meta page: where everything was as of one commit. There are two, written in turn."""

    page_size: int
    free: Record
    tables: Record
    last_page: int
    commit: int
    fault: str
    """What is wrong with it, if anything."""

    @classmethod
    def parse(cls, data: bytes, slot: int) -> Meta:
        """Take a meta page apart as far as it goes; never raises."""
        fault = "" if len(data) >= META_SIZE else "is cut short"
        data = data.ljust(META_SIZE, b"\0")
        number, _, flags, _, _ = _HEADER.unpack_from(data)
        fields = _META.unpack_from(data, HEADER_SIZE)
        magic, version, _, _, free, tables, last_page, commit = fields
        free, tables = (Record._make(_RECORD.unpack(record)) for record in (free, tables))
        faults = (
            (magic != MAGIC, "is not one of an LMDB file"),
            (version != VERSION, f"is of format {version}, not {VERSION}"),
            (number != slot or flags != META, "does not say that it is one"),
            (free.pad not in PAGE_SIZES, f"names an impossible page size, {free.pad}"),
            # Commits go to the two meta pages in turn, the even ones to the first.
            (commit and commit % 2 != slot, f"cannot be that of commit {commit}"),
            (tables.flags or not free.flags & _INTEGER_KEYS, "describes tables of another kind"),
            (not 0 < last_page <= MAX_PAGE, f"says that the last page is {last_page}"),
        )
        fault = fault or next((words for wrong, words in faults if wrong), "")
        return cls(free.pad, free, tables, last_page, commit, fault)

    def contradicts(self, other: Meta) -> str:
        """Return why two meta pages, each sound by itself, cannot be of one file."""
        if self.page_size != other.page_size:
            return f"its pages are of {self.page_size} or of {other.page_size} bytes"
        if abs(self.commit - other.commit) != 1 and (self.commit or other.commit):
            return f"commits {self.commit} and {other.commit} do not follow each other"
        return ""


class Node(NamedTuple):
    """One entry of a page."""

    key: bytes
    flags: int
    size: int
    at: int
    """Where its value begins in the page."""

    @property
    def child(self) -> int:
        """The page below, if this is on a branch page."""
        return self.flags << 32 | self.size


class Page(NamedTuple):
    """A branch or leaf page, with those of its nodes that are sound."""

    number: int
    data: bytes
    branch: bool
    nodes: list[Node]
    fault: str
    """What is wrong with the others, if there are any."""

    @classmethod
    def parse(cls, data: bytes, number: int, *, native: bool = False) -> Page:
        """Take a page apart; raise `Corrupt` if nothing on it can be trusted.

        With `native` its keys are integers in the host's byte order, given the other way round if
        need be, so that they sort.
        """
        claims, _, flags, lower, upper = _HEADER.unpack_from(data)
        if claims != number:
            msg = f"page {number} says that it is page {claims}"
            raise Corrupt(msg)
        if flags not in {BRANCH, LEAF}:
            msg = f"page {number} is not a page of a table"
            raise Corrupt(msg)
        if lower % 2 or not HEADER_SIZE < lower <= len(data):
            msg = f"page {number} has a damaged header"
            raise Corrupt(msg)
        branch = flags == BRANCH
        slots = struct.unpack_from(f"={(lower - HEADER_SIZE) // 2}H", data, HEADER_SIZE)
        nodes, spans = _nodes(data, slots, branch=branch)
        fault = "" if len(nodes) == len(slots) else "has an entry that does not fit into it"
        ends = sorted(end for _, end in spans)
        if [*sorted(start for start, _ in spans), len(data)] != [upper, *ends]:
            nodes = _packed(nodes, spans, len(data), gaps=bool(fault))
            fault = fault or "has a gap or an overlap between its entries"
        if native and sys.byteorder == "little":
            nodes = [node._replace(key=node.key[::-1]) for node in nodes]
        keys = [node.key for node in nodes]
        if not all(map(lt, keys, keys[1:])):
            nodes = _rising(nodes)
            fault = fault or "has entries that are out of order"
        return cls(number, data, branch, nodes, fault)


def _nodes(
    data: bytes, slots: tuple[int, ...], *, branch: bool
) -> tuple[list[Node], list[tuple[int, int]]]:
    """Return the nodes that lie within their page, and where each of them starts and ends."""
    floor, size_of_page = HEADER_SIZE + 2 * len(slots), len(data)
    nodes, spans = [], []
    for index, start in enumerate(slots):
        if start % 2 or not floor <= start <= size_of_page - _NODE.size:
            continue
        size, flags, length = _NODE.unpack_from(data, start)
        at = start + _NODE.size + length
        end = at if branch else at + (8 if flags == BIG else size)
        end += end % 2
        if end > size_of_page or length > MAX_KEY or (flags > RECORD and not branch):
            continue
        # What is left of the second page below is left of everything: the first key means nothing.
        key = b"" if branch and index == 0 else data[start + _NODE.size : at]
        if key or (branch and index == 0):
            nodes.append(Node(key, flags, size, at))
            spans.append((start, end))
    return nodes, spans


def _packed(
    nodes: list[Node], spans: list[tuple[int, int]], size_of_page: int, *, gaps: bool
) -> list[Node]:
    """Leave out nodes that reach into the next one or, unless there are `gaps`, end before it."""
    places = sorted(range(len(nodes)), key=spans.__getitem__)
    # Each ends where the next one begins, the last one with the page; there may be none at all.
    bounds = [*(spans[place][0] for place in places[1:]), size_of_page][: len(places)]
    wrong = {
        place
        for place, bound in zip(places, bounds, strict=True)
        if spans[place][1] > bound or (spans[place][1] < bound and not gaps)
    }
    return [node for place, node in enumerate(nodes) if place not in wrong]


def _rising(nodes: list[Node]) -> list[Node]:
    """Leave out nodes whose keys cannot be right: of two out of order, the one that fits less."""
    keys = [node.key for node in nodes]
    wrong = set()
    for place in range(1, len(keys)):
        if keys[place - 1] >= keys[place]:
            earlier = place == 1 or keys[place - 2] < keys[place]
            later = place == len(keys) - 1 or keys[place - 1] < keys[place + 1]
            wrong |= {place - 1} if earlier and not later else set()
            wrong |= {place} if later and not earlier else set()
            wrong |= {place - 1, place} if earlier == later else set()
    left = [node for place, node in enumerate(nodes) if place not in wrong]
    keys = [node.key for node in left]
    return left if all(map(lt, keys, keys[1:])) else []


def overflow_pages(header: bytes, number: int) -> int:
    """Return how many pages the overflow page `number` says it spans, 0 if it is not one."""
    claims, _, flags, pages = _OVERFLOW.unpack_from(header)
    return int(pages) if claims == number and flags == OVERFLOW else 0

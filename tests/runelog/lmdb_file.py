"""Builds LMDB files to be damaged, and damages them."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import lmdb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    Commit = Sequence[tuple[str, bytes, bytes | None]]
    """What one transaction writes: table, key, and value or None to delete."""

PAGE = 4096
BRANCH, LEAF = 1, 2


def build(path: Path, tables: Sequence[str], commits: Iterable[Commit]) -> bytes:
    """Write a file, one transaction after another, and return its bytes.

    A page that is taken and given back in one transaction is never written: at the end of the file
    it may be missing. Our own files have their space reserved, so this one gets it afterwards.
    """
    env = lmdb.open(
        str(path), subdir=False, lib_version=0, max_dbs=16, map_size=1 << 26, sync=False
    )
    with closing(env):
        handles = {table: env.open_db(table.encode()) for table in tables}
        for commit in commits:
            with env.begin(write=True) as txn:
                for table, key, value in commit:
                    if value is None:
                        txn.delete(key, db=handles[table])
                    else:
                        txn.put(key, value, db=handles[table])
        needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if path.stat().st_size < needed:
        os.truncate(path, needed)
    return path.read_bytes()


def content(path: Path, tables: Sequence[str]) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return what LMDB itself reads from a file."""
    env = lmdb.open(str(path), subdir=False, lib_version=0, max_dbs=16, readonly=True, lock=False)
    with closing(env):
        handles = {table: env.open_db(table.encode(), create=False) for table in tables}
        with env.begin() as txn:
            return {table: list(txn.cursor(handle)) for table, handle in handles.items()}


def changed(data: bytes, changes: Mapping[int, bytes]) -> bytes:
    """Return `data` with other bytes at some places."""
    result = bytearray(data)
    for place, new in changes.items():
        result[place : place + len(new)] = new
    return bytes(result)


def flipped(data: bytes, bit: int) -> bytes:
    """Return `data` with one bit changed."""
    return changed(data, {bit // 8: bytes([data[bit // 8] ^ 1 << bit % 8])})


def number_at(data: bytes, place: int) -> int:
    """Return the 64-bit number that LMDB keeps at a place."""
    return int.from_bytes(data[place : place + 8], sys.byteorder)


def pages_of(data: bytes, kind: int) -> list[int]:
    """Return the numbers of all pages of a kind."""
    return [
        place // PAGE
        for place in range(0, len(data), PAGE)
        if number_at(data, place) == place // PAGE and data[place + 10] == kind
    ]


def commits_of(data: bytes) -> tuple[int, int]:
    """Return the numbers of the commits that the two meta pages are of."""
    return number_at(data, 144), number_at(data, PAGE + 144)


def table_list(data: bytes) -> int:
    """Return the number of the page that lists the tables as of the last commit."""
    first, second = commits_of(data)
    return number_at(data, 128 if first > second else PAGE + 128)


def leaf_of(data: bytes, key: bytes) -> int:
    """Return the number of the last leaf that holds `key`."""
    return max(n for n in pages_of(data, LEAF) if key in data[n * PAGE : (n + 1) * PAGE])

"""Files of LMDB that several tests read and damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runelog.damaged_files import TABLES, position, value_of
from tests.runelog.lmdb_file import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Work in memory: what is synced here is read back through the log, never from the disk."""
    return memory_path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file with several levels, large values, deleted entries and free pages."""
    path = tmp_path_factory.mktemp("large") / "large.mdb"
    written = [
        [("runes", position(n), value_of(n)) for n in range(start, start + 400)]
        for start in range(1, 20_000, 400)
    ]
    named = [[("names", b"name %d" % (n * 7919 % 5000), position(n)) for n in range(5000)]]
    deleted = [[("runes", position(n), None) for n in range(5, 5000, 3)]]
    again = [[("names", b"name %d" % n, b"again") for n in range(0, 5000, 50)]]
    build(path, TABLES, [*written, *named, *deleted, *again])
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file of a few pages that has all there is: branches, large values, free pages."""
    path = tmp_path_factory.mktemp("small") / "small.mdb"
    first = [("runes", position(n), bytes([n]) * 900) for n in range(1, 6)]
    second = [("runes", position(6), b"large" * 900), ("names", b"conv_a", b"\0\0\0\1")]
    third = [("runes", position(2), None), ("names", b"conv_b", b"\0\0\0\2")]
    build(path, TABLES, [first, second, third])
    return path

"""Logs of small pages: all that LMDB does with large ones, in an eighth of the bits.

LMDB gives a new file the pages of the machine, and takes an existing file as it is: one that begins
with two empty meta pages that speak of smaller pages is filled with those. Then few entries make
trees of several levels, and values that are large.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lmdb
import pytest

from runelog.lmdb import environment
from runelog.lmdb.pages import MAGIC, META, NO_PAGE, PAGE_SIZES, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL_PAGE: Final = PAGE_SIZES[0]
_INTEGER_KEYS: Final = 0x08


def _meta(slot: int) -> bytes:
    header = struct.pack("=QHHHH", slot, 0, META, 0, 0)
    free = struct.pack("=IHHQQQQQ", SMALL_PAGE, _INTEGER_KEYS, 0, 0, 0, 0, 0, NO_PAGE)
    tables = struct.pack("=IHHQQQQQ", 0, 0, 0, 0, 0, 0, 0, NO_PAGE)
    meta = struct.pack("=IIQQ", MAGIC, VERSION, 0, 0) + free + tables + struct.pack("=QQ", 1, 0)
    return (header + meta).ljust(SMALL_PAGE, b"\0")


class _Lmdb:
    """The real thing, but for the files that it makes."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever is there
        return getattr(lmdb, name)

    def open(self, name: str | bytes, *, create: bool, **options: Any) -> lmdb.Environment:  # noqa: ANN401 -- what LMDB takes
        path = Path(os.fsdecode(name))
        if create and not path.exists():
            path.touch(0o600)
            path.write_bytes(_meta(0) + _meta(1))
        return lmdb.open(os.fspath(path), create=create, **options)


@contextlib.contextmanager
def small_pages() -> Iterator[None]:
    """Have every file that is made meanwhile consist of small pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "lmdb", _Lmdb())
        yield

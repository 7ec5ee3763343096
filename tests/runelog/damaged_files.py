"""Files to damage, and how to compare what is still read of them: for the tests of salvage."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runelog.lmdb.salvage import SalvageView

TABLES = ("heads", "names", "runes")
Entries = list[tuple[bytes, bytes]]


def position(number: int) -> bytes:
    """Return a key of the kind that rises."""
    return number.to_bytes(8, "big")


def value_of(number: int) -> bytes:
    """Return a value that can be told from others, a large one now and then."""
    return number.to_bytes(4, "big") * (3000 if number % 97 == 0 else 60)


def everything(view: SalvageView, table: str) -> Entries:
    """Read a whole table strictly, chunk by chunk."""
    entries: Entries = []
    while chunk := view.scan(table, entries[-1][0] + b"\0" if entries else b""):
        entries += chunk
    return entries


def agrees(view: SalvageView, expected: dict[str, Entries], *, step: int = 1) -> bool:
    """Tell whether a view answers every kind of question as LMDB does."""
    for table, entries in expected.items():
        assert everything(view, table) == entries
        assert list(view.salvage(table)) == entries
        assert view.complete(table)
        for (key, value), (following, _) in itertools.pairwise([*entries, (b"\xff" * 600, b"")]):
            if step > 1 and hash(key) % step:
                continue
            between = key + b"\0"
            assert view.get(table, key) == value
            assert view.floor(table, key) == (key, value)
            if between < following:
                assert view.get(table, between) is None
                assert view.floor(table, between) == (key, value)
        if entries:
            assert view.floor(table, b"") is None
    return view.check() == []

"""What runs in the child processes of `check_in_child`: trying a file, or dying of it.

Imports little, because it is started each time a log was not closed cleanly.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from runelog.errors import Corrupt, RunefoldError, printable
from runelog.index import frame
from runelog.index.follow import complete
from runelog.index.index_check import IndexCheck
from runelog.index.records import checked
from runelog.lmdb.environment import Environment
from runelog.lmdb.salvage import SalvageView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runelog.lmdb.tables import Tables

_SPARE_MEMORY: Final = 1 << 30


class Finding(msgspec.Struct, frozen=True, array_like=True):
    """What is wrong with a file, and where in it."""

    told: str
    conversation: str | None = None
    event_id: int | None = None


def main(paths: Sequence[str], tables: Sequence[str]) -> None:
    """Examine files, each with its tables, and print a `Finding` or None for each."""
    files = [Path(path) for path in paths]
    # It may well die: that should leave no core file behind, nor take the machine's memory with it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _SPARE_MEMORY + 4 * max(file.stat().st_size for file in files)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    found = [finding(file, names.split()) for file, names in zip(files, tables, strict=True)]
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


def finding(path: Path, tables: Sequence[str]) -> Finding | None:
    """Return what is wrong with a file; None if it is sound."""
    try:
        examine(path, tables)
    except (RunefoldError, MemoryError) as error:
        return Finding(
            printable(str(error)) or "it takes too much memory",
            printable(getattr(error, "conversation", None) or "") or None,
            getattr(error, "event_id", None),
        )
    return None


def try_to_write(path: str) -> None:
    """Begin a write transaction on a file and abort it: returns once no other is under way."""
    file = Path(path)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    env = Environment(file, map_size=file.stat().st_size, tables=())
    try:
        with contextlib.suppress(InterruptedError), env.batch(spare=False):
            raise InterruptedError
    finally:
        env.close()


def examine(path: Path, tables: Sequence[str]) -> None:
    """Raise `Corrupt` unless a file is sound: its pages, free ones too, every entry and rune."""
    with SalvageView.open(path) as salvage:
        if problems := salvage.check():
            raise Corrupt(problems[0])
    read_all(path, tables)


def read_all(path: Path, tables: Sequence[str]) -> None:
    """Read every entry through LMDB, which may end the process; check runes and their index."""
    # A catalog has checksums everywhere; most of a segment's index is held against its runes.
    signed = ("heads", "work", "holes") if "runes" in tables else tables
    env = Environment(path, map_size=path.stat().st_size, tables=tables, readonly=True, lock=False)
    try:
        with env.view() as view:
            for table in tables:
                if table == "runes":
                    _check_runes(view)
                else:
                    _check_entries(view, table, signed=table in signed)
    finally:
        env.close()


def _entries(view: Tables, table: str) -> Iterator[tuple[bytes, bytes]]:
    last = b""
    while chunk := view.scan(table, last + b"\0" if last else b""):
        for key, value in chunk:
            # A walk that does not get on might not end either.
            if key <= last:
                msg = f"table {table}: has entries that are out of order"
                raise Corrupt(msg)
            last = key
            yield key, value


def _check_entries(view: Tables, table: str, *, signed: bool) -> None:
    for key, stored in _entries(view, table):
        if signed:
            try:
                checked(key, stored)
            except Corrupt as error:
                msg = f"table {table}: {error}"
                raise Corrupt(msg) from error


def _check_runes(tables: Tables) -> None:
    view = complete(tables)
    conversations = {
        number: (name := key.decode(errors="backslashreplace"), frame.seed_of(name))
        for key, number in _entries(view, "names")
    }
    end = 0
    index_check = IndexCheck()
    for key, data in _entries(view, "runes"):
        position = int.from_bytes(key, "big")
        if len(key) != frame.POSITION.size or position < end:
            msg = f"the runes at position {position} are not where they were written"
            raise Corrupt(msg)
        found = conversations.get(frame.number(data).to_bytes(4, "big"))
        if found is None:
            msg = f"the runes at position {position} are of a conversation that is not listed"
            raise Corrupt(msg)
        end = position + len(frame.unpack(data, *found, position).bodies)
        index_check.see(data)
        index_check.read(position, data)
    if fault := index_check.contradicts_heads(view) or index_check.contradicts_postings(view):
        raise Corrupt(fault)

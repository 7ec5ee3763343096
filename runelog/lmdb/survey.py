"""A walk through all of an LMDB file, without LMDB: what it holds, what is lost, what is free.

One page cannot tell that it is the wrong one. Only all of them together show that two tables claim
the same page, that one in use is listed as free, or that entries are missing.
"""

from __future__ import annotations

import struct
from operator import lt
from typing import TYPE_CHECKING, Final

from runelog.lmdb.pages import RECORD, Meta, Record
from runelog.lmdb.trees import Damage

if TYPE_CHECKING:
    from runelog.lmdb.trees import File

MAX_PROBLEMS: Final = 200
EVERYTHING: Final = Damage(b"", None, "")
_MAX_GAPS: Final = 64
# Who owns a page: the list of tables, the list of free pages, or a table, by its place in the list.
_LIST, _FREE, _FIRST, _LAST = 1, 2, 3, 255


class Survey:
    """What was found in a file."""

    def __init__(self, file: File, meta: Meta | None, older: Meta | None) -> None:
        """Walk through everything as of `meta`, through tables lost there as of `older`."""
        self.problems: list[str] = []
        self.tables: dict[str, Record] = {}
        self.lost: dict[str, list[Damage]] = {}
        """Per table, where entries are missing."""
        self.doubt: dict[str, str] = {}
        """Tables of which no entry can be trusted to be there or not to be there, and why."""
        self.claimed = bytearray(file.pages)
        """For each page, the table that owns it; 0 for none."""
        self.free: set[int] = set()
        self._file = file
        self._rivals: set[int] = set()
        if meta is None:
            return
        tables = self._list(meta, self.claimed)
        for table, record in tables.items():
            self._measure(table, record)
        if older and len(tables) != meta.tables.entries:
            for table, record in self._list(older, bytearray(file.pages)).items():
                if table not in tables:
                    self._measure(table, record)
                    self.lost[table].append(EVERYTHING)
                    self._doubt(table, "only its state before the last commit can be found")
        self._list_free(meta)
        self._settle()

    def _list(self, meta: Meta, claimed: bytearray) -> dict[str, Record]:
        """Return the descriptions of the tables."""
        tables = {}
        for found in self._file.entries(
            meta.tables.root, kind=RECORD, claimed=claimed, owner=_LIST
        ):
            if isinstance(found, Damage):
                self._tell(f"list of tables: {found.why}")
            elif record := Record.parse(found.value):
                tables[found.key.decode(errors="backslashreplace")] = record
        if len(tables) != meta.tables.entries:
            msg = f"list of tables: has {len(tables)} instead of {meta.tables.entries}"
            self._tell(msg)
        return tables

    def _measure(self, table: str, record: Record) -> None:
        """Walk through one table."""
        owner = min(_FIRST + len(self.tables), _LAST)
        self.tables[table] = record
        lost: list[Damage] = []
        count = 0
        for found in self._file.entries(record.root, claimed=self.claimed, owner=owner):
            if isinstance(found, Damage):
                self._tell(f"table {table}: {found.why}")
                self._rivals |= {found.rival, owner} if found.rival else set()
                if len(lost) < _MAX_GAPS:
                    lost.append(found)
            else:
                count += 1
        if count != record.entries and not lost:
            # What is missing may be anywhere; what is too much leaves no gap to fill.
            lost.append(Damage(b"", None if count < record.entries else b"", ""))
            self._doubt(table, f"has {count} entries instead of {record.entries}")
        self.lost[table] = lost if len(lost) < _MAX_GAPS else [EVERYTHING]

    def _list_free(self, meta: Meta) -> None:
        """Collect the free pages. A writer would overwrite what is listed there, right or wrong."""
        for found in self._file.entries(
            meta.free.root, native=True, claimed=self.claimed, owner=_FREE
        ):
            if isinstance(found, Damage):
                self._tell(f"list of free pages: {found.why}")
                self._rivals.add(found.rival)
                continue
            count = min(len(found.value) // 8, self._file.pages)
            listed, *free = struct.unpack_from(f"={count}Q", found.value) if count else [1]
            whole = listed == len(free) and len(found.value) == 8 * count
            in_file = not free or (free[-1] > 1 and free[0] <= meta.last_page)
            if not whole or not in_file or not all(map(lt, free[1:], free)):
                self._tell("list of free pages: an entry is damaged")
            elif not self.free.isdisjoint(free):
                self._tell("list of free pages: names a page twice")
            self.free.update(number for number in free if number < self._file.pages)

    def _settle(self) -> None:
        """Doubt the tables that use a page which is not theirs alone: it may be an old one."""
        if used := [number for number in self.free if self.claimed[number]]:
            self._tell(f"list of free pages: page {min(used)} is in use")
        owners = self._rivals | {self.claimed[number] for number in used}
        for place, table in enumerate(self.tables, _FIRST):
            if min(place, _LAST) in owners or _LIST in owners:
                self._doubt(table, "uses a page that is not its own")

    def _doubt(self, table: str, why: str) -> None:
        self.doubt.setdefault(table, why)
        self._tell(f"table {table}: {why}")

    def _tell(self, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        elif len(self.problems) == MAX_PROBLEMS:
            self.problems.append("and more than can be told one by one")

"""Reading an LMDB file without LMDB: slowly, and whatever its bytes are.

LMDB trusts its file, and a damaged one can end the process. What may be damaged is read through
here instead, with plain reads and nothing believed before it was checked, so that the worst a file
can do is to raise `Corrupt`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from bisect import bisect_left
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Final

from runelog.errors import Corrupt
from runelog.lmdb.pages import META_SIZE, NO_PAGE, PAGE_SIZES, Meta
from runelog.lmdb.survey import EVERYTHING, Survey
from runelog.lmdb.trees import Damage, Entry, File

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from pathlib import Path
    from typing import Self

_MAX_STRAYS: Final = 1 << 21
_SCAN_BYTES: Final = 1 << 20
_LOOKS: Final = 100
_key = itemgetter(0)


def check_size(path: Path) -> None:
    """Raise `Corrupt` unless a file may be mapped: its header is sound, and all pages are there.

    It may be written to meanwhile: a fault counts only if the header was the same at two looks.
    """
    before, problem = None, ""
    for _ in range(_LOOKS):
        try:
            with path.open("rb", buffering=0) as file:
                metas, problem = _header(file.fileno())
        except FileNotFoundError:
            msg = f"{path} is missing"
            raise Corrupt(msg) from None
        if not problem:
            return
        if metas == before:
            break
        before = metas
    msg = f"{path} {problem}"
    raise Corrupt(msg)


def _header(descriptor: int) -> tuple[tuple[Meta, Meta], str]:
    """Return the meta pages of a file, and what is wrong with them or missing behind them."""
    try:
        # Both at once: between two reads a writer may commit any number of times.
        start = os.pread(descriptor, PAGE_SIZES[-1] + META_SIZE, 0)
    except OSError:
        start = b""  # one of the two may be readable by itself

    def read(length: int, at: int) -> bytes:
        inside = at + length <= len(start)
        return start[at : at + length] if inside else os.pread(descriptor, length, at)

    # Measured after the header was read: a file grows before its header tells of it.
    file = File(read, os.fstat(descriptor).st_size)
    return file.metas, _problem(file)


def _problem(file: File) -> str:
    """Return why a file may not be mapped; empty if it may."""
    for slot, meta in enumerate(file.metas):
        if meta.fault:
            return f"({file.size:,} bytes) has a damaged header: meta page {slot} {meta.fault}"
    older, newer = sorted(file.metas, key=lambda meta: meta.commit)
    need = (newer.last_page + 1) * newer.page_size
    if file.size < need:
        return f"is cut short: it has {file.size:,} bytes of the {need:,} that it needs"
    fault = older.contradicts(newer)
    if not fault and file.swapped(older, newer):
        fault = f"commit {newer.commit} is older than commit {older.commit}"
    return f"has a damaged header: {fault}" if fault else ""


class SalvageView:
    """A file's tables as far as they are sound: a `Tables` that survives any bytes.

    `get`, `floor` and `scan` raise `Corrupt` where damage leaves the answer open; `salvage` gives
    whatever can be read. Damage is seen in structure only: whether keys and values are those that
    were written is for their checksums to tell.
    """

    def __init__(self, file: File, name: str) -> None:
        """Read what is in `file`; `name` is what messages call it."""
        self.name = name
        self.problems: list[str] = []
        """What has been found damaged so far, in words."""
        self.stale = False
        """Whether the last commit may be out of reach, and this be the state before it."""
        self._file = file
        self._other: Meta | None = None
        self._meta = self._pick_meta()
        if self._meta and self._meta.last_page >= file.pages:
            need = (self._meta.last_page + 1) * file.page_size
            self._note(f"the file is cut short: {file.size:,} bytes of the {need:,} that it needs")

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file at `path`. It is not mapped: cutting it meanwhile does no harm."""
        return cls(File.open(path), path.name)

    @classmethod
    def of(cls, data: bytes, name: str = "the file") -> Self:
        """Read a file that is in memory."""
        return cls(File(lambda length, at: data[at : at + length], len(data)), name)

    def _pick_meta(self) -> Meta | None:
        """Choose the newer meta page, as LMDB would, if both are sound; else the one that is."""
        for slot, meta in enumerate(self._file.metas):
            if meta.fault:
                self._note(f"meta page {slot} {meta.fault}")
        older, newer = sorted(self._file.metas, key=lambda meta: (not meta.fault, meta.commit))
        if newer.fault:
            return None
        if older.fault:
            # If it can still say that it is the older one, no commit is lost with it.
            self.stale = older.commit + 1 != newer.commit
        elif fault := older.contradicts(newer):
            self._note(fault)
            # Their numbers do not tell which is newer. What they freed may.
            self.stale = not self._file.swapped(newer, older)
            if self._file.swapped(older, newer):
                older, newer = newer, older
                self.stale = False
        elif self._file.swapped(older, newer):
            self._note(f"commit {newer.commit} is older than commit {older.commit}")
            older, newer = newer, older
        if not older.fault and not self.stale:
            self._other = older
        if self.stale:
            self._note("the last commit may be out of reach")
        return newer

    def close(self) -> None:
        """Close the file."""
        self._file.page.cache_clear()
        self._file.close()

    def __enter__(self) -> Self:
        """Return the view itself; leaving the block closes it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the view."""
        self.close()

    # -- reading strictly -------------------------------------------------------------------------

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under `key`, None if there is none."""
        damage = None
        for found in self._file.entries(self._root(table), key, key + b"\0"):
            if isinstance(found, Entry):
                return found.value
            damage = found
        if damage:
            raise self._corrupt(table, damage)
        return None

    def floor(self, table: str, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry with the greatest key that is not above `key`."""
        damage = None
        for found in self._file.entries(self._root(table), b"", key + b"\0", backwards=True):
            if isinstance(found, Damage):
                damage = damage or found
            elif damage is None or found.key == key:
                return found.key, found.value
            else:
                break
        if damage:
            raise self._corrupt(table, damage)
        return None

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return entries with `start` <= key < `stop`: at most `limit`, and about a MiB of them."""
        entries: list[tuple[bytes, bytes]] = []
        size = 0
        for found in self._file.entries(self._root(table), start, stop):
            if isinstance(found, Damage):
                raise self._corrupt(table, found)
            entries.append((found.key, found.value))
            size += len(found.value)
            if size >= _SCAN_BYTES or len(entries) == limit:
                break
        return entries

    def cover(
        self, table: str, ranges: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield, for each (start, stop), the entries that cover it."""
        for start, stop in ranges:
            first = self.floor(table, start)
            key = start if first is None else first[0]
            while found := self.scan(table, key, stop):
                yield from found
                key = found[-1][0] + b"\0"

    def _root(self, table: str) -> int:
        if self._meta is None:
            msg = f"{self.name}: {self.problems[0]}"
            raise Corrupt(msg)
        survey = self._survey
        if table not in survey.tables:
            problem = f"list of tables: there is no table {table}"
            self._note(problem)
            msg = f"{self.name}: {problem}"
            raise Corrupt(msg)
        if table in survey.doubt:
            msg = f"{self.name}: table {table}: {survey.doubt[table]}"
            raise Corrupt(msg)
        return survey.tables[table].root

    def _corrupt(self, table: str, damage: Damage) -> Corrupt:
        # The survey has noted it already.
        return Corrupt(f"{self.name}: table {table}: {damage.why}")

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # -- reading whatever there is ----------------------------------------------------------------

    @property
    def commits(self) -> int | None:
        """How many commits the file has seen, None if its header leaves that open."""
        older, newer = sorted(self._file.metas, key=lambda meta: meta.commit)
        if older.fault or newer.fault or older.contradicts(newer):
            return None
        return newer.commit

    def complete(self, table: str) -> bool:
        """Return True if all of a table can be read, and has as many entries as it says."""
        return table in self._survey.tables and not self._survey.lost[table]

    def check(self) -> list[str]:
        """Walk through the whole file, its list of free pages too, and return all problems."""
        self._survey  # noqa: B018 -- made at its first use, and notes what it finds
        return [*self.problems]

    def salvage(
        self, table: str, fits: Callable[[bytes, bytes], bool] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield whatever can be read of a table, each key once, in order.

        Where entries are missing they are looked for on pages that nothing leads to any more. Those
        do not tell which table they belong to: `fits(key, value)` says what may be taken from them,
        everything by default.
        """
        survey = self._survey
        table = self._meant(table)
        strays = self._strays(survey, table, fits)
        waiting = sorted(strays, reverse=True)
        root = survey.tables[table].root if table in survey.tables else NO_PAGE
        for found in self._file.entries(root):
            if isinstance(found, Entry):
                while waiting and waiting[-1] < found.key:
                    yield from self._stray(waiting[-1], strays[waiting.pop()])
                if waiting and waiting[-1] == found.key:
                    waiting.pop()
                yield found.key, found.value
        while waiting:
            yield from self._stray(waiting[-1], strays[waiting.pop()])

    def copies(self, keys: Container[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield what pages that nothing leads to any more have under some keys, newer ones first.

        LMDB copies a page and changes the copy, so that older ones stay for a while.
        """
        claimed = bytearray(self._survey.claimed)
        for number in self._unclaimed(self._survey):
            with contextlib.suppress(Corrupt):
                page = self._file.parse(number)
                for node in () if page.branch else page.nodes:
                    if node.key in keys:
                        with contextlib.suppress(Corrupt):
                            yield node.key, self._file.value(page, node, claimed)

    def _meant(self, table: str) -> str:
        """Return the name under which a table is listed, if it is but for one byte."""
        if table in self._survey.tables:
            return table
        self._note(f"list of tables: there is no table {table}")
        names = [name for name in self._survey.tables if len(name) == len(table)]
        close = [name for name in names if sum(map(ne, name, table)) == 1]
        return close[0] if len(close) == 1 else table

    @functools.cached_property
    def _survey(self) -> Survey:
        survey = Survey(self._file, self._meta, self._other)
        for problem in survey.problems:
            self._note(problem)
        if self.stale:
            survey.lost.update({table: [EVERYTHING] for table in survey.lost})
        return survey

    # -- pages that nothing leads to --------------------------------------------------------------

    def _strays(
        self, survey: Survey, table: str, fits: Callable[[bytes, bytes], bool] | None
    ) -> dict[bytes, int]:
        """Find what may be missing in a table: keys, and the page each is on."""
        lost = survey.lost.get(table, [EVERYTHING])
        claimed = bytearray(survey.claimed)
        strays: dict[bytes, int] = {}
        for number in self._unclaimed(survey) if lost else ():
            try:
                page = self._file.parse(number)
            except Corrupt:
                continue
            for node in () if page.branch else page.nodes:
                if node.key in strays or not any(damage.holds(node.key) for damage in lost):
                    continue
                try:
                    value = self._file.value(page, node, claimed)
                except Corrupt:
                    continue
                if fits is None or fits(node.key, value):
                    strays[node.key] = number
            if len(strays) > _MAX_STRAYS:
                self._note(
                    f"table {table}: more lost entries than can be sorted, the rest is left out"
                )
                break
        return strays

    def _unclaimed(self, survey: Survey) -> list[int]:
        """List the pages that no table uses; free ones, which are staler, come last."""
        last = self._meta.last_page if self._meta else self._file.pages
        end = min(max(last + 1, len(survey.claimed.rstrip(b"\0"))), self._file.pages)
        taken = bytearray(map(bool, survey.claimed))
        for number in survey.free:
            taken[number] = 1
        numbers = []
        number = 2
        while (number := taken.find(0, number, end)) >= 0:
            numbers.append(number)
            # A large value holds arbitrary bytes, which could be made to look like a page.
            behind = number + max(1, self._file.overflow(number))
            inside = taken.find(1, number, behind)
            number = inside if inside >= 0 else behind
        free = (number for number in survey.free if 1 < number < end and not survey.claimed[number])
        return numbers[::-1] + sorted(free, reverse=True)

    def _stray(self, key: bytes, number: int) -> Iterator[tuple[bytes, bytes]]:
        # Read a second time, so it may be gone by now.
        with contextlib.suppress(Corrupt):
            page = self._file.page(number)
            node = page.nodes[bisect_left(page.nodes, key, key=_key)]
            yield key, self._file.value(page, node, bytearray(self._file.pages))

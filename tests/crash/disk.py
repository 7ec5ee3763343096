"""A disk that loses power: which states it can be left in, given what a program wrote and synced.

What was synced is there. Of everything else any part may be: a file's unsynced pages in any
combination, names in a directory that was not synced itself, in any order. A file system with a
journal keeps more in order than that: what it can leave is among what is tried here.

Every subset of what is pending at a moment is made, and each state that comes of it is opened once,
however many subsets and moments lead to it. There are three limits. Of a page that was written in
part only the sectors from its start on are there, and everything else that is pending, or all
before it, or nothing. Of more than `ALL_SUBSETS` pending changes a choice is tried. And what is in
files that are there to be locked, and whether they are there, is left to chance in each state:
nobody syncs them, and whoever opens the log begins them anew.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.crash.calls import Change

PAGE: Final = 4_096
SECTOR: Final = 512
ALL_SUBSETS: Final = 14
"""Of up to so many unsynced changes every subset is tried."""
SAMPLES: Final = 512
"""Of more, so many at random, beside those that keep or lose any two, or all behind one."""
_FOLDER: Final = -1


class File(NamedTuple):
    """What a file holds: its length and those pages that are not all zeros."""

    size: int = 0
    pages: tuple[tuple[int, bytes], ...] = ()

    def write(self, offset: int, data: bytes) -> File:
        """Return the file with `data` in it."""
        pages = dict(self.pages)
        for at in range(offset // PAGE, (offset + len(data) - 1) // PAGE + 1):
            old = pages.get(at, bytes(PAGE))
            start = max(offset - at * PAGE, 0)
            here = data[max(at * PAGE - offset, 0) : (at + 1) * PAGE - offset]
            pages[at] = old[:start] + here + old[start + len(here) :]
        return File(max(self.size, offset + len(data)), _tidy(pages))

    def resize(self, size: int) -> File:
        """Return the file cut or stretched to a length."""
        pages = {at: page for at, page in self.pages if at * PAGE < size}
        last = size // PAGE
        if last in pages:
            pages[last] = pages[last][: size % PAGE].ljust(PAGE, b"\0")
        return File(size, _tidy(pages))


def _tidy(pages: dict[int, bytes]) -> tuple[tuple[int, bytes], ...]:
    return tuple(sorted(item for item in pages.items() if item[1].strip(b"\0")))


class Op(NamedTuple):
    """A change that is not durable yet: of a file's content, or of names in one directory."""

    number: int
    folder: str
    """The directory whose names change; empty if a file's content does."""
    inode: int
    what: str
    offset: int = 0
    data: bytes = b""
    names: tuple[tuple[str, int | None], ...] = ()


class State(NamedTuple):
    """What is on the disk after a power cut: its directories and files by name."""

    folders: frozenset[str]
    files: frozenset[tuple[str, File]]

    def without_locks(self) -> State:
        """Return the state that it is to whoever opens it: files to be locked hold nothing."""
        return State(self.folders, frozenset(file for file in self.files if not is_lock(file[0])))

    def build(self, root: Path) -> None:
        """Make the files, under `root`, as they are in this state."""
        for folder in sorted(self.folders):
            (root / folder).mkdir()
        for name, file in self.files:
            descriptor = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.ftruncate(descriptor, file.size)
            for at, page in file.pages:
                os.pwrite(descriptor, page[: file.size - at * PAGE], at * PAGE)
            os.close(descriptor)


def is_lock(name: str) -> bool:
    """Tell whether a file is there to be locked, and says nothing that outlives a process."""
    return name.endswith(("-lock", "/LOCK"))


class Disk:
    """What is durable, and what is pending, while changes come in."""

    def __init__(self, root: str) -> None:
        """Begin with an empty directory."""
        self._root = root
        self._now: dict[str, int] = {"": _FOLDER}
        """Names as the program sees them."""
        self._names: dict[str, int] = {"": _FOLDER}
        """Names that are durable."""
        self._files: dict[int, File] = {}
        """Contents that are durable."""
        self._locks: set[int] = set()
        self.pending: list[Op] = []
        self._serial = itertools.count()

    def _name(self, path: str) -> str:
        return path[len(self._root) + 1 :]

    def settles(self, change: Change) -> bool:
        """Tell whether a change makes something durable: the power is cut before it."""
        return change.what == "sync" or change.durable

    def apply(self, change: Change) -> None:
        """Take a change in."""
        name = self._name(change.path)
        match change.what:
            case "make":
                self._now[name] = inode = next(self._serial)
                self._files[inode] = File()
                if is_lock(name):
                    self._locks.add(inode)
                self._pend_names("make", {name: inode})
            case "mkdir":
                self._now[name] = _FOLDER
                self._pend_names("mkdir", {name: _FOLDER})
            case "rename":
                target = self._name(change.target)
                self._now[target] = inode = self._now.pop(name)
                self._pend_names("rename", {name: None, target: inode})
            case "link":
                target = self._name(change.target)
                self._now[target] = inode = self._now[name]
                self._pend_names("link", {target: inode})
            case "remove":
                del self._now[name]
                self._pend_names("remove", {name: None})
            case "write":
                if name in self._now:
                    self._write(self._now[name], change)
            case "cut" | "grow":
                if name in self._now:
                    op = Op(next(self._serial), "", self._now[name], change.what, change.offset)
                    self.pending.append(op)
            case "sync":
                self._sync(name)

    def _pend_names(self, what: str, names: dict[str, int | None]) -> None:
        folder = next(iter(names)).rpartition("/")[0] or "."
        number = next(self._serial)
        self.pending.append(Op(number, folder, _FOLDER, what, names=tuple(names.items())))

    def _write(self, inode: int, change: Change) -> None:
        """Take a write in: as many changes as it touches pages, as nothing keeps those together."""
        end = change.offset + len(change.data)
        start = change.offset
        while start < end:
            stop = min(end, (start // PAGE + 1) * PAGE)
            data = change.data[start - change.offset : stop - change.offset]
            op = Op(next(self._serial), "", inode, "write", start, data)
            if change.durable:
                self._files[inode] = _changed(self._files[inode], op)
            else:
                self.pending.append(op)
            start = stop

    def _sync(self, name: str) -> None:
        inode = self._now.get(name)
        folder = (name or ".") if inode == _FOLDER else None
        left = []
        for op in self.pending:
            durable = op.folder == folder if op.folder else op.inode == inode
            if not durable:
                left.append(op)
            elif op.folder:
                _rename(self._names, op)
            else:
                self._files[op.inode] = _changed(self._files[op.inode], op)
        self.pending = left

    def of_locks(self, op: Op) -> bool:
        """Tell whether a change is one of files that are there to be locked, and of no others."""
        return op.inode in self._locks or (
            bool(op.folder) and all(is_lock(name) for name, _ in op.names)
        )

    def state(self, kept: Sequence[Op]) -> State:
        """Return the disk's state if of all that is pending just these changes made it."""
        names = dict(self._names)
        files = dict(self._files)
        for op in kept:
            if op.folder:
                _rename(names, op)
            else:
                files[op.inode] = _changed(files[op.inode], op)
        folders = {name for name in names if name and names[name] == _FOLDER}
        folders = {name for name in folders if _reachable(name, folders)}
        return State(
            frozenset(folders),
            frozenset(
                (name, files[inode])
                for name, inode in names.items()
                if inode != _FOLDER and _reachable(name, folders)
            ),
        )


def _reachable(name: str, folders: set[str]) -> bool:
    parent = name.rpartition("/")[0]
    return not parent or (parent in folders and _reachable(parent, folders))


def _rename(names: dict[str, int], op: Op) -> None:
    for name, inode in op.names:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


@functools.lru_cache(1 << 14)
def _changed(file: File, op: Op) -> File:
    match op.what:
        case "write":
            return file.write(op.offset, op.data)
        case "cut":
            return file.resize(op.offset)
        case _:
            return file.resize(max(file.size, op.offset))


def subsets(count: int, rng: random.Random) -> Iterator[int]:
    """Yield what may be left of so many changes, as bits: every subset if they are few.

    Of many: those that keep, or lose, up to two of them; those that keep all up to one, and one
    behind it; and so many at random.
    """
    if count <= ALL_SUBSETS:
        yield from range(1 << count)
        return
    everything = (1 << count) - 1
    ones = [1 << at for at in range(count)]
    few = {0, *ones, *(one | other for one, other in itertools.combinations(ones, 2))}
    starts = {one - 1 | other for one in ones for other in ones}
    chance = {rng.getrandbits(count) for _ in range(SAMPLES)}
    yield from sorted(few | {everything & ~mask for mask in few} | starts | chance)


def torn(pending: Sequence[Op]) -> Iterator[list[Op]]:
    """Yield what is left if one page made it in part: beside all others, those before, or none."""
    for at, op in enumerate(pending):
        before, behind = pending[:at], pending[at + 1 :]
        for size in range(SECTOR, len(op.data), SECTOR):
            part = op._replace(data=op.data[:size])
            yield [*before, part, *behind]
            yield [*before, part]
            yield [part]


class Case(NamedTuple):
    """A state to open, and what of the story must and may be in it."""

    state: State
    required: int
    limit: int
    where: str
    """The change before which the power was cut, for a message."""


class Tally(NamedTuple):
    """How much of what can happen is tried."""

    moments: int = 0
    """At which the power is cut: before each sync, and at the end."""
    pending: int = 0
    """The most changes that are not durable at one of them, those of locks apart."""
    subsets: int = 0
    """Of what is pending, over all moments."""
    chosen: int = 0
    """Moments at which more is pending than every subset is tried of."""


class Cuts(NamedTuple):
    """The states that a disk can be left in, each once, with the strictest demands on it."""

    cases: list[Case]
    tally: Tally


def cuts(root: str, changes: Sequence[Change], durable: Sequence[int], seed: int) -> Cuts:
    """Cut the power at every moment.

    `durable` tells for each change the last step acknowledged as durable before it.
    """
    found: dict[State, Case] = {}
    tally = Tally()
    rng = random.Random(seed)
    disk = Disk(root)
    begun = 1
    for at, change in enumerate([*changes, None]):
        if change is None or disk.settles(change):
            # What is written through is pending for this one moment.
            trial = [] if change is None or change.what == "sync" else _pages(disk, change)
            required = durable[min(at, len(durable) - 1)]
            where = f"change {at}, {change.call} {change.path[len(root) :]}" if change else "end"
            locks = [op for op in disk.pending if disk.of_locks(op)]
            pending = [op for op in [*disk.pending, *trial] if op not in locks]
            masks = [*subsets(len(pending), rng)]
            some = ([op for at, op in enumerate(pending) if mask >> at & 1] for mask in masks)
            for kept in itertools.chain(some, torn(pending)):
                key = disk.state(kept).without_locks()
                old = found.get(key)
                found[key] = Case(
                    old.state if old else disk.state(_with_some(kept, locks, rng)),
                    max(required, old.required if old else 0),
                    min(begun, old.limit) if old else begun,
                    where,
                )
            tally = Tally(
                tally.moments + 1,
                max(tally.pending, len(pending)),
                tally.subsets + len(masks),
                tally.chosen + (len(pending) > ALL_SUBSETS),
            )
        if change is not None and change.what == "ack":
            begun = int(change.data.split()[0]) + 1
        elif change is not None:
            disk.apply(change)
    return Cuts([*found.values()], tally)


def _with_some(kept: list[Op], locks: list[Op], rng: random.Random) -> list[Op]:
    """Return changes with some of others, in the order in which they were made."""
    return sorted([*kept, *(op for op in locks if rng.random() < 1 / 2)])


def _pages(disk: Disk, change: Change) -> list[Op]:
    """Return a write that is under way as changes that are pending."""
    before = len(disk.pending)
    disk.apply(change._replace(durable=False))
    trial = disk.pending[before:]
    del disk.pending[before:]
    return trial

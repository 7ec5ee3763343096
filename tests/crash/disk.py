"""A disk that loses power: which states it can be left in, given what a program wrote and synced.

What was synced is there. Of everything else any part may be: a file's unsynced pages in any
combination, names in a directory that was not synced itself. Two kinds of file system are told
apart: one that orders nothing but what is synced, and one that, as journals do, keeps all names
and lengths in order.
"""

from __future__ import annotations

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
ALL_SUBSETS: Final = 8
"""Of up to so many unsynced changes every subset is tried."""
SAMPLES: Final = 48
"""Of more, so many at random, beside those that keep or lose one or all behind one."""
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

    @property
    def ordered(self) -> bool:
        """Tell whether a journal keeps this in order."""
        return self.what != "write"


class State(NamedTuple):
    """What is on the disk after a power cut: its directories and files by name."""

    folders: frozenset[str]
    files: frozenset[tuple[str, File]]

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


class Disk:
    """What is durable, and what is pending, while changes come in."""

    def __init__(self, root: str, *, journal: bool) -> None:
        """Begin with an empty directory; with `journal`, any sync makes all names durable."""
        self._root = root
        self._journal = journal
        self._now: dict[str, int] = {"": _FOLDER}
        """Names as the program sees them."""
        self._names: dict[str, int] = {"": _FOLDER}
        """Names that are durable."""
        self._files: dict[int, File] = {}
        """Contents that are durable."""
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
                self._pend_names("make", {name: inode})
            case "mkdir":
                self._now[name] = _FOLDER
                self._pend_names("mkdir", {name: _FOLDER})
            case "rename":
                target = self._name(change.target)
                self._now[target] = inode = self._now.pop(name)
                self._pend_names("rename", {name: None, target: inode})
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
            if op.folder:
                durable = op.folder == folder or self._journal
            else:
                durable = op.inode == inode or (self._journal and op.ordered)
            if not durable:
                left.append(op)
            elif op.folder:
                _rename(self._names, op)
            else:
                self._files[op.inode] = _changed(self._files[op.inode], op)
        self.pending = left

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


def _changed(file: File, op: Op) -> File:
    match op.what:
        case "write":
            return file.write(op.offset, op.data)
        case "cut":
            return file.resize(op.offset)
        case _:
            return file.resize(max(file.size, op.offset))


def subsets(pending: Sequence[Op], rng: random.Random, *, journal: bool) -> Iterator[list[Op]]:
    """Yield what may be left of pending changes: every subset if they are few, a choice if not."""
    count = len(pending)
    if count <= ALL_SUBSETS:
        masks = iter(range(1 << count))
    else:
        everything = (1 << count) - 1
        masks = itertools.chain(
            ((1 << length) - 1 for length in range(count + 1)),
            (everything & ~(1 << one) for one in range(count)),
            (1 << one for one in range(count)),
            (rng.getrandbits(count) for _ in range(SAMPLES)),
        )
    for mask in masks:
        kept = [op for at, op in enumerate(pending) if mask >> at & 1]
        if not journal or _in_order(pending, kept):
            yield kept
    for at, op in enumerate(pending):
        for size in range(SECTOR, len(op.data), SECTOR):
            # Torn: all before it made it, and of this one a part.
            yield [*pending[:at], op._replace(data=op.data[:size])]


def _in_order(pending: Sequence[Op], kept: Sequence[Op]) -> bool:
    """Tell whether of the changes that a journal orders, none is kept behind one that is lost."""
    ordered = [op for op in pending if op.ordered]
    left = [op for op in kept if op.ordered]
    return left == ordered[: len(left)]


class Case(NamedTuple):
    """A state to open, and what of the story must and may be in it."""

    state: State
    required: int
    limit: int
    where: str
    """The change before which the power was cut, for a message."""


def cases(root: str, changes: Sequence[Change], durable: Sequence[int], seed: int) -> list[Case]:
    """Return the states the disk can be left in, each once, with the strictest demands on it.

    `durable` tells for each change the last step acknowledged as durable before it.
    """
    found: dict[State, Case] = {}
    rng = random.Random(seed)
    for journal in (True, False):
        disk = Disk(root, journal=journal)
        begun = 1
        for at, change in enumerate([*changes, None]):
            if change is None or disk.settles(change):
                # What is written through is pending for this one moment.
                trial = [] if change is None or change.what == "sync" else _pages(disk, change)
                required = durable[min(at, len(durable) - 1)]
                where = (
                    f"change {at}, {change.call} {change.path[len(root) :]}" if change else "end"
                )
                for kept in subsets([*disk.pending, *trial], rng, journal=journal):
                    state = disk.state(kept)
                    old = found.get(state)
                    found[state] = Case(
                        state,
                        max(required, old.required if old else 0),
                        min(begun, old.limit) if old else begun,
                        where,
                    )
            if change is not None and change.what == "ack":
                begun = int(change.data.split()[0]) + 1
            elif change is not None:
                disk.apply(change)
    return list(found.values())


def _pages(disk: Disk, change: Change) -> list[Op]:
    """Return a write that is under way as changes that are pending."""
    before = len(disk.pending)
    disk.apply(change._replace(durable=False))
    trial = disk.pending[before:]
    del disk.pending[before:]
    return trial

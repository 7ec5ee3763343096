"""Copies of what a kill would leave, taken from a process that stands still."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from runefold.testing.crash.instrumentation.journal import Hit, Journal
from runefold.testing.crash.plan.points import AFTER, BEFORE, EFFECT, SYNC, Aim
from runefold.testing.crash.running import copy_directory, run_once
from runefold.testing.crash.running.run_once import JOURNAL, Order
from runefold.testing.crash.running.trial import Child, Scene, forked, scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

APART: Final = (frozenset({AFTER}), frozenset({BEFORE, SYNC, EFFECT}))
"""Two runs: after a commit everything is on disk, which it need not be at other moments."""
_LONGER: Final = 5
"""So many times its patience a run may take that is halted again and again."""
_PART: Final = 4
"""Copies take no more than one part in so many of the room that there is."""

_PROCESSES: Final = Path("/proc")


class DiskImage(msgspec.Struct, frozen=True):
    """A copy of what a kill at this moment would have left."""

    aim: Aim
    path: str


def make_images(scene: Scene, stops: Sequence[Aim]) -> list[DiskImage]:
    """Run the app once, halting it at each of some moments; copy its directory each time.

    A process that stands still has left on disk exactly what it would leave if it were killed,
    unless it has children that do not stand still: then there is no copy of that moment. There is
    none at all if the app does not come to its end when it is halted now and then.
    """
    with scratch(scene.work) as root:
        patience = scene.patience * _LONGER
        order = Order(root=str(root), life=1, stops=tuple(stops), judged=False, patience=patience)
        child = forked(scene.app, order)
        room = shutil.disk_usage(scene.work).free // _PART
        images: list[DiskImage] = []
        try:
            while _halted(child, time.monotonic() + scene.patience):
                hit = _last_hit(root)
                if room > 0 and not _has_children(child.pid):
                    place = scene.work / f"shot-{os.getpid()}-{time.monotonic_ns()}"
                    room -= copy_directory.copy(root, place)
                    images.append(DiskImage(stops[hit.stop], str(place)))
                os.kill(child.pid, signal.SIGCONT)
            return images if _finished(child) else []
        finally:
            os.close(child.reading)


def _last_hit(root: Path) -> Hit:
    return [line for line in Journal(root / JOURNAL).lines() if isinstance(line, Hit)][-1]


def _has_children(pid: int) -> bool:
    """Return True if a process has living children, or if that cannot be found out."""
    known = False
    for place in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            known = True
            # Behind the name, which may have anything in it: the state, and the parent.
            state, parent = (place / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if int(parent) == pid and state != b"Z":
                return True
    return not known


def _finished(child: Child) -> bool:
    """Return True if a child that has exited had come to its end."""
    told = b""
    while chunk := os.read(child.reading, 1 << 16):
        told += chunk
    report = run_once.decode(told)
    return report is not None and report.status == "finished"


def _halted(child: Child, deadline: float) -> bool:
    """Wait until a child stands still; tell whether it does, rather than having ended."""
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child.pid, os.WUNTRACED | os.WNOHANG)
        if pid:
            return os.WIFSTOPPED(status)
        select.select([], [], [], 0.0005)
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    return False

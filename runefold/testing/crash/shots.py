"""Copies of what a kill would leave, taken from a process that stands still."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Final

import msgspec

from runefold.testing.crash import copies
from runefold.testing.crash.journal import Committed, Hit, Journal
from runefold.testing.crash.life import JOURNAL, Order
from runefold.testing.crash.points import AFTER, BEFORE, EFFECT, SYNC
from runefold.testing.crash.trial import Child, Scene, forked, scratch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Shot(msgspec.Struct, frozen=True):
    """A copy of what a kill at this moment would have left."""

    mark: str
    occurrence: int
    kind: str
    path: str


def shoot(scene: Scene, moments: Sequence[str]) -> list[Shot]:
    """Run the app once, halting it at each of some moments; copy its directory each time.

    A process that stands still has left on disk exactly what it would leave if it were killed.
    """
    with scratch(scene.work) as root:
        order = Order(
            root=str(root), life=1, stops=tuple(moments), judged=False, patience=scene.patience
        )
        child = forked(scene.app, order)
        deadline = time.monotonic() + scene.patience
        places: list[tuple[Hit, Path]] = []
        try:
            while _halted(child, deadline):
                hit = [line for line in Journal(root / JOURNAL).lines() if isinstance(line, Hit)][
                    -1
                ]
                place = scene.work / f"shot-{os.getpid()}-{len(places)}-{hit.kind}"
                copies.copy(root, place)
                places.append((hit, place))
                os.kill(child.pid, signal.SIGCONT)
        finally:
            os.close(child.reading)
        commits = {
            line.number: line
            for line in Journal(root / JOURNAL).lines()
            if isinstance(line, Committed)
        }
        return [
            Shot(*_marked(at, hit), hit.kind, str(place))
            for hit, place in places
            if (at := commits.get(hit.number)) is not None
        ]


def _marked(at: Committed, hit: Hit) -> tuple[str, int]:
    """Return what the place of a hit is told by."""
    return (at.effects[hit.which - 1].mark, 1) if hit.kind == EFFECT else (at.mark, at.occurrence)


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


SHOTS: Final = ((AFTER, EFFECT), (BEFORE, SYNC))
"""Two runs: before a commit, what came before it need not be on disk yet."""

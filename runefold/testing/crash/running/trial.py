"""Trials: an app is run in children of this process, hit, and run again until it comes to its end.

This process has one thread and everything imported, so that a child costs a fork and no more.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from runefold.testing.crash.effects import Effects
from runefold.testing.crash.instrumentation.journal import Committed, Journal, Opened
from runefold.testing.crash.plan.faults import UNNOTICED
from runefold.testing.crash.plan.points import FAULTS, MOMENTS, Aim, Boundary, Point
from runefold.testing.crash.running import copy_directory, run_once, stacks
from runefold.testing.crash.running.run_once import JOURNAL, LEDGER, OUTPUT, STACKS, Order, Report
from runefold.testing.crash.verdict import judge
from runefold.testing.crash.verdict.boundaries import boundaries
from runefold.testing.crash.verdict.judge import Finding, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runefold.testing.crash.app import CrashApp
    from runefold.testing.crash.instrumentation.journal import Line

GRACE: Final = 5.0
"""Seconds that a child has beyond its patience before it is ended from outside."""
TAIL: Final = 4_000
"""Characters of what was printed that are kept."""

How = Literal["killed", "finished", "raised", "failed", "hung", "died"]


class ProcessRun(msgspec.Struct, frozen=True):
    """One process of a trial, and how it ended."""

    number: int
    ended: How
    seconds: float
    hit: str = ""
    """The moment at which it was hit; empty if it was not."""
    found: dict[str, int] = {}
    """How much of each conversation it found in the log."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one point."""

    point: str
    status: Literal["survived", "failed", "missed"]
    wrong: list[Finding] = []
    lives: list[ProcessRun] = []
    steps: list[Step] = []
    """What recovery appended."""
    notes: list[str] = []
    left: list[Boundary] = []
    """Where it could have been hit again, if the second point that it was given met nothing."""
    again: int = 0
    """How many effects were executed again."""
    seconds: float = 0
    kept: str = ""
    """Where its directory is, if it was kept."""
    shown: str = ""
    """The command that shows its log then."""
    stacks: str = ""
    output: str = ""
    head: dict[str, int] = {}
    """How much of each conversation the kill left."""
    warm: bool = False
    """Whether it was started from a copy of the directory, rather than killed."""


class Scene(NamedTuple):
    """What all trials of a sweep have in common."""

    app: CrashApp
    work: Path
    """Where directories are made and thrown away."""
    keep: Path
    """Where those of failed points are kept."""
    patience: float
    baseline: Path
    """Where it is kept what the undisturbed run came to."""


# -- one life --------------------------------------------------------------------------------------


class Child(NamedTuple):
    """A process that was forked, and the pipe that it will say something on."""

    pid: int
    reading: int


def forked(app: CrashApp, order: Order) -> Child:
    """Have a child begin a life."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        run_once.process(app, order, writing)
    os.close(writing)
    return Child(pid, reading)


def lived(app: CrashApp, order: Order) -> tuple[How, Report | None]:
    """Have a child live one life; return how it ended, and what it said of itself."""
    child = forked(app, order)
    try:
        content = _heard(child, time.monotonic() + order.patience + GRACE)
    finally:
        os.close(child.reading)
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    return ("hung", None) if content is None else _ended(code, content, order)


def _heard(child: Child, deadline: float) -> bytes | None:
    """Read all that a child says until it ends; None if the time is up before, and so is it."""
    told = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([child.reading], [], [], left)[0]:
            os.kill(child.pid, signal.SIGKILL)
            return None
        chunk = os.read(child.reading, 1 << 16)
        if not chunk:
            return told
        told += chunk


def _ended(code: int, content: bytes, order: Order) -> tuple[How, Report | None]:
    report = run_once.decode(content)
    if report is not None and code == 0:
        status = report.status
        return (
            "finished" if status == "finished" else "failed" if status == "failed" else "raised"
        ), report
    root = Path(order.root)
    if code == 1 and read(root / STACKS):
        return "hung", None
    # Other faults do not end a process: if it is gone then, the kit did not kill it.
    hit = judge.hit_at(Journal(root / JOURNAL).lines(), order.life) in MOMENTS
    if code == -signal.SIGKILL and hit:
        return "killed", None
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    told = Finding("died", f"its process ended by itself, {how}")
    return "died", Report(status="raised", wrong=[told])


def read(path: Path) -> str:
    """Return what is in a file, nothing if it is not there."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


# -- one point -------------------------------------------------------------------------------------


def attempt(scene: Scene, point: Point, aims: Sequence[Aim], warm: Path | None = None) -> Result:
    """Run the app, hit it, run it again until it comes to its end, and judge what it came to.

    With `warm`, the first hit has been: that is a copy of what it left.
    """
    begun = time.monotonic()
    with scratch(scene.work) as root:
        if warm is not None:
            copy_directory.copy(warm, root)
        trial = _Trial(scene, root, point, aims, warm=warm is not None)
        result = trial.run()
        if result.status == "failed":
            kept = _kept(scene.keep, root, point)
            shown = _shown(Journal(root / JOURNAL).lines(), root, kept, result.wrong)
            result = msgspec.structs.replace(result, kept=kept, shown=shown)
        return msgspec.structs.replace(result, seconds=time.monotonic() - begun)


class _Trial:
    """The lives of one point, one after the other."""

    def __init__(
        self, scene: Scene, root: Path, point: Point, aims: Sequence[Aim], *, warm: bool
    ) -> None:
        self._scene = scene
        self._root = root
        self._point = point
        self._aims = list(aims)
        self._warm = warm
        self._lives: list[ProcessRun] = []

    def run(self) -> Result:
        """Live until the end."""
        if self._warm:
            self._lives.append(ProcessRun(1, "killed", 0, str(self._aims.pop(0).kind)))
        while True:
            aim = self._aims.pop(0) if self._aims else None
            number = len(self._lives) + 1
            begun = time.monotonic()
            order = self._order(number, aim)
            how, report = lived(self._scene.app, order)
            lines = self._lines()
            hit = judge.hit_at(lines, number)
            took = time.monotonic() - begun
            found = judge.found_at(lines, number)
            self._lives.append(ProcessRun(number, how, took, hit, found))
            if how == "killed" or (how == "failed" and number <= _MOST_LIVES):
                continue
            status, wrong = self._judged(how, report)
            if self._aims or (aim is not None and not hit):
                return unmet(self._result(status, wrong), self._noted())
            return self._result(status, wrong)

    def _order(self, number: int, aim: Aim | None) -> Order:
        return Order(
            root=str(self._root),
            life=number,
            aim=aim,
            baseline=str(self._scene.baseline),
            strict=self._point.kind not in FAULTS_NOTICED,
            point=str(self._point),
            patience=self._scene.patience,
        )

    def _lines(self) -> list[Line]:
        return Journal(self._root / JOURNAL).lines()

    def _noted(self) -> list[Line]:
        return [*self._lines(), *Journal(self._root / LEDGER).lines()]

    def _stacks(self) -> str:
        return stacks.in_order(read(self._root / STACKS))

    def _judged(
        self, how: How, report: Report | None
    ) -> tuple[Literal["survived", "failed"], list[Finding]]:
        if report is not None and how != "failed":
            return ("failed" if report.wrong else "survived"), list(report.wrong)
        if how == "hung":
            told = f"it was not over after {self._scene.patience:g} s"
            return "failed", [Finding("hang", told + stacks.where(self._stacks()))]
        return "failed", [Finding("died", "its log failed again each time that it was opened")]

    def _result(self, status: Literal["survived", "failed"], wrong: list[Finding]) -> Result:
        lines = self._lines()
        effects = Effects(Journal(self._root / LEDGER).lines())
        twice = [done for done in effects if done.life > 1 and _ran_before(done.call_id, effects)]
        failed = status == "failed"
        return Result(
            point=str(self._point),
            status=status,
            wrong=wrong,
            lives=self._lives,
            steps=judge.recovered(lines),
            again=len(twice),
            head=judge.found_at(lines, 2),
            stacks=self._stacks()[: 4 * TAIL] if failed else "",
            output=read(self._root / OUTPUT)[-TAIL:] if failed else "",
            warm=self._warm,
        )


def unmet(result: Result, lines: Sequence[Line]) -> Result:
    """Say of a trial that came to its end without all of its hits that it missed its point.

    What is wrong with it counts all the same. Nothing was missed if there was nothing to hit again.
    """
    last = result.lives[-1].number
    left = boundaries(lines, last) if last > 1 else []
    if result.status == "failed":
        return msgspec.structs.replace(result, notes=[*result.notes, UNMET])
    if last > 1 and not left:
        return msgspec.structs.replace(result, notes=[*result.notes, NOTHING_MORE])
    return msgspec.structs.replace(result, status="missed", left=left)


UNMET: Final = "It came to this without coming by its point."
NOTHING_MORE: Final = "Its recovery commits nothing, so there was nothing to hit again."


def _ran_before(call: str, effects: Effects) -> bool:
    return any(done.call_id == call and done.life == 1 for done in effects)


FAULTS_NOTICED: Final = frozenset(kind for kind in FAULTS if kind not in UNNOTICED)
_MOST_LIVES: Final = 3
"""So often an app whose log has failed is opened again."""


@contextlib.contextmanager
def scratch(work: Path) -> Iterator[Path]:
    """Give a directory for as long as the block runs."""
    root = work / f"{os.getpid()}-{time.monotonic_ns()}"
    root.mkdir(parents=True)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _shown(lines: Sequence[Line], root: Path, kept: str, wrong: Sequence[Finding]) -> str:
    """Return the command that shows the log of a directory that was kept.

    Of its conversations, the first of which something is told that is wrong.
    """
    opened = [line for line in lines if isinstance(line, Opened)]
    talks = [line.conversation for line in lines if isinstance(line, Committed)]
    if not opened or not talks:
        return ""
    place = opened[-1].place.replace(str(root), kept, 1)
    told = " ".join(finding.message for finding in wrong)
    named = [talk for talk in dict.fromkeys(talks) if re.search(rf"\b{re.escape(talk)}\b", told)]
    return f"runefold log show {shlex.quote(place)} {(named or talks)[0]}"


def _kept(keep: Path, root: Path, point: Point) -> str:
    """Put a failed point's directory where it stays."""
    place = keep / str(point).replace(":", "-")
    shutil.rmtree(place, ignore_errors=True)
    copy_directory.copy(root, place)
    return str(place)

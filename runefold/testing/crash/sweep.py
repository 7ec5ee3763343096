"""The sweep: an app is run undisturbed, then hit at every point, and what is left is judged."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from runefold.testing.crash import app as apps
from runefold.testing.crash import modes
from runefold.testing.crash.app import CrashApp, source_of
from runefold.testing.crash.crew import Crew
from runefold.testing.crash.points import Point, aims, parse
from runefold.testing.crash.report import Report
from runefold.testing.crash.server import Attempt, Record, Recorded, Setup, Shoot, Shots, Tried
from runefold.testing.crash.shots import SHOTS
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runefold.testing.crash.record import Recording
    from runefold.testing.crash.trial import Result

PATIENCE: Final = 60.0
"""Seconds that an app has from its opening to its end; nothing that works waits for it."""
TRIES: Final = 4
"""How often a point is tried that a run did not come by: what runs beside each other varies."""
CHECKED: Final = 10
"""Of so many points that begin with a copy, one is really killed as well."""

Progress = "Callable[[int, int, int], None]"
"""Told how many points are done, how many there are, and how many failed."""


class Options(NamedTuple):
    """How an app is swept."""

    mode: str = "every"
    point: str = ""
    """One point only, as it is printed."""
    seed: int | None = None
    sample: int | None = None
    """So many points at most, chosen by the seed."""
    jobs: int | None = None
    """How many at once; as many as there are cores."""
    patience: float = PATIENCE
    staged: bool = False
    """In one process, on one thread: the log raises instead of a kill. For speed."""
    order: int | None = None
    """When staged: a seed by which things happen in another order."""
    warm: Literal["fork", "snapshot"] = "fork"
    """Kill each time, or begin with copies of what a kill leaves."""
    keep: str | None = None
    """Where the directories of failed points are kept."""
    allow_missed: int = 0
    """So many points may go unmet: for apps that cannot be made to do the same each time."""
    again: str = ""
    """The command that runs this sweep; a point is added to it."""


def sweep(
    app: CrashApp | str,
    options: Options | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Report:
    """Sweep an app, or one that is named `package.module:app`; return what came of it."""
    options = options or Options()
    if options.mode not in modes.MODES:
        msg = f"there is no mode {options.mode!r}: use one of {', '.join(modes.MODES)}"
        raise Refused(msg)
    wanted = parse(options.point) if options.point else None
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    work = Path(tempfile.mkdtemp(prefix="runefold-crash-", dir=_memory()))
    keep = Path(options.keep or tempfile.mkdtemp(prefix="runefold-crash-kept-"))
    keep.mkdir(parents=True, exist_ok=True)
    try:
        run = _Run(app, options, work, keep, seed, progress)
        return run.go(wanted)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not options.keep and not any(keep.iterdir()):
            keep.rmdir()


def _memory() -> str | None:
    """Return a place in memory if there is one: a SIGKILL leaves the same there as on a disk."""
    place = "/dev/shm"  # noqa: S108 -- a directory of our own is made in it
    return place if os.access(place, os.W_OK) else None


class _Run:
    """One sweep under way."""

    def __init__(
        self,
        app: CrashApp | str,
        options: Options,
        work: Path,
        keep: Path,
        seed: int,
        progress: Callable[[int, int, int], None] | None,
    ) -> None:
        self._options = options
        self._seed = seed
        self._progress = progress or _silent
        self._setup, self._copied = _setup(app, options, work, keep)
        self._jobs = max(1, options.jobs or os.cpu_count() or 1)
        self._done = self._total = self._failed = 0
        self._compare = True

    def go(self, wanted: Point | None) -> Report:
        """Record, plan, hit, and say what came of it."""
        begun = time.monotonic()
        # A fork is cheap, a server takes as long as its imports: one is enough for one point.
        jobs = 1 if wanted is not None else self._jobs
        with Crew(self._setup, self._copied, jobs) as crew:
            answer = crew.one(Record())
            assert isinstance(answer, Recorded)
            recording = answer.recording
            results: list[Result] = []
            swept = 0.0
            agreed: tuple[int, int] | None = None
            if not recording.wrong:
                self._compare = not recording.varies
                points = self._points(wanted, recording)
                began = time.monotonic()
                results, agreed = self._swept(crew, points, recording)
                swept = time.monotonic() - began
        return self._report(recording, results, agreed, swept, time.monotonic() - begun)

    def _points(self, wanted: Point | None, recording: Recording) -> list[Point]:
        if wanted is not None:
            return [wanted]
        boundaries, messages = recording.boundaries, recording.messages
        options = self._options
        return modes.plan(options.mode, boundaries, messages, self._seed, options.sample)

    def _swept(
        self, crew: Crew, points: list[Point], recording: Recording
    ) -> tuple[list[Result], tuple[int, int] | None]:
        warm = self._options.warm == "snapshot" and not self._options.staged
        copies = self._shots(crew) if warm else {}
        tasks = [self._task(point, recording, copies) for point in points]
        doubled = [task for task in tasks if task.warm][::CHECKED]
        again = [msgspec.structs.replace(task, warm="") for task in doubled]
        self._total = len(tasks) + len(again)
        found = dict(self._tried(crew, [*tasks, *again], recording))
        same = sum(
            _agree(found[copy], found[kill]) for copy, kill in zip(doubled, again, strict=True)
        )
        return [found[task] for task in tasks], (same, len(again)) if warm else None

    def _task(
        self,
        point: Point,
        recording: Recording,
        copies: dict[tuple[str, int, str], str],
    ) -> Attempt:
        wanted = aims(point, recording.boundaries, recording.messages)
        first = wanted[0]
        path = copies.get((first.mark, first.occurrence, first.kind), "")
        return Attempt(point, tuple(wanted), path, self._compare)

    def _shots(self, crew: Crew) -> dict[tuple[str, int, str], str]:
        found: dict[tuple[str, int, str], str] = {}
        for _, answer in crew.all([Shoot(moments) for moments in SHOTS]):
            assert isinstance(answer, Shots)
            for shot in answer.shots:
                found[shot.mark, shot.occurrence, shot.kind] = shot.path
        return found

    def _tried(
        self, crew: Crew, tasks: list[Attempt], recording: Recording
    ) -> Iterator[tuple[Attempt, Result]]:
        """Try all, and those again that were missed."""
        asked = {task: task for task in tasks}
        for left in reversed(range(TRIES)):
            missed: list[Attempt] = []
            for task, answer in crew.all(tasks):
                assert isinstance(task, Attempt)
                assert isinstance(answer, Tried)
                result = answer.result
                if result.status == "missed" and left:
                    other = self._other(task, result, recording)
                    asked[other] = asked.pop(task)
                    missed.append(other)
                    continue
                self._done += 1
                self._failed += result.status == "failed"
                self._progress(self._done, self._total, self._failed)
                yield asked[task], msgspec.structs.replace(result, left=[])
            tasks = missed

    def _other(self, task: Attempt, missed: Result, recording: Recording) -> Attempt:
        """Return what is tried instead of a point that was missed.

        A second hit that was drawn and met nothing is drawn again, from what recovery really did.
        """
        if not missed.left or self._options.point:
            return task
        dice = random.Random(f"{self._seed} {task.point}")  # noqa: S311 -- to be had again
        point = msgspec.structs.replace(task.point, then=dice.choice(missed.left))
        wanted = aims(point, recording.boundaries, recording.messages)
        return msgspec.structs.replace(task, point=point, aims=tuple(wanted))

    def _report(
        self,
        recording: Recording,
        results: list[Result],
        agreed: tuple[int, int] | None,
        swept: float,
        seconds: float,
    ) -> Report:
        options = self._options
        return Report(
            app=self._setup.name,
            mode=options.mode,
            seed=self._seed,
            staged=options.staged,
            order=options.order,
            warm=options.warm,
            jobs=self._jobs,
            boundaries=recording.boundaries,
            messages=recording.messages,
            runes=0 if recording.upshot is None else recording.upshot.runes,
            executions=recording.executions,
            undisturbed=recording.seconds,
            wrong=recording.wrong,
            varies=recording.varies,
            output=recording.output,
            stacks=recording.stacks,
            results=results,
            agreed=agreed,
            swept=swept,
            seconds=seconds,
            allow_missed=options.allow_missed,
            again=options.again,
        )


def _agree(warm: Result, killed: Result) -> bool:
    """Tell whether a copy and a real kill came to the same."""
    return warm.status == killed.status


def _silent(_done: int, _total: int, _failed: int) -> None:
    """Tell nobody."""


def _setup(
    app: CrashApp | str, options: Options, work: Path, keep: Path
) -> tuple[Setup, CrashApp | None]:
    """Return what servers are told, and the app itself if they have to be copies of us."""
    parts = None
    copied: CrashApp | None = None
    if isinstance(app, str):
        name = app
        apps.named(app)  # what is wrong with it is said here, before anything starts
    else:
        name = app.name or getattr(app.scenario, "__qualname__", "an app")
        sources = [source_of(part) for part in (app.build, app.scenario)]
        check = None if app.check is None else source_of(app.check)
        if None in sources or (app.check is not None and check is None):
            copied = app
        else:
            build, scenario = sources
            assert build is not None
            assert scenario is not None
            parts = (build, scenario, check)
    setup = Setup(
        work=str(work),
        keep=str(keep),
        baseline=str(work / "undisturbed"),
        patience=options.patience,
        staged=options.staged,
        order=options.order,
        name=name,
        parts=parts,
    )
    return setup, copied

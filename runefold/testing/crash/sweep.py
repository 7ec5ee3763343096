"""The sweep: an app is run undisturbed, then hit at every point, and what is left is judged."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from runefold.testing.crash import app as apps
from runefold.testing.crash.app import CrashApp, source_of
from runefold.testing.crash.plan import modes
from runefold.testing.crash.plan.points import MOMENTS, Meant, Point, aims, meant
from runefold.testing.crash.report.causes import told
from runefold.testing.crash.report.report import Report
from runefold.testing.crash.running.baseline import Recording
from runefold.testing.crash.running.disk_images import APART
from runefold.testing.crash.running.fork_server import (
    Attempt,
    Images,
    MakeImages,
    Record,
    Recorded,
    Setup,
    Tried,
)
from runefold.testing.crash.running.work_directory import workplace
from runefold.testing.crash.running.workers import Workers
from runefold.testing.crash.verdict.judge import Finding
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runefold.testing.crash.plan.points import Aim
    from runefold.testing.crash.running.trial import Result

PATIENCE: Final = 60.0
"""Seconds that an app has from its opening to its end; nothing that works waits for it."""
TRIES: Final = 4
"""How often a point is tried that a run did not come by: what runs beside each other varies."""
CHECKED: Final = 10
"""Of so many points that begin with a copy, one is really killed as well."""
RARE: Final = 4
"""A point that fails from a copy and not when killed is killed again, if it is one of so many."""
_MOST: Final = 5
"""So many points are named."""
FEW: Final = 5
"""For fewer points than these, the two runs in which copies are made are not worth it."""
BESIDE: Final = 2
"""So many processes for each core: most of the time one waits, for a retry or for a disk."""

Progress: TypeAlias = "Callable[[int, int, int], None]"
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
    """How many at once; unless it is said, more than there are cores, as most of them wait."""
    patience: float = PATIENCE
    in_process: bool = False
    """In one process, on one thread: the log raises instead of a kill. For speed."""
    order: int | None = None
    """When in_process: a seed by which things happen in another order."""
    warm: Literal["fork", "snapshot"] = "snapshot"
    """Begin with copies of what a kill leaves, where that is right; or run from the top, always."""
    keep: str | None = None
    """Where the directories of failed points are kept."""
    allow_missed: int = 0
    """So many points may go unmet: for apps that cannot be made to do the same each time."""
    again: str = ""
    """The command that runs this sweep; a point is added to it."""


def sweep(
    app: CrashApp | str,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Report:
    """Sweep an app, or one that is named `package.module:app`; return what came of it."""
    options = options or Options()
    _check(options)
    wanted = meant(options.point) if options.point else None
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    keep = Path(options.keep or tempfile.mkdtemp(prefix="runefold-crash-kept-"))
    keep.mkdir(parents=True, exist_ok=True)
    try:
        with workplace() as work:
            return _Run(app, options, work, keep, seed, progress).go(wanted)
    finally:
        if not options.keep and not any(keep.iterdir()):
            keep.rmdir()


def _check(options: Options) -> None:
    """Refuse what would sweep nothing, or nothing that can be told."""
    if options.mode not in modes.MODES:
        msg = f"there is no mode {options.mode!r}: use one of {', '.join(modes.MODES)}"
        raise Refused(msg)
    for name, least in (("sample", options.sample), ("jobs", options.jobs)):
        if least is not None and least < 1:
            msg = f"{name} is {least}: give 1 or more, or nothing for as many as there are"
            raise Refused(msg)
    if not options.patience > 0:
        msg = f"patience is {options.patience:g}: give the seconds after which it is a hang"
        raise Refused(msg)
    if options.order is not None and not options.in_process:
        msg = (
            "an order of events can be chosen in one process only: add --in-process, or in_process"
        )
        raise Refused(msg)


def left_out(name: str, options: Options) -> Report:
    """Return the report of a sweep that was not made, as another one of the test is wanted."""
    note = f"left out: {options.point} is a point of another sweep of this test"
    return Report(app=name, mode=options.mode, in_process=options.in_process, notes=[note])


class Interrupted(KeyboardInterrupt):
    """The sweep was interrupted with Ctrl-C; what was known by then is in `report`."""

    def __init__(self, report: Report) -> None:
        """Keep what is known."""
        super().__init__("interrupted")
        self.report = report


_NOTHING: Final = Finding(
    "finished",
    "it came to its end without a single commit, so there is nothing to be killed at: "
    "does the scenario begin a conversation on the runtime that it is given?",
)


class _Swept(NamedTuple):
    """What came of all points."""

    results: list[Result]
    seconds: float = 0.0
    agreed: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    spot: int = 0


_NO_COPIES: Final = (
    "what copies of its directory came to is not what real kills came to, so that every point was "
    "run from the top: is there anything of the app's outside that directory, or does it not do "
    "the same each time? It was so at"
)


def _no_copies(kills: Sequence[Attempt]) -> str:
    """Say where copies and kills came to something else."""
    more = f" and {len(kills) - _MOST} more" if len(kills) > _MOST else ""
    return f"{_NO_COPIES} {', '.join(str(kill.point) for kill in kills[:_MOST])}{more}"


class _Run:
    """One sweep under way."""

    def __init__(
        self,
        app: CrashApp | str,
        options: Options,
        work: Path,
        keep: Path,
        seed: int,
        progress: Progress | None,
    ) -> None:
        self._options = options
        self._seed = seed
        self._progress = progress or _silent
        self._setup, self._copied = _setup(app, options, work, keep)
        beside = 1 if options.in_process else BESIDE
        self._jobs = max(1, options.jobs or (os.cpu_count() or 1) * beside)
        self._done = self._total = self._failed = 0
        self._results: list[Result] = []
        self._meant: Meant | None = None

    def go(self, wanted: Meant | None) -> Report:
        """Record, plan, hit, and say what came of it."""
        self._meant = wanted
        begun = time.monotonic()
        # A fork is cheap, a server takes as long as its imports: no more than there are points.
        most = self._options.sample if wanted is None else 1
        jobs = self._jobs if most is None else max(1, min(most, self._jobs))
        recording, swept, began = Recording(), _Swept([]), begun
        with Workers(self._setup, self._copied, jobs) as workers:
            try:
                recording = self._recorded(workers)
                began = time.monotonic()
                if not recording.wrong:
                    swept = self._swept(workers, self._points(wanted, recording), recording)
            except KeyboardInterrupt:
                done = list({result.point: result for result in self._results}.values())
                notes = (f"interrupted: {len(done)} points were done by then",)
                swept = _Swept(done, time.monotonic() - began, notes=notes)
                report = self._report(recording, swept, time.monotonic() - begun)
                raise Interrupted(msgspec.structs.replace(report, interrupted=True)) from None
        return self._report(recording, swept, time.monotonic() - begun)

    @staticmethod
    def _recorded(workers: Workers) -> Recording:
        """Return the undisturbed run."""
        answer = workers.one(Record())
        assert isinstance(answer, Recorded)
        recording = answer.recording
        if not recording.wrong and not recording.boundaries:
            return msgspec.structs.replace(recording, wrong=[_NOTHING])
        return recording

    def _points(self, wanted: Meant | None, recording: Recording) -> list[Point]:
        if wanted is not None:
            return [wanted.found(recording.boundaries, recording.messages)]
        boundaries, messages = recording.boundaries, recording.messages
        options = self._options
        return modes.plan(
            options.mode,
            boundaries,
            messages,
            self._seed,
            options.sample,
            in_process=options.in_process,
        )

    def _swept(self, workers: Workers, points: list[Point], recording: Recording) -> _Swept:
        """Hit the app at all points: from copies where that is right, else from the top."""
        begun = time.monotonic()
        cold = [self._task(point, recording) for point in points]
        copies = self._copies(workers, cold)
        tasks = [msgspec.structs.replace(task, warm=copies.get(task.aims[0], "")) for task in cold]
        warm = {copy: kill for copy, kill in zip(tasks, cold, strict=True) if copy.warm}
        checked = dict([*warm.items()][::CHECKED])
        self._total = len(tasks) + len(checked)
        found = dict(self._tried(workers, [*tasks, *checked.values()]))
        # Nothing is said to have failed that was not really killed.
        doubted = {copy: kill for copy, kill in warm.items() if found[copy].status != "survived"}
        more = [kill for copy, kill in doubted.items() if copy not in checked]
        for _ in range(TRIES):
            self._total += len(more)
            found |= dict(self._tried(workers, more))
            more = [kill for copy, kill in doubted.items() if not _agree(found[copy], found[kill])]
            if not more or len(more) * RARE > len(warm):
                break
        checked |= doubted
        differ = [kill for copy, kill in checked.items() if not _agree(found[copy], found[kill])]
        notes: tuple[str, ...] = ()
        if differ:
            notes = (_no_copies(differ),)
            rest = [kill for copy, kill in warm.items() if copy not in checked]
            self._total += len(rest)
            found |= dict(self._tried(workers, rest))
        killed = set(warm if notes else doubted)
        results = [
            found[kill if copy in killed else copy] for copy, kill in zip(tasks, cold, strict=True)
        ]
        both = (len(checked) - len(differ), len(checked)) if checked else None
        spot = 0 if notes else sum(copy not in doubted for copy in checked)
        return _Swept(results, time.monotonic() - begun, both, notes, spot)

    def _task(self, point: Point, recording: Recording) -> Attempt:
        wanted = aims(point, recording.boundaries, recording.messages)
        if self._meant is not None and self._meant.aim is not None:
            wanted[0] = self._meant.aim
        return Attempt(point, tuple(wanted))

    def _copies(self, workers: Workers, tasks: list[Attempt]) -> dict[Aim, str]:
        """Return copies of what a kill leaves, by the moment; none where they are not wanted."""
        wanted = dict.fromkeys(task.aims[0] for task in tasks if task.aims[0].kind in MOMENTS)
        if self._options.in_process or self._options.warm != "snapshot" or len(wanted) < FEW:
            return {}
        found: dict[Aim, str] = {}
        runs = [MakeImages(tuple(aim for aim in wanted if aim.kind in apart)) for apart in APART]
        for _, answer in workers.all([run for run in runs if run.stops]):
            assert isinstance(answer, Images)
            found |= {image.aim: image.path for image in answer.images}
        return found

    def _tried(self, workers: Workers, tasks: list[Attempt]) -> Iterator[tuple[Attempt, Result]]:
        """Try all, and those again that were missed."""
        asked = {task: task for task in tasks}
        for left in reversed(range(TRIES)):
            missed: list[Attempt] = []
            for task, answer in workers.all(tasks):
                assert isinstance(task, Attempt)
                assert isinstance(answer, Tried)
                result = answer.result
                if result.status == "missed" and left:
                    other = self._other(task, result)
                    asked[other] = asked.pop(task)
                    missed.append(other)
                    continue
                self._done += 1
                self._results.append(result)
                self._failed += result.status == "failed"
                self._progress(self._done, self._total, self._failed)
                yield asked[task], msgspec.structs.replace(result, left=[])
            tasks = missed

    def _other(self, task: Attempt, missed: Result) -> Attempt:
        """Return what is tried instead of a point that was missed.

        A second hit that was drawn and met nothing is drawn again, from what recovery really did.
        """
        if not missed.left or self._options.point:
            return task
        dice = random.Random(f"{self._seed} {task.point}")  # noqa: S311 -- to be had again
        then, aim = modes.second(missed.left, dice)
        point = msgspec.structs.replace(task.point, then=then)
        return msgspec.structs.replace(task, point=point, aims=(task.aims[0], aim))

    def _report(self, recording: Recording, swept: _Swept, seconds: float) -> Report:
        options = self._options
        return Report(
            app=self._setup.name,
            mode=options.mode,
            seed=self._seed,
            in_process=options.in_process,
            order=options.order,
            jobs=self._jobs,
            cores=min(self._jobs, os.cpu_count() or 1),
            boundaries=recording.boundaries,
            messages=recording.messages,
            runes=0 if recording.outcome is None else recording.outcome.runes,
            executions=recording.executions,
            undisturbed=recording.seconds,
            wrong=recording.wrong,
            varies=recording.varies,
            shifts=recording.shifts,
            output=recording.output,
            stacks=recording.stacks,
            results=[told(result) for result in swept.results],
            agreed=swept.agreed,
            spot=swept.spot,
            notes=list(swept.notes),
            swept=swept.seconds,
            seconds=seconds,
            allow_missed=options.allow_missed,
            again=options.again,
        )


def _agree(warm: Result, killed: Result) -> bool:
    """Return True if a copy and a real kill came to the same."""
    return warm.status == killed.status


def _silent(_done: int, _total: int, _failed: int) -> None:
    """Show no progress."""


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
        in_process=options.in_process,
        order=options.order,
        name=name,
        parts=parts,
    )
    return setup, copied

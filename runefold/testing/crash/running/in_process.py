"""The same sweep in one process, for speed: the log's append raises instead of a kill.

The whole runtime runs on one thread, with a manual clock and a log in memory; what a kill would end
is ended by a power cut, at once and everywhere. An app that waits with `turn.result(...)` or with
`await`, or that follows a log, runs as it is. One that starts threads waits for something that
never happens here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.catalogue import KINDS
from actors.errors import Crashed, Dead, Unanswered
from actors.units import SECOND
from runefold import open_hook
from runefold.testing.crash.instrumentation.journal import Execution, Memory, Wrong
from runefold.testing.crash.instrumentation.logs import InProcessLog
from runefold.testing.crash.instrumentation.open_runtime import InstrumentedManual, dressed, noting
from runefold.testing.crash.instrumentation.operator_errors import report_errors_to
from runefold.testing.crash.instrumentation.tools_and_models import Ledger
from runefold.testing.crash.instrumentation.watch import Watch
from runefold.testing.crash.plan.faults import Faults
from runefold.testing.crash.plan.points import AFTER, FAULTS
from runefold.testing.crash.running import run_once
from runefold.testing.crash.running.baseline import Recording, added, not_again
from runefold.testing.crash.running.trial import FAULTS_NOTICED, ProcessRun, Result, scratch, unmet
from runefold.testing.crash.verdict import comparison, judge, outcome
from runefold.testing.crash.verdict.boundaries import boundaries, handled
from runefold.testing.crash.verdict.judge import Finding
from runefold.testing.stage import Ports, PowerCut
from runelog.errors import Closed, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from actors.tool.context import Call
    from runefold.runtime import Runtime
    from runefold.testing.crash.plan.points import Aim, Point
    from runefold.testing.crash.running.trial import Scene
    from runelog.log import Log

CUT_OFF: Final = (PowerCut, Unanswered, Dead, Crashed, Closed, Fault)
"""What an app may see of a power cut; in truth it sees nothing any more."""
_REST: Final = 20 * SECOND
"""How far the clock is moved for turns that the scenario does not wait for."""
_STEPS: Final = 100_000


class ManualTime:
    """The manual clock, as faults use it."""

    def __init__(self, stage: InProcess) -> None:
        """Belong to one in-process sweep."""
        self._stage = stage

    def hurry(self) -> None:
        """Do nothing: time passes as soon as nothing else happens."""

    def hasten(self) -> None:
        """Do nothing, for the same reason."""

    def jump(self, seconds: float) -> None:
        """Be set forward; this clock cannot go back."""
        if seconds > 0:
            clock = self._stage.clock
            clock.move_to(clock.now() + round(seconds * SECOND))

    def outlast(self, call: Call) -> None:
        """Move the clock beyond a call's time limit: no other thread could do so meanwhile."""
        self.jump((call.timeout or 0) + 1)

    def hang(self, is_over: Callable[[], bool]) -> None:
        """Do nothing: there is no other thread that could measure how long it took."""


class InProcess(Ports[InProcessLog, InstrumentedManual]):
    """Where an app runs, is cut off, and runs again; its log and its journal stay."""

    def __init__(self, order: int | None) -> None:
        """Begin with an empty log."""
        super().__init__(InProcessLog, InstrumentedManual, order)
        self.journal, self.ledger = Memory(), Memory()
        self.watch: Watch
        self.kinds = KINDS
        """Those of the runtime that was opened last."""
        self._faults = Faults(ManualTime(self))

    def begin(self, number: int, aim: Aim | None, *, messages: bool = False) -> None:
        """Begin a run, on what the one before it left."""
        # No process comes back in the very moment in which the one before it went.
        self.restart(pause=1)
        self.log.failed = None
        self.watch = Watch(number, self.journal, aim, self._strike, messages=messages)
        self.log.watch = self.watch

    def _strike(self, kind: str, log: Log) -> None:
        if kind in FAULTS:
            self._faults.of_log(kind, log)
            return
        if kind == AFTER:
            self.log.flush()
        self.log.is_cut = True
        raise PowerCut

    def __call__(self, kind: type[Runtime], directory: Path, options: dict[str, Any]) -> Runtime:
        """Open a runtime as the app asked for it, but with these ports."""
        self.log.directory = directory
        self.kinds = open_hook.known_kinds(options.get("kinds", ()))
        self.log.learn(options.get("kinds", ()))
        self.watch.opened(self.log, self.kinds)
        ports = self.ports()
        self.log.scheduler = self.scheduler
        self.scheduler.watch = self.watch
        ledger = Ledger(self.ledger, self.watch, self._faults)
        # A log in memory has no directory; the app's views are where they would be beside its log.
        options = {"views": directory / "views", **dressed(options, ledger), **ports}
        self.runtime = noting(kind, self.watch)(self.log, **options)
        return self.runtime

    def rest(self) -> None:
        """Let turns end that the scenario does not wait for."""
        end = self.clock.now() + _REST
        for _ in range(_STEPS):
            if self.scheduler.step():
                continue
            self.log.flush()
            busy = any(
                run_once.is_busy(self.log, name, self.kinds)
                for name in outcome.conversations(self.log)
            )
            when = self.clock.next_alarm
            if not busy or when is None or when > end:
                return
            self.clock.move_to(when)


class InProcessScene:
    """A sweep in one process."""

    def __init__(self, scene: Scene, order: int | None) -> None:
        """Have things happen in the order in which they come, or by a seed."""
        self._scene = scene
        self._order = order

    def record(self) -> Recording:
        """Run the app undisturbed; then see that it can be played again."""
        stage = InProcess(self._order)
        begun = time.monotonic()
        with scratch(self._scene.work) as root:
            stage.begin(1, None, messages=True)
            wrong, found = self._undisturbed(stage, root)
            if wrong or found is None:
                return Recording(wrong=wrong)
            lines = [*stage.journal.lines(), *stage.ledger.lines()]
            seconds = time.monotonic() - begun
            wrong, other = self._another()
            if other is None:
                return Recording(wrong=wrong)
            found, varies = comparison.varied(found, other)
            recording = Recording(
                boundaries=boundaries(lines),
                messages=handled(lines),
                outcome=found,
                wrong=[*wrong, *(Finding("invariant", problem) for problem in found.problems)],
                seconds=seconds,
                executions=sum(isinstance(line, Execution) for line in lines),
                varies=varies,
            )
            self._scene.baseline.write_bytes(outcome.encoded(found))
            stage.begin(2, None)
            want = msgspec.structs.replace(found, drawn=False)
            wrong, _ = self._undisturbed(stage, root, want)
        wrong += added(stage.ledger.lines())
        again = [not_again(each) for each in wrong]
        return msgspec.structs.replace(recording, wrong=[*recording.wrong, *again])

    def _undisturbed(
        self, stage: InProcess, root: Path, want: outcome.LogOutcome | None = None
    ) -> tuple[list[Finding], outcome.LogOutcome | None]:
        """Play to the end without a fault; what ends it early is the app's own."""
        try:
            with report_errors_to(stage.watch):
                return self._finish(stage, root, want)
        except CUT_OFF as error:
            return [run_once.raised(error)], None

    def _another(self) -> tuple[list[Finding], outcome.LogOutcome | None]:
        """Run the app undisturbed once more, from nothing."""
        stage = InProcess(self._order)
        with scratch(self._scene.work) as root:
            stage.begin(1, None)
            return self._undisturbed(stage, root)

    def attempt(self, point: Point, aims: Sequence[Aim]) -> Result:
        """Run the app, cut it off, run it again until it comes to its end, and judge that."""
        begun = time.monotonic()
        stage = InProcess(self._order)
        lives: list[ProcessRun] = []
        strict = point.kind not in FAULTS_NOTICED
        want = outcome.decoded(self._scene.baseline.read_bytes())
        wrong: list[Finding] = []
        with scratch(self._scene.work) as root:
            waiting = list(aims)
            while True:
                aim = waiting.pop(0) if waiting else None
                number = len(lives) + 1
                stage.begin(number, aim)
                cut, more = self._lived(stage, root, point, want, strict=strict)
                wrong += more
                hit = judge.hit_at(stage.journal.lines(), number)
                found = judge.found_at(stage.journal.lines(), number)
                ended: Any = "killed" if cut else "finished"
                lives.append(ProcessRun(number, ended, 0, hit, found))
                if not cut:
                    break
        lines = [*stage.journal.lines(), *stage.ledger.lines()]
        result = Result(
            point=str(point),
            status="failed" if wrong else "survived",
            wrong=wrong,
            lives=lives,
            steps=judge.recovered(lines),
            head=judge.found_at(lines, 2),
            seconds=time.monotonic() - begun,
        )
        return unmet(result, lines) if waiting or (aim is not None and not hit) else result

    def _lived(
        self, stage: InProcess, root: Path, point: Point, want: outcome.LogOutcome, *, strict: bool
    ) -> tuple[bool, list[Finding]]:
        """Live one life; tell whether it was cut off, and what is wrong."""
        try:
            with report_errors_to(stage.watch):
                return False, self._finish(stage, root, want, point, strict=strict)[0]
        except CUT_OFF as error:
            if stage.log.is_cut or stage.log.failed is not None:
                return True, []
            return False, [run_once.raised(error)]

    def _finish(
        self,
        stage: InProcess,
        root: Path,
        want: outcome.LogOutcome | None,
        point: Point | None = None,
        *,
        strict: bool = True,
    ) -> tuple[list[Finding], outcome.LogOutcome | None]:
        """Play to the end and judge; what ends it early is raised."""
        app, number = self._scene.app, stage.watch.life
        directory = root / run_once.APP
        directory.mkdir(exist_ok=True)
        told = stage.journal.lines() if number > 1 else []
        try:
            with open_hook.through(stage):
                runtime = app.opened(directory)
            for each in judge.forgotten(told, stage.log):
                stage.journal.note(Wrong(number, each.verdict, each.message))
            run_once.play(app, runtime, stage.watch, lambda: stage.log.failed is not None)
            stage.rest()
            case = run_once.Case("" if point is None else str(point), directory, want, strict)
            wrong, found = run_once.judged(app, runtime, stage.watch, stage.ledger, case)
        except CUT_OFF:
            raise
        except Exception as error:
            if stage.log.is_cut or stage.log.failed is not None:
                raise PowerCut from error
            return [run_once.raised(error)], None
        return [*wrong, *judge.noted(stage.journal.lines())], found

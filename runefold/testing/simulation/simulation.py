"""A whole runtime on one thread: what happens, and in which order, is drawn from a seed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.catalogue import KINDS, RESERVED
from actors.invariants import Auditor
from actors.shell.snapshot_policy import SNAPSHOT_EVERY
from actors.tool.policy import Policy
from actors.units import SECOND
from runefold.runtime import Runtime
from runefold.testing.simulation import actor_states
from runefold.testing.simulation.checks.ending import Ending
from runefold.testing.simulation.checks.ground_truth import GroundTruth, Wrong
from runefold.testing.simulation.checks.log_capture import LogCapture
from runefold.testing.simulation.checks.log_checker import LogChecker
from runefold.testing.simulation.choices import Choices
from runefold.testing.simulation.plan import description
from runefold.testing.simulation.plan.plans import Plan
from runefold.testing.simulation.simulation_scheduler import SimClock, SimulationScheduler
from runefold.testing.simulation.world.disk import Disk
from runefold.testing.simulation.world.faults import FaultInjector
from runefold.testing.simulation.world.machines import AppModel, AppTool, app_named
from runefold.testing.simulation.world.models import KEY, AsyncModel, Model
from runefold.testing.simulation.world.tools import MODEL, Hang, tools
from runefold.testing.simulation.world.users import Users
from runefold.testing.stage import PowerCut, SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.shell.conversation import ConversationContext
    from runefold.testing.simulation.checks.log_checker import Fold
    from runefold.testing.simulation.plan.plans import Act
    from runelog.rune import Envelope

BEGIN: Final = 1_800_000_000 * 10**9
MOST_STEPS: Final = 30_000
"""A run that takes more goes round in circles."""
NESTED: Final = 5
"""How many things users do at most before the first of them has been answered."""
RUN_ON: Final = 500
"""For so many steps, or seconds, it goes on after the last thing that is done."""
SPOILT: Final = 4
"""One in so many files of snapshots is gone after a power cut, and one is half there."""
LAST_STEPS: Final = 20
"""How many steps are still taken on a log that has failed."""


def _in_memory() -> str | None:
    """Return a directory whose files are in memory; None if there is none here."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


_MEMORY: Final = "/dev/shm"  # noqa: S108 -- directories of our own are made in it


class Outcome(NamedTuple):
    """What became of a run."""

    plan: Plan
    """As it was played: with the order in which actors, jobs and the disk took their steps."""
    wrong: tuple[Wrong, ...]
    steps: int
    runes: int
    trace: str
    """A hash of every choice and of every rune on disk."""
    story: tuple[str, ...]


def play(plan: Plan, *, tell: bool = False) -> Outcome:
    """Play a plan to its end, or to the first thing that is wrong."""
    return Simulation(plan, tell=tell).run()


class Simulation:
    """One run."""

    def __init__(self, plan: Plan, *, tell: bool = False, strict: bool = True) -> None:
        """Begin before the runtime is opened for the first time.

        Unless it is `strict`, less is looked at: to see what that costs.
        """
        self._strict = strict
        self.plan = plan
        self.world = plan.world
        self.choices = Choices(plan.seed, disorder=plan.disorder, given=plan.order)
        self.app = app_named(plan.world.app)
        """The app whose machines are played, if there is one."""
        self.kinds = KINDS.plus(self.app.kinds, RESERVED)
        """Those of the runtime, the app's among them."""
        self.truth = GroundTruth()
        self.checker = LogChecker(self.truth, self.kinds)
        self.auditor = Auditor(self.kinds)
        self.clock = SimClock(BEGIN, self)
        self.scheduler = SimulationScheduler(self.clock, self.choices, self)
        self.disk = Disk(self, self.kinds.codec)
        self.runtime: Runtime
        self.views: Path | None = None
        """Where the files of an app's views are, if it has any."""
        self.forgotten: int | None = None
        self.reopens = False
        self.lacks_something = False
        """Whether the app was opened without one of its tools."""
        self.set_back = 0
        """By how many seconds the clock was set back, all in all."""
        self.users = Users(self)
        self.faults = FaultInjector(self)
        self.story: list[str] = []
        self._tell = tell
        self._chance = SeededChance(plan.seed)
        self._acts: deque[Act] = deque(plan.acts)
        self._acting = 0
        self._last_act = 0
        self._opening = True
        self._calm = False
        self._steps = 0
        self._runes = 0

    # -- the run ------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Play to the end."""
        log_capture = LogCapture(self.truth)
        with log_capture.listening(), self._directory_for_files():
            self._open()
            while self._acts and not self.truth.wrong:
                self.drive()
            self._run_on()
            Ending(self).play()
        return Outcome(
            plan=Plan(
                seed=self.plan.seed,
                world=self.plan.world,
                acts=self.plan.acts,
                order=tuple(self.choices.chosen),
            ),
            wrong=tuple(self.truth.wrong),
            steps=self._steps,
            runes=self._runes,
            trace=self.choices.trace,
            story=tuple(self.story),
        )

    @contextlib.contextmanager
    def _directory_for_files(self) -> Iterator[None]:
        """Have a directory for snapshots and views while it runs, if there are to be any."""
        with_views = any(kind.views for kind in self.kinds)
        if self.world.snapshot_every <= 0 and not with_views:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="runefold-simulation-", dir=_in_memory()) as place:
            if self.world.snapshot_every > 0:
                self.disk.place = Path(place) / "snapshots"
                self.disk.place.mkdir()
            if with_views:
                self.views = Path(place) / "views"
            yield

    def _run_on(self) -> None:
        """Go on for a while as things are: what is to go wrong still does."""
        until = self.clock.now() + RUN_ON * SECOND
        for _ in range(RUN_ON):
            if self.truth.wrong or not self.drive(until):
                return

    def drive(self, until: int | None = None) -> bool:
        """Go on a little; tell whether there was anything to do, up to a time."""
        if self.disk.has_failed and not self.disk.is_cut:
            for _ in range(LAST_STEPS):
                self.scheduler.step()
            self.disk.is_cut = True
        if self.disk.is_cut or self.reopens:
            self._open()
            return True
        if self.scheduler.step() or self.is_over():
            return True
        when = self.clock.next_alarm
        if when is None or (until is not None and when > until):
            return bool(self._acts)
        self.clock.move_to(when)
        return True

    def _open(self) -> None:
        """Open the runtime on what is on disk, as often as that takes."""
        while not self.truth.wrong:
            self.reopens = False
            if self.disk.is_cut:
                self._spoil_snapshots()
            self.disk.mend()
            self.truth.at_work.clear()
            self.truth.streaming.clear()
            self.truth.done.clear()
            # No process comes back in the very moment in which the one before it went.
            self.clock = SimClock(self.clock.now() + 1, self)
            self.scheduler = SimulationScheduler(self.clock, self.choices, self)
            self._last_act = 0
            self._opening = True
            self.tell("the runtime is opened")
            self._drop_views()
            try:
                self.runtime = self.opened(self.views)
                self._waking = actor_states.Waking(self.runtime)
            except PowerCut:
                continue
            except Exception as error:  # noqa: BLE001 -- whatever it is, it must not be
                if not self.is_over():
                    self.truth.complain("opens", f"it cannot be opened: {error!r}")
                continue
            finally:
                self._opening = False
            if not self.disk.is_cut:
                return

    def _drop_views(self) -> None:
        """Let go of the files of views, as the end of a process does."""
        if self.views is not None and hasattr(self, "runtime"):
            self.runtime.views.drop()

    def _spoil_snapshots(self) -> None:
        """Have a power cut take some of the snapshots, or a part: nobody ever syncs them."""
        for file in self.disk.snapshot_files():
            match self.choices.randrange(SPOILT):
                case 1:
                    os.truncate(file, file.stat().st_size // 2)
                case 2:
                    file.unlink()

    def opened(self, views: Path | None) -> Runtime:
        """Open a runtime on what is on disk, with the files of its views in a directory."""
        self.lacks_something = self.forgotten is not None
        every = self.world.snapshot_every
        model = AsyncModel(self) if self.world.asynchronous else Model(self)
        own = [AppTool(number, tool, self) for number, tool in enumerate(self.app.tools)]
        return Runtime(
            self.disk,
            kinds=self.app.kinds,
            tools=[*tools(self.world, self, self.forgotten), *own],
            providers={MODEL: model, **dict.fromkeys(self.app.models, AppModel(self))},
            policy=Policy(mode=self.world.mode),
            redact=[KEY],
            clock=self.clock,
            chance=self._chance,
            scheduler=self.scheduler,
            idle_after=max(self.world.idle_after, 1),
            views=views,
            snapshot_every=every if every > 0 else SNAPSHOT_EVERY,
        )

    # -- what happens between two steps -------------------------------------------------------

    def is_over(self) -> bool:
        """Return True if no more steps are taken."""
        return self.disk.is_cut or bool(self.truth.wrong)

    def is_calm(self) -> bool:
        """Return True if no more faults are injected."""
        return self._calm

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        self._calm = True
        self.faults.calm()

    def is_waking(self) -> bool:
        """Return True if a caller from outside waits for a conversation to wake."""
        return self._opening or self._waking.count > 0

    def before_step(self) -> None:
        """Have something happen if it is time."""
        if self._acts and not self.is_over():
            act = self._acts[0]
            if self.scheduler.steps - self._last_act >= act.after and self._may(act):
                self._do()
        if self.world.stalls > 0 and not self._calm:
            self._stall()

    def _stall(self) -> None:
        """Have the next alarm ring before others get to take a step, if that is how it falls."""
        when = self.clock.next_alarm
        if when is None or self._opening or self.is_over():
            return
        if self.choices.randrange(self.world.stalls + 1) == 1:
            self.clock.move_to(when)

    def _may(self, act: Act) -> bool:
        """Return True if an act of the plan can be done now."""
        if act.kind == "reopen":
            return self.scheduler.depth <= 1 and not self._acting and not self._opening
        if self.users.can(act.kind) or act.kind == "doze":
            return self._acting < NESTED and not self.is_waking() and not self.disk.has_failed
        return not (self._opening and act.kind in {"crash", "kill"})

    def _do(self) -> None:
        act = self._acts.popleft()
        self._last_act = self.scheduler.steps
        self._acting += 1
        doer = self.users if self.users.can(act.kind) else self.faults
        try:
            done = doer.do(act)
        except PowerCut:
            done = f"{act.kind}: cut off"
        except BaseException as error:  # noqa: BLE001 -- an app is told errors of ours only
            done = f"{act.kind}: {error!r}"
            if not self.is_over():
                self.truth.complain("no crash", f"whoever did {act.kind} was told {error!r}")
        finally:
            self._acting -= 1
            self._last_act = self.scheduler.steps
        self.tell(done)

    def at_rest(self) -> bool:
        """Do the next act of the plan if no step is left; or let time pass."""
        if self._strict:
            self.look(still=True)
        if not self._acts or self.is_over() or not self._may(self._acts[0]):
            return False
        if self.clock.next_alarm is not None and self.choices.randrange(2):
            return False
        self._do()
        return True

    def after_step(self) -> None:
        """Look what has become of it."""
        self._steps += 1
        if self._steps == MOST_STEPS + 1:
            self.truth.complain("comes to rest", f"there is no end after {MOST_STEPS:,} steps")
        if self._strict:
            self.look(still=False)

    def look(self, *, still: bool) -> None:
        """Compare what actors believe with what the log has."""
        failures = self.scheduler.failures
        if failures:
            self._complain_of(failures)
        if self._opening or self.is_over() or self.disk.has_failed:
            return
        folds = self.checker.folds
        for name, ctx in actor_states.contexts(self.runtime):
            for entity, live in actor_states.folded_entities(ctx):
                fold = folds.get((name, entity))
                if fold is None or (live.state is fold.seen and live.version == fold.version):
                    # States do not change, they are replaced: this one was compared before.
                    continue
                if not actor_states.is_behind(ctx, entity):
                    self._compare(ctx, entity, live, fold, still=still)

    def _complain_of(self, failures: list[BaseException]) -> None:
        for error in failures:
            if not isinstance(error, PowerCut | Hang):
                self.truth.complain("no crash", f"something failed: {error!r}")
        failures.clear()

    def _compare(
        self,
        ctx: ConversationContext,
        entity: str,
        live: actor_states.FoldedEntity,
        fold: Fold,
        *,
        still: bool,
    ) -> None:
        if entity in ctx.buffer.touched or not self.disk.has_all_of(ctx.conversation):
            # Not on disk as yet, or not at all.
            return
        if fold.version == live.version:
            fold.seen = live.state
            if fold.state != live.state:
                self.truth.complain(
                    "live as replayed", f"{entity}: {live.state} is {fold.state} in the log"
                )
        elif still or live.version > fold.version:
            self.truth.complain(
                "live as replayed", f"{entity} is at {live.version}, the log at {fold.version}"
            )

    # -- what the disk needs ------------------------------------------------------------------

    def now(self) -> int:
        """Return the time."""
        return self.clock.now()

    def soon(self, commit: Callable[[], None]) -> None:
        """Have what was appended committed in a moment."""
        self.scheduler.soon("disk", commit, lazily=self.world.lazy_disk)

    def pass_time(self) -> None:
        """Have everything on disk that takes but a moment to get there."""
        if not self.is_over():
            self.disk.commit_pending()

    def committed(self, envelope: Envelope) -> None:
        """Take notice of a rune that is on disk now."""
        self._runes += 1
        self.choices.note(b"%d" % envelope.event_id + envelope.kind.encode() + envelope.body)
        if self._tell:
            self.tell(description.rune(envelope))
        try:
            self.checker.take(envelope)
        except Exception as error:  # noqa: BLE001 -- whatever a law makes of a rune
            self.truth.complain("folds", f"{envelope.kind} of {envelope.owner}: {error!r}")
        for problem in self.auditor.take(envelope) if self._strict else ():
            self.truth.complain(problem.invariant, f"{problem.where}: {problem.message}")
        if not self._opening:
            self.faults.written(envelope)

    def cut_power_if_planned(self, when: str) -> None:
        """Have the power fail in a tool, if that is the plan."""
        self.faults.effect(when)

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        if self._tell:
            seconds = (self.clock.now() - BEGIN) / 1e9
            self.story.append(f"{self._steps:5} {seconds:10.2f} s  {line}")

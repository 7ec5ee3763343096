"""A scheduler that runs actors on one thread, step by step, in order or as a seed chooses.

The same actors as on the loop; messages, timers, streams, tools and commits are interleaved by the
choice, and the same choices give the same run. A commit is a step of its own: a seed may have any
message handled between what was decided and its commit, and between that and what waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from actors.errors import Unanswered
from actors.operator_log import log
from actors.scheduling.event_loop import begin, refuse_wait
from actors.scheduling.group_commit import GroupCommit
from actors.scheduling.loop import STEPS
from actors.scheduling.manual_event_loop import ManualEventLoop
from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from random import Random

    from actors.ports import Awaited, Job, Poller, Steps
    from actors.scheduling.clock import Alarm, ManualClock
    from actors.scheduling.group_commit import Member

PATIENCE: Final = 1_000_000
"""At most this many steps are taken for one answer: a run that needs more is in a cycle."""


class ManualLane:
    """A lane whose jobs run when the scheduler says so; an idle lane is referenced nowhere."""

    __slots__ = ("__weakref__", "_in_line", "_jobs", "_scheduler", "name")

    def __init__(self, scheduler: ManualScheduler, name: str) -> None:
        """Begin with nothing to do."""
        self.name = name
        self._scheduler = scheduler
        self._jobs: deque[Callable[[], None]] = deque()
        self._in_line = False

    def run(self, job: Callable[[], None]) -> None:
        """Run a job after those that came before it."""
        self._jobs.append(job)
        self._line_up()

    def _line_up(self) -> None:
        if not self._in_line:
            self._in_line = True
            self._scheduler.line_up(self)

    def step(self) -> None:
        """Run the next job; the lane is not in line meanwhile, so it runs one job at a time."""
        try:
            self._jobs.popleft()()
        finally:
            self._in_line = False
            if self._jobs:
                self._line_up()


class ManualJob:
    """Work that goes on when the scheduler says so."""

    def __init__(
        self,
        scheduler: ManualScheduler,
        name: str,
        steps: Steps | Iterator[int | None],
        at_once: int = 1,
    ) -> None:
        """Begin before the first step; so many are taken `at_once`."""
        self.name = name
        self._scheduler = scheduler
        self._steps = steps
        self._at_once = at_once
        self._alarm: Alarm | None = None
        self._woken = False
        self.done = False

    def wake(self) -> None:
        """End the current pause, and skip all later ones."""
        self._woken = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._go_on()

    def _go_on(self) -> None:
        self._alarm = None
        self._scheduler.line_up(self)

    def step(self) -> None:
        """Take a step, or several."""
        clock = self._scheduler.clock
        try:
            for _ in range(self._at_once):
                until = next(self._steps)
                if until is not None and not self._woken and until > clock.now():
                    self._alarm = clock.at(until, self._go_on)
                    return
        except StopIteration as over:
            self.done = True
            if over.value is not None:
                over.value()
            return
        except BaseException:
            self.done = True
            raise
        self._go_on()


class ManualScheduler:
    """Runs one step at a time; `choice` picks the next one, or else the first in line runs."""

    goes_on: Final = False

    def __init__(
        self,
        clock: ManualClock,
        choice: Random | None = None,
        halted: Callable[[], bool] | None = None,
    ) -> None:
        """Begin with nothing to do; once `halted` returns True, no step is taken any more."""
        self.clock = clock
        self.driven = False
        """Whether an event loop drives this scheduler while its tasks wait."""
        self._halted = halted
        self._choice = choice
        self._line: list[ManualLane | ManualJob | ManualEventLoop] = []
        self._events: ManualEventLoop | None = None
        self._commits = GroupCommit()
        self._pollers: list[Poller] = []
        self.steps = 0
        self.failures: list[BaseException] = []
        """What jobs and work raised. On threads it is only logged; a test may check it."""

    def lane(self, name: str) -> ManualLane:
        """Begin a lane."""
        return ManualLane(self, name)

    backlog = 0
    """Nothing comes faster than it is handled: each fragment takes a step, as each message does."""

    def commit_soon(self, member: Member) -> None:
        """Have what `member` has appended committed when it is the commit's turn."""
        self._commits.join(member)

    def work(
        self,
        name: str,
        steps: Steps | Iterator[int | None],
        *,
        blocks: bool = True,
    ) -> ManualJob:
        """Run something step by step, beside all lanes; in order, what never `blocks` in one go."""
        at_once = STEPS if self._choice is None and not blocks else 1
        job = ManualJob(self, name, steps, at_once)
        self.line_up(job)
        return job

    def begin_async(self, name: str, run: Coroutine[Any, Any, None]) -> Job:
        """Run a coroutine on an event loop that takes its steps among all others."""
        if self._events is None:
            self._events = ManualEventLoop(self)
        return begin(self._events, name, run)

    def check_may_block(self, instead: str) -> None:
        """Raise `Refused` within async code of this scheduler, and name what to write `instead`."""
        running = asyncio._get_running_loop()  # noqa: SLF001 -- the public one raises if there is none
        if running is not None and running is self._events:
            raise refuse_wait(instead)

    def line_up(self, who: ManualLane | ManualJob | ManualEventLoop) -> None:
        """Add a lane or a job to those that can take a step."""
        self._line.append(who)

    # -- one thing at a time ------------------------------------------------------------------

    @property
    def is_halted(self) -> bool:
        """Whether no step is taken any more."""
        return self._halted is not None and self._halted()

    def step(self) -> bool:
        """Take one step, ring what is due, or commit; return False if there was nothing.

        In order, the commit comes when nothing else is left to do, as at the end of a round.
        """
        if self.is_halted:
            return False
        when = self.clock.next_alarm
        due = int(when is not None and when <= self.clock.now())
        ready = due + len(self._line) + self._commits.is_due
        if not ready:
            return False
        self.steps += 1
        turn = 0 if self._choice is None else self._choice.randrange(ready)
        if turn < due:
            self.clock.move_to(self.clock.now())
            return True
        commits = turn - due == len(self._line)
        who = None if commits else self._line.pop(turn - due)
        try:
            if who is None:
                self._commits.commit()
            else:
                who.step()
        except KeyboardInterrupt:
            # It is meant for the code that drives the scheduler.
            raise
        except BaseException as error:  # noqa: BLE001 -- one failure must not stop the others
            log.exception("job_failed", of="commit" if who is None else who.name)
            self.failures.append(error)
        return True

    def at_rest(self) -> bool:
        """Do what takes but a moment once there is no step left; return True if anything was."""
        return False

    def go_on(self, until: int | None = None) -> bool:
        """Make one thing happen: a step, else the next alarm, if it is due by `until`.

        Return False if nothing is left to happen by then.
        """
        if not (self.step() or self.at_rest()):
            when = self.clock.next_alarm
            if when is None or self.is_halted or (until is not None and when > until):
                return False
            self.clock.move_to(when)
        self._poll()
        return True

    # -- many things --------------------------------------------------------------------------

    def run(self, limit: int = 100_000) -> None:
        """Take steps until nothing is left to do at this time."""
        for _ in range(limit):
            if not self.step():
                return
        msg = f"still not at rest after {limit:,} steps"
        raise AssertionError(msg)

    def run_until(self, done: Callable[[], bool], limit: int = 100_000) -> bool:
        """Go on until `done`, moving the clock when nothing else is left; return `done()`."""
        for _ in range(limit):
            if done():
                return True
            if not self.go_on():
                break
        return done()

    def check_may_wait(self) -> None:
        """Do nothing: who waits takes steps, wherever it does."""

    def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Go on until an answer is there; the clock is moved by `timeout` if none comes."""
        end = None if timeout is None else self.clock.now() + round(timeout * SECOND)
        for _ in range(PATIENCE):
            if awaited.is_there():
                return True
            if not self.go_on(end):
                if end is not None and not self.is_halted:
                    self.clock.move_to(end)
                return False
        msg = f"still no answer after {PATIENCE:,} steps"
        raise AssertionError(msg)

    # -- for tasks of an event loop -----------------------------------------------------------

    def keep_polling(self, poller: Poller) -> None:
        """Poll after each step, until it returns False.

        An event loop that does not drive this scheduler goes on between its own tasks.
        """
        self._pollers.append(poller)
        if not self.driven:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._drive, loop)

    def _poll(self) -> None:
        if self._pollers:
            self._pollers = [each for each in self._pollers if each.poll(wait=False)]

    def _drive(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._pollers and (self.go_on() or self.give_up()):
            loop.call_soon(self._drive, loop)

    def give_up(self) -> bool:
        """Tell all who wait in an event loop that nothing more happens; return True if any do."""
        pollers, self._pollers = self._pollers, []
        for each in pollers:
            each.fail(Unanswered("waits in vain: nothing more happens by itself"))
        return bool(pollers)

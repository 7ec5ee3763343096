"""Who runs when, on one thread: every step is chosen, by a seed or in order.

The same actors as on threads; messages, timers, streams and tools are interleaved as the choice
falls, and the same choices give the same run.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from actors.clock import SECOND
from actors.report import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from actors.clock import Alarm, HandClock
    from actors.ports import Awaited, Steps

PATIENCE: Final = 1_000_000
"""How many steps are taken for one answer: a run that needs more goes round in circles."""


class HandLane:
    """A lane whose jobs run when the scheduler says so. Nobody knows it while it is at rest."""

    __slots__ = ("__weakref__", "_dry", "_in_line", "_jobs", "_scheduler", "name")

    def __init__(self, scheduler: HandScheduler, name: str) -> None:
        """Begin with nothing to do."""
        self.name = name
        self._scheduler = scheduler
        self._jobs: deque[Callable[[], None]] = deque()
        self._dry: deque[Callable[[], None]] = deque()
        self._in_line = False

    def run(self, job: Callable[[], None]) -> None:
        """Run a job after those that came before it."""
        self._jobs.append(job)
        self._line_up()

    def when_dry(self, job: Callable[[], None]) -> None:
        """Run a job once nothing else is waiting in this lane."""
        self._dry.append(job)
        self._line_up()

    def _line_up(self) -> None:
        if not self._in_line:
            self._in_line = True
            self._scheduler.line_up(self)

    def step(self) -> None:
        """Run the next job. It stays out of the line meanwhile: a lane runs one job at a time."""
        try:
            (self._jobs or self._dry).popleft()()
        finally:
            self._in_line = False
            if self._jobs or self._dry:
                self._line_up()


class HandJob:
    """Work that goes on when the scheduler says so."""

    def __init__(
        self, scheduler: HandScheduler, name: str, steps: Steps | Iterator[int | None]
    ) -> None:
        """Begin before the first step."""
        self.name = name
        self._scheduler = scheduler
        self._steps = steps
        self._alarm: Alarm | None = None
        self._woken = False
        self.done = False

    def wake(self) -> None:
        """End the pause that it takes now, and all to come."""
        self._woken = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._go_on()

    def _go_on(self) -> None:
        self._alarm = None
        self._scheduler.line_up(self)

    def step(self) -> None:
        """Take one step."""
        try:
            until = next(self._steps)
        except StopIteration as over:
            self.done = True
            if over.value is not None:
                over.value()
            return
        except BaseException:
            self.done = True
            raise
        clock = self._scheduler.clock
        if until is None or self._woken or until <= clock.now():
            self._go_on()
        else:
            self._alarm = clock.at(until, self._go_on)


class HandScheduler:
    """Runs one step at a time; `choice` picks who is next, the first in line if there is none."""

    goes_on: Final = False

    def __init__(
        self,
        clock: HandClock,
        choice: Random | None = None,
        halted: Callable[[], bool] | None = None,
    ) -> None:
        """Begin with nothing to do; once `halted` says so, nobody takes a step any more."""
        self.clock = clock
        self._halted = halted
        self._choice = choice
        self._line: list[HandLane | HandJob] = []
        self.steps = 0
        self.failures: list[BaseException] = []
        """What jobs and work raised. On threads it is only logged; a test may want to look."""

    def lane(self, name: str) -> HandLane:
        """Begin a lane."""
        return HandLane(self, name)

    def work(self, name: str, steps: Steps | Iterator[int | None]) -> HandJob:
        """Run something step by step, beside all lanes."""
        job = HandJob(self, name, steps)
        self.line_up(job)
        return job

    def line_up(self, who: HandLane | HandJob) -> None:
        """Let somebody take a step when their turn comes."""
        self._line.append(who)

    @property
    def is_halted(self) -> bool:
        """Whether nobody takes a step any more."""
        return self._halted is not None and self._halted()

    def step(self) -> bool:
        """Let somebody take one step, or alarms that are due ring; tell whether there was any."""
        if self.is_halted:
            return False
        when = self.clock.next_alarm
        due = int(when is not None and when <= self.clock.now())
        ready = due + len(self._line)
        if not ready:
            return False
        self.steps += 1
        turn = 0 if self._choice is None else self._choice.randrange(ready)
        if turn < due:
            self.clock.move_to(self.clock.now())
            return True
        who = self._line.pop(turn - due)
        try:
            who.step()
        except KeyboardInterrupt:
            # Here it is the one who drives us that is interrupted.
            raise
        except BaseException as error:  # noqa: BLE001 -- whoever is next is not to blame
            log.exception("job_failed", of=who.name)
            self.failures.append(error)
        return True

    def at_rest(self) -> bool:
        """Let a moment pass while nobody has a step to take; tell whether anything came of it."""
        return False

    def run(self, limit: int = 100_000) -> None:
        """Go on until nothing is left to do at this time."""
        for _ in range(limit):
            if not self.step():
                return
        msg = f"still not at rest after {limit:,} steps"
        raise AssertionError(msg)

    def run_until(self, done: Callable[[], bool], limit: int = 100_000) -> bool:
        """Go on until `done`, moving the clock when nothing else is left; tell whether it is."""
        for _ in range(limit):
            if done():
                return True
            if not self.step() and not self.at_rest():
                when = self.clock.next_alarm
                if when is None:
                    return done()
                self.clock.move_to(when)
        return done()

    def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Run everybody until an answer is there; the clock is moved by `timeout` if none comes."""
        end = None if timeout is None else self.clock.now() + round(timeout * SECOND)
        for _ in range(PATIENCE):
            if awaited.is_there():
                return True
            if self.step() or self.at_rest():
                continue
            if self.is_halted:
                return False
            when = self.clock.next_alarm
            if end is not None and (when is None or when > end):
                self.clock.move_to(end)
                return False
            if when is None:
                return False
            self.clock.move_to(when)
        msg = f"still no answer after {PATIENCE:,} steps"
        raise AssertionError(msg)

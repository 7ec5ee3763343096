"""Chooses which step runs next, and when time passes: on one thread, as the choices say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from actors.errors import Overloaded
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.units import SECOND
from runefold.testing.stage import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.ports import Steps
    from actors.scheduling.manual_scheduler import ManualJob
    from runefold.testing.simulation.choices import Choices

MOMENT: Final = SECOND // 50
"""How long an append may take to get to disk for which no caller waits."""
A_WHILE: Final = SECOND // 20
"""How long a tool waits that cannot begin while a conversation wakes."""
MOST_TOOLS: Final = 32
"""How many tools run at once at most. Each may wait within the one before it, on one stack."""


class StepListener(Protocol):
    """What is called between two steps."""

    def is_over(self) -> bool:
        """Return True if no more steps are taken: without power, or once something is wrong."""
        ...

    def before_step(self) -> None:
        """Do what has to be done now."""
        ...

    def after_step(self) -> None:
        """Look what has become of it."""
        ...

    def at_rest(self) -> bool:
        """Do something if no step is left; return True if anything was done."""
        ...

    def is_waking(self) -> bool:
        """Return True if a caller from outside waits for a conversation to wake."""
        ...

    def pass_time(self) -> None:
        """Have everything on disk that takes but a moment to get there."""
        ...


class SimClock(ManualClock):
    """A clock that can be set, and lets the disk keep up when it moves on."""

    def __init__(self, now: int, listener: StepListener) -> None:
        """Begin at a time."""
        super().__init__(now)
        self._listener = listener

    def move_to(self, until: int) -> None:
        """Move on to a time."""
        if until - self._now >= MOMENT:
            self._listener.pass_time()
        super().move_to(until)

    def set_back(self, seconds: int) -> None:
        """Have it be earlier than it was, as when somebody sets a machine's clock."""
        self._now -= seconds * SECOND


class SimulationScheduler(ManualScheduler):
    """Runs one step at a time, and calls its listener in between.

    What an app does may be done while it waits for something else: whatever began later must then
    have been answered before that goes on. Tools that ask the runtime for something wait likewise.
    """

    def __init__(self, clock: SimClock, choices: Choices, listener: StepListener) -> None:
        """Begin with nothing to do."""
        super().__init__(clock, choices, listener.is_over)
        self._listener = listener
        self.refuses = 0
        """For how many streams and tools there is no thread."""
        self.depth = 0
        """How many steps are under way, each within the one before it."""
        self._tools: list[ManualJob] = []
        """The tools that run, and some that have run."""

    def step(self) -> bool:
        """Run one step; return True if there was any."""
        self.depth += 1
        try:
            self._listener.before_step()
            if not super().step():
                return not self._listener.is_over() and self._listener.at_rest()
            self._listener.after_step()
            return True
        finally:
            self.depth -= 1

    def work(
        self, name: str, steps: Steps | Iterator[int | None], *, blocks: bool = True
    ) -> ManualJob:
        """Run something step by step, beside all lanes; a tool not before it may ask questions."""
        is_tool = "/call_" in name
        if is_tool:
            self._tools = [job for job in self._tools if not job.done]
        # Agents that ask agents that ask agents run out of threads too.
        if self.refuses or (is_tool and len(self._tools) >= MOST_TOOLS):
            self.refuses = max(self.refuses - 1, 0)
            msg = "too many streams and tools run at once: try again later"
            raise Overloaded(msg)
        if not is_tool:
            return super().work(name, steps, blocks=blocks)
        job = super().work(name, self._paced(steps), blocks=blocks)
        self._tools.append(job)
        return job

    def _paced(self, steps: Steps | Iterator[int | None]) -> Steps:
        # On threads it would wait for the start that is under way; here it would wait for itself.
        while True:
            while self._listener.is_waking():
                yield self.clock.now() + A_WHILE
            try:
                until = next(steps)
            except StopIteration as over:
                return cast("Callable[[], None] | None", over.value)
            yield until

    def linger(self, steps: int) -> None:
        """Let others take some steps: for whoever is in the middle of one."""
        for _ in range(steps):
            if not self.step():
                break
        self._go_on()

    def pause(self, seconds: float) -> None:
        """Let time pass: for whoever is in the middle of a step."""
        self.doze(seconds)
        self._go_on()

    def doze(self, seconds: float) -> None:
        """Let time pass, and whatever happens in it happen."""
        self.wait(_NEVER, seconds)

    def _go_on(self) -> None:
        if self._listener.is_over():
            raise PowerCut

    def soon(self, name: str, call: Callable[[], None], *, lazily: bool) -> None:
        """Have something done a little later."""

        def steps() -> Iterator[int | None]:
            yield self.clock.now() + MOMENT if lazily else None
            call()

        super().work(name, steps())


class _Never:
    """Something that does not come."""

    def is_there(self) -> bool:
        """Tell that it has not come."""
        return False

    def wait(self, timeout: float | None) -> bool:  # noqa: ARG002 -- part of the protocol
        """Tell that it does not come."""
        return False


_NEVER: Final = _Never()

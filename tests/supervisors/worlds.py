"""Where the scenarios are played: by hand with a lane for each actor or one for all, or on threads.

In each, the clock is driven by hand and `settle` goes on until nothing moves any more.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from actors.scheduling.clock import ManualClock
from actors.scheduling.loop import Loop
from actors.scheduling.manual_scheduler import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.ports import Lane
    from actors.process.process import Process
    from actors.scheduling.loop import LoopLane
    from actors.scheduling.manual_scheduler import ManualLane

LONG = 20.0
"""How many seconds threads may take for what they do in a few milliseconds."""


class World(Protocol):
    """A place with a clock, lanes, and a way to wait."""

    clock: ManualClock

    def lane(self, name: str, *, supervises: bool = False) -> Lane:
        """Return the lane for an actor of this name."""
        ...

    def settle(self) -> None:
        """Go on until nothing moves, moving the clock to whatever is due."""
        ...

    def each_hears(self, message: object, processes: Sequence[Process]) -> None:
        """Let each handle a message, one after the other, before any supervisor gets to run."""
        ...

    def hold(self, id_: str, lane: Lane) -> None:
        """Wait within a start until it is released."""
        ...

    def release(self, id_: str) -> None:
        """Let a start that is held go on."""
        ...

    def close(self) -> None:
        """Leave nothing behind."""
        ...


class ManualWorld:
    """One thread; the first in line goes next."""

    def __init__(self, *, shared: bool) -> None:
        """Begin with one lane for all, or one for each."""
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self._shared = self.scheduler.lane("all") if shared else None

    def lane(self, name: str, *, supervises: bool = False) -> ManualLane:  # noqa: ARG002 -- see World
        """Return the lane for an actor of this name."""
        return self._shared or self.scheduler.lane(name)

    def settle(self) -> None:
        """Go on until nothing moves, moving the clock to whatever is due."""
        self.scheduler.run()
        while (when := self.clock.next_alarm) is not None:
            self.clock.move_to(when)
            self.scheduler.run()
        assert not self.scheduler.failures

    def each_hears(self, message: object, processes: Sequence[Process]) -> None:
        """Let each handle a message: all of them are in line before the supervisor is."""
        for process in processes:
            process.ref.notify(message)

    def hold(self, id_: str, lane: Lane) -> None:
        """Nobody could release it: there is only one thread."""
        raise NotImplementedError

    def release(self, id_: str) -> None:
        """See `hold`."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing behind."""


class WatchedLane:
    """A lane on threads of which is known whether it has anything to do."""

    def __init__(self, world: ThreadWorld, inner: LoopLane, *, supervises: bool) -> None:
        """Begin with nothing to do."""
        self.supervises = supervises
        self._world = world
        self._inner = inner
        self.pending = 0
        self.held = False
        self.kept_back: list[Callable[[], None]] | None = None
        """What came in while it was not to begin with anything new."""

    @property
    def is_quiet(self) -> bool:
        """Whether it has nothing to do, or can do nothing before somebody releases it."""
        return self.pending == 0 or self.held

    def run(self, job: Callable[[], None]) -> None:
        """Run a job after those that came before it."""
        with self._world.changed:
            if self.kept_back is not None:
                self.kept_back.append(job)
                return
            self.pending += 1

        def watched() -> None:
            try:
                job()
            finally:
                with self._world.changed:
                    self.pending -= 1
                    self._world.changed.notify_all()

        self._inner.run(watched)


class ThreadWorld:
    """Real threads, one for each actor: whatever supervisors do to each other, in parallel."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self.clock = ManualClock()
        self._loops: list[Loop] = []
        self.changed = threading.Condition()
        self._lanes: list[WatchedLane] = []
        self._gates: dict[str, tuple[threading.Event, WatchedLane]] = {}

    def lane(self, name: str, *, supervises: bool = False) -> WatchedLane:
        """Return the lane for an actor of this name."""
        loop = Loop(self.clock)
        self._loops.append(loop)
        lane = WatchedLane(self, loop.lane(name), supervises=supervises)
        with self.changed:
            self._lanes.append(lane)
        return lane

    def _is_quiet(self) -> bool:
        return all(lane.is_quiet for lane in self._lanes)

    def settle(self) -> None:
        """Go on until nothing moves, moving the clock to whatever is due."""
        while True:
            with self.changed:
                assert self.changed.wait_for(self._is_quiet, LONG), "still moving"
            when = self.clock.next_alarm
            if when is None:
                return
            self.clock.move_to(when)

    def each_hears(self, message: object, processes: Sequence[Process]) -> None:
        """Let each handle a message while no supervisor begins with anything new."""
        with self.changed:
            supervisors = [lane for lane in self._lanes if lane.supervises]
            for lane in supervisors:
                lane.kept_back = []
        for process in processes:
            process.ref.notify(message)
            with self.changed:
                assert self.changed.wait_for(self._is_quiet, LONG), "still moving"
        jobs: list[tuple[WatchedLane, Callable[[], None]]] = []
        with self.changed:
            for lane in supervisors:
                jobs += [(lane, job) for job in lane.kept_back or ()]
                lane.kept_back = None
        for lane, job in jobs:
            lane.run(job)

    def hold(self, id_: str, lane: Lane) -> None:
        """Wait within a start until it is released."""
        assert isinstance(lane, WatchedLane)
        gate = threading.Event()
        with self.changed:
            self._gates[id_] = (gate, lane)
            lane.held = True
            self.changed.notify_all()
        assert gate.wait(LONG), "never released"

    def release(self, id_: str) -> None:
        """Let a start that is held go on."""
        with self.changed:
            gate, lane = self._gates.pop(id_)
            lane.held = False
        gate.set()

    def close(self) -> None:
        """Leave nothing behind."""
        for loop in self._loops:
            loop.close()

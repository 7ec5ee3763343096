"""Supervisors on real threads: storms, deaths at the same time, and nothing left behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from actors.errors import Crashed, Dead
from actors.process.process import KILLED, SHUTDOWN, Answer
from actors.scheduling.clock import ManualClock, SystemClock
from actors.scheduling.loop import Loop
from supervisors.child_spec import ChildSpec, Flags
from supervisors.messages import (
    CountChildren,
    Look,
    StartDynamic,
    State,
    TerminateChild,
    WhichChildren,
)
from supervisors.strategy import Restart, Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.cast import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.ports import Clock
    from actors.process.process import Down, Process, Ref
    from supervisors.messages import ChildView

LONG = 30.0
MANY = 1_000_000


class Place:
    """Threads and a clock; every worker that was made is remembered."""

    def __init__(self, clock: Clock) -> None:
        """Begin with nobody."""
        self.clock = clock
        self.scheduler = Loop(clock)
        self.shared = self.scheduler.lane("shared")
        self.made: list[Process] = []

    def spec(self, id_: str, *, shared: bool = False, **options: Any) -> ChildSpec:  # noqa: ANN401 -- see ChildSpec
        """Describe a worker, in a lane of its own or in the supervisor's."""

        def start(key: str = id_) -> Process:
            lane = self.shared if shared else self.scheduler.lane(key)
            worker = Worker(key, lane)
            self.made.append(worker)
            return worker

        return ChildSpec(id_, start, **options)

    def top(self, *children: ChildSpec, flags: Flags, **options: Any) -> Ref:  # noqa: ANN401 -- see Supervisor
        """Start a supervisor."""
        top = Supervisor("top", self.shared, self.clock, children, flags, **options)
        return top.launch()

    def ask(self, ref: Ref, message: object) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask somebody."""
        return ref.ask(message, self.scheduler, LONG)

    def calm(self, top: Ref) -> list[ChildView]:
        """Wait until all children live and have nothing left to hear; return them."""
        while True:
            views: list[ChildView] = self.ask(top, Look())
            try:
                for view in views:
                    if view.ref is not None:
                        self.ask(view.ref, "hello")
            except (Dead, Crashed):
                continue
            if all(view.state is State.RUNNING for view in views) and views == self.ask(
                top, Look()
            ):
                return views

    def end(self, ref: Ref) -> Down:
        """Wait for an end."""
        ended = Answer()
        ref.watch(ended.set)
        assert ended.wait(LONG)
        down: Down = ended.result()
        return down


@pytest.fixture
def place() -> Iterator[Place]:
    """Real threads and the system's clock; nothing of it is left behind."""
    before = set(threading.enumerate())
    clock = SystemClock()
    place = Place(clock)
    yield place
    place.scheduler.close()
    clock.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(LONG)

    assert not set(threading.enumerate()) - before
    assert all(process.exit is not None for process in place.made)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ONE, Strategy.ONE_FOR_ALL])
def test_a_storm_of_crashes_leaves_each_child_alive_once(
    place: Place, strategy: Strategy, *, shared: bool
) -> None:
    """From many threads at once, in lanes of their own or in one with their supervisor."""
    names = [f"w{number}" for number in range(6)]
    flags = Flags(strategy, intensity=MANY)
    top = place.top(*[place.spec(name, shared=shared) for name in names], flags=flags)

    def hurt(number: int) -> None:
        name = names[number % len(names)]
        # Of those of that name, the one that was made last: the others have ended.
        ref = next(process.ref for process in reversed([*place.made]) if process.name == name)
        if number % 3:
            ref.notify("crash")
        else:
            ref.kill()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hurt, range(300)))
    views = place.calm(top)

    assert [view.id for view in views] == names
    assert {process.ref for process in place.made if process.exit is None} == {
        view.ref for view in views
    }
    supervisor = top._process
    assert isinstance(supervisor, Supervisor)
    assert set(supervisor._living) == {view.ref for view in views}
    top.stop()
    assert place.end(top).exit == SHUTDOWN
    assert all(process.exit is not None for process in place.made)


def test_children_that_die_together_count_as_the_strategy_says(place: Place) -> None:
    """Under one_for_all, deaths that are seen to by one restart count once."""
    names = [f"w{number}" for number in range(8)]
    counted: list[str] = []
    top = place.top(
        *[place.spec(name) for name in names],
        flags=Flags(Strategy.ONE_FOR_ALL, intensity=len(names)),
        on_restart=lambda child, _exit, _count: counted.append(child),
    )
    at_once = threading.Barrier(len(names), timeout=LONG)

    def kill(ref: Ref) -> None:
        at_once.wait()
        ref.kill()

    first = [process.ref for process in place.made]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(kill, first))
    place.ask(top, WhichChildren())

    assert 1 <= len(counted) <= len(names)
    assert place.ask(top, CountChildren()).active == len(names)
    assert not any(ref.is_alive() for ref in first)
    top.stop()
    place.end(top)


def test_dynamic_children_come_and_go_from_many_threads(place: Place) -> None:
    """Each key is started once, and what was terminated leaves no trace."""
    top = place.top(
        place.spec("t", restart=Restart.TEMPORARY),
        flags=Flags(Strategy.SIMPLE_ONE_FOR_ONE),
    )

    def live(number: int) -> None:
        ref = place.ask(top, StartDynamic(f"k{number}"))
        if number % 2:
            place.ask(top, TerminateChild(f"k{number}"))
        else:
            ref.tell("crash")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(100)))
    for process in place.made:
        place.end(process.ref)
    supervisor = top._process
    assert isinstance(supervisor, Supervisor)
    # Whoever ended has told us, but its supervisor perhaps only after that.
    for _ in range(MANY):
        if place.ask(top, CountChildren()) == (1, 0, 0, 0):
            break

    assert place.ask(top, CountChildren()) == (1, 0, 0, 0)
    assert not supervisor._living
    assert len(supervisor._links) == 0
    top.stop()
    place.end(top)


def test_whoever_asks_a_supervisor_that_ends_gets_an_answer(place: Place) -> None:
    """The answer, or that it has ended; nobody is left waiting, whenever it is killed."""
    top = place.top(place.spec("t"), flags=Flags(Strategy.SIMPLE_ONE_FOR_ONE, intensity=MANY))
    some = threading.Barrier(9, timeout=LONG)

    def ask(number: int) -> bool:
        answered = 0
        try:
            for round_ in range(1_000):
                place.ask(top, StartDynamic(f"k{number}-{round_}"))
                answered += 1
                if answered == 5:
                    some.wait()
        except (Dead, Crashed):
            return answered >= 5
        return False

    with ThreadPoolExecutor(8) as pool:
        outcomes = [pool.submit(ask, number) for number in range(8)]
        some.wait()
        top.kill()

        assert all(outcome.result(LONG) for outcome in outcomes)


class Busy(Worker):
    """Does not look at its mailbox while it is busy, whatever it is asked to."""

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 -- as Worker's
        """Begin idle."""
        super().__init__(*args)
        self.is_busy = threading.Event()
        self.let_go = threading.Event()

    def on_receive(self, message: Any) -> object:  # noqa: ANN401, ARG002 -- pykka's
        """Be busy."""
        self.is_busy.set()
        assert self.let_go.wait(LONG)
        return None


def test_a_child_that_is_too_busy_to_stop_is_killed_at_its_time() -> None:
    """Its thread is not waited for: the supervisor goes on while it is still blocked."""
    clock = ManualClock()
    place = Place(clock)
    elsewhere = Loop(clock)
    made: list[Busy] = []

    def start() -> Process:
        made.append(Busy("b", elsewhere.lane("b")))
        return made[-1]

    spec = ChildSpec("b", start, shutdown=3)
    top = place.top(place.spec("a", shared=True), spec, flags=Flags())
    made[0].ref.tell("work")
    assert made[0].is_busy.wait(LONG)
    done = top.ask_later(TerminateChild("b"))
    assert place.ask(top, Look())[1].state is State.STOPPING
    clock.advance(2.9)
    assert made[0].exit is None

    clock.advance(0.1)

    assert done.wait(LONG)
    assert made[0].exit == KILLED
    assert [view.state for view in place.ask(top, WhichChildren())] == ["stopped", "running"]
    made[0].let_go.set()
    top.stop()
    place.end(top)
    elsewhere.close()
    place.scheduler.close()

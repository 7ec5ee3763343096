"""Clocks ring what was armed, each at its time, and no more."""

from __future__ import annotations

import random
import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest

from actors.scheduling.clock import ManualClock, SystemClock
from actors.units import SECOND
from runelog.errors import Forked
from tests.actors.players import PATIENCE, Sign, raising
from tests.crash.guard import survived

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR = 3_600 * SECOND


@pytest.fixture
def system() -> Iterator[SystemClock]:
    """Give a clock with the time of the machine."""
    clock = SystemClock()
    yield clock
    clock.close()


# -- by hand -----------------------------------------------------------------------------------


def test_alarms_ring_in_the_order_of_their_times() -> None:
    """Those for the same time ring in the order they were armed, each at its own time."""
    clock = ManualClock()
    begun = clock.now()
    rung: list[tuple[str, int]] = []
    for name, after in [("c", 3), ("a", 1), ("b1", 2), ("b2", 2), ("d", 9)]:
        clock.at(begun + after, lambda name=name: rung.append((name, clock.now() - begun)))  # type: ignore[misc]  # a default binds it
    clock.move_to(begun + 5)

    assert rung == [("a", 1), ("b1", 2), ("b2", 2), ("c", 3)]
    assert clock.now() == begun + 5
    assert clock.next_alarm == begun + 9


def test_alarms_may_arm_alarms() -> None:
    """One that is armed by another rings in the same move if its time is within it."""
    clock = ManualClock()
    begun = clock.now()
    rung: list[int] = []

    def tick() -> None:
        rung.append((clock.now() - begun) // SECOND)
        clock.at(clock.now() + SECOND, tick)

    clock.at(begun, tick)
    clock.advance(3.5)

    assert rung == [0, 1, 2, 3]
    assert clock.next_alarm == begun + 4 * SECOND


def test_a_time_that_is_past_rings_at_the_next_move() -> None:
    """Even if that move leads nowhere, and time never goes back."""
    clock = ManualClock()
    begun = clock.now()
    rung = Sign()
    clock.at(begun - HOUR, rung.give)
    clock.advance(0)

    assert rung.is_there()
    assert clock.now() == begun
    clock.move_to(begun - HOUR)
    assert clock.now() == begun


def test_what_was_cancelled_does_not_ring() -> None:
    """Neither if cancelled before its time nor by another alarm at it; once rung, it has rung."""
    clock = ManualClock()
    rung: list[str] = []
    first = clock.at(clock.now() + 1, lambda: rung.append("first"))

    def cancel() -> None:
        third.cancel()

    clock.at(clock.now() + 2, cancel)
    third = clock.at(clock.now() + 2, lambda: rung.append("third"))
    last = clock.at(clock.now() + 3, lambda: rung.append("last"))
    first.cancel()
    next_alarm = clock.next_alarm
    clock.advance(1)
    last.cancel()

    assert next_alarm == clock.now() - SECOND + 2
    assert rung == ["last"]
    assert clock.next_alarm is None


def test_an_alarm_that_raises_keeps_no_other_from_ringing() -> None:
    """The next alarm is not to blame."""
    clock = ManualClock()
    rung = Sign()
    clock.at(clock.now(), raising(SystemExit()))
    clock.at(clock.now(), rung.give)
    clock.advance(0)

    assert rung.is_there()


def test_cancelled_alarms_are_not_kept() -> None:
    """Deadlines that are moved on for ever do not fill the memory, and none of the rest is lost."""
    clock = ManualClock()
    chance = random.Random(4)
    begun = clock.now()
    rung: list[int] = []
    kept = sorted(chance.randrange(HOUR) for _ in range(200))
    for when in kept:
        clock.at(begun + when, lambda: rung.append(clock.now() - begun))
    for number in range(20_000):
        clock.at(begun + HOUR + number, raising(AssertionError())).cancel()

    assert len(clock._alarms._heap) < 1_000
    clock.advance(3_600)
    assert rung == kept


@pytest.mark.parametrize("seed", range(5))
def test_alarms_ring_in_order_however_many_of_them_are_cancelled(seed: int) -> None:
    """Whichever are dropped, at whatever time, those that are left ring each at its own."""
    clock = ManualClock()
    chance = random.Random(seed)
    begun = clock.now()
    rung: list[int] = []
    kept: list[int] = []
    for _ in range(2_000):
        when = chance.randrange(HOUR)
        alarm = clock.at(begun + when, lambda: rung.append(clock.now() - begun))
        if chance.random() < 0.8:
            alarm.cancel()
        else:
            kept.append(when)
    clock.advance(3_600)

    assert rung == sorted(kept)


# -- the system's ------------------------------------------------------------------------------


def test_the_system_rings_what_is_due(system: SystemClock) -> None:
    """What is past rings at once, what is far off does not, and what comes first rings first."""
    rung: list[str] = []
    done = Sign()
    early = Sign()
    system.at(system.now() + HOUR, early.give)
    now = system.now()
    with system._changed:
        system.at(now, done.give)
        system.at(now - 1, lambda: rung.append("second"))
        system.at(now - 2, lambda: rung.append("first"))
    done.must_come()

    assert rung == ["first", "second"]
    assert not early.is_there()


def test_the_system_rings_at_its_time(system: SystemClock) -> None:
    """Not before it, and also if an earlier one is armed while it waits for a later one."""
    when = system.now() + SECOND // 50
    seen: list[int] = []
    done = Sign()
    system.at(when + HOUR, raising(AssertionError()))
    system.at(when, lambda: (seen.append(system.now()), done.give())[0])  # type: ignore[func-returns-value]  # for its effect
    done.must_come()

    assert seen[0] >= when


class Machine:
    """The clocks of a machine: one that can be set, and one that cannot."""

    def __init__(self) -> None:
        """Begin with the right time."""
        self.wrong_by = 0
        self._passed = 0

    def time_ns(self) -> int:
        """Return what it is set to."""
        return time.time_ns() + self._passed + self.wrong_by

    def monotonic_ns(self) -> int:
        """Return how long it has been running."""
        return time.monotonic_ns() + self._passed

    def wait(self) -> None:
        """Have a millisecond pass."""
        self._passed += SECOND // 1000


def test_the_system_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set back costs nobody what is waited for; one that is set ahead is right."""
    machine = Machine()
    monkeypatch.setattr("actors.scheduling.clock.time", machine)
    clock = SystemClock()
    times = [clock.now()]
    for hours in (-1, -24, 2, 1, 3):
        machine.wrong_by = hours * HOUR
        machine.wait()
        times += [clock.now(), clock.now()]
    passed = [(later - times[0]) // HOUR for later in times]

    assert times == sorted(times)
    assert passed == [0, 0, 0, 0, 0, 2, 2, 2, 2, 3, 3]


def test_an_alarm_rings_although_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of a moment does not last an hour."""
    machine = Machine()
    monkeypatch.setattr("actors.scheduling.clock.time", machine)
    clock = SystemClock()
    done = Sign()
    clock.at(clock.now() + SECOND // 50, done.give)
    machine.wrong_by = -HOUR
    rang = done.comes()
    clock.close()

    assert rang


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), KeyboardInterrupt()])
def test_the_system_survives_an_alarm_that_raises(
    system: SystemClock, error: BaseException
) -> None:
    """Whatever it raises: all deadlines of all conversations hang on this one thread."""
    done = Sign()
    system.at(0, raising(error))
    system.at(1, done.give)

    done.must_come()


def test_the_system_does_not_ring_what_was_cancelled(system: SystemClock) -> None:
    """An alarm that is cancelled before its time is not rung when that comes."""
    done = Sign()

    def cancel() -> None:
        doomed.cancel()

    with system._changed:
        system.at(1, cancel)
        doomed = system.at(2, raising(AssertionError()))
        system.at(3, done.give)
    done.must_come()

    assert doomed.call is None


def test_the_system_is_closed_from_within() -> None:
    """An alarm may close the clock that rings it; nothing rings afterwards, and once is enough."""
    clock = SystemClock()
    closed = Sign()

    def close() -> None:
        clock.close()
        closed.give()

    clock.at(0, close)
    closed.must_come()
    clock.close()
    rung = Sign()
    clock.at(0, rung.give)

    assert not rung.is_there()
    assert clock._thread is not None
    assert not clock._thread.is_alive()


def test_a_clock_without_alarms_has_no_thread() -> None:
    """It is begun and closed without one."""
    clock = SystemClock()
    clock.close()

    assert clock._thread is None


def test_alarms_armed_and_cancelled_by_many_ring_or_do_not(system: SystemClock) -> None:
    """From many threads at once: each rings once, or not at all if it was cancelled in time."""
    rung: list[tuple[int, int]] = []
    kept: list[tuple[int, int]] = []
    far: list[int] = []
    start = threading.Barrier(4)

    def arm(who: int) -> None:
        start.wait(PATIENCE)
        for number in range(300):
            key = (who, number)
            system.at(system.now(), lambda key=key: rung.append(key))  # type: ignore[misc]  # a default binds it
            kept.append(key)
            system.at(system.now() + HOUR, lambda: far.append(1)).cancel()

    crew = [threading.Thread(target=arm, args=(who,), daemon=True) for who in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(PATIENCE)
    done = Sign()
    system.at(system.now(), done.give)
    done.must_come()

    assert sorted(rung) == sorted(kept)
    assert far == []


def test_a_forked_child_is_told_to_begin_its_own_clock(system: SystemClock) -> None:
    """The thread that rings stayed behind in the parent."""

    def child() -> None:
        with pytest.raises(Forked, match="begin your own in the child"):
            system.at(0, raising(AssertionError()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        told = survived(child)

    assert told == ""

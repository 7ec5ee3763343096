"""Rules about a disk that fails: nobody is told that something is kept which is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.catalogue import CODEC
from actors.session.runes import Paused
from runefold.testing.simulation.world.disk import Disk
from runefold.testing.stage import PowerCut
from runelog.errors import LogFailed, LogFull
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.rune import Envelope

HERE = "conv_a"
CHANGE = [Change("session", None, [Paused()])]


class Machine:
    """A machine that does what it has to when it is told."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self.waiting: list[Callable[[], None]] = []
        self.seen: list[int] = []

    def now(self) -> int:
        """Return the time."""
        return 1

    def soon(self, commit: Callable[[], None]) -> None:
        """Remember what is to be committed."""
        self.waiting.append(commit)

    def committed(self, envelope: Envelope) -> None:
        """Remember what is on disk."""
        self.seen.append(envelope.event_id)


@pytest.fixture
def machine() -> Machine:
    """Return a machine."""
    return Machine()


@pytest.fixture
def disk(machine: Machine) -> Disk:
    """Return its disk."""
    return Disk(machine, CODEC)


def test_what_nobody_waits_for_is_on_disk_a_moment_later(disk: Disk, machine: Machine) -> None:
    """And nobody sees it before."""
    disk.append(HERE, CHANGE, durable=False)
    before = [*machine.seen]
    machine.waiting.pop()()

    assert (before, machine.seen, disk.is_settled) == ([], [1], True)


def test_a_power_cut_takes_back_what_is_not_on_disk(disk: Disk, machine: Machine) -> None:
    """What is, stays; and until it is mended, nothing is possible."""
    disk.append(HERE, CHANGE)
    disk.append(HERE, CHANGE, durable=False)
    with pytest.raises(PowerCut):
        disk.cut()
    with pytest.raises(PowerCut):
        disk.flush()
    disk.mend()
    machine.waiting[-1]()

    assert disk.append(HERE, CHANGE).last == 2
    assert machine.seen == [1, 2]


@pytest.mark.parametrize("after", [False, True])
def test_the_power_fails_at_an_append(disk: Disk, *, after: bool) -> None:
    """Just before it is on disk, or just after."""
    disk.cut_in, disk.cut_after = 2, after
    disk.append(HERE, CHANGE, durable=False)
    with pytest.raises(PowerCut):
        disk.append(HERE, CHANGE, durable=False)
    disk.mend()

    assert disk.position == (2 if after else 0)


def test_without_room_nothing_is_lost(disk: Disk) -> None:
    """Whoever appends is told, and can append once there is room."""
    disk.append(HERE, CHANGE, durable=False)
    disk.no_room_for = 1
    with pytest.raises(LogFull):
        disk.append(HERE, CHANGE)

    assert disk.append(HERE, CHANGE).last == 2


def test_what_was_taken_and_found_no_room_is_told_once(disk: Disk) -> None:
    """To whoever comes next in that conversation, and to nobody else."""
    disk.append(HERE, CHANGE, durable=False)
    disk.turns_away = True
    disk.append("conv_b", CHANGE, durable=False)
    with pytest.raises(LogFull):
        disk.flush(HERE)
    with pytest.raises(LogFull):
        disk.append("conv_b", CHANGE)
    disk.flush(HERE)

    assert disk.position == 0


@pytest.mark.parametrize("late", [False, True])
def test_a_commit_that_fails_fails_the_log(disk: Disk, *, late: bool) -> None:
    """Nothing more is taken before it is opened again; what it did to the last is not known."""
    disk.append(HERE, CHANGE, durable=False)
    disk.fails, disk.fails_late = True, late
    for _ in range(2):
        with pytest.raises(LogFailed):
            disk.append(HERE, CHANGE)
    disk.mend()

    assert disk.position == (2 if late else 0)

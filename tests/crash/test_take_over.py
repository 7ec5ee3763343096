"""A writer that hangs, wherever it hangs, can be taken over; what it acknowledged is there."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from runelog.directory import takeover
from runelog.errors import Busy
from runelog.rune import State
from runelog.store import Runelog
from tests.crash.calls import Saboteur, watch
from tests.crash.guard import Child, survived
from tests.crash.judge import PROBE, observe, probe, sound
from tests.crash.ptrace import PATIENCE, Kill, needs_tracer
from tests.crash.runs import scratch
from tests.crash.story import CODEC, SHORT, SMALL, Pipe, open_log, play, possible, promised

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ProcessPoolExecutor

    from tests.crash.calls import Change
    from tests.crash.ptrace import Fail

FIRST: Final = 1.0
"""Seconds that the first who takes over waits; one that is given up too early is no harm."""


class Taken(NamedTuple):
    """What came of a take-over."""

    waits: bool
    """Whether it had to wait for the writer to go on, or to be killed."""
    wrong: str


class Intruder(Saboteur):
    """At the n-th change of a writer, has another take its log over while it stands still."""

    def __init__(self, root: Path, number: int, ack: int, *, kill: bool) -> None:
        """Wait for change `number`; if the take-over has to wait, kill the writer or let it go."""
        super().__init__(str(root), number, Kill())
        self.ack = ack
        self.kill = kill
        self.told_before = 0
        """How many steps the writer had told of when its log was taken over."""
        self.wrong = ""
        self.waiting: Child | None = None

    def judge(self, change: Change) -> Fail | Kill | None:
        """Take over, and decide how the writer goes on."""
        self.told_before += change.what == "ack" and self.hit is None
        if super().judge(change) is None:
            return None
        self.wrong = survived(partial(take_over, self.root, FIRST))
        if Busy.__name__ not in self.wrong:
            return None
        lock = Path(self.root, "log", "LOCK").read_bytes()
        named = f"process {json.loads(lock)['pid']} (" in self.wrong
        self.wrong = "" if named else f"Busy does not name the writer: {self.wrong}"
        self.waiting = Child(partial(take_over, self.root, PATIENCE))
        return Kill() if self.kill else None


def take_over(root: str, patience: float) -> None:
    """Take the log over, being so patient, and append to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(takeover, "PATIENCE", patience)
        log = Runelog.open(f"{root}/log", CODEC, segment_size=SMALL, take_over=True)
    probe(log)
    log.close()


def taken_over_at(number: int, *, kill: bool) -> Taken:
    """Take a log over while its writer is at its n-th change; return what came of that."""
    with scratch() as root:
        open_log(root / "log").close()
        pipe = Pipe()
        intruder = Intruder(root, number, pipe.writing, kill=kill)
        watch(partial(play, root / "log", SHORT, pipe.tell), intruder)
        told = pipe.told()
        if intruder.hit is None:
            return Taken(waits=False, wrong="")
        wrong = intruder.wrong
        if intruder.waiting is not None:
            wrong = wrong or intruder.waiting.outcome()
        elif not wrong:
            wrong = not_fenced(told[intruder.told_before :])
        wrong = wrong or survived(partial(settled, root / "log", told))
        where = f"taken over at {number}, {intruder.hit}, after {told}: "
        return Taken(intruder.waiting is not None, where + wrong if wrong else "")


def not_fenced(told: Sequence[str]) -> str:
    """Return which step a writer took although it had been taken over.

    The one that was under way may have been over, but for its answer; and whoever opens the log
    anew may write again.
    """
    for at, line in enumerate(told):
        number, _, error = line.partition(" ")
        step = SHORT[int(number) - 1] if int(number) <= len(SHORT) else None
        if step is None or step.do == "reopen":
            break
        if at and step.do in ("append", "roll") and error != "Fenced":
            return f"step {line} was not fenced off"
    return ""


def settled(directory: Path, told: Sequence[str]) -> None:
    """Assert that what either writer was told is there, and nothing is by halves."""
    with open_log(directory) as log:
        world = observe(log)
    assert world.pop(PROBE) == (State.LIVE, ("probe",))
    sure = promised(SHORT, told)
    maybe = {number for number, step in enumerate(SHORT, 1) if step.names}
    assert world in possible(SHORT, sure, maybe), world
    sound(directory)


def judged(pool: ProcessPoolExecutor, moments: Sequence[int]) -> list[Taken]:
    """Take over at each of these moments, twice: the writer is killed, or goes on."""
    return [
        *pool.map(partial(taken_over_at, kill=True), moments),
        *pool.map(partial(taken_over_at, kill=False), moments),
    ]


@needs_tracer
def test_a_writer_that_hangs_can_be_taken_over(pool: ProcessPoolExecutor) -> None:
    """In a sample of moments a take-over succeeds, or does once the writer is killed or goes on.

    Whoever does not get the log soon is told which process has it. What was acknowledged is there,
    and a writer that was taken over acknowledges nothing more.
    """
    found = judged(pool, [1, 12, 30, 46])

    assert [taken.wrong for taken in found if taken.wrong] == []
    assert {taken.waits for taken in found} == {True, False}


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_a_writer_can_be_taken_over_at_any_moment(pool: ProcessPoolExecutor) -> None:
    """The same, at every moment."""
    found = judged(pool, range(1, 100))

    assert [taken.wrong for taken in found if taken.wrong] == []
    assert {taken.waits for taken in found} == {True, False}

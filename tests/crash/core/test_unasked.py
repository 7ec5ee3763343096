"""Kills after which the app does nothing: what was accepted comes to its end by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.core.apps import Check, Play, build_warm
from tests.scenarios.plays import NAME, folded, until

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from runefold.testing.crash.fixture import Sweeper
    from runelog.log import Log

SEED: Final = 7
NAMES: Final = ("charges", "fault", "parallel", "queue", "team")


def has_something_left(log: Log) -> bool:
    """Tell whether anything that was accepted is still to be done, or anybody has work left."""
    if not any(each.id == NAME for each in log.conversations()):
        return False
    state = folded(log)
    return bool([*state.running, *state.waiting, *log.open_work()])


@dataclass(frozen=True)
class Hesitant:
    """Plays a scenario, but waits first until everything is over that was begun before."""

    name: str

    def __call__(self, runtime: Runtime) -> None:
        """Wait without a word to anybody; then go on from the top."""
        if has_something_left(runtime.log):
            until(runtime, lambda: not has_something_left(runtime.log))
        Play(self.name)(runtime)


def swept(sweeper: Sweeper, name: str, **options: object) -> set[str]:
    """Sweep a scenario that is played hesitantly; return what became of its points."""
    report = sweeper(build_warm, Hesitant(name), Check(name), seed=SEED, **options)
    return {result.status for result in report.results}


@pytest.mark.parametrize("name", NAMES)
def test_nobody_has_to_ask_for_it(crash_sweep: Sweeper, name: str) -> None:
    """Cut off somewhere, everything that was accepted comes to its end by being opened."""
    assert swept(crash_sweep, name, in_process=True, sample=12) == {"survived"}


@pytest.mark.crash
@pytest.mark.parametrize("name", NAMES)
def test_nobody_ever_has_to_ask_for_it(crash_sweep: Sweeper, name: str) -> None:
    """So it is wherever it is cut off."""
    assert swept(crash_sweep, name, in_process=True) == {"survived"}


@pytest.mark.crash
@pytest.mark.parametrize("name", NAMES)
def test_killed_for_real_nobody_has_to_ask_for_it(crash_sweep: Sweeper, name: str) -> None:
    """And so it is for a fresh process on a disk."""
    assert swept(crash_sweep, name) == {"survived"}

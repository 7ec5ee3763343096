"""The scenarios of the core as apps for the crash kit: opened, played and checked as any other."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.scheduling.clock import SystemClock
from actors.shell.snapshot_policy import SNAPSHOT_EVERY
from runefold.runtime import Runtime
from runefold.testing import CrashApp
from runefold.testing.crash.instrumentation.clock import SkewedClock
from tests.crash.warm import walking_inside
from tests.scenarios.endings import ENDINGS, ending
from tests.scenarios.judge import broken_promises, misdeeds, misplaced, misprints, stutters
from tests.scenarios.plays import ALL
from tests.scenarios.world import PROVIDERS, Till, tools

if TYPE_CHECKING:
    from pathlib import Path

    from actors.ports import Clock
    from runefold.testing import Effects


def build(directory: Path) -> Runtime:
    """Open a runtime whose tools reach a till in the same directory."""
    return Runtime.open(directory / "log", tools=tools(Till(directory)), providers=PROVIDERS)


def build_warm(directory: Path) -> Runtime:
    """Open the same without a process to look at its files first: for very many points."""
    with walking_inside():
        return build(directory)


HURRY: Final = 50
"""How many times as fast time passes in scenarios that wait for it: the thirty seconds that an
answer may take are then half a second, which is enough on a busy machine too."""


@dataclass(frozen=True)
class Build:
    """Opens a runtime as a scenario needs it."""

    name: str
    warm: bool = False
    """Without a process to look at its files first: for very many points."""
    kept: bool = False
    """So that states are kept as often as can be, and believed after a kill."""

    def __call__(self, directory: Path) -> Runtime:
        """Open it."""
        scenario = ALL[self.name]
        clock: Clock = SkewedClock(HURRY) if scenario.hurried else SystemClock()
        with walking_inside() if self.warm else contextlib.nullcontext():
            return Runtime.open(
                directory / "log",
                tools=tools(Till(directory)),
                providers=PROVIDERS,
                clock=clock,
                idle_after=scenario.idle_after,
                snapshot_every=1 if self.kept else SNAPSHOT_EVERY,
            )


def till_of(runtime: Runtime) -> Till:
    """Return the till of a runtime."""
    directory: Path = runtime.log.directory  # type: ignore[attr-defined]  # all have one here
    return Till(directory.parent)


@dataclass(frozen=True)
class Play:
    """Plays a scenario."""

    name: str

    def __call__(self, runtime: Runtime) -> None:
        """Play it, from the top or from wherever it was left."""
        ALL[self.name].play(runtime, till_of(runtime))


@dataclass(frozen=True)
class Check:
    """What must be true of a scenario beside what must be true of every app."""

    name: str
    ended: bool = True
    """Whether it is held to the end that was asked for, as long as nobody disturbs it."""

    def __call__(self, runtime: Runtime, effects: Effects) -> None:
        """Look at what was charged and written outside, what was said, what the app was told.

        Undisturbed, it must also have come to the end that was asked for: a run that was cut off is
        only compared with that one.
        """
        log, till, blind = runtime.log, till_of(runtime), ALL[self.name].blind
        wrong = [
            *misdeeds(log, till, blind=blind),
            *misprints(log, till.place),
            *([] if effects.fault else stutters(log)),
            *misplaced(log),
            *broken_promises(log, till),
        ]

        assert wrong == []
        if self.ended and not effects.point:
            assert ending(log, till) == ENDINGS[self.name]


def app(name: str, *, warm: bool = False, kept: bool = False) -> CrashApp:
    """Return a scenario as an app."""
    return CrashApp(Build(name, warm or kept, kept), Play(name), Check(name), name)

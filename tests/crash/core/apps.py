"""The scenarios of the core as apps for the crash kit: opened, played and checked as any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.tool.runes import Result
from runefold.runtime import Runtime
from runefold.testing import CrashApp
from runefold.testing.crash.clock import SkewedClock
from tests.crash.warm import walking_inside
from tests.scenarios.judge import broken_promises
from tests.scenarios.plays import ALL, NAME
from tests.scenarios.world import PROVIDERS, FileTill, is_charge, tools

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.testing import Effects

SLOW: Final = frozenset({"timed"})
"""Scenarios in which minutes pass."""


def build(directory: Path) -> Runtime:
    """Open a runtime whose tools reach a till in the same directory."""
    return Runtime.open(directory / "log", tools=tools(FileTill(directory)), providers=PROVIDERS)


def build_hurried(directory: Path) -> Runtime:
    """Open the same with a clock on which time flies: for scenarios in which it must pass."""
    clock = SkewedClock()
    clock.hurry()
    till = FileTill(directory)
    return Runtime.open(directory / "log", tools=tools(till), providers=PROVIDERS, clock=clock)


def build_warm(directory: Path) -> Runtime:
    """Open the same without a process to look at its files first: for very many points."""
    with walking_inside():
        return build(directory)


def build_kept(directory: Path) -> Runtime:
    """Open the same so that states are kept as often as can be, and believed after a kill."""
    found = tools(FileTill(directory))
    with walking_inside():
        return Runtime.open(directory / "log", tools=found, providers=PROVIDERS, snapshot_every=1)


def till_of(runtime: Runtime) -> FileTill:
    """Return the till of a runtime."""
    directory: Path = runtime.log.directory  # type: ignore[attr-defined]  # all have one here
    return FileTill(directory.parent)


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

    def __call__(self, runtime: Runtime, _effects: Effects) -> None:
        """Look at the till: what was charged, and what the app was told."""
        till = till_of(runtime)
        entries = till.entries()
        found = [rune.payload for rune in runtime.log.read(NAME, kinds={"tool.result"})]
        results = {rune.call_id: rune for rune in found if isinstance(rune, Result)}
        unknown = [call for call, result in results.items() if result.status == "unknown"]
        done = {call for call, result in results.items() if is_charge(result)}

        assert len(entries) == len(set(entries)), "something was charged twice"
        assert set(entries) <= set(results), "something was charged that the log does not know"
        assert done <= set(entries), "something was said to be charged that was not"
        assert not unknown or ALL[self.name].blind, "unknown although there is a probe"
        assert list(broken_promises(runtime.log, till)) == []


def app(name: str, *, warm: bool = False, kept: bool = False) -> CrashApp:
    """Return a scenario as an app."""
    opened = build_kept if kept else build_warm if warm else build
    return CrashApp(build_hurried if name in SLOW else opened, Play(name), Check(name), name)

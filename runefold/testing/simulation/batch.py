"""Many seeds, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.simulation import play

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK: Final = 20
"""How many seeds a process takes at a time."""


class Failed(NamedTuple):
    """A seed that found something wrong."""

    seed: int
    rule: str
    message: str


class Tally(NamedTuple):
    """What some seeds came to."""

    seeds: int = 0
    steps: int = 0
    runes: int = 0
    failed: tuple[Failed, ...] = ()

    def plus(self, other: Tally) -> Tally:
        """Return both together."""
        return Tally(
            self.seeds + other.seeds,
            self.steps + other.steps,
            self.runes + other.runes,
            self.failed + other.failed,
        )


def play_some(seeds: Iterable[int], app: str = "") -> Tally:
    """Play some seeds, one after the other, with the machines of an app if one is named."""
    tally = Tally()
    for seed in seeds:
        outcome = play(draw(seed, app))
        failed = tuple(Failed(seed, *wrong) for wrong in outcome.wrong[:1])
        tally = tally.plus(Tally(1, outcome.steps, outcome.runes, failed))
    return tally


def play_all(first: int, count: int, jobs: int | None = None, app: str = "") -> Iterator[Tally]:
    """Play many seeds, in parallel; yield what there is so far, again and again."""
    chunks = [
        range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)
    ]
    jobs = min(jobs or os.cpu_count() or 1, len(chunks))
    tally = Tally()
    if jobs <= 1:
        for chunk in chunks:
            tally = tally.plus(play_some(chunk, app))
            yield tally
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for done in pool.map(partial(play_some, app=app), chunks):
            tally = tally.plus(done)
            yield tally


class SimulationRate:
    """How fast it goes."""

    def __init__(self) -> None:
        """Begin now."""
        self._began = time.perf_counter()

    def shown(self, tally: Tally) -> str:
        """Say how many seeds and steps a second it was until now."""
        took = max(time.perf_counter() - self._began, 1e-9)
        return f"{took:.0f} s, {tally.seeds / took:,.1f} seeds/s, {tally.steps / took:,.0f} steps/s"

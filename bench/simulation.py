"""How fast crashes are tried out: steps a second when simulated, points a second when swept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from bench.measure import race
from bench.scene import QUESTION, SPEC, open_runtime
from bench.table import Row
from runefold.testing import CrashApp, SweepOptions, sweep
from runefold.testing.simulation import draw
from runefold.testing.simulation.simulation import Simulation
from runelog.errors import UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results
    from runefold.runtime import Runtime

NAME: Final = "conv-swept"
TURNS: Final = 2


def rows(_directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure both, on one core."""
    return [_simulated(sizes), _swept(sizes)]


def _simulated(sizes: Sizes) -> Row:
    """Play some seeds with a look after each step at all that must hold, and without it."""
    plans = [draw(seed) for seed in range(sizes.simulated)]

    def playing(*, strict: bool) -> Callable[[], float]:
        def play() -> float:
            began, steps = time.perf_counter(), 0
            for plan in plans:
                steps += Simulation(plan, strict=strict).run().steps
            return steps / (time.perf_counter() - began)

        return play

    ours, blind = race(2, playing(strict=True), playing(strict=False))
    return Row(
        name=f"simulation of {sizes.simulated} seeds, one core",
        ours=ours,
        peer=blind,
        peer_name="the same without a look after each step",
        ratio=ours / blind,
        bar="",
        unit="steps/s",
    )


# -- the sweep ----------------------------------------------------------------------------------


def build(directory: Path) -> Runtime:
    """Open the runtime with the model and the tool of the scene."""
    return open_runtime(directory / "log")


def scenario(runtime: Runtime) -> None:
    """Make some turns, from the first or from wherever it was left."""
    try:
        session = runtime.session(NAME)
    except UnknownConversation:
        session = runtime.create_session(SPEC, conversation_id=NAME)
    for number in range(TURNS):
        result = session.send(QUESTION, message_id=f"m{number}").result(timeout=60)
        assert result, result


def _swept(sizes: Sizes) -> Row:
    """Cut turns off at many points in one process; kill them for real at some."""
    app = CrashApp(build, scenario)

    def rate(*, in_process: bool) -> float:
        sample = sizes.swept if in_process else sizes.killed
        report = sweep(app, SweepOptions(in_process=in_process, seed=1, jobs=1, sample=sample))
        assert report.ok, [*report.lines()]
        return report.rate

    ours, killed = race(1, lambda: rate(in_process=True), lambda: rate(in_process=False))
    return Row(
        name=f"crash sweep of {TURNS} turns in one process, one core",
        ours=ours,
        peer=killed,
        peer_name="the same, killed for real each time",
        ratio=ours / killed,
        bar="",
        unit="points/s",
    )

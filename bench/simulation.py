"""How fast the runtime is simulated: steps a second on one core, with everything looked at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.measure import race
from bench.table import Row
from runefold.testing.simulation import draw
from runefold.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.measure import Sizes


def rows(_directory: Path, sizes: Sizes) -> list[Row]:
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
    return [
        Row(
            name=f"simulation of {sizes.simulated} seeds, one core",
            ours=ours,
            peer=blind,
            peer_name="the same without a look after each step",
            ratio=ours / blind,
            bar="",
            unit="steps/s",
        )
    ]

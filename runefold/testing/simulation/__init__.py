"""Simulation: the whole runtime on one thread, with everything that can happen drawn from a seed.

A seed draws a world (agents, tools, what a model answers), what an app and its users do in it, what
goes wrong and when, and who of those who could takes each step. After each step, everything that
must hold is looked at. The same seed gives the same run, rune by rune; one that finds something
wrong is made shorter until nothing can be left out, and told in words.

>>> simulate(7).wrong
()

On all cores, from a shell: `python -m runefold.testing.simulation --seeds 2000`.
"""

from runefold.testing.simulation.checks.ground_truth import Wrong
from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.plan.plans import Plan, decode, encode
from runefold.testing.simulation.shrinking import Shrinker
from runefold.testing.simulation.simulation import Outcome, play
from runefold.testing.simulation.world.machines import App

__all__ = [
    "App",
    "Outcome",
    "Plan",
    "Shrinker",
    "Wrong",
    "decode",
    "draw",
    "encode",
    "play",
    "simulate",
]


def simulate(seed: int, app: str = "") -> Outcome:
    """Play what a seed draws, to its end or to the first thing that is wrong.

    `app` names an `App` as `package.module:name`: its machines are played too.
    """
    return play(draw(seed, app))

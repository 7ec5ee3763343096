"""Killed for real at every append and in every tool: a fresh process comes to the same end."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.core.cuts import undisturbed
from tests.crash.core.kills import MOMENTS, Kill, count, survive
from tests.scenarios.plays import ALL

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

SEED: Final = 5


def kills(pool: ProcessPoolExecutor, name: str) -> list[Kill]:
    """Return every moment at which a scenario can be killed."""
    appends = pool.submit(count, name).result()
    effects = len(undisturbed(name)[0].effects)
    inside = [Kill(n, when, "tool") for n in range(1, effects + 1) for when in ("before", "after")]
    return [*(Kill(n, when) for n in range(1, appends + 1) for when in MOMENTS), *inside]


@pytest.mark.parametrize("name", ALL)
def test_killed_somewhere_it_comes_to_the_same_end(pool: ProcessPoolExecutor, name: str) -> None:
    """Killed at a sample of its moments and opened again, a conversation ends as without that."""
    chosen = random.Random(SEED).sample(kills(pool, name), 2)
    wrong = pool.map(partial(survive, name), chosen)

    assert list(filter(None, wrong)) == []


def test_a_charge_is_made_once_whenever_the_process_is_killed(pool: ProcessPoolExecutor) -> None:
    """Killed right after a charge was made, nobody makes it again: asked about, or unknown."""
    killed = Kill(2, "after", "tool")
    wrong = pool.map(partial(_survive, killed), ["charges", "blind charges"])

    assert list(filter(None, wrong)) == []


def _survive(kill: Kill, name: str) -> str:
    return survive(name, kill)


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", ALL)
def test_killed_anywhere_it_comes_to_the_same_end(pool: ProcessPoolExecutor, name: str) -> None:
    """Killed at any append and in any tool and opened again, it ends as without that."""
    wrong = pool.map(partial(survive, name), kills(pool, name))

    assert list(filter(None, wrong)) == []


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", ALL)
def test_killed_twice_it_comes_to_the_same_end(pool: ProcessPoolExecutor, name: str) -> None:
    """Killed again while it recovers, it ends as without that."""
    dice = random.Random(SEED)
    pairs = [
        (first, Kill(dice.randint(1, 12), dice.choice(MOMENTS)))
        for first in dice.sample(kills(pool, name), 20)
    ]
    wrong = pool.map(partial(_survive_both, name), pairs)

    assert list(filter(None, wrong)) == []


def _survive_both(name: str, pair: tuple[Kill, Kill]) -> str:
    return survive(name, *pair)

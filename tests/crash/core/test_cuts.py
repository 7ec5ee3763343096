"""Power cuts at every append and in every tool: a conversation comes to the same end."""

from __future__ import annotations

import random
from typing import Final

import pytest

from tests.crash.core.cuts import Cut, points, recover, sample, survive, undisturbed
from tests.scenarios.plays import ALL

SEED: Final = 7
SEEDS: Final = (None, 1, 2, 3, 4, 5)
"""Orders in which things happen; the first is the order in which they come."""
DURING: Final = 6
"""How many second cuts are tried for each first one."""


@pytest.mark.parametrize("name", ALL)
def test_undisturbed_it_breaks_no_rule(name: str) -> None:
    """A conversation that nothing happens to keeps every invariant, and nothing is in doubt."""
    upshot, _ = undisturbed(name)

    assert upshot.problems == []
    assert upshot.doubts == []


@pytest.mark.parametrize("name", ALL)
def test_cut_off_somewhere_it_comes_to_the_same_end(name: str) -> None:
    """After a power cut at a sample of its moments, a conversation ends as without one."""
    chosen = sample(points(name), 10, SEED)

    assert [wrong for cut in chosen for wrong in survive(name, None, cut)] == []


@pytest.mark.parametrize("name", ALL)
def test_cut_off_twice_it_comes_to_the_same_end(name: str) -> None:
    """A second power cut, while the first is being recovered from, changes nothing either."""
    dice = random.Random(SEED)
    pairs = [(first, _second(dice)) for first in sample(points(name, SEED), 4, SEED)]

    assert [wrong for cuts in pairs for wrong in survive(name, SEED, *cuts)] == []


def _second(dice: random.Random) -> Cut:
    return Cut(dice.randint(1, 12), dice.random() < 0.5)


@pytest.mark.parametrize("name", ["charges", "fault", "parallel", "queue", "team"])
def test_nobody_has_to_ask_for_it(name: str) -> None:
    """After a power cut everything that was accepted comes to its end by being opened."""
    chosen = sample(points(name), 8, SEED)

    assert [wrong for cut in chosen for wrong in recover(name, cut)] == []


@pytest.mark.parametrize("name", ["charges", "blind charges"])
@pytest.mark.parametrize("after", [False, True])
def test_a_charge_is_never_made_twice(name: str, *, after: bool) -> None:
    """Cut off in each of three charges, before and after it was made, none is made twice."""
    cuts = [Cut(number, after, "tool") for number in (1, 2, 3)]

    assert [wrong for cut in cuts for wrong in survive(name, None, cut)] == []


@pytest.mark.crash
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ALL)
def test_cut_off_anywhere_it_comes_to_the_same_end(name: str, seed: int | None) -> None:
    """After a power cut at any moment, in any order of events, it ends as without one."""
    assert [wrong for cut in points(name, seed) for wrong in survive(name, seed, cut)] == []


@pytest.mark.crash
@pytest.mark.parametrize("seed", [None, SEED])
@pytest.mark.parametrize("name", ALL)
def test_cut_off_anywhere_and_again_it_comes_to_the_same_end(name: str, seed: int | None) -> None:
    """After a power cut at any moment, and others on the way back, it ends as without any."""
    dice = random.Random(SEED)
    pairs = [(first, _second(dice)) for first in points(name, seed) for _ in range(DURING)]

    assert [wrong for cuts in pairs for wrong in survive(name, seed, *cuts)] == []

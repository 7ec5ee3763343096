"""Whatever a seed draws, everything that must hold does."""

from __future__ import annotations

from typing import Final

import pytest

from runefold.testing.simulation.batch import play_some

EACH: Final = 10
"""A test of its own for every few seeds: whoever runs tests in parallel can share them out."""
FIRST: Final = (*range(0, 120, EACH),)


@pytest.mark.parametrize("first", FIRST, ids=lambda first: f"from {first}")
def test_nothing_is_wrong_with_a_seed(first: int) -> None:
    """Worlds, faults and orders of events that seeds draw break no rule and come to an end.

    `python -m runefold.testing.simulation --seed SEED` tells the story of one that does not.
    """
    assert play_some(range(first, first + EACH)).failed == ()


@pytest.mark.crash
@pytest.mark.parametrize("first", range(120, 11_120, 500), ids=lambda first: f"from {first}")
def test_nothing_is_wrong_with_many_seeds(first: int) -> None:
    """The same for many more of them."""
    assert play_some(range(first, first + 500)).failed == ()

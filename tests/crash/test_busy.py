"""A busy writer, killed again and again: what it acknowledged is there each time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.busy import killed_at_random

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

KILLS: Final = 4


@pytest.mark.parametrize("seeds", [(1, 2)])
def test_a_busy_writer_can_be_killed(pool: ProcessPoolExecutor, seeds: tuple[int, ...]) -> None:
    """Killed 8 times at random, a busy writer has never acknowledged what is not there."""
    wrong = pool.map(partial(killed_at_random, kills=KILLS), seeds)

    assert list(filter(None, wrong)) == []


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(100, 150, 10))
def test_a_busy_writer_can_be_killed_200_times(warm: ProcessPoolExecutor, first: int) -> None:
    """Killed 200 times at random, a busy writer has never acknowledged what is not there."""
    wrong = warm.map(partial(killed_at_random, kills=KILLS), range(first, first + 10))

    assert list(filter(None, wrong)) == []

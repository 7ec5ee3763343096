"""Killed at any change of any file: the log opens, and all that was acknowledged is there."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.ptrace import needs_tracer
from tests.crash.runs import count_changes, kill_at
from tests.crash.story import KEEPING, SHORT

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

SEED: Final = 11


@needs_tracer
def test_a_killed_writer_loses_nothing(pool: ProcessPoolExecutor) -> None:
    """Killed at a sample of its changes, from creating the log on, a writer leaves it whole."""
    count = pool.submit(count_changes, SHORT).result()
    chosen = random.Random(SEED).sample(range(1, count + 1), 24)
    wrong = pool.map(partial(kill_at, SHORT), chosen)

    assert list(filter(None, wrong)) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_a_writer_killed_anywhere_loses_nothing(warm: ProcessPoolExecutor) -> None:
    """Killed at each of its changes, from creating the log on, a writer leaves it whole."""
    count = warm.submit(count_changes, SHORT).result()
    wrong = warm.map(partial(kill_at, SHORT), range(1, count + 1))

    assert list(filter(None, wrong)) == []


def kills(pool: ProcessPoolExecutor, name: str, sample: int | None) -> list[str]:
    """Kill a writer during the operation that ends a story; return what is wrong afterwards."""
    story = KEEPING[name]
    skip = len(story) - 2
    count = pool.submit(count_changes, story, skip).result()
    numbers = range(1, count + 1)
    chosen = numbers if sample is None else random.Random(SEED).sample(numbers, sample)
    return list(filter(None, pool.map(partial(kill_at, story, skip=skip), chosen)))


@needs_tracer
@pytest.mark.parametrize("name", KEEPING)
def test_keeping_happens_or_does_not(warm: ProcessPoolExecutor, name: str) -> None:
    """Killed at a sample of its changes, each operation is done wholly or not at all."""
    assert kills(warm, name, 8) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", KEEPING)
def test_keeping_happens_or_does_not_wherever_it_is_killed(
    warm: ProcessPoolExecutor, name: str
) -> None:
    """Killed at each of its changes, each operation is done wholly or not at all."""
    assert kills(warm, name, None) == []

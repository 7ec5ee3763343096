"""Processes to crash things in, as many as there are cores to spare."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.crash.warm import keep_warm

if TYPE_CHECKING:
    from collections.abc import Iterator


def _count() -> int:
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return max(1, (os.cpu_count() or 1) // beside)


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Provide fresh processes with one thread each: only those can be forked without regret."""
    with ProcessPoolExecutor(_count(), multiprocessing.get_context("spawn")) as workers:
        yield workers


@pytest.fixture(scope="session")
def warm() -> Iterator[ProcessPoolExecutor]:
    """Provide such processes for sweeps: files are walked in children that are forked."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_count(), context, initializer=keep_warm) as workers:
        yield workers

"""Processes to crash things in, as many as there are cores to spare."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Provide fresh processes with one thread each: only those can be forked without regret."""
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    count = max(1, (os.cpu_count() or 1) // beside)
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as workers:
        yield workers

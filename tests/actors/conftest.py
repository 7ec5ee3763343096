"""What the tests of this folder stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.scheduling.clock import ManualClock, SystemClock
from actors.scheduling.loop import Loop
from actors.scheduling.manual_scheduler import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.ports import Scheduler


@pytest.fixture
def threads() -> Iterator[Loop]:
    """Real threads."""
    clock = SystemClock()
    scheduler = Loop(clock)
    yield scheduler
    scheduler.close()
    clock.close()


@pytest.fixture
def manual() -> ManualScheduler:
    """One thread, everybody in turn."""
    return ManualScheduler(ManualClock())


@pytest.fixture(params=["manual", "threads"])
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    """Either: what is true on one is true on the other."""
    found: Scheduler = request.getfixturevalue(request.param)
    return found

"""What the tests of this folder stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.clock import HandClock, SystemClock
from actors.hand import HandScheduler
from actors.threads import ThreadScheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.ports import Scheduler


@pytest.fixture
def threads() -> Iterator[ThreadScheduler]:
    """Real threads."""
    clock = SystemClock()
    scheduler = ThreadScheduler(clock)
    yield scheduler
    scheduler.close()
    clock.close()


@pytest.fixture
def hand() -> HandScheduler:
    """One thread, everybody in turn."""
    return HandScheduler(HandClock())


@pytest.fixture(params=["hand", "threads"])
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    """Either: what is true on one is true on the other."""
    found: Scheduler = request.getfixturevalue(request.param)
    return found

"""Rules about time under faults: what waits for a time limit is hurried, and nothing else is."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from actors.catalogue import CODEC
from actors.model.provider import Done, Pause, Request, Text
from actors.tool.adapters.function import tool
from actors.tool.context import Call
from actors.tool.outcome import Outcome
from runefold.testing.crash.instrumentation.clock import GENTLY, SPEED, SkewedClock
from runefold.testing.crash.plan.faults import Faults
from runelog.errors import LogFull
from runelog.memory import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.model.provider import Event

ASKED = Request("model", "", ())


class Pace:
    """A clock that says at what pace it goes, and is never waited for."""

    def __init__(self) -> None:
        """Begin at leisure."""
        self.now = "leisure"
        self.waited: list[str] = []
        """The pace at which it was waited for."""

    def hurry(self) -> None:
        """Hurry."""
        self.now = "hurry"

    def hasten(self) -> None:
        """Hasten."""
        self.now = "haste"

    def jump(self, seconds: float) -> None:
        """Stay where it is."""

    def outlast(self, _call: Call) -> None:
        """Wait for a tool's time limit."""
        self.waited.append(self.now)

    def hang(self, _is_over: Callable[[], bool]) -> None:
        """Wait for a model's time limit."""
        self.waited.append(self.now)


def said() -> Generator[Event]:
    """Say something."""
    yield Text("yes")
    yield Done()


@tool
def wait() -> str:
    """Wait."""
    return "waited"


@pytest.mark.parametrize("fault", ["provider-timeout", "provider-hangs", "provider-slow"])
def test_time_is_hurried_only_as_long_as_somebody_waits_for_a_model(fault: str) -> None:
    """Once its stream is given up there is no hurry: the next tool has to get done in its time."""
    pace = Pace()
    stream = Faults(pace).of_model(fault, said, ASKED)
    assert isinstance(stream, Generator)
    for event in stream:
        if isinstance(event, Pause):
            pace.waited.append(pace.now)
            break
    stream.close()

    assert {*pace.waited} == {"hurry"}
    assert pace.now == "haste"


def test_time_is_hurried_only_as_long_as_a_tool_hangs() -> None:
    """Whatever comes behind it has its time again."""
    pace = Pace()
    Faults(pace).of_tool(
        "tool-hangs", lambda: Outcome("success"), Call(call_id="call_1"), wait.spec
    )

    assert pace.waited == ["hurry"]
    assert pace.now == "haste"


def test_a_full_disk_is_no_hurry() -> None:
    """It is tried again after a pause, and that is all that has to pass."""
    pace = Pace()
    with pytest.raises(LogFull):
        Faults(pace).of_log("disk-full", MemoryLog(CODEC))

    assert pace.now == "haste"


@pytest.mark.parametrize(("pace", "then"), [(1, GENTLY), (SPEED, SPEED)])
def test_an_app_that_is_hurried_stays_so(pace: int, then: int) -> None:
    """A fault does not have minutes pass slowly that an app wants to pass quickly."""
    clock = SkewedClock(pace)
    clock.hasten()
    was = vars(clock)["_speed"]
    clock.close()

    assert was == then

"""A tool that can be stopped has time to stop, however the clock was set."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from actors.model.providers.scripted import Scripted, call
from actors.scheduling.clock import ManualClock
from actors.scheduling.loop import Loop
from actors.tool.outcome import Outcome
from actors.tool.spec import ToolSpec
from actors.units import SECOND
from runefold.runtime import Runtime
from runefold.spec import AgentSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors.tool.context import Call

PATIENCE: Final = 30.0
GRACE: Final = 5.0


class Slow:
    """A tool that takes its time to stop, and says when it has."""

    spec = ToolSpec(
        name="dig", description="Dig.", parameters={"type": "object"}, timeout=60.0, grace=GRACE
    )

    def __init__(self) -> None:
        """Begin with nothing dug."""
        self.told = threading.Event()
        self.may_end = threading.Event()

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Take anything."""
        return dict(arguments)

    def run(self, call: Call) -> Outcome:
        """Dig until told to stop, and a while longer."""
        call.cancellation.wait(PATIENCE)
        self.told.set()
        self.may_end.wait(PATIENCE)
        return Outcome("cancelled", error="it has stopped")


def test_its_result_waits_until_it_has_stopped(tmp_path: Path) -> None:
    """The clock passes its limit, and the time it has to stop in, at once."""
    clock, slow = ManualClock(), Slow()
    model = Scripted([[call("dig")], "Dug."])
    scheduler = Loop(clock)
    with Runtime.open(
        tmp_path, tools=[slow], providers={"demo": model}, clock=clock, scheduler=scheduler
    ) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo", tools=["dig"]))
        turn = session.send("dig")
        next(iter(session.follow(kinds={"tool.started"}, wait=PATIENCE)))
        clock.move_to(clock.now() + round(100 * SECOND))
        while not slow.told.wait(0.01):
            # The alarm may be set a moment after it was due; this clock rings when it is moved.
            clock.move_to(clock.now())
        # Answered on the lane on which the time that is up was dealt with.
        running = session.state.running
        runtime.log.flush(session.id)
        kinds = [rune.kind for rune in session.runes()]
        slow.may_end.set()
        result = turn.result(PATIENCE)
        (ended,) = session.runes(kinds={"tool.result"})

    assert len(running) == 1
    assert "tool.result" not in kinds
    assert result.output == "Dug."
    assert ended.payload.status == "timeout"  # type: ignore[attr-defined]  # a tool's result

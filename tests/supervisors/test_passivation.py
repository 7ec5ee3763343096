"""Rules about conversations that sleep: what is due while they do so is not missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.tool.adapters.function import tool
from actors.turn.runes import Started
from actors.units import SECOND
from runefold.providers import Scripted, call
from runefold.spec import AgentSpec
from runefold.testing.stage import Stage
from runelog.rune import Change
from supervisors.passivation import Passivator

if TYPE_CHECKING:
    from runefold.sessions import Session

PATIENCE = 100
"""How many seconds a human has."""


@tool(requires_approval=True, approval_timeout=PATIENCE)
def pay() -> str:
    """Pay."""
    return "paid"


class Scene:
    """A session that waits for a human, until nobody answers in time."""

    def __init__(self) -> None:
        """Have it ask."""
        script = Scripted([[call("pay")], ["Nobody answered."]])
        self.stage = Stage(providers={"demo": script}, tools=[pay], idle_after=10_000)
        spec = AgentSpec(role="helper", model="demo", tools=["pay"])
        self.session: Session = self.stage.runtime.create_session(spec)
        self.session.send("Pay.")
        self.stage.run()
        (asked,) = self.session.approvals()
        self.deadline = round(asked.deadline * SECOND)

    def kinds(self) -> list[str]:
        """Return what happened so far."""
        self.stage.log.flush()
        return [envelope.kind for envelope in self.session.runes()]


@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
def test_a_deadline_is_met_however_it_meets_a_session_that_falls_asleep(when: str) -> None:
    """The turn goes on by itself, though nobody asks the session for anything.

    Where the deadline passes while its actors stop, the call has its result, and the turn, which
    has stopped already, is woken to hear of it.
    """
    scene = Scene()
    tree = scene.stage.runtime._core.tree
    running = tree.running(scene.session.id)
    assert running is not None
    if when == "before":
        scene.stage.clock.move_to(scene.deadline)
        scene.stage.run()
    elif when == "meanwhile":
        # The alarm has rung, and the call has not heard it yet.
        scene.stage.clock.move_to(scene.deadline)
    running.stop()
    scene.stage.run()
    asleep = tree.awake() == [], scene.kinds()
    scene.stage.advance(2 * PATIENCE)

    assert asleep[0]
    assert ("tool.result" in asleep[1], "turn.completed" in asleep[1]) == {
        "before": (True, True),
        "meanwhile": (True, False),
        "after": (False, False),
    }[when]
    assert scene.kinds().count("tool.result") == 1
    assert scene.kinds()[-1] == "turn.completed"


def test_an_alarm_rings_once_for_a_deadline() -> None:
    """A session that does nothing about a deadline is not woken for it again and again."""
    stage = Stage(providers={"demo": Scripted(["never asked"])})
    now, roused = stage.clock.now(), list[str]()
    tree = stage.runtime._core.tree
    passivator = Passivator(stage.log, tree.services, tree.kinds, 1, roused.append)
    born = Started(turn_id="turn_1", agent_id="agt_1", input="hi")
    for after, entity in ((10, "turn_1"), (20, "turn_2")):
        deadline = now + after * SECOND
        stage.log.append("conv_a", [Change(entity, None, [born], open=True, deadline=deadline)])
    rung = []
    for _ in range(4):
        passivator.asleep("conv_a")
        rung.append(stage.clock.next_alarm)
        stage.clock.advance(10)

    assert rung == [now + 10 * SECOND, now + 20 * SECOND, None, None]
    assert roused == ["conv_a", "conv_a"]

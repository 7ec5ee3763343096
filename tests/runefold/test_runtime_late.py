"""Rules about what comes too late: deadlines that pass while nobody runs, and a full mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.clock import SECOND, HandClock
from actors.errors import Overloaded
from actors.model.providers.scripted import call, pause
from actors.process import MAILBOX
from actors.session.actor import Look
from actors.tool.adapters.function import tool
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from runefold.sessions import Session


@tool(requires_approval=True, approval_timeout=500)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


def down_for(there: Talk, seconds: float) -> Session:
    """Pull the plug, and open it again so much later."""
    there.stage.crash()
    there.stage.clock = HandClock(there.stage.clock.now() + round(seconds * SECOND))
    there.session = there.stage.reopen().session(NAME)
    return there.session


@pytest.mark.parametrize(("seconds", "lapsed"), [(399, False), (400, True), (9_999, True)])
def test_an_approval_that_lapsed_while_nobody_ran_lapses_at_the_open(
    seconds: float, *, lapsed: bool
) -> None:
    """At once if its time is past, and as a deadline; not a moment before."""
    there = talk([[call("pay")], ["done"]], pay)
    there.session.send("go", message_id="m1")
    there.stage.advance(100)
    session = down_for(there, seconds)
    opened = there.stage.clock.now()
    there.stage.run()
    results: list[Any] = there.runes("tool.result")

    assert [(each.status, each.trigger, each.actor) for each in results] == (
        [("timeout", "deadline", "timeout")] if lapsed else []
    )
    assert len(session.approvals()) == (not lapsed)
    if lapsed:
        assert session.send("go", message_id="m1").result(0).output == "done"
        assert there.stage.clock.now() == opened


@pytest.mark.parametrize(("seconds", "status"), [(80, "completed"), (200, "error")])
def test_a_turn_whose_time_passed_while_nobody_ran_ends_at_the_open(
    seconds: float, status: str
) -> None:
    """What it had said is kept; the model is asked again only if there is time left."""
    there = talk([["so ", pause(5), "so"]], turn_timeout=100)
    there.session.send("go", message_id="m1")
    there.stage.advance(2)
    asked = len(there.model.requests)
    session = down_for(there, seconds)
    result = session.send("go", message_id="m1").result(60)

    assert (result.status, result.output) == (status, "so so" if status == "completed" else "so ")
    assert result.reason == ("timeout" if status == "error" else "")
    assert len(there.model.requests) - asked == (status == "completed")


def test_whoever_sends_more_than_a_session_can_take_is_told_so() -> None:
    """At once, and nothing of it is kept; what came before is handled, and then there is room."""
    there = talk(["Hello!"])
    there.stage.run()
    house = there.stage.runtime.tree_of_actors.house(NAME)
    assert house is not None
    for _ in range(MAILBOX):
        house.session.tell(Look())
    with pytest.raises(Overloaded, match="10,000 messages waiting"):
        there.session.send("too much", message_id="m1")
    there.stage.run()

    assert there.runes("session.input_accepted") == []
    assert there.session.send("now", message_id="m1").result(10).output == "Hello!"

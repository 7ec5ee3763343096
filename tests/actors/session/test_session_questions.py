"""Rules about questions: messages that one agent has for another, asked in a turn that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors import children
from actors.session import public_commands as orders
from actors.session import queue
from actors.session.lifecycle import Phase, is_open
from actors.session.runes import InputRefused, SessionConfig
from actors.turn import runes as turns
from runelog.errors import Refused
from tests.actors.session.scenes import CHILD, inputs, ready, send, spawn

if TYPE_CHECKING:
    from tests.actors.session.world import World

HALTS = (orders.Pause(), orders.Suspend("enough"))


def busy(config: SessionConfig | None = None) -> World:
    """Return a session with an agent in a turn of its own, and a child that is busy too."""
    world = ready(config)
    spawn(world)
    send(world, "m1")
    send(world, "m2", to=CHILD)
    return world


def refused(world: World) -> dict[str, str]:
    """Return the messages that were refused, and why."""
    found = [rune for rune in world.log if isinstance(rune, InputRefused)]
    return {rune.message_id: rune.reason for rune in found}


def waiting(world: World) -> list[str]:
    """Return the messages that wait."""
    return [each.message_id for each in world.session.waiting]


@pytest.mark.parametrize("halt", HALTS)
def test_one_that_waits_is_refused_by_a_halt(halt: orders.Pause | orders.Suspend) -> None:
    """Whoever asked it runs and is to come to its end; what users have sent waits."""
    world = busy()
    send(world, "q1", to=CHILD, asked_in="turn_1")
    send(world, "m3", to=CHILD)
    world.tell("session", halt)
    phase = world.session.phase.value
    why = f"the session is {phase}, and answers nothing before it goes on"

    assert refused(world) == {"q1": why}
    assert waiting(world) == ["m3"]
    assert not is_open(world.session)
    with pytest.raises(Refused, match=f"^{why}$"):
        send(world, "q2", to=CHILD, asked_in="turn_1")
    send(world, "m4", to=CHILD)
    assert waiting(world) == ["m3", "m4"]


def test_one_that_waits_in_a_session_that_is_stuck_waits_on() -> None:
    """Nothing goes on there before somebody has looked, so whoever asked it waits as well."""
    world = busy(SessionConfig(unclean_opens=2))
    send(world, "q1", to=CHILD, asked_in="turn_1")
    for epoch in (1, 2):
        world.tell("session", children.Reopen(epoch))

    assert world.is_in(Phase.SUSPENDED)
    assert waiting(world) == ["q1"]
    world.tell("session", orders.Unsuspend())
    world.end(world.session.running[1])
    world.settle()
    assert "q1" in inputs(world)
    assert refused(world) == {}


@pytest.mark.parametrize("end", [turns.Completed, turns.Interrupted, turns.Error])
def test_one_that_waits_when_whoever_asks_has_ended_is_refused(end: type) -> None:
    """However it ended; and no other comes for it then."""
    world = busy()
    send(world, "q1", to=CHILD, asked_in="turn_1")
    world.end(world.session.running[0], end)

    assert refused(world) == {"q1": "the turn that asks has ended"}
    with pytest.raises(Refused, match=r"^the turn that asks has ended$"):
        send(world, "q2", to=CHILD, asked_in="turn_1")
    world.settle()
    assert inputs(world) == ["m1", "m2"]


def test_those_of_a_turn_can_be_withdrawn_or_one_alone() -> None:
    """Only what waits, and only what was asked in a turn: what users have sent is theirs."""
    world = busy()
    for name in ("q1", "q2", "q3"):
        send(world, name, to=CHILD, asked_in="turn_1")
    send(world, "m3", to=CHILD)

    world.tell("session", queue.Withdraw("too late", message_id="q2"))
    assert refused(world) == {"q2": "too late"}
    for name in ("m3", "q2", "gone"):
        assert world.tell("session", queue.Withdraw("no", message_id=name)) == []
    world.tell("session", queue.Withdraw("stopped", turn_id="turn_1"))
    assert refused(world) == {"q2": "too late", "q1": "stopped", "q3": "stopped"}
    assert waiting(world) == ["m3"]
    assert world.tell("session", queue.Withdraw("stopped", turn_id="turn_1")) == []

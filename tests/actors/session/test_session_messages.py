"""Rules about what becomes of messages, told as small stories."""

from __future__ import annotations

import pytest

from actors.agent.lifecycle import BecomeReady, Fail
from actors.agent.public_commands import Terminate
from actors.agent.runes import AgentConfig
from actors.children import EnsureChild
from actors.session import public_commands as orders
from actors.session import queue, runes
from actors.session.lifecycle import Phase, is_open
from actors.session.queue import MOST_WAITING
from actors.turn import runes as turns
from actors.units import SECOND
from runelog.errors import Refused
from tests.actors.session.scenes import CHILD, inputs, ready, send, spawn
from tests.actors.session.world import ROOT, World

# -- beginning ---------------------------------------------------------------------------------


def test_a_session_becomes_active_when_its_root_is_ready() -> None:
    """Nobody has to say anything first."""
    world = World()

    assert world.due == [EnsureChild(ROOT, "agent")]
    world.tell(ROOT, BecomeReady())
    assert world.is_in(Phase.ACTIVE)
    assert world.log[-1] == runes.Activated(root_agent_id=ROOT, trigger="agent_ready")


def test_the_first_message_makes_it_active_too_and_waits_for_the_root() -> None:
    """The message is safe before anybody can take it up."""
    world = World()

    assert send(world, "m1") == ["session.activated", "session.input_accepted"]
    assert world.due == [EnsureChild(ROOT, "agent")]
    world.tell(ROOT, BecomeReady())
    assert world.due == [queue.BeginTurn(ROOT, "m1"), EnsureChild(ROOT, "agent")]


def test_a_root_that_fails_before_anything_happened_suspends_the_session() -> None:
    """The way to suspended leads through active, in one append."""
    world = World()
    world.tell(ROOT, Fail("no model"))

    assert world.is_in(Phase.SUSPENDED)
    assert world.session.suspension == "root_agent_failed"
    assert not is_open(world.session)


# -- messages ----------------------------------------------------------------------------------


def test_a_message_for_a_free_agent_is_a_turn_at_once() -> None:
    """Accepted and begun in one append, with all that the turn has to know."""
    config = AgentConfig(turn_timeout=30 * SECOND, retries=1, on_crash="interrupt")
    world = ready(root=config)
    world.now = 5 * SECOND

    assert send(world, "m1") == ["session.input_accepted", "turn.started"]
    assert world.log[-1] == turns.Started(
        turn_id="turn_1",
        agent_id=ROOT,
        input="about m1",
        message_id="m1",
        deadline=35 * SECOND,
        model="echo",
        retries=1,
        on_crash="interrupt",
        trigger="message",
    )


def test_messages_wait_for_the_running_turn_and_keep_their_order() -> None:
    """One turn at a time, the oldest message first."""
    world = ready()
    for message_id in ("m1", "m2", "m3"):
        send(world, message_id)

    assert inputs(world) == ["m1"]
    world.settle()
    assert inputs(world) == ["m1", "m2", "m3"]


def test_a_message_sent_again_is_accepted_once() -> None:
    """Whether it waits, runs, or is so old that only the index knows it."""
    world = ready()
    send(world, "m1")
    send(world, "m2")
    old = queue.Accept("m0", "hello", 1, earlier=runes.InputAccepted("m0", "hello"))

    assert send(world, "m1") == []
    assert send(world, "m2") == []
    assert world.tell("session", old) == []
    world.tell("session", orders.Close())
    assert world.tell("session", old) == []


def test_another_message_under_a_used_id_is_refused() -> None:
    """Whether the first one waits, runs or is old: it would be answered with the wrong turn."""
    world = ready()
    send(world, "m1")
    send(world, "m2")
    earlier = runes.InputAccepted("m0", "hello")

    for name, known in (("m0", earlier), ("m1", None), ("m2", None), ("m1", earlier)):
        with pytest.raises(Refused, match=f"the message id {name} is taken, .*; give each"):
            world.tell("session", queue.Accept(name, "good bye", 1, earlier=known))


def test_a_message_under_a_used_id_has_the_same_address() -> None:
    """By name or id, or left out; another agent would be answered for with the first one's turn."""
    world = ready()
    spawn(world)
    spawn(world, "agt_other")
    send(world, "m1", to="clerk")
    send(world, "m2", to="clerk")
    old = runes.InputAccepted("m0", "about m0", to=CHILD)

    for name, known in (("m0", old), ("m1", None), ("m2", None)):
        for to in ("clerk", CHILD, ""):
            again = queue.Accept(name, f"about {name}", 1, to=to, earlier=known)
            assert world.tell("session", again) == []
        for to in (ROOT, "clerk-2", "nobody"):
            again = queue.Accept(name, f"about {name}", 1, to=to, earlier=known)
            with pytest.raises(Refused, match=f"id {name} is taken, by another message to clerk:"):
                world.tell("session", again)
    # Of an agent that is gone the name is not known any more, and may be another's.
    gone = runes.InputAccepted("m0", "about m0", to="agt_gone")
    assert world.tell("session", queue.Accept("m0", "about m0", 1, to="gone", earlier=gone)) == []


def test_a_message_that_was_handed_over_keeps_its_address() -> None:
    """It is the same message for whoever sent it, whichever agent answers it by now."""
    world = ready()
    spawn(world)
    send(world, "m1", to="clerk")
    old = runes.InputAccepted("m1", "about m1", to=ROOT)

    assert world.tell("session", queue.Accept("m1", "about m1", 1, to=ROOT, earlier=old)) == []


def test_a_steering_message_stops_the_turn_and_goes_first() -> None:
    """It takes over from the running turn, ahead of all that wait."""
    world = ready()
    for message_id in ("m1", "m2"):
        send(world, message_id)

    assert not any(isinstance(effect, queue.InterruptTurn) for effect in world.due)
    assert send(world, "s1", "steer") == ["session.input_accepted"]
    assert queue.InterruptTurn("turn_1", "steer") in world.due
    world.settle()
    assert inputs(world) == ["m1", "s1", "m2"]
    assert [rune.trigger for rune in world.log if isinstance(rune, turns.Started)] == [
        "message",
        "steer",
        "message",
    ]


def test_a_message_steers_only_its_own_agent() -> None:
    """The turns of others go on."""
    world = ready()
    spawn(world)
    send(world, "m1")
    send(world, "m2", to=CHILD)
    send(world, "s1", "steer", to=CHILD)

    assert [effect for effect in world.due if isinstance(effect, queue.InterruptTurn)] == [
        queue.InterruptTurn("turn_2", "steer")
    ]


def test_agents_run_their_turns_side_by_side() -> None:
    """One turn at a time is a rule for each agent, not for the session."""
    world = ready()
    spawn(world)
    send(world, "m1")

    assert send(world, "m2", to=CHILD) == ["session.input_accepted", "turn.started"]
    assert [turn.agent_id for turn in world.session.running] == [ROOT, CHILD]


def test_the_end_of_a_turn_frees_its_own_agent() -> None:
    """Whichever of several turns ends first."""
    world = ready()
    spawn(world)
    send(world, "m1")
    send(world, "m2", to=CHILD)
    world.end(world.session.running[1])

    assert [turn.agent_id for turn in world.session.running] == [ROOT]


def test_what_was_due_and_is_overtaken_leads_to_nothing() -> None:
    """A turn that may not begin any more does not, and the message goes on waiting."""
    world = ready()
    send(world, "m1")
    send(world, "m2")
    world.end(world.session.running[0])
    world.tell("session", orders.Pause())

    assert world.tell("session", queue.Begin("m2", 1)) == []
    assert world.tell("session", queue.Begin("m1", 1)) == []
    assert [each.message_id for each in world.session.waiting] == ["m2"]


def test_nobody_overtakes_between_two_turns() -> None:
    """While the next turn is about to begin, a new message goes behind those that wait."""
    world = ready()
    send(world, "m1")
    send(world, "m2")
    world.end(world.session.running[0])

    assert send(world, "m3") == ["session.input_accepted"]
    assert world.tell("session", queue.Begin("m3", 1)) == []
    world.settle()
    assert inputs(world) == ["m1", "m2", "m3"]


def test_messages_wait_while_nothing_may_begin() -> None:
    """Paused or suspended, it accepts; resumed, it takes them up."""
    for hold, go in (
        (orders.Pause(), orders.Resume()),
        (orders.Suspend("look"), orders.Unsuspend()),
    ):
        world = ready()
        world.tell("session", hold)

        assert send(world, "m1") == ["session.input_accepted"]
        assert world.due == []
        assert not is_open(world.session)
        world.tell("session", go)
        world.settle()
        assert inputs(world) == ["m1"]


def test_a_closing_session_refuses_with_the_way_out() -> None:
    """Whoever is turned away is told what to do instead."""
    world = ready()
    world.tell("session", orders.Close())

    with pytest.raises(Refused, match="takes no more messages; create another one"):
        send(world, "m1")


def test_a_message_to_an_agent_that_is_not_there_is_refused() -> None:
    """It never enters the queue."""
    with pytest.raises(Refused, match="no agent agt_nobody"):
        send(ready(), "m1", to="agt_nobody")


def test_messages_whose_agent_terminates_are_refused_in_the_log() -> None:
    """Who waited for an agent that is gone hears of it, once."""
    world = ready()
    spawn(world)
    for message_id in ("m1", "m2", "m3"):
        send(world, message_id, to=CHILD)
    world.tell(CHILD, Terminate("kill", force=True))
    refused = [rune for rune in world.log if isinstance(rune, runes.InputRefused)]

    assert [rune.message_id for rune in refused] == ["m2", "m3"]
    assert refused[0].reason == f"agent {CHILD} is gone"
    assert world.is_in(Phase.ACTIVE)


def test_a_queue_that_is_full_says_so() -> None:
    """A sender that is too fast is told, and the state stays small."""
    world = ready()
    world.tell("session", orders.Pause())
    state = world.session
    for number in range(MOST_WAITING):
        send_to = runes.InputAccepted(message_id=f"m{number}", content="", to=ROOT)
        state = world.law("session").lifecycle.apply(state, send_to)

    with pytest.raises(Refused, match="wait already"):
        world.law("session").lifecycle.decide(state, queue.Accept("last", "", 1))

"""Rules about a session's agents and about its end, told as small stories."""

from __future__ import annotations

import itertools

import pytest

from actors import children
from actors.agent.public_commands import Terminate
from actors.agent.runes import AgentConfig, Failed, Terminated
from actors.budget import runes as budgets
from actors.children import StopChild
from actors.common_commands import Abandon
from actors.session import members, queue, runes
from actors.session import public_commands as orders
from actors.session.hand_over import TakeOver
from actors.session.lifecycle import Phase, State
from actors.session.members import Member, is_orphan, orphans
from runelog.errors import Refused
from runelog.rune import kind_of
from tests.actors.session.scenes import CHILD, inputs, ready, send, spawn
from tests.actors.session.world import ROOT, World

# -- agents ------------------------------------------------------------------------------------


def test_a_root_that_is_gone_suspends_until_there_is_another() -> None:
    """Nobody can unsuspend a session that has nobody to speak for it."""
    world = ready()
    world.tell(ROOT, Terminate("kill"))

    assert world.session.suspension == "root_agent_terminated"
    with pytest.raises(Refused, match="spawn one first"):
        world.tell("session", orders.Unsuspend())
    with pytest.raises(Refused, match="no agent"):
        send(world, "m1")
    world.tell("session", members.Spawn("agt_new", "root", "echo"))
    world.tell("session", orders.Unsuspend())
    send(world, "m1")
    world.settle()
    assert inputs(world) == ["m1"]
    assert world.session.root == "agt_new"


def test_the_turn_of_an_agent_that_was_killed_still_ends() -> None:
    """It is interrupted by the session, also while that is suspended."""
    world = ready()
    send(world, "m1")
    world.tell(ROOT, Terminate("kill", force=True))

    assert world.is_in(Phase.SUSPENDED)
    assert world.due == [queue.InterruptTurn("turn_1", "agent_terminated", "system")]
    assert ROOT in world.session.gone
    world.settle()
    assert world.session.running == ()
    assert world.log[-1] == budgets.Closed(scope=ROOT)


def test_children_follow_their_parent() -> None:
    """However deep: running turns are interrupted, then the agents terminate."""
    world = ready()
    spawn(world)
    spawn(world, "agt_grandchild", CHILD)
    spawn(world, "agt_youngest", "agt_grandchild")
    send(world, "m1", to="agt_grandchild")
    send(world, "m2", to="agt_grandchild")
    world.tell(CHILD, Terminate("kill"))

    assert world.due[:2] == [
        queue.InterruptTurn("turn_1", "parent_closed", "system"),
        StopChild("agt_youngest", "agent", "parent_closed"),
    ]
    world.end(world.session.running[0])
    assert not any(isinstance(effect, queue.BeginTurn) for effect in world.due)
    with pytest.raises(Refused, match="about to end: it cannot spawn"):
        world.tell("session", members.Spawn("agt_late", "clerk", "echo", "agt_grandchild"))
    world.settle()
    assert [each.agent_id for each in world.session.members] == [ROOT]
    assert world.is_in(Phase.ACTIVE)


def test_an_agent_without_a_named_parent_is_the_roots_child() -> None:
    """Everybody descends from the root."""
    world = ready()
    spawn(world, CHILD, None)

    assert world.session.members[-1].parent_id == ROOT
    assert world.session.root == ROOT


def test_an_agent_whose_supervisor_gave_it_up_is_buried_by_the_session() -> None:
    """It cannot write its own end, so that the session does, with its sums."""
    world = ready()
    spawn(world)
    send(world, "m1", to=CHILD)
    world.end(world.session.running[0])
    world.tell("session", members.Spawn("agt_young", "clerk", "echo"))
    [ended, *_] = world.tell(CHILD, Abandon("boom"))
    [failed, *_] = world.tell("agt_young", Abandon("boom"))

    assert isinstance(ended, Terminated)
    assert ended.reason == "crashed: boom"
    assert (ended.stats.turns, ended.stats.completed) == (1, 1)
    assert failed == Failed(agent_id="agt_young", error="boom", trigger="crash")
    assert world.tell(CHILD, Abandon("boom")) == []


def test_a_conversation_can_be_handed_over() -> None:
    """Messages that name nobody go to the new agent, and back to the root when that is gone."""
    world = ready()
    spawn(world)
    [handed] = world.tell("session", TakeOver(CHILD))
    send(world, "m1")

    assert handed == runes.HandedOver(sender=ROOT, to=CHILD)
    assert world.session.running[0].agent_id == CHILD
    world.tell(CHILD, Terminate("kill", force=True))
    assert world.session.default_agent == ROOT
    with pytest.raises(Refused, match="no agent agt_child"):
        world.tell("session", TakeOver(CHILD))


def test_a_restart_is_noted_once() -> None:
    """The same report twice is one rune; the next restart is another, however alike it looks."""
    world = ready()
    note = children.NoteRestart("turn_1", "crash", 1, at=7)

    assert world.tell("session", note) == [
        runes.ChildRestarted(child="turn_1", reason="crash", restarts=1, at=7)
    ]
    assert world.tell("session", note) == []
    assert len(world.tell("session", children.NoteRestart("turn_1", "crash", 1, at=8))) == 1


def test_a_restart_is_noted_only_while_there_is_a_session() -> None:
    """Before it is created there is nowhere to note it, and what is closed stays as it is."""
    world = ready()
    world.tell("session", orders.Close())
    world.settle()
    note = children.NoteRestart("session", "crash", 1, at=7)

    assert world.tell("session", note) == []
    assert world.law("session").lifecycle.decide(State(), note) == []


# -- the end -----------------------------------------------------------------------------------


def test_closing_ends_turns_then_agents_then_the_session() -> None:
    """Every message has its answer, and the last rune has the sums."""
    world = ready()
    spawn(world)
    world.tell("session", members.Spawn("agt_young", "clerk", "echo"))
    send(world, "m1")
    send(world, "m2")
    closing = [kind_of(rune) for rune in world.tell("session", orders.Close("done"))]

    assert closing == ["session.closing", "session.input_refused"]
    assert world.due == [
        queue.InterruptTurn("turn_1", "closing"),
        StopChild(CHILD, "agent", "session closed"),
        StopChild("agt_young", "agent", "session closed"),
    ]
    world.settle()
    assert world.log[-1] == runes.Closed(
        final_stats=runes.Stats(turns=1, interrupted=1, messages=2, refused=1, agents=3)
    )
    assert world.tell("session", orders.Archive()) == [runes.Archived(actor="user")]


def test_a_session_is_not_closed_before_the_turns_of_killed_agents_ended() -> None:
    """Nobody is left, but something still runs."""
    world = ready()
    send(world, "m1")
    world.tell("session", orders.Close())
    world.tell(ROOT, Terminate("kill", force=True))

    assert world.session.members == ()
    assert world.is_in(Phase.CLOSING)
    assert world.due == [queue.InterruptTurn("turn_1", "closing")]
    world.settle()
    assert world.is_in(Phase.CLOSED)


def test_a_session_that_was_never_used_can_be_closed() -> None:
    """The root is not even ready."""
    world = World()
    world.tell("session", orders.Close())
    world.settle()

    assert world.is_in(Phase.CLOSED)


def test_the_state_does_not_grow_with_the_conversation() -> None:
    """Hundreds of messages, turns and agents leave as much behind as a few."""
    sizes = []
    for length in (3, 60):
        world = ready()
        for number in range(length):
            send(world, f"m{number}")
            world.end(world.session.running[0])
            spawn(world, f"agt_c{number}")
            world.tell(f"agt_c{number}", Terminate("done"))
        sizes.append(len(repr(world.session)) + len(repr(world.states["budget"])))

    assert abs(sizes[1] - sizes[0]) < 50


def test_those_left_behind_are_found_at_one_go() -> None:
    """Whoever spawned whom of five agents, and whoever of them is gone: it is the same agents."""
    names = [f"agt_{number}" for number in range(5)]
    for parents in itertools.product(*([None, *names[:at]] for at in range(5))):
        everybody = [
            Member(name, parent, "echo", AgentConfig())
            for name, parent in zip(names, parents, strict=True)
        ]
        for here in itertools.product([True, False], repeat=5):
            state = State(members=tuple(itertools.compress(everybody, here)))
            one_by_one = {
                each.agent_id for each in state.members if is_orphan(state.members, each.agent_id)
            }

            assert orphans(state.members) == one_by_one

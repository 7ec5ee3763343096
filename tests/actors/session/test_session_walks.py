"""Laws that hold whatever is asked of a conversation, in whatever order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from actors import children
from actors.agent.public_commands import Terminate
from actors.agent.runes import AgentConfig
from actors.catalogue import KINDS
from actors.common_commands import Abandon
from actors.public_command import Numbered
from actors.session import lifecycle as session
from actors.session import members, queue
from actors.session import public_commands as orders
from actors.session.hand_over import TakeOver
from actors.session.lifecycle import Phase
from actors.session.runes import SessionConfig
from actors.turn import runes as turns
from runelog.errors import Refused
from tests.actors.session.world import ROOT, World

if TYPE_CHECKING:
    from collections.abc import Callable

CHILDREN = ("agt_one", "agt_two", "agt_three")
EVERYBODY = (ROOT, *CHILDREN)


Wish: TypeAlias = tuple[str, int, int]
"""Something that may be asked for: what, and two numbers to choose with."""

WISHES = (
    *["do"] * 6,
    *["send"] * 4,
    *["end"] * 3,
    *["steer", "spawn", "unsuspend", "resume"] * 2,
    *["pause", "kill", "gone", "fail", "exhaust", "replenish"],
    *["reopen", "rest", "hand_over", "suspend", "new_root"],
)
"""What may be asked for; what keeps a conversation going comes up more often."""
wishes = st.lists(
    st.tuples(st.sampled_from(WISHES), st.integers(0, 5), st.integers(0, 5)), max_size=60
)


def pick(world: World, wish: Wish, number: int) -> Callable[[], object] | None:
    """Return how to carry a wish out in this world; None if there is nothing to do it to."""
    what, one, other = wish
    who = EVERYBODY[one % len(EVERYBODY)]
    # A root that dies early makes for short stories.
    victim = ROOT if other == 0 else CHILDREN[one % len(CHILDREN)]
    running, due = world.session.running, world.due
    ends = (turns.Completed, turns.Interrupted, turns.Error)
    config = AgentConfig(on_exhausted="terminate" if other % 2 else "suspend")
    commands: dict[str, object] = {
        "send": queue.Accept(f"m{number}", "hello", number, to=who if other else ""),
        "steer": queue.Accept(f"m{number}", "stop", number, mode="steer", to=who),
        "pause": orders.Pause(finish=bool(other % 2)),
        "resume": orders.Resume(),
        "spawn": members.Spawn(who, "r", "m", (None, *EVERYBODY)[other % 5], config),
        "replenish": Numbered(orders.Replenish(tokens=1), f"r{number}"),
        "reopen": children.Reopen(number + 1, outcome=bool(other)),
        "rest": children.Rest(),
        "hand_over": TakeOver(who),
        "unsuspend": orders.Unsuspend(),
        "suspend": orders.Suspend("look at this"),
        "new_root": members.Spawn(f"agt_r{number}", "root", "m"),
    }
    if what in commands:
        if what == "spawn" and who in world.states:
            return None  # ids are made once
        return lambda: world.tell("session", commands[what])
    if what == "kill" and victim in world.states:
        return lambda: world.tell(victim, Terminate("kill", force=bool(other % 2)))
    if what == "gone" and victim in world.states:
        return lambda: world.tell(victim, Abandon("crashed"))
    if what in {"do", "fail"} and due:
        return lambda: world.perform(due[one % len(due)], fail=what == "fail")
    if what == "end" and running:
        return lambda: world.end(running[one % len(running)], ends[other % 3])
    if what == "exhaust" and running:
        turn = running[one % len(running)]
        scope = "session" if other % 2 else turn.agent_id
        return lambda: world.end(turn, turns.Error, world.exhaust(scope))
    return None


def play(asked: list[Wish], world: World | None = None) -> World:
    """Carry out what is allowed of what is asked; nothing may ever be illegal."""
    world = world or World(SessionConfig(failed_turns=3))
    for number, wish in enumerate(asked):
        carry_out = pick(world, wish, number)
        if carry_out is not None:
            with contextlib.suppress(Refused):
                carry_out()
        world.check()
    world.check_folds()
    return world


@settings(max_examples=100, deadline=None)
@given(wishes)
def test_any_story_keeps_the_laws_and_comes_to_its_end(asked: list[Wish]) -> None:
    """Turns of an agent follow each other, folds agree, and closing answers every message once."""
    world = play(asked)
    world.tell("session", orders.Close("done"))
    world.settle()

    world.check()
    world.check_folds()
    assert world.is_in(Phase.CLOSED)
    assert set(world.answers().values()) <= {1}
    assert world.session.running == ()
    assert world.session.members == ()
    assert {each.scope for each in world.states["budget"].scopes} == {"session"}
    assert not session.is_open(world.session)


@settings(max_examples=100, deadline=None)
@given(wishes)
def test_an_active_session_left_to_itself_takes_every_message_up(
    asked: list[Wish],
) -> None:
    """Once nothing holds it back, each message becomes a turn or is refused, and all is quiet."""
    world = play(asked)
    for command in (orders.Resume(), orders.Unsuspend(), members.Spawn("agt_last", "root", "m")):
        with contextlib.suppress(Refused):
            world.tell("session", command)
    with contextlib.suppress(Refused):
        world.tell("session", orders.Unsuspend())
    world.settle()

    world.check()
    if world.is_in(Phase.ACTIVE):
        assert set(world.answers().values()) <= {1}
        assert world.session.running == ()
        assert not session.is_open(world.session)


@settings(max_examples=50, deadline=None)
@given(wishes, st.sampled_from(WISHES), st.integers(0, 5), st.integers(0, 5))
def test_the_same_command_twice_appends_nothing_the_second_time(
    asked: list[Wish], what: str, one: int, other: int
) -> None:
    """What was answered is answered again in the same way, or refused; nothing is done twice."""
    world = play(asked)
    carry_out = pick(world, (what, one, other), 999)
    if carry_out is None or what in {"do", "fail", "end", "exhaust"}:
        return
    with contextlib.suppress(Refused):
        carry_out()
    before = len(world.log)
    with contextlib.suppress(Refused):
        carry_out()

    assert len(world.log) == before


@settings(max_examples=100, deadline=None)
@given(wishes)
def test_what_is_due_is_allowed_and_nothing_is_left_internally(
    asked: list[Wish],
) -> None:
    """Whatever is due for the session can be done, and changes something."""
    world = play(asked)
    due = list(world.due)

    assert not any(type(effect) in KINDS["session"].internal for effect in due)
    for effect in due:
        if isinstance(effect, queue.BeginTurn):
            [rune] = session.LIFECYCLE.decide(world.session, queue.Begin(effect.message_id, 1))
            assert isinstance(rune, turns.Started)

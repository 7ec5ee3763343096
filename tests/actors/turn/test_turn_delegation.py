"""Rules about a turn that another one asked: while it waits for a human, so does whoever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.children import EnsureChild
from actors.common_commands import TimeUp
from actors.entity import Routing
from actors.turn.delegation import GoOn, HoldUp
from actors.turn.kind import KIND
from actors.turn.lifecycle import LIFECYCLE, works
from actors.turn.runes import HeldUp, ToolCallsReceived, WentOn
from actors.turn.time_slices import StartClock, StopClock
from runefold.testing.spec import Given
from tests.actors.turn.scenes import (
    BORN,
    BY,
    EXECUTING,
    World,
    agreed,
    answered,
    called,
    executing,
    plan,
    question,
    result,
)
from tests.actors.turn.test_turn_clock import WORKING, passed

if TYPE_CHECKING:
    from runelog.rune import Rune

ASKED: Final = replace(BORN, asked_in="turn_0", message_id="call_0")
HELD_UP: Final = HeldUp("turn_1", "call_0", "turn_0")
WENT_ON: Final = WentOn("turn_1", "call_0", "turn_0")


def expert(*past: Rune) -> tuple[Rune, ...]:
    """Return the past of a turn that was asked, after its birth."""
    return (ASKED, *past)


CALLED: Final = expert(called(), answered("a"), ToolCallsReceived(("a",), 0), plan("a"))


# -- who is asked ------------------------------------------------------------------------------


def test_whoever_asked_is_told_once_when_only_a_human_is_waited_for() -> None:
    """And once more when the human has spoken; a turn that nobody asked tells nobody."""
    waits = Given(LIFECYCLE, *CALLED, question("a"))
    told = waits.having(HELD_UP)

    assert waits.due == [HoldUp(), EnsureChild("a", "tool")]
    assert waits.when(HoldUp()) == [HELD_UP]
    assert told.due == [EnsureChild("a", "tool")]
    assert told.when(HoldUp()) == []
    assert told.having(agreed("a")).due[0] == GoOn()
    assert told.having(agreed("a")).when(GoOn()) == [WENT_ON]
    assert told.having(agreed("a"), WENT_ON).when(GoOn()) == []
    assert HoldUp() not in Given(LIFECYCLE, *executing(plan("a")), question("a")).due


@pytest.mark.parametrize("status", ["denied", "timeout", "cancelled"])
def test_however_the_wait_ends_it_says_that_it_waits_no_longer(status: str) -> None:
    """Agreed to or not: what was said of it is taken back before anything else is done."""
    over = Given(LIFECYCLE, *CALLED, question("a"), HELD_UP, result("a", status))  # type: ignore[arg-type]  # one of them

    assert over.due[0] == GoOn()
    assert over.when(GoOn()) == [WENT_ON]


def test_what_is_said_belongs_to_both_turns() -> None:
    """It moves no phase: the folds of the one that says it and of the one that asks need it."""
    state = Given(LIFECYCLE, ASKED).state

    assert KIND.route(state, HELD_UP) == Routing("turn_1", ("turn_0",))
    assert KIND.route(state, WENT_ON) == Routing("turn_1", ("turn_0",))


def told(world: World) -> bool:
    """Return True if the turn that asks was told last that only a human is waited for."""
    assert world.state.delegation is not None
    return world.state.delegation.held_up


@given(st.lists(st.integers(0, 89), max_size=40), st.booleans())
def test_what_whoever_asked_believes_is_so(choices: list[int], timed: bool) -> None:  # noqa: FBT001 -- drawn
    """Whatever happens: told by turns that it waits and that it goes on, and at the end neither."""
    world = World(replace(ASKED, timed=timed))
    for choice in choices:
        due = LIFECYCLE.due(world.state)
        if due:
            world.perform(due[choice % len(due)], choice)
        if not world.is_over:
            assert told(world) is not works(world.state)
    world.stop("steer")
    said = [type(rune) for rune in world.decided if isinstance(rune, HeldUp | WentOn)]

    assert said == [HeldUp, WentOn] * (len(said) // 2)
    assert not told(world)


# -- whoever asks ------------------------------------------------------------------------------


def of(call_id: str, kind: type[HeldUp | WentOn] = HeldUp) -> Rune:
    """Return what the turn says that a call has asked."""
    return kind("turn_2", call_id, "turn_1")


def test_whoever_asks_waits_for_a_human_while_the_one_asked_does() -> None:
    """Its time limit does not run; afterwards its time begins anew, as after its own question."""
    turn = Given(LIFECYCLE, *EXECUTING)
    waits = turn.having(of("a"))

    assert KIND.deadline(turn.state) == BY
    assert KIND.deadline(waits.state) is None
    assert waits.when(TimeUp(BY)) == []
    assert KIND.deadline(waits.having(of("a", WentOn)).state) is None


def test_the_clock_of_whoever_asks_stands_too() -> None:
    """Unless something else of it goes on; it runs again once the one asked goes on."""
    turn = Given(LIFECYCLE, *WORKING)
    one, both = turn.having(of("a")), turn.having(of("a"), of("b"))

    assert works(one.state)
    assert both.due[0] == StopClock("turn_1-w0")
    assert both.having(passed(5), of("b", WentOn)).due[0] == StartClock(1)
    assert turn.having(of("a"), result("b"), passed(5)).due == [EnsureChild("a", "tool")]


def test_one_that_was_asked_itself_passes_it_on() -> None:
    """Whoever asked the one that asks waits for the same human."""
    middle = Given(LIFECYCLE, *CALLED, of("a"))

    assert middle.due[0] == HoldUp()
    assert middle.having(HELD_UP, of("a", WentOn)).due[0] == GoOn()


def test_what_an_answered_call_had_asked_is_of_no_concern() -> None:
    """It was not answered in time, for instance: whatever its expert does, it is not waited for."""
    turn = Given(LIFECYCLE, *EXECUTING, result("a", "timeout"))

    assert turn.having(of("a")).state == turn.state
    assert turn.having(of("of another turn")).state == turn.state

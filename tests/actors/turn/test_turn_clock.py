"""Rules about a turn's clock: time is set aside before it passes, and counted once it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from msgspec.structs import replace

from actors.budget.runes import BUDGET_EXHAUSTED, Amounts
from actors.children import EnsureChild
from actors.common_commands import Recover, TimeUp
from actors.entity import ROOT, Routing
from actors.model import runes as model
from actors.turn.kind import KIND
from actors.turn.lifecycle import (
    LIFECYCLE,
    AskModel,
    Complete,
    Fail,
    Interrupt,
    PerformModelCall,
    TakeCalls,
)
from actors.turn.runes import Completed, Error, Interrupted, TimeReserved, TimeSettled
from actors.turn.time_slices import Halt, Run, Stand, StartClock, StopClock, Tick
from runefold.testing.spec import Given
from tests.actors.turn.scenes import (
    AGENT,
    BORN,
    BY,
    EXECUTING,
    LATE,
    NO_TIME,
    SLICE,
    SOME_TIME,
    SPENT,
    STREAMING,
    TURN,
    USED,
    agreed,
    answered,
    called,
    executing,
    failed,
    finished,
    given_up,
    plan,
    question,
    result,
    room_for,
)

if TYPE_CHECKING:
    from actors.turn.lifecycle import Command
    from runelog.rune import Rune

NOW: Final = 100
TIMED: Final = replace(BORN, timed=True)


def aside(number: int = 0, until: int = NOW + SLICE, length: int = SLICE) -> TimeReserved:
    """Return time that is set aside."""
    return TimeReserved(f"turn_1-w{number}", until, AGENT, Amounts(wall=length))


def passed(wall: int, number: int = 0, *, guessed: bool = False) -> TimeSettled:
    """Return time that was counted."""
    return TimeSettled(f"turn_1-w{number}", Amounts(wall=wall), estimated=guessed)


OUT_OF_TIME: Final = given_up("turn_1-r0-a0", BUDGET_EXHAUSTED, "its budget has no time left")
RUNNING: Final = (TIMED, aside(), called())
WORKING: Final = (TIMED, aside(), *EXECUTING[1:])


def test_time_is_set_aside_before_the_model_is_asked() -> None:
    """Where time is limited the clock runs first; where it is not, there is none."""
    turn = Given(LIFECYCLE, TIMED)

    assert turn.due[0] == StartClock(0)
    assert turn.when(Run(NOW), SOME_TIME) == [aside()]
    assert turn.having(aside()).due == [Tick("turn_1-w0"), AskModel("turn_1-r0-a0", 0, 0)]
    assert Given(LIFECYCLE, BORN).due == [AskModel("turn_1-r0-a0", 0, 0)]
    assert Given(LIFECYCLE, BORN).when(Run(NOW), SOME_TIME) == []


def test_a_slice_that_has_passed_is_counted_whole_and_the_next_one_begins_where_it_ended() -> None:
    """However late that is noticed, no time is lost in between and none is counted twice."""
    turn = Given(LIFECYCLE, *RUNNING)
    late = NOW + SLICE + 7

    assert turn.when(Run(NOW + SLICE - 1), SOME_TIME) == []
    assert turn.when(Run(late), SOME_TIME) == [passed(SLICE), aside(1, NOW + 2 * SLICE)]
    assert turn.when(Run(late), room_for(5)) == [passed(SLICE), aside(1, NOW + SLICE + 5, 5)]


@pytest.mark.parametrize("after", [0, 1, SLICE, SLICE + 1, -1])
def test_the_end_counts_what_has_passed(after: int) -> None:
    """An end counts the time until then: no more than was set aside, and never less than none."""
    turn = Given(LIFECYCLE, *RUNNING, answered())
    wall = min(max(after, 0), SLICE)
    settled, end = turn.when(Complete("done", NOW + after))

    assert settled == passed(wall)
    assert isinstance(end, Completed)
    assert end.usage == replace(USED, wall=wall)


ENDS: Final[dict[str, tuple[tuple[Rune, ...], Command, type[Rune]]]] = {
    "interrupted": (RUNNING[:2], Interrupt("steer", now=NOW + 3), Interrupted),
    "failed": (RUNNING[:2], Fail("unknown_model", now=NOW + 3), Error),
    "out of its own time": ((TIMED, aside(0, BY + 47)), TimeUp(BY), Error),
}


@pytest.mark.parametrize("how", ENDS)
def test_every_end_settles_the_time_in_its_own_append(how: str) -> None:
    """However a turn ends, what was set aside is counted before that, and together with it."""
    past, command, end = ENDS[how]
    turn = Given(LIFECYCLE, *past)
    settled, *others = turn.when(command)
    heard = [rune for rune in others if rune != SPENT]

    assert settled == passed(3)
    assert isinstance(heard[0], end)
    assert turn.having(settled, *heard).state.time_slice is None


def test_who_cannot_say_the_time_counts_all_of_it() -> None:
    """After a crash, or if nobody says what time it is, a slice counts whole, as estimated."""
    turn = Given(LIFECYCLE, *RUNNING)
    guessed = passed(SLICE, guessed=True)

    assert turn.when(Recover(NOW + 1)) == [guessed]
    assert turn.having(guessed).when(Recover(NOW + 1)) == []
    assert turn.having(guessed).due[0] == StartClock(1)
    assert Given(LIFECYCLE, *RUNNING[:2]).when(Interrupt("steer"))[0] == guessed


def test_what_is_due_tells_a_shell_that_time_is_in_doubt() -> None:
    """While time passes something outside is due: a shell that reads that from the log asks."""
    places = (RUNNING, WORKING, (*RUNNING, answered()), (*WORKING, question("a"), question("b")))
    for past in places:
        due = Given(LIFECYCLE, *past).due
        assert {type(effect) for effect in due} & KIND.external


def test_the_clock_stands_while_only_a_human_is_waited_for() -> None:
    """It runs while anything else goes on, and again once the human has spoken."""
    turn = Given(LIFECYCLE, *WORKING)
    one, both = turn.having(question("a")), turn.having(question("a"), question("b"))
    stood = both.having(passed(5))

    assert one.due[0] == Tick("turn_1-w0")
    assert one.when(Stand(NOW + 5)) == []
    assert both.due == [StopClock("turn_1-w0"), EnsureChild("a", "tool"), EnsureChild("b", "tool")]
    assert both.when(Stand(NOW + 5)) == [passed(5)]
    assert stood.due == [EnsureChild("a", "tool"), EnsureChild("b", "tool")]
    assert stood.when(Run(NOW + 9), SOME_TIME) == []
    assert stood.having(agreed("b")).due[0] == StartClock(1)
    assert stood.having(result("b", "denied")).due == [EnsureChild("a", "tool")]


def test_who_ends_in_order_stops_the_clock_and_knows_the_time() -> None:
    """Whatever goes on: what has passed is counted, and whoever goes on begins anew."""
    turn = Given(LIFECYCLE, *RUNNING)
    stopped = turn.when(Stand(NOW + 5, anyhow=True))

    assert stopped == [passed(5)]
    assert turn.when(Stand(NOW + 5)) == []
    assert turn.having(*stopped).when(Stand(NOW + 6, anyhow=True)) == []
    assert turn.having(*stopped).due[0] == StartClock(1)


def test_calls_on_hold_behind_a_human_do_not_keep_the_clock_running() -> None:
    """What does not begin before a human has spoken takes no time."""
    held = (TIMED, aside(), *executing(plan("a"), plan("b", hold=True))[1:], question("a"))

    assert Given(LIFECYCLE, *held).due[0] == StopClock("turn_1-w0")


def test_without_time_what_is_under_way_is_cancelled_and_the_turn_ends() -> None:
    """The budget says no: the turn ends at the next safe boundary, and for that reason."""
    turn = Given(LIFECYCLE, *RUNNING)
    runes = turn.when(Run(NOW + SLICE), NO_TIME)
    broke = turn.having(*runes)
    stopped = broke.having(model.Cancelled("turn_1-r0-a0", BUDGET_EXHAUSTED))

    assert runes == [passed(SLICE), replace(LATE, key="turn_1-w1")]
    assert broke.due == [Halt(BUDGET_EXHAUSTED), PerformModelCall("turn_1-r0-a0")]
    assert broke.when(Run(NOW + SLICE), SOME_TIME) == []
    assert stopped.due == [OUT_OF_TIME]


def test_without_time_at_the_beginning_nothing_is_asked() -> None:
    """A turn that cannot be given any time ends before its model is asked."""
    turn = Given(LIFECYCLE, TIMED, LATE)

    assert turn.due == [replace(OUT_OF_TIME, model_call_id="")]


def test_without_time_a_fault_is_not_retried_and_no_tool_begins() -> None:
    """Whatever the turn would go on with, it does not, except to keep an answer that is there."""
    broke = (TIMED, called(), LATE)

    assert Given(LIFECYCLE, *broke, failed()).due == [OUT_OF_TIME]
    assert Given(LIFECYCLE, *broke, answered("a")).due == [OUT_OF_TIME]
    assert Given(LIFECYCLE, *broke, answered()).due == [finished("turn_1-r0-a0")]
    back = (*WORKING, passed(1), LATE, result("a"), result("b"))
    assert Given(LIFECYCLE, *back).due == [OUT_OF_TIME]


def test_the_alarm_rings_at_the_end_of_a_slice_or_of_the_turn() -> None:
    """Whichever comes first; a slice also while the turn's own time stands still."""
    waits = (*WORKING, question("a"))

    assert KIND.deadline(Given(LIFECYCLE, *RUNNING).state) == NOW + SLICE
    assert KIND.deadline(Given(LIFECYCLE, TIMED, aside(0, BY + 1)).state) == BY
    assert KIND.deadline(Given(LIFECYCLE, *waits).state) == NOW + SLICE
    assert KIND.deadline(Given(LIFECYCLE, *waits, passed(1)).state) is None


def test_a_slice_that_is_over_does_not_end_the_turn() -> None:
    """The end of a slice is no deadline of the turn's: only its own time-out is."""
    assert Given(LIFECYCLE, *RUNNING[:2]).when(TimeUp(NOW + SLICE)) == []


def test_calls_of_other_agents_are_counted_in_what_the_turn_used() -> None:
    """A call that asks an agent is a tool call and a sub-call."""
    asks = replace(plan("a"), rule=replace(plan("a").rule, sub_call=True))
    turn = Given(LIFECYCLE, *STREAMING, answered("a", "b"))
    runes = turn.when(TakeCalls((asks, plan("b"))))
    back = (result("a", charged=Amounts(tool_calls=1, sub_calls=1)), result("b"))

    assert turn.having(*runes, *back).state.used == replace(USED, tool_calls=2, sub_calls=1)


def test_a_turn_hears_of_its_own_time() -> None:
    """The budget observes what is set aside of it and counted; the turn, that there is no more."""
    state = Given(LIFECYCLE, BORN).state

    assert KIND.route(state, aside()) == Routing(TURN, ("budget",))
    assert KIND.route(state, passed(1)) == Routing(TURN, ("budget",))
    assert KIND.route(state, LATE) == Routing("budget", (ROOT, AGENT, TURN))

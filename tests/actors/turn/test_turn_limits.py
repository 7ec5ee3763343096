"""Rules about the limits of a turn: how often it tries again, and how long it may take."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actors.common_commands import TimeUp
from actors.model import runes as model
from actors.model.runes import CRASH
from actors.tool import runes as tool
from actors.turn.kind import KIND
from actors.turn.lifecycle import LIFECYCLE, AskModel, End, Fail, Interrupt, RestartStream
from actors.turn.runes import Error, Interrupted, StreamRestarted, Summary, ToolsFinished
from runefold.testing.spec import Given
from runelog.errors import Refused
from tests.actors.turn.scenes import (
    BACK,
    BORN,
    BY,
    EXECUTING,
    RESTARTED,
    ROOM,
    SECOND_ROUND,
    STREAMING,
    answered,
    ask,
    called,
    ended_early,
    executing,
    failed,
    given_up,
    plan,
    result,
)

FIRST = "turn_1-r0-a0"


# -- retries -----------------------------------------------------------------------------------


def test_a_fault_that_may_pass_is_tried_again() -> None:
    """The next attempt is recorded with what is dropped, and only then made."""
    turn = Given(LIFECYCLE, *STREAMING, failed())
    [restarted] = turn.when(RestartStream())

    assert turn.due == [RestartStream()]
    assert restarted == StreamRestarted(0, 1, "overloaded", FIRST, trigger="overloaded")
    assert turn.having(restarted).due == [AskModel("turn_1-r0-a1", 0, 1)]


def test_retries_are_counted_in_each_round() -> None:
    """After as many as the agent allows the turn gives up; the next round has its own."""
    born = replace(BORN, retries=1)
    spent = Given(LIFECYCLE, born, *RESTARTED[1:], called(0, 1), failed(attempt=1))
    second = Given(LIFECYCLE, born, *SECOND_ROUND[1:], called(1))

    assert spent.due == [given_up("turn_1-r0-a1", "overloaded", "!")]
    assert spent.when(Fail("overloaded", "!", "4 is")) == [
        Error("overloaded", "!", "4 is", "turn_1", trigger="overloaded")
    ]
    lost = model.Failed(model_call_id="turn_1-r1-a0", error_type="overloaded", retryable=True)
    assert second.having(lost).due == [RestartStream()]


@pytest.mark.parametrize("why", [CRASH, "overloaded"])
@pytest.mark.parametrize("retries", range(4))
def test_a_crash_is_a_retry_like_any_other(why: str, retries: int) -> None:
    """A model that was asked once, and again as often as is allowed, is not asked once more."""
    turn = Given(LIFECYCLE, replace(BORN, retries=retries), called())
    for attempt in range(retries):
        turn = turn.having(failed(why, attempt))
        assert turn.due == [RestartStream()]
        turn = turn.after(RestartStream()).having(called(0, attempt + 1))
    turn = turn.having(failed(why, retries))

    assert turn.due == [given_up(f"turn_1-r0-a{retries}", why, "!")]
    with pytest.raises(Refused):
        turn.when(RestartStream())


def test_a_fault_that_does_not_pass_is_not_tried_again() -> None:
    """What the provider refuses once it refuses again."""
    turn = Given(LIFECYCLE, *STREAMING, failed("refused", retry=False))

    assert turn.due == [given_up(FIRST, "refused", "!")]


def test_a_dropped_stream_is_not_heard_any_more() -> None:
    """Whatever a model call says after it was dropped, the turn goes on with the next attempt."""
    for past in (RESTARTED, (*RESTARTED, called(0, 1))):
        turn = Given(LIFECYCLE, *past)
        for late in (answered("x"), failed(), model.Cancelled(model_call_id=FIRST, reason="x")):
            assert turn.having(late).state == turn.state


def test_a_crash_is_retried_or_interrupts_as_the_agent_says() -> None:
    """With `interrupt` a crash ends the turn with the text there is; other faults are retried."""
    crash, careful = failed("crash"), replace(BORN, on_crash="interrupt")
    cut_off = Given(LIFECYCLE, careful, called(), crash)

    assert Given(LIFECYCLE, *STREAMING, crash).due == [RestartStream()]
    assert Given(LIFECYCLE, careful, called(), failed()).due == [RestartStream()]
    assert cut_off.due == [ended_early(FIRST, "crash", "system")]
    assert cut_off.when(Interrupt("crash", "4", "system")) == [
        Interrupted("crash", "4", "turn_1", trigger="crash")
    ]


# -- time --------------------------------------------------------------------------------------


def test_time_that_is_up_ends_a_turn_before_it_begins_anything_new() -> None:
    """Where the turn would ask the model or begin tools it ends; before that it goes on."""
    said = "the turn took longer than it may"
    late = Error("timeout", said, turn_id="turn_1", trigger="timeout", actor="timeout")

    for place in ((BORN,), RESTARTED, (*STREAMING, answered("a")), BACK, SECOND_ROUND):
        turn = Given(LIFECYCLE, *place)
        late = replace(late, usage=turn.state.used)
        assert KIND.deadline(turn.state) == BY
        assert turn.when(TimeUp(BY - 1)) == []
        assert turn.when(TimeUp(BY)) == [late]
        assert turn.when(TimeUp(BY, "so far")) == [replace(late, partial_output="so far")]


def test_what_was_cancelled_because_time_is_up_ends_in_a_time_out() -> None:
    """The reason goes the same way as that of an interrupt, and the text there is stays."""
    stopped = model.Cancelled(model_call_id=FIRST, reason="timeout", actor="timeout")
    streaming = Given(LIFECYCLE, *STREAMING, stopped)
    cut = result("a", "cancelled", "timeout", "timeout")
    tools = Given(LIFECYCLE, *EXECUTING, cut, result("b"))

    for turn in (streaming, tools):
        assert turn.due == [given_up(FIRST, "timeout", "the turn took longer than it may")]
        [end] = turn.when(Fail("timeout", "late", "4 is"))
        assert isinstance(end, Error)
        assert (end.actor, end.partial_output) == ("timeout", "4 is")


def test_an_end_that_is_due_is_not_a_time_out() -> None:
    """An answer that is all there is not thrown away for being a moment late."""
    for answer in (answered(), failed("refused", retry=False)):
        turn = Given(LIFECYCLE, *STREAMING, answer)
        assert KIND.deadline(turn.state) is None
        assert turn.when(TimeUp(BY + 1)) == []


def test_a_turn_without_a_deadline_has_none() -> None:
    """Whoever sets no limit gets none."""
    turn = Given(LIFECYCLE, replace(BORN, deadline=None))

    assert KIND.deadline(turn.state) is None
    assert turn.when(TimeUp(BY)) == []


@pytest.mark.parametrize("in_doubt", [False, True])
def test_a_humans_time_is_not_the_turns(in_doubt: bool) -> None:  # noqa: FBT001 -- a parameter
    """While a human is asked the turn's clock stands still; afterwards its time begins anew."""
    asked = tool.ApprovalRequested(
        call_id="a", policy_reason="", deadline=10**15, approval_id="apr_a"
    )
    past = (*executing(plan("a")), asked) if in_doubt else executing(plan("a", verdict="ask"))
    turn = Given(LIFECYCLE, *past)
    back = turn.having(result("a"), ToolsFinished((Summary("a", "success"),)))
    [again] = back.when(ask(1), ROOM)

    assert KIND.deadline(turn.state) is None
    assert turn.when(TimeUp(BY)) == []
    assert KIND.deadline(back.state) is None
    assert again == called(1, turn_by=9_000)
    assert KIND.deadline(back.having(again).state) == 9_000


def test_one_human_among_many_tools_stops_the_clock() -> None:
    """The clock stands still for the whole round; a birth that is heard again starts nothing."""
    turn = Given(LIFECYCLE, *executing(plan("a", verdict="ask"), plan("b")))

    assert KIND.deadline(turn.state) is None
    assert turn.having(called()).state == turn.state


def test_time_begins_anew_only_after_a_human() -> None:
    """A turn that waits for nobody has the time it was born with, however many rounds it takes."""
    [again] = Given(LIFECYCLE, *SECOND_ROUND).when(ask(1), ROOM)

    assert again == called(1)


def test_a_call_that_cannot_be_afforded_ends_the_turn_when_its_round_is_over() -> None:
    """Every call has its result first; an interrupt that comes meanwhile goes before."""
    names = [call.call_id for call in Given(LIFECYCLE, *EXECUTING).state.calls]
    refused = result(names[0], "error", trigger="budget_exhausted")
    turn = Given(LIFECYCLE, *EXECUTING, refused)
    rest = [result(name) for name in names[1:]]
    stopped = turn.having(*(result(name, "cancelled", "steer", "user") for name in names[1:]))
    message = "the budget has no room for a call that the model asked for"

    assert not any(isinstance(effect, End) for effect in turn.due)
    assert turn.having(*rest).due == [given_up(FIRST, "budget_exhausted", message)]
    assert stopped.due == [ended_early(FIRST, "steer", "user")]

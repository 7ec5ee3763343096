"""Rules about the course of a tool call: how it begins and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from actors.approval import runes as approval
from actors.budget.runes import Amounts
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.tool.kind import KIND
from actors.tool.lifecycle import (
    LIFECYCLE,
    Begin,
    Command,
    Fail,
    Finish,
    Go,
    Phase,
    Probed,
    Report,
    RunTool,
    State,
)
from actors.tool.runes import ApprovalRequested, Called, Denied, Progress, Result, Ruling
from runelog.errors import Refused
from runelog.lifecycle import fold
from tests.actors.tool.calls import (
    APPROVED,
    APR,
    ASKED_IN_DOUBT,
    AWAITING,
    DOUBTED,
    EMPTY,
    HELD,
    ID,
    NOW,
    ONE,
    PAST,
    PATIENCE,
    RETRIED,
    ROOM,
    RUNNING,
    RUNNING_APPROVED,
    SPENT,
    STARTED,
    TIMEOUT,
    bare,
    called,
    given_call,
    paid,
    question,
)
from tests.folding import cascade

if TYPE_CHECKING:
    from actors.budget import lifecycle as ledger
    from runelog.rune import Rune

DONE = paid("success", output=4)


# -- how it begins -----------------------------------------------------------------------------


def born(call: Called, budget: ledger.State = ROOM) -> list[Rune]:
    """Return what becomes of a call at once, its birth aside."""
    _, runes = cascade(KIND, ID, LIFECYCLE.initial, [call], lambda _budget: budget)
    return runes[1:]


def test_what_is_allowed_starts_at_once() -> None:
    """One call is set aside in the budget, and the deadline counts from the call's birth."""
    assert born(called("allow")) == [STARTED]


def test_what_needs_approval_asks_for_it() -> None:
    """The question is an approval of its own; both end at the same time, and nothing has begun."""
    runes = born(called("ask"))

    assert bare(runes) == question(APR, NOW)
    assert isinstance(runes[0], ApprovalRequested)
    assert runes[0].policy_reason == "because"
    assert given_call(called("ask"), *runes).due == []
    assert KIND.deadline(fold(LIFECYCLE, [called("ask"), *runes])) == NOW + PATIENCE


def test_what_the_policy_denies_is_told_to_the_model() -> None:
    """A denial and its result are one append, and nothing is charged."""
    denied, result = born(called("deny"))

    assert denied == Denied(call_id=ID, reason="because", trigger="policy")
    assert isinstance(result, Result)
    assert result.status == "denied"
    assert "because" in result.error


@pytest.mark.parametrize("verdict", ["unknown_tool", "bad_arguments"])
@pytest.mark.parametrize("reason", ["", "Did you mean mail?"])
def test_what_cannot_be_called_is_an_error_to_act_on(verdict: Ruling, reason: str) -> None:
    """The model is told what to do instead; the tool never sees the call."""
    call = called(verdict)
    call = msgspec.structs.replace(call, rule=msgspec.structs.replace(call.rule, reason=reason))
    (result,) = born(call)

    assert isinstance(result, Result)
    assert result.status == "error"
    assert result.error == reason if reason else "call" in result.error


@pytest.mark.parametrize("verdict", ["allow", "ask"])
def test_what_the_budget_has_no_room_for_does_not_begin(verdict: Ruling) -> None:
    """It is recorded whose budget stood in the way, the model is told, and nothing is settled."""
    exhausted, result = born(called(verdict), EMPTY)

    assert exhausted == SPENT
    assert isinstance(result, Result)
    assert result.status == "error"
    assert "budget of session has no tool_calls left" in result.error


@pytest.mark.parametrize("verdict", ["deny", "unknown_tool", "bad_arguments"])
def test_what_does_not_run_needs_no_budget(verdict: Ruling) -> None:
    """A call that would not have run is not refused for its price."""
    assert born(called(verdict), EMPTY) == born(called(verdict))


def test_a_held_call_waits_to_be_let_go() -> None:
    """Nothing is due before; then its time counts from when it was let go, and once only."""
    held = given_call(*HELD)

    assert held.due == []
    assert held.when(Recover(now=NOW)) == []
    assert held.when(Go(now=NOW + 7), ROOM) == [
        msgspec.structs.replace(STARTED, deadline=NOW + 7 + TIMEOUT),
    ]
    assert held.when(Go(now=NOW + 7), EMPTY)[0] == SPENT
    assert held.after(Go(now=NOW + 7), ROOM).when(Go(now=NOW + 8), ROOM) == []
    with pytest.raises(Refused, match=rf"^tool {ID} is pending_call: it cannot take Begin now$"):
        held.when(Begin())


def test_a_held_call_that_needs_approval_asks_when_it_is_let_go() -> None:
    """The human's time counts from then."""
    held = given_call(called("ask", hold=True))

    assert bare(held.when(Go(now=NOW + 7), ROOM)) == question(APR, NOW + 7)
    assert held.after(Go(now=NOW + 7), ROOM).when(Go(now=NOW + 8), ROOM) == []


def test_nothing_is_due_before_there_is_a_call() -> None:
    """A stream that somebody else's rune opened asks for nothing."""
    assert LIFECYCLE.due(State()) == []


# -- how it ends -------------------------------------------------------------------------------


def test_a_started_call_is_due_to_run_until_it_has_a_result() -> None:
    """Whatever it says on the way is recorded and changes nothing."""
    running = given_call(*RUNNING).after(Report(stream="stdout", chunk="half"))

    assert running.runes[-1] == Progress(call_id=ID, stream="stdout", chunk="half")
    assert running.due == [RunTool(ID, 0)]
    assert running.state == given_call(*RUNNING).state
    assert running.after(Finish(output=4)).due == []


def test_what_comes_out_is_the_result() -> None:
    """The call is settled with it, exactly; said again it is nothing new."""
    running = given_call(*RUNNING)

    assert running.when(Finish(output=4)) == [DONE]
    assert running.when(Finish(output="ab", truncated=9)) == [
        paid("success", output="ab", truncated=9),
    ]
    assert running.after(Finish(output=4)).when(Finish(output=4)) == []
    with pytest.raises(Refused, match="completed_result"):
        running.after(Finish(output=4)).when(Fail(error="late"))


@pytest.mark.parametrize("status", ["error", "timeout", "cancelled"])
def test_what_goes_wrong_is_a_result_too(status: str) -> None:
    """An adapter may also give up by itself, and passes on what there was until then."""
    fail = Fail(error="boom", status=status, output="half", truncated=1)  # type: ignore[arg-type]  # one of the three
    running = given_call(*RUNNING)

    [result] = running.when(fail)

    assert bare([result]) == [paid(status, output="half", truncated=1)]  # type: ignore[arg-type]  # as above
    assert isinstance(result, Result)
    assert result.error == "boom"
    assert (result.trigger, result.actor) == {
        "error": ("", "system"),
        "timeout": ("deadline", "timeout"),
        "cancelled": ("cancelled", "system"),
    }[status]
    assert running.after(fail).when(fail) == []
    with pytest.raises(Refused):
        running.after(fail).when(Finish())


def test_an_earlier_run_that_fails_says_nothing_about_this_one() -> None:
    """Only the run that is under way can fail; that one of them succeeded is true whenever."""
    again = given_call(*RUNNING, RETRIED)

    assert again.when(Fail(error="boom", attempt=0)) == []
    assert bare(again.when(Fail(error="", attempt=1))) == [
        paid("error"),
    ]
    assert again.when(Finish(output=4)) == [DONE]


@pytest.mark.parametrize("past", [HELD, AWAITING, RUNNING, ASKED_IN_DOUBT, (*RUNNING, DOUBTED)])
def test_a_call_can_be_cancelled_at_any_time(past: tuple[Rune, ...]) -> None:
    """Its question is withdrawn; what was started is settled, and may still take effect."""
    call = given_call(*past)
    runes = call.when(Cancel(reason="interrupted"))
    started = STARTED in past

    assert isinstance(runes[0], Result)
    assert runes[0].status == "cancelled"
    assert "interrupted" in runes[0].error
    assert ("may still take effect" in runes[0].error) == started
    assert runes[0].charged == (ONE if started else Amounts())
    assert [r.approval_id for r in runes if isinstance(r, approval.Aborted)] == (
        [APR] if call.state.phase is Phase.AWAITING_APPROVAL else []
    )
    assert call.after(Cancel(reason="interrupted")).when(Cancel(reason="again")) == []


def test_a_deadline_is_a_time_in_a_rune() -> None:
    """Before it nothing happens; from then on the call is over, and says what was late."""
    running, waiting = given_call(*RUNNING), given_call(*AWAITING)
    late, unanswered = NOW + TIMEOUT, NOW + PATIENCE

    assert running.when(TimeUp(now=late - 1)) == []
    assert bare(running.when(TimeUp(now=late))) == [
        paid("timeout"),
    ]
    assert running.when(TimeUp(now=late))[0].actor == "timeout"  # type: ignore[attr-defined]  # a result, as just seen
    assert waiting.when(TimeUp(now=unanswered - 1)) == []
    assert bare(waiting.when(TimeUp(now=unanswered))) == [
        Result(call_id=ID, status="timeout"),
        approval.Aborted(approval_id=APR),
    ]
    assert given_call(*HELD).when(TimeUp(now=unanswered)) == []
    assert given_call(*RUNNING_APPROVED).when(TimeUp(now=late)) == given_call(*RUNNING).when(
        TimeUp(now=late)
    )


def test_what_can_be_stopped_is_given_the_time_that_takes() -> None:
    """Whoever runs it stops it at its deadline; until it has ended it has no result."""
    past = called()
    rule = msgspec.structs.replace(past.rule, grace=7)
    stoppable = msgspec.structs.replace(past, rule=rule)
    running, late = given_call(stoppable, STARTED), NOW + TIMEOUT

    assert KIND.deadline(running.state) == late + 7
    assert running.when(TimeUp(now=late + 6)) == []
    assert bare(running.when(TimeUp(now=late + 7))) == [
        paid("timeout"),
    ]
    # A probe is nothing that could be stopped.
    assert KIND.deadline(given_call(stoppable, STARTED, DOUBTED).state) == late


@pytest.mark.parametrize("phase", Phase)
def test_there_is_a_deadline_while_somebody_is_awaited(phase: Phase) -> None:
    """A human, the tool or its probe; nobody before it begins and after it is over."""
    state = given_call(*PAST[phase]).state
    wanted = {Phase.AWAITING_APPROVAL: NOW + PATIENCE, Phase.EXECUTING: NOW + TIMEOUT}

    assert KIND.deadline(state) == wanted.get(phase)
    assert KIND.deadline(given_call(*AWAITING, APPROVED).state) is None


LATE: tuple[Command, ...] = (
    Go(now=NOW),
    TimeUp(now=NOW * NOW),
    Cancel(reason="late"),
    Recover(now=NOW),
    Abandon(reason="gone"),
)
NEVER: tuple[Command, ...] = (
    Begin(),
    Report(stream="stdout", chunk="late"),
    Probed(attempt=0, happened=True, now=NOW),
)


@pytest.mark.parametrize("phase", LIFECYCLE.terminal)
def test_what_is_over_stays_over(phase: Phase) -> None:
    """Timers, cancels and restarts come too late for nobody's fault; the rest is refused."""
    call = given_call(*PAST[phase])

    assert call.due == []
    assert [call.when(command) for command in LATE] == [[]] * len(LATE)
    for command in NEVER:
        with pytest.raises(Refused, match=f"^tool {ID} is {phase}: "):
            call.when(command)


@pytest.mark.parametrize("phase", [Phase.PENDING_CALL, Phase.AWAITING_APPROVAL])
@pytest.mark.parametrize("command", [*NEVER, Finish(), Fail(error="")], ids=repr)
def test_nothing_comes_out_of_what_has_not_begun(phase: Phase, command: Command) -> None:
    """Neither a result nor progress nor a probe's answer is taken before the call was started."""
    with pytest.raises(Refused, match=f"^tool {ID} is {phase}: "):
        given_call(*PAST[phase]).when(command)
    with pytest.raises(Refused):
        given_call(*ASKED_IN_DOUBT).when(command)
    if command != Begin():
        with pytest.raises(Refused):
            given_call(*AWAITING, APPROVED).when(command)


def test_a_call_whose_tool_is_gone_comes_to_an_end() -> None:
    """Not started, it is an error; started, nobody knows; while a human is asked, that goes on."""
    gone = Abandon(reason="send_mail is not registered any more")

    assert bare(given_call(*HELD).when(gone)) == [Result(call_id=ID, status="error")]
    assert bare(given_call(*RUNNING).when(gone)) == [
        paid("unknown"),
    ]
    assert given_call(*AWAITING).when(gone) == []
    assert bare(given_call(*AWAITING, APPROVED).when(gone)) == [
        Result(call_id=ID, status="error"),
        approval.Aborted(approval_id=APR),
    ]

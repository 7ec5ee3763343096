"""Rules about what humans say of tool calls, and about calls in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.approval import runes as approval
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.entity import Moved
from actors.tool.kind import KIND
from actors.tool.lifecycle import (
    LIFECYCLE,
    Answer,
    Finish,
    Phase,
    Probe,
    Probed,
    RunTool,
)
from actors.tool.runes import Approved, Denied, Doubted, InDoubt, Result, Retried
from runelog.errors import Refused
from tests.actors.tool.calls import (
    APPROVED,
    APR,
    APR_2,
    ASKED_IN_DOUBT,
    AWAITING,
    DOUBTED,
    EMPTY,
    HELD,
    ID,
    NOW,
    PAST,
    PATIENCE,
    RETRIED,
    ROOM,
    RUNNING,
    RUNNING_APPROVED,
    SPENT,
    STARTED,
    TIMEOUT,
    answer,
    approve,
    asked,
    bare,
    called,
    deny,
    given_call,
    paid,
    question,
    started,
)
from tests.folding import cascade

if TYPE_CHECKING:
    from actors.tool.lifecycle import Answer
    from runelog.rune import Rune

LATER = NOW + 9

APPROVE = approve(approval_id=APR, approver="ada", now=LATER)
DENY = deny(approval_id=APR, approver="ada", reason="not today", now=LATER)
RERUN = answer(approval_id=APR, approver="ada", verdict="rerun", now=LATER)
HAPPENED = answer(approval_id=APR, approver="ada", verdict="happened", now=LATER, output=4)
GIVE_UP = answer(approval_id=APR, approver="ada", verdict="give_up", now=LATER)

YES = approval.Approved(approval_id=APR, approver="ada")
NO = approval.Rejected(approval_id=APR, approver="ada")
ABORTED = approval.Aborted(approval_id=APR)
EXECUTED = approval.Executed(approval_id=APR)


def tool_approved(at: int = LATER) -> Approved:
    """Return what a call records when a human lets it go on."""
    return Approved(call_id=ID, approver="ada", at=at)


# -- a plain question --------------------------------------------------------------------------


def test_what_is_approved_starts() -> None:
    """That it may and that it does are two runes in one append; its time counts from the answer."""
    call = given_call(*AWAITING)
    _, runes = cascade(KIND, ID, call.state, call.when(APPROVE), lambda _budget: ROOM)

    assert bare(runes) == [
        tool_approved(),
        YES,
        started(LATER),
        EXECUTED,
    ]


def test_approved_and_not_started_is_not_in_doubt() -> None:
    """A crash between the two changes nothing: it runs, for the first time."""
    call = given_call(*AWAITING).after(APPROVE)

    assert call.state.phase is Phase.EXECUTING
    assert [type(effect) for effect in call.due] == [*KIND.internal]
    assert bare(call.when(Recover(now=LATER + 5), ROOM)) == [
        started(LATER + 5),
        EXECUTED,
    ]
    assert call.after(Recover(now=LATER), ROOM).due == [RunTool(ID, 0)]
    assert bare(call.when(Cancel(reason=""))) == [Result(call_id=ID, status="cancelled"), ABORTED]


def test_what_is_approved_too_late_for_the_budget_does_not_start() -> None:
    """The human's word stands, the approval is withdrawn, and nothing was set aside."""
    call = given_call(*AWAITING)
    _, runes = cascade(KIND, ID, call.state, call.when(APPROVE), lambda _budget: EMPTY)

    assert bare(runes)[1:] == [YES, SPENT, Result(call_id=ID, status="error"), ABORTED]


def test_what_is_denied_never_starts() -> None:
    """The model is told who said no, and why."""
    runes = given_call(*AWAITING).when(DENY)

    assert bare(runes) == [
        Denied(call_id=ID, reason="", approver="ada"),
        Result(call_id=ID, status="denied"),
        NO,
        ABORTED,
    ]
    assert isinstance(runes[1], Result)
    assert runes[1].error == "denied by ada: not today"
    assert given_call(*AWAITING).after(DENY).due == []


@pytest.mark.parametrize("word", [APPROVE, DENY], ids=["approve", "deny"])
def test_the_same_word_from_the_same_human_is_heard_once(word: Answer) -> None:
    """However late it comes again, it leads to nothing and is not refused."""
    call = given_call(*AWAITING).after(word)

    assert call.when(word) == []
    if word is APPROVE:
        over = given_call(*RUNNING_APPROVED).after(Finish())

        assert given_call(*RUNNING_APPROVED).when(word) == []
        assert over.when(word) == []


SECOND: dict[str, tuple[tuple[Rune, ...], Answer, str]] = {
    "another human says the same": (
        (*AWAITING, APPROVED),
        approve(approval_id=APR, approver="bob", now=LATER),
        f"{ID} is executing: ada has answered approval {APR} already (approve); cancel it",
    ),
    "the same human says otherwise": (
        (*AWAITING, APPROVED),
        DENY,
        f"{ID} is executing: ada has answered approval {APR} already (approve); cancel it",
    ),
    "approved after it was denied": (
        (*AWAITING, Denied(call_id=ID, reason="", approver="ada")),
        APPROVE,
        f"{ID} is denied: ada has answered approval {APR} already (deny); the model is told",
    ),
    "after the deadline was noticed": (
        PAST[Phase.TIMEOUT_RESULT],
        APPROVE,
        f"{ID} is timeout_result: the answer to approval {APR} comes too late; the model",
    ),
    "after the deadline, before anybody noticed": (
        AWAITING,
        approve(approval_id=APR, approver="ada", now=NOW + PATIENCE),
        f"{ID} is awaiting_approval: approval {APR} has lapsed; the model is told",
    ),
    "denied after the deadline": (
        AWAITING,
        deny(approval_id=APR, approver="ada", reason="", now=NOW + PATIENCE),
        f"{ID} is awaiting_approval: approval {APR} has lapsed; the model is told",
    ),
    "for another call": (
        AWAITING,
        approve(approval_id="apr_1", approver="ada", now=LATER),
        f"{ID} is awaiting_approval: it did not ask for approval apr_1; answer the approval that",
    ),
    "before it asks": (
        HELD,
        APPROVE,
        f"{ID} is pending_call: it did not ask for approval {APR}; wait until it asks",
    ),
    "of a call that never asks": (
        RUNNING,
        DENY,
        f"{ID} is executing: it did not ask for approval {APR}; cancel it if it must not go on",
    ),
    "an earlier question": (
        (*RUNNING_APPROVED, asked(APR_2)),
        DENY,
        f"{ID} is awaiting_approval: ada has answered approval {APR} already (approve); answer",
    ),
    "yes, to a call in doubt": (
        ASKED_IN_DOUBT,
        APPROVE,
        f"{ID} is awaiting_approval: it was started before a crash and may have happened; answer",
    ),
    "run again, to a call that never ran": (
        AWAITING,
        RERUN,
        f"{ID} is awaiting_approval: it was never started; approve or deny it",
    ),
    "give up, of a call that never ran": (
        AWAITING,
        GIVE_UP,
        f"{ID} is awaiting_approval: it was never started; approve or deny it",
    ),
}


@pytest.mark.parametrize("case", SECOND)
def test_what_comes_late_second_or_for_another_call_is_refused(case: str) -> None:
    """The answer names the call, its phase and the way out; nothing changes."""
    past, word, message = SECOND[case]

    with pytest.raises(Refused) as refused:
        given_call(*past).when(word)
    assert str(refused.value).startswith(message)


# -- in doubt ----------------------------------------------------------------------------------


def in_doubt(policy: InDoubt, *, idempotent: bool = False, attempt: int = 0) -> list[Rune]:
    """Return what a restart does about a call that was started."""
    past: list[Rune] = [called("allow", policy, idempotent=idempotent), STARTED]
    again = [RETRIED] * attempt
    return given_call(*past, *again).when(Recover(now=LATER))


def retried(attempt: int) -> Retried:
    """Return what is recorded when a call is run again."""
    return Retried(call_id=ID, reason="", attempt=attempt, deadline=LATER + TIMEOUT)


def test_what_is_idempotent_runs_again() -> None:
    """Under the same id, with as much time as before, and without being charged again."""
    assert bare(in_doubt("rerun", idempotent=True)) == [retried(1)]
    assert bare(in_doubt("rerun", idempotent=True, attempt=1)) == [retried(2)]
    assert given_call(*RUNNING, retried(1)).due == [RunTool(ID, 1)]


def test_what_is_not_idempotent_does_not_run_again_by_itself() -> None:
    """Whatever its rule says: that it happened twice could never be taken back."""
    unknown: list[Rune] = [paid("unknown")]

    assert bare(in_doubt("rerun")) == unknown
    assert bare(in_doubt("unknown")) == unknown
    assert bare(in_doubt("unknown", idempotent=True)) == unknown
    result = in_doubt("unknown")[0]
    assert isinstance(result, Result)
    assert "may or may not have happened" in result.error


def test_a_probe_is_asked_before_anything_else() -> None:
    """That it is asked is recorded, so that nothing runs meanwhile; a second crash asks again."""
    call = given_call(called("allow", "probe"), STARTED).after(Recover(now=LATER))

    assert bare([call.runes[-1]]) == [Doubted(call_id=ID, deadline=LATER + TIMEOUT)]
    assert call.due == [Probe(ID, 0)]
    assert call.when(Recover(now=LATER + 1)) == []
    assert KIND.deadline(call.state) == LATER + TIMEOUT


def test_a_probe_settles_the_doubt() -> None:
    """It happened: that is the result. It did not: it runs. It cannot say: nobody knows."""
    call = given_call(called("allow", "probe"), STARTED, DOUBTED)

    assert bare(call.when(Probed(attempt=0, happened=True, now=LATER, output=4))) == [
        paid("success", output=4),
    ]
    assert bare(call.when(Probed(attempt=0, happened=False, now=LATER))) == [retried(1)]
    assert bare(call.when(Probed(attempt=0, happened=None, now=LATER))) == [
        paid("unknown"),
    ]
    assert bare(call.when(TimeUp(now=NOW + TIMEOUT))) == [
        paid("unknown"),
    ]
    assert bare(call.when(Abandon(reason="gone"))) == [paid("unknown")]
    assert call.when(Finish(output=4)) == [paid("success", output=4)]


def test_a_probe_that_cannot_say_tells_why() -> None:
    """What went wrong with it is in the result, for the model and for an operator."""
    call = given_call(called("allow", "probe"), STARTED, DOUBTED)
    [result] = call.when(Probed(None, error="the probe failed: ValueError: down", now=LATER))

    assert isinstance(result, Result)
    assert result.error.endswith("its probe cannot say either: the probe failed: ValueError: down")


def test_a_probe_speaks_of_one_run_only() -> None:
    """What it said of an earlier run cannot let a later one happen twice."""
    not_happened = Probed(attempt=0, happened=False, now=LATER)
    call = given_call(called("allow", "probe"), STARTED, DOUBTED).after(not_happened)

    assert call.due == [RunTool(ID, 1)]
    with pytest.raises(Refused):
        call.when(not_happened)
    with pytest.raises(Refused):
        call.after(Recover(now=LATER)).when(not_happened)
    assert call.after(Recover(now=LATER)).due == [Probe(ID, 1)]


def test_after_each_crash_the_probe_is_asked_about_the_run_that_is_in_doubt() -> None:
    """It is the same call each time, and each time another run of it; its answer settles that."""
    call = given_call(called("allow", "probe"), STARTED)
    for attempt in range(3):
        assert call.due == [RunTool(ID, attempt)]
        call = call.after(Recover(now=LATER))
        assert call.due == [Probe(ID, attempt)]
        done = call.when(Probed(happened=True, attempt=attempt, now=LATER, output=attempt))
        assert bare(done) == [paid("success", output=attempt)]
        call = call.after(Probed(happened=False, attempt=attempt, now=LATER))

    assert call.due == [RunTool(ID, 3)]
    assert call.state.attempt == 3


def test_a_human_is_asked_about_a_doubt() -> None:
    """The question is an approval of its own, also if there was one before."""
    first = given_call(called("allow", "ask"), STARTED)
    second = given_call(called("ask", "ask"), asked(), APPROVED, STARTED)

    assert bare(first.when(Recover(now=LATER))) == question(APR, LATER)
    assert bare(second.when(Recover(now=LATER))) == question(APR_2, LATER)
    assert first.after(Recover(now=LATER)).when(Recover(now=LATER)) == []
    assert first.after(Recover(now=LATER)).due == []


def test_a_human_has_three_answers_to_a_doubt() -> None:
    """Run it again, it happened with this result, or give up; the outcome is never made up."""
    call = given_call(*ASKED_IN_DOUBT)

    assert bare(call.when(RERUN)) == [tool_approved(), YES, retried(1), EXECUTED]
    assert bare(call.when(HAPPENED)) == [
        tool_approved(),
        YES,
        paid("success", output=4),
        EXECUTED,
    ]
    for word in (GIVE_UP, DENY):
        assert bare(call.when(word)) == [
            tool_approved(),
            paid("unknown"),
            NO,
            ABORTED,
        ]
    assert call.after(RERUN).due == [RunTool(ID, 1)]


@pytest.mark.parametrize("word", [RERUN, HAPPENED, GIVE_UP, DENY])
def test_an_answer_to_a_doubt_is_heard_once_too(word: Answer) -> None:
    """Said again it leads to nothing; another answer, or another human, comes second."""
    call = given_call(*ASKED_IN_DOUBT).after(word)
    others = [each for each in (RERUN, HAPPENED, GIVE_UP) if each is not word]

    assert call.when(word) == []
    if word in {GIVE_UP, DENY}:
        assert call.when(GIVE_UP) == call.when(DENY) == []
        others = [RERUN, HAPPENED]
    for other in others:
        with pytest.raises(Refused, match=f"ada has answered approval {APR} already"):
            call.when(other)


def test_a_doubt_that_nobody_settles_in_time_is_unknown() -> None:
    """It may have happened: to call that a timeout would be a guess. Late words are refused."""
    call = given_call(*ASKED_IN_DOUBT)
    lapsed = TimeUp(now=NOW + PATIENCE)
    over = call.after(lapsed)

    assert call.when(TimeUp(now=NOW + PATIENCE - 1)) == []
    assert bare(call.when(lapsed)) == [
        Approved(call_id=ID, approver="", at=NOW + PATIENCE),
        paid("unknown"),
        ABORTED,
    ]
    assert {rune.actor for rune in call.when(lapsed) if isinstance(rune, Moved)} == {"timeout"}
    assert over.state.phase is Phase.UNKNOWN_RESULT
    assert over.due == []
    assert over.when(lapsed) == []
    for word in (RERUN, HAPPENED, GIVE_UP):
        with pytest.raises(Refused, match=f"the answer to approval {APR} comes too late"):
            over.when(word)


@pytest.mark.parametrize("phase", LIFECYCLE.terminal)
def test_what_is_over_is_not_in_doubt(phase: Phase) -> None:
    """A restart leaves alone what has its result."""
    assert given_call(*PAST[phase]).when(Recover(now=LATER)) == []
    assert given_call(*AWAITING).when(Recover(now=LATER)) == []

"""The law of a tool call: asked for by a model, it comes to exactly one result.

pending_call ──┬── started ─────────────────────────> executing ──┬── result ──> completed_result
   │           │                                       │  ^  ^  │ │              error_result
   │           └── approval_requested ──┐      started │  │  │  │ │              timeout_result
   │                                    v     progress └──┘  │  │ │              cancelled_result
   │ denied + result            awaiting_approval    retried │  │ └── in doubt ─> unknown_result
   │ result (error, cancelled)      │ │   ^  └── approved ───┘  │
   v                                │ │   └─ approval_requested ┘ in doubt
 denied, error_result, …            │ └── result ──> timeout_result, cancelled_result
                                    └── denied + result ──> denied

A call is *in doubt* when it was started, the process died, and no result is in the log. What was
started runs a second time only if the tool is idempotent, its probe says that it did not happen, or
a human says so. A denial is two runes: `tool.denied` moves the phase, and its result, in the same
append, finds it where it belongs. What a human finds out about a call that ended as unknown changes
neither: `tool.acknowledged` moves no phase, and takes the call off the list of those in doubt.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from actors.approval import lifecycle as approvals
from actors.approval import runes as approval
from actors.approval.answers import Answered, Question, judge
from actors.budget import lifecycle as ledger
from actors.budget.runes import BUDGET_EXHAUSTED, Amounts, Exhausted
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.entity import ROOT, Routing
from actors.tool.runes import (
    APPROVAL_TIMEOUT,
    IN_DOUBT,
    PREFIX,
    TIMEOUT,
    Acknowledged,
    ApprovalRequested,
    Approved,
    Called,
    Denied,
    Doubted,
    Progress,
    Result,
    Retried,
    Rule,
    Started,
    Status,
)
from actors.units import SECOND
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import ByField, Lifecycle, Table, Timeout, refusal

if TYPE_CHECKING:
    from actors.entity import Actor
    from runelog.rune import Rune

NAME: Final = "tool"
_DOUBT: Final = "it was started before a crash and may or may not have happened"
_MAY_HAPPEN: Final = "it was started and may still take effect"


class Phase(StrEnum):
    """What a call can be."""

    PENDING_CALL = "pending_call"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    COMPLETED_RESULT = "completed_result"
    ERROR_RESULT = "error_result"
    TIMEOUT_RESULT = "timeout_result"
    CANCELLED_RESULT = "cancelled_result"
    DENIED = "denied"
    UNKNOWN_RESULT = "unknown_result"


TABLE: Final[Table[Phase]] = {
    Phase.PENDING_CALL: {
        ApprovalRequested: Phase.AWAITING_APPROVAL,
        Started: Phase.EXECUTING,
        Denied: Phase.DENIED,
        Result: ByField(
            "status", {"cancelled": Phase.CANCELLED_RESULT, "error": Phase.ERROR_RESULT}
        ),
    },
    Phase.AWAITING_APPROVAL: {
        Approved: Phase.EXECUTING,
        Denied: Phase.DENIED,
        Result: ByField(
            "status", {"timeout": Phase.TIMEOUT_RESULT, "cancelled": Phase.CANCELLED_RESULT}
        ),
    },
    Phase.EXECUTING: {
        Started: Phase.EXECUTING,
        Progress: Phase.EXECUTING,
        Retried: Phase.EXECUTING,
        ApprovalRequested: Phase.AWAITING_APPROVAL,
        Result: ByField(
            "status",
            {
                "success": Phase.COMPLETED_RESULT,
                "error": Phase.ERROR_RESULT,
                "timeout": Phase.TIMEOUT_RESULT,
                "cancelled": Phase.CANCELLED_RESULT,
                "unknown": Phase.UNKNOWN_RESULT,
            },
        ),
    },
    Phase.COMPLETED_RESULT: {},
    Phase.ERROR_RESULT: {},
    Phase.TIMEOUT_RESULT: {},
    Phase.CANCELLED_RESULT: {},
    Phase.DENIED: {},
    Phase.UNKNOWN_RESULT: {},
}


# -- state -------------------------------------------------------------------------------------

_UNBORN: Final = Called(
    call_id="",
    tool_name="",
    arguments={},
    caller="",
    rule=Rule(verdict="deny"),
    at=0,
    # Nothing is due before there is a call.
    hold=True,
)


class State(msgspec.Struct, frozen=True):
    """What a call's runes add up to."""

    phase: Phase = Phase.PENDING_CALL
    call: Called = _UNBORN
    at: int = 0
    """When it was called or approved, whichever was last."""
    approval_id: str = ""
    """The last question that was put to a human."""
    asked: int = 0
    answered: Answered | None = None
    started: bool = False
    attempt: int = 0
    doubted: bool = False
    """Whether its probe is being asked what happened."""
    deadline: int | None = None
    status: Status | None = None
    """How it came out."""
    acknowledged: str = ""
    """The human who has seen to it, as its outcome is not known."""


def is_running(state: State) -> bool:
    """Return True if the tool itself is at work, as far as is known."""
    return state.phase is Phase.EXECUTING and state.started and not state.doubted


def is_under_way(state: State) -> bool:
    """Return True until the call has its result."""
    return bool(TABLE[state.phase])


def approval_of(call_id: str, asked: int = 1) -> str:
    """Return the id of the approval that a call asks for, the first time or a later one.

    >>> approval_of("call_00112233445566aa"), approval_of("call_00112233445566aa", 2)
    ('apr_00112233445566aa', 'apr_00112233445566aa-2')
    """
    first = f"{approval.PREFIX}_{call_id.removeprefix(f'{PREFIX}_')}"
    return first if asked == 1 else f"{first}-{asked}"


# -- commands; Cancel, Recover and TimeUp are common to several laws -----------------------------


class Begin(msgspec.Struct, frozen=True):
    """Go on with a call that is newborn or approved: an internal effect."""


class Go(msgspec.Struct, frozen=True):
    """Begin a call that was held until those before it were done."""

    now: int


Verdict: TypeAlias = Literal["approve", "deny", "rerun", "happened", "give_up"]
"""What a human may say: the first two of a call that asks, the last four of one in doubt."""


class Answer(msgspec.Struct, frozen=True):
    """Say, as a human, what is to become of a call that waits for that."""

    approval_id: str
    verdict: Verdict
    approver: str
    now: int
    reason: str = ""
    """Why it is denied."""
    output: Any = None
    """What came out of it, if it happened."""
    process: str = ""
    """The other process through which it was said, if it was."""


class Acknowledge(msgspec.Struct, frozen=True):
    """Say, as a human, that a call whose outcome is not known was seen to."""

    by: str
    note: str = ""
    process: str = ""
    """The other process through which it was said, if it was."""


class Report(msgspec.Struct, frozen=True):
    """Pass on what the tool said on the way."""

    stream: str
    chunk: str


class Finish(msgspec.Struct, frozen=True):
    """Say what came out of it."""

    output: Any = None
    truncated: int = 0


class Fail(msgspec.Struct, frozen=True):
    """Say what went wrong."""

    error: str
    status: Literal["error", "timeout", "cancelled"] = "error"
    """Its adapter may have given it up before its deadline was noticed here."""
    output: Any = None
    """What it had to say until then."""
    truncated: int = 0
    attempt: int | None = None
    """The run that failed; None for whichever is under way."""
    stopped: Cancel | None = None
    """Why it was stopped, and who wanted it, if it was."""
    frames: tuple[str, ...] = ()
    """Where it failed in the app's own code, if it did."""


class Probed(msgspec.Struct, frozen=True):
    """Say what the probe found out about a run."""

    happened: bool | None
    """None if it cannot say."""
    output: Any = None
    """What came out of it, if it happened."""
    error: str = ""
    """Why it cannot say."""
    attempt: int = 0
    now: int = 0
    frames: tuple[str, ...] = ()
    """Where it failed in the app's own code, if it did."""


Command: TypeAlias = (
    Begin
    | Go
    | Answer
    | Acknowledge
    | Report
    | Finish
    | Fail
    | Abandon
    | Probed
    | TimeUp
    | Cancel
    | Recover
)


# -- effects -----------------------------------------------------------------------------------


class RunTool(msgspec.Struct, frozen=True):
    """The adapter has to run the tool."""

    call_id: str
    attempt: int


class Probe(msgspec.Struct, frozen=True):
    """The tool's probe has to say what became of a run."""

    call_id: str
    attempt: int


Action: TypeAlias = RunTool | Probe
"""What the actor of a call does."""
Effect: TypeAlias = Begin | Action


# -- decide ------------------------------------------------------------------------------------


def decide(
    state: State, command: Command, account: ledger.State = ledger.LIFECYCLE.initial
) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    phase = state.phase
    match command:
        case Answer():
            return _answered(state, command)
        case Acknowledge():
            return _acknowledged(state, command)
        case TimeUp(now):
            when = deadline(state)
            return _overdue(state) if when is not None and now >= when else []
        case Cancel(reason, actor) if is_under_way(state):
            return _stopped(state, "cancelled", f"cancelled: {reason}", reason, actor)
        case _ if phase is Phase.PENDING_CALL:
            return _pending(state, command, account)
        case _ if phase is Phase.EXECUTING and state.started:
            return _running(state, command)
        case _ if phase is Phase.EXECUTING:
            return _approved(state, command, account)
        case Finish() if phase is Phase.COMPLETED_RESULT:
            return []
        case Fail(status=status) if status == state.status:
            return []
        case Go() | Cancel() | Recover() | Abandon():
            # These may come too late: what they are for is so, or is asked.
            return []
        case _:
            raise _refused(state, command)


def _pending(state: State, command: Command, account: ledger.State) -> list[Rune]:
    match command:
        case Begin() if not state.call.hold:
            return _begin(state, state.at, account)
        case Go(now):
            return _begin(state, now, account)
        case Recover(now):
            # What is held is let go by its turn, which a restart brings back too.
            return [] if state.call.hold else _begin(state, now, account)
        case Abandon(reason):
            return _result(state, "error", error=reason)
        case _:
            raise _refused(state, command)


def _approved(state: State, command: Command, account: ledger.State) -> list[Rune]:
    """Decide about a call that was approved and not started: it has not happened."""
    match command:
        case Begin():
            return _start(state, state.at, account)
        case Recover(now):
            return _start(state, now, account)
        case Abandon(reason):
            return _stopped(state, "error", reason)
        case Go():
            return []
        case _:
            raise _refused(state, command)


def _running(state: State, command: Command) -> list[Rune]:
    """Decide about a call that was started, and may be in doubt."""
    match command:
        case Report(stream, chunk):
            return [Progress(call_id=state.call.call_id, stream=stream, chunk=chunk)]
        case Finish(output, truncated):
            return _result(state, "success", output=output, truncated=truncated)
        case Fail(attempt=attempt):
            if attempt not in {None, state.attempt}:
                # An earlier run that failed says nothing about the one that is under way.
                return []
            return _failed(state, command)
        case Abandon(reason):
            return _unknown(state, reason)
        case Probed(attempt=attempt) if state.doubted and attempt == state.attempt:
            return _probed(state, command)
        case Recover(now):
            return [] if state.doubted else _in_doubt(state, now)
        case Go():
            return []
        case _:
            raise _refused(state, command)


def _refused(state: State, command: Command) -> Refused:
    return refusal(f"{NAME} {state.call.call_id}".rstrip(), state.phase, command)


# -- decide: beginning -------------------------------------------------------------------------

_ADVICE: Final = {
    "unknown_tool": "there is no such tool: call one of those that are listed",
    "bad_arguments": "the arguments do not fit the tool's schema: correct them and call it again",
}


def _begin(state: State, now: int, account: ledger.State) -> list[Rune]:
    """Do with a call what the rule says that it was born with."""
    call_id, rule = state.call.call_id, state.call.rule
    match rule.verdict:
        case "unknown_tool" | "bad_arguments":
            return _result(state, "error", error=rule.reason or _ADVICE[rule.verdict])
        case "deny":
            return [
                Denied(call_id=call_id, reason=rule.reason, trigger="policy"),
                *_result(state, "denied", error=f"denied by policy: {rule.reason}"),
            ]
        case "ask" | "allow":
            return _start(state, now, account, ask=rule.verdict == "ask")
        case _:
            assert_never(rule.verdict)


def _start(state: State, now: int, account: ledger.State, *, ask: bool = False) -> list[Rune]:
    """Set one call aside in the budget and start it; or say that the budget has none left.

    One to `ask` about is not asked about in vain, and starts once it is approved.
    """
    call, approval_id = state.call, state.approval_id
    started = Started(
        call_id=call.call_id,
        deadline=now + call.rule.timeout,
        account=call.account,
        reserved=call.rule.cost,
    )
    spent = ledger.afford(account, started)
    if spent is not None:
        why = f"the budget of {spent.scope} has no {spent.what} left for it"
        return [spent, *_stopped(state, "error", why, BUDGET_EXHAUSTED)]
    if ask:
        return _ask(state, now, call.rule.reason, "policy")
    return [started, approval.Executed(approval_id=approval_id)] if approval_id else [started]


def _ask(state: State, now: int, reason: str, trigger: str) -> list[Rune]:
    """Put a question to a human, as an approval of its own."""
    call, deadline = state.call, now + state.call.rule.approval_timeout
    approval_id = approval_of(call.call_id, state.asked + 1)
    return [
        ApprovalRequested(
            call_id=call.call_id,
            policy_reason=reason,
            deadline=deadline,
            approval_id=approval_id,
            trigger=trigger,
        ),
        approval.Requested(
            approval_id=approval_id,
            asker=call.call_id,
            tools_hash=call.rule.tools_hash,
            reason=reason,
            deadline=deadline,
            agent_id=call.agent_id,
            trigger=trigger,
        ),
        approval.Awaiting(approval_id=approval_id),
    ]


# -- decide: in doubt --------------------------------------------------------------------------


def _in_doubt(state: State, now: int) -> list[Rune]:
    """Settle a call in doubt by the policy of its tool."""
    call_id, rule = state.call.call_id, state.call.rule
    match rule.in_doubt:
        case "rerun" if rule.idempotent:
            return [_retried(state, now, "it is idempotent", IN_DOUBT)]
        case "probe":
            deadline = now + rule.timeout
            return [Doubted(call_id=call_id, deadline=deadline, trigger=IN_DOUBT)]
        case "ask":
            return _ask(state, now, _DOUBT, IN_DOUBT)
        case "rerun" | "unknown":
            return _unknown(state, _DOUBT)
        case _:
            assert_never(rule.in_doubt)


def _probed(state: State, found: Probed) -> list[Rune]:
    """Settle a doubt by what the probe says."""
    match found.happened:
        case True:
            return _result(state, "success", output=found.output, trigger="probe")
        case False:
            return [_retried(state, found.now, "its probe says that it did not happen", "probe")]
        case None:
            why = f": {found.error}" if found.error else ""
            why = f"{_DOUBT}; its probe cannot say either{why}"
            return _unknown(state, why, frames=found.frames)


def _retried(state: State, now: int, reason: str, trigger: str, actor: Actor = "system") -> Retried:
    """Run it once more, with as much time as the first time."""
    return Retried(
        call_id=state.call.call_id,
        reason=reason,
        attempt=state.attempt + 1,
        deadline=now + state.call.rule.timeout,
        trigger=trigger,
        actor=actor,
    )


def _unknown(
    state: State, why: str, actor: Actor = "system", frames: tuple[str, ...] = ()
) -> list[Rune]:
    """End a call of which it is not known whether it happened, and say so."""
    return _result(state, "unknown", error=why, frames=frames, trigger=IN_DOUBT, actor=actor)


# -- decide: ends ------------------------------------------------------------------------------


def _result(
    state: State,
    status: Status,
    *,
    output: Any = None,  # noqa: ANN401 -- whatever a tool returns
    error: str = "",
    truncated: int = 0,
    frames: tuple[str, ...] = (),
    trigger: str = "",
    actor: Actor = "system",
) -> list[Rune]:
    """End a call; if it was started, it is charged with what was set aside for it."""
    end = Result(
        call_id=state.call.call_id,
        status=status,
        output=output,
        error=error,
        truncated=truncated,
        charged=state.call.rule.cost if state.started else Amounts(),
        estimated=status == "unknown",
        frames=frames,
        trigger=trigger,
        actor=actor,
    )
    return [end]


def _failed(state: State, how: Fail) -> list[Rune]:
    """End a call that did not come out well, or was stopped by its adapter."""
    trigger = {"timeout": "deadline", "cancelled": "cancelled"}.get(how.status, "")
    actor: Actor = "timeout" if how.status == "timeout" else "system"
    if how.stopped is not None:
        trigger, actor = how.stopped.reason or trigger, how.stopped.actor
    return _result(
        state,
        how.status,
        output=how.output,
        error=how.error,
        truncated=how.truncated,
        frames=how.frames,
        trigger=trigger,
        actor=actor,
    )


def _stopped(
    state: State, status: Status, why: str, trigger: str = "", actor: Actor = "system"
) -> list[Rune]:
    """End a call before its tool does, and with it the question that is open about it."""
    error = f"{why}; {_MAY_HAPPEN}" if state.started else why
    runes = _result(state, status, error=error, trigger=trigger, actor=actor)
    asked = state.phase is Phase.AWAITING_APPROVAL or not state.started
    if state.approval_id and asked:
        runes.append(approval.Aborted(approval_id=state.approval_id, reason=why, actor=actor))
    return runes


def _overdue(state: State) -> list[Rune]:
    """End a call for which a human, its probe or its tool took too long."""
    if state.phase is Phase.AWAITING_APPROVAL and state.started:
        return _unanswered(state)
    if state.phase is Phase.AWAITING_APPROVAL:
        return _stopped(state, "timeout", "it was not approved in time", "deadline", "timeout")
    if state.doubted:
        return _unknown(state, f"{_DOUBT}; its probe did not answer in time", "timeout")
    return _stopped(state, "timeout", "it took too long", "deadline", "timeout")


def _unanswered(state: State) -> list[Rune]:
    """End a call in doubt about which no human answered in time: its outcome is not known."""
    why = "no human said in time what became of it"
    call_id, until = state.call.call_id, state.deadline or 0
    # No timeout: that would say that it did not happen. The table leads there by `executing` only.
    return [
        Approved(call_id=call_id, approver="", at=until, trigger="deadline", actor="timeout"),
        *_unknown(state, f"{_DOUBT}; {why}", "timeout"),
        approval.Aborted(approval_id=state.approval_id, reason=why, actor="timeout"),
    ]


# -- decide: what a human says -----------------------------------------------------------------

_WAY_OUT: Final = {
    Phase.PENDING_CALL: "wait until it asks",
    Phase.AWAITING_APPROVAL: "answer the approval that it waits for",
    Phase.EXECUTING: "cancel it if it must not go on",
    Phase.UNKNOWN_RESULT: (
        "its outcome is not known: find out what became of it, and acknowledge it "
        "(session.acknowledge, runefold acknowledge)"
    ),
}
_OVER: Final = "the model is told how it came out and may call the tool again"


def _answered(state: State, answer: Answer) -> list[Rune]:
    """Do what a human says, unless it was said before or cannot be said now.

    A plain question is answered with yes or no. A call in doubt has three answers: run it again, it
    happened with this result, or give up. An answer given twice counts once; one that comes late,
    second or for another call is refused and changes nothing.
    """
    approval_id, approver, verdict = answer.approval_id, answer.approver, answer.verdict
    why = _why_not(state, answer)
    if why is None:
        return []
    if why:
        msg = f"{state.call.call_id} is {state.phase.value}: {why}"
        raise Refused(msg)
    if meant(verdict) == "deny":
        return _rejected(state, answer)
    agreed: list[Rune] = [
        _approved_by(state, answer, verdict),
        approval.Approved(
            approval_id=approval_id, approver=approver, process=answer.process, actor="user"
        ),
    ]
    match verdict:
        case "approve":
            return agreed
        case "rerun":
            why = f"{approver} says that it is to run again"
            agreed.append(_retried(state, answer.now, why, "rerun", "user"))
        case _:
            agreed += _result(
                state, "success", output=answer.output, trigger="happened", actor="user"
            )
    return [*agreed, approval.Executed(approval_id=approval_id)]


def meant(verdict: str) -> str:
    """Return what was said, whichever of its names it was said under."""
    return "deny" if verdict == "give_up" else verdict


def _why_not(state: State, answer: Answer) -> str | None:
    """Return why an answer does not count, and the way out; None if it was taken before."""
    waits = state.phase is Phase.AWAITING_APPROVAL
    question = Question(state.approval_id, waits, state.deadline, state.answered)
    given = Answered(answer.approval_id, answer.approver, meant(answer.verdict))
    why, way_out = judge(question, given, answer.now), _WAY_OUT.get(state.phase, _OVER)
    if why:
        return f"{why}; {_OVER if question.has_lapsed(answer.now) else way_out}"
    if why is None or state.started is (answer.verdict not in {"approve", "deny"}):
        return why
    if answer.verdict == "approve":
        way_out = "answer that it is to rerun, that it happened, or give up (runefold answer)"
        return f"it was started before a crash and may have happened; {way_out}"
    return "" if answer.verdict == "deny" else "it was never started; approve or deny it"


def _approved_by(state: State, answer: Answer, trigger: str) -> Approved:
    return Approved(
        call_id=state.call.call_id,
        approver=answer.approver,
        at=answer.now,
        process=answer.process,
        trigger=trigger,
        actor="user",
    )


def _rejected(state: State, answer: Answer) -> list[Rune]:
    """Deny a call; one that may have happened before a crash is given up instead.

    That is no denial: the model must not be told that it did not happen. The table leads there
    through `executing`.
    """
    approver, process = answer.approver, answer.process
    reason = answer.reason if answer.verdict == "deny" else "given up"
    ended: list[Rune]
    if state.started:
        error = f"{_DOUBT}; {reason}"
        ended = [_approved_by(state, answer, "give_up"), *_unknown(state, error, actor="user")]
    else:
        ended = [
            Denied(
                call_id=state.call.call_id,
                reason=reason,
                approver=approver,
                process=process,
                trigger="deny",
                actor="user",
            ),
            *_result(state, "denied", error=f"denied by {approver}: {reason}", actor="user"),
        ]
    return [
        *ended,
        approval.Rejected(
            approval_id=answer.approval_id,
            approver=approver,
            reason=reason,
            process=process,
            actor="user",
        ),
        approval.Aborted(approval_id=answer.approval_id, reason=reason, actor="user"),
    ]


def _acknowledged(state: State, command: Acknowledge) -> list[Rune]:
    """Record who has seen to a call whose outcome is not known; said again it counts once."""
    call_id, phase = state.call.call_id, state.phase
    if phase is not Phase.UNKNOWN_RESULT:
        way_out = (
            "say what became of it (runefold answer)"
            if phase is Phase.AWAITING_APPROVAL and state.started
            else "it has no outcome yet"
            if is_under_way(state)
            else "its outcome is known"
        )
        msg = f"{call_id} is {phase.value}: there is nothing to acknowledge, {way_out}"
        raise Refused(msg)
    if state.acknowledged not in {"", command.by}:
        msg = f"{call_id} was acknowledged by {state.acknowledged} already"
        raise Refused(msg)
    if state.acknowledged:
        return []
    return [Acknowledged(call_id, command.by, command.note, command.process)]


# -- evolve ------------------------------------------------------------------------------------


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Called(at=at):
            return replace(state, call=rune, at=at)
        case ApprovalRequested(deadline=until, approval_id=approval_id):
            asked = state.asked + 1
            return replace(state, asked=asked, approval_id=approval_id, deadline=until)
        case Approved(actor="timeout"):
            return replace(state, deadline=None)
        case Approved(approver=approver, at=at, trigger=trigger):
            answer = Answered(state.approval_id, approver, meant(trigger))
            return replace(state, answered=answer, at=at, deadline=None)
        case Denied(approver=approver) if state.phase is Phase.AWAITING_APPROVAL:
            answer = Answered(state.approval_id, approver, "deny")
            return replace(state, answered=answer, deadline=None)
        case Started(deadline=until):
            return replace(state, started=True, deadline=until)
        case Retried(attempt=attempt, deadline=until):
            return replace(state, attempt=attempt, doubted=False, deadline=until)
        case Doubted(deadline=until):
            return replace(state, doubted=True, deadline=until)
        case Result():
            return _ended(state, rune)
        case Acknowledged(by=by):
            return replace(state, acknowledged=by)
        case _:
            return state


def _ended(state: State, rune: Result) -> State:
    over = not is_under_way(state)
    told = state.phase is Phase.DENIED and state.status is None and rune.status == "denied"
    if over and not told:
        # The table cannot say this: a denial has moved the phase before its result comes.
        msg = f"{NAME} in phase {state.phase.value} has its result and takes no tool.result more"
        raise IllegalTransition(msg)
    return replace(state, status=rune.status, doubted=False, deadline=None)


# -- due ---------------------------------------------------------------------------------------


def due(state: State) -> list[Effect]:
    """Return what has to be done while the state is this one."""
    phase = state.phase
    if phase is Phase.PENDING_CALL:
        return [] if state.call.hold else [Begin()]
    if phase is not Phase.EXECUTING:
        return []
    if not state.started:
        return [Begin()]
    call_id, attempt = state.call.call_id, state.attempt
    return [Probe(call_id, attempt) if state.doubted else RunTool(call_id, attempt)]


# -- what the shell must know ------------------------------------------------------------------


def route(state: State, rune: Rune) -> Routing:
    """Return where a rune belongs: the caller observes calls and results, the root doubts."""
    call_id, caller = state.call.call_id, state.call.caller
    match rune:
        case Called():
            return Routing(rune.call_id, (rune.caller,))
        case Result(status="unknown"):
            return Routing(call_id, (caller, ledger.NAME, ROOT))
        case Acknowledged():
            return Routing(call_id, (ROOT,))
        case Result():
            return Routing(call_id, (caller, ledger.NAME))
        case Started():
            return Routing(call_id, (ledger.NAME,))
        case ApprovalRequested() | Approved():
            # A human's time is not the turn's: it stops its own clock meanwhile.
            return Routing(call_id, (caller,))
        case Exhausted():
            return ledger.route(ledger.LIFECYCLE.initial, rune)
        case Denied() | Progress() | Doubted() | Retried():
            return Routing(call_id)
        case _:
            return approvals.route(approvals.State(), rune)


def deadline(state: State) -> int | None:
    """Return when a human, the tool or its probe has had time enough; None if none is awaited.

    A tool that can be stopped is stopped by its adapter: its end is waited for.
    """
    if state.deadline is None or not is_running(state):
        return state.deadline
    return state.deadline + state.call.rule.grace


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent and the turn that the call belongs to; other callers are no turns."""
    agent = state.call.agent_id
    return (agent, state.call.caller or None) if agent else (None, None)


def is_open(state: State) -> bool:
    """Return True if a human is waited for; otherwise the call's turn is open while the call is."""
    return state.phase is Phase.AWAITING_APPROVAL


LIFECYCLE: Final = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    # The result of a denial comes when the phase is there already; `evolve` takes no other.
    observed=frozenset({Result}),
    timeouts=(
        Timeout(Phase.AWAITING_APPROVAL, APPROVAL_TIMEOUT / SECOND, Phase.TIMEOUT_RESULT),
        Timeout(Phase.EXECUTING, TIMEOUT / SECOND, Phase.TIMEOUT_RESULT),
    ),
    reads=ledger.NAME,
    version=6,
)

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
append, finds it where it belongs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from actors.approval import lifecycle as approval
from actors.budget.runes import Exhausted, Reserved, Settled
from actors.commands import Cancel, Recover, TimeUp
from actors.entity import Entity, Routing
from actors.tool.answers import answered, meant
from actors.tool.commands import (
    Abandon,
    Answer,
    Approve,
    Begin,
    Command,
    Deny,
    Effect,
    Fail,
    Finish,
    Go,
    Probe,
    Probed,
    Report,
    RunTool,
)
from actors.tool.moves import (
    begin,
    failed,
    in_doubt,
    overdue,
    probed,
    result,
    start,
    stopped,
    unknown,
)
from actors.tool.runes import (
    APPROVAL_TIMEOUT,
    SECOND,
    TIMEOUT,
    ApprovalRequested,
    Approved,
    Called,
    Denied,
    Doubted,
    Progress,
    Result,
    Retried,
    Started,
)
from actors.tool.state import TABLE, Answered, Phase, State
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import Lifecycle, Timeout, refusal

if TYPE_CHECKING:
    from runelog.rune import Rune

__all__ = [
    "ENTITY",
    "EXTERNAL",
    "INTERNAL",
    "LIFECYCLE",
    "TABLE",
    "Abandon",
    "Answer",
    "Approve",
    "Begin",
    "Cancel",
    "Command",
    "Deny",
    "Effect",
    "Fail",
    "Finish",
    "Go",
    "Phase",
    "Probe",
    "Probed",
    "Recover",
    "Report",
    "RunTool",
    "State",
    "TimeUp",
    "context",
    "deadline",
    "decide",
    "due",
    "evolve",
    "is_open",
    "route",
]

NAME: Final = "tool"
# To look a member up in its enum takes longer than to compare with it.
PENDING_CALL: Final = Phase.PENDING_CALL
AWAITING_APPROVAL: Final = Phase.AWAITING_APPROVAL
EXECUTING: Final = Phase.EXECUTING
_UNDER_WAY: Final = frozenset({PENDING_CALL, AWAITING_APPROVAL, EXECUTING})
INTERNAL: Final[frozenset[type]] = frozenset({Begin})
# A call whose beginning is due in the log, since it was approved while nobody ran it, begins when
# it is taken over: its time runs from then.
EXTERNAL: Final[frozenset[type]] = frozenset({RunTool, Probe, Begin})


# -- decide ------------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    phase = state.phase
    match command:
        case Approve() | Deny() | Answer():
            return answered(state, command)
        case TimeUp(now):
            when = deadline(state)
            return overdue(state) if when is not None and now >= when else []
        case Cancel() if phase in _UNDER_WAY:
            return _cancelled(state, command)
        case _ if phase is PENDING_CALL:
            return _pending(state, command)
        case _ if phase is EXECUTING:
            return _running(state, command) if state.started else _approved(state, command)
        case Finish() if phase is Phase.COMPLETED_RESULT:
            return []
        case Fail(status=status) if status == state.status:
            return []
        case Go() | Cancel() | Recover() | Abandon():
            # To come too late is nobody's mistake here: what they are for is so, or is asked.
            return []
        case _:
            raise _refused(state, command)


def _cancelled(state: State, command: Cancel) -> list[Rune]:
    reason = command.reason
    return stopped(state, "cancelled", f"cancelled: {reason}", reason, command.actor)


def _pending(state: State, command: Command) -> list[Rune]:
    match command:
        case Begin() if not state.call.hold:
            return begin(state, state.at, state.afford)
        case Go(now, afford):
            return begin(state, now, afford)
        case Recover(now):
            # What is held is let go by its turn, which a restart brings back too.
            return [] if state.call.hold else begin(state, now, state.afford)
        case Abandon(reason):
            return result(state, "error", error=reason)
        case _:
            raise _refused(state, command)


def _approved(state: State, command: Command) -> list[Rune]:
    """Decide about a call that was approved and not started: it has not happened."""
    match command:
        case Begin():
            return start(state, state.at, state.afford)
        case Recover(now):
            return start(state, now, state.afford)
        case Abandon(reason):
            return stopped(state, "error", reason)
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
            return result(state, "success", output=output, truncated=truncated)
        case Fail(attempt=attempt):
            if attempt not in {None, state.attempt}:
                # An earlier run that failed says nothing about the one that is under way.
                return []
            return failed(state, command)
        case Abandon(reason):
            return unknown(state, reason)
        case Probed(attempt) if state.doubted and attempt == state.attempt:
            return probed(state, command)
        case Recover(now):
            return [] if state.doubted else in_doubt(state, now)
        case Go():
            return []
        case _:
            raise _refused(state, command)


def _refused(state: State, command: Command) -> Refused:
    return refusal(f"{NAME} {state.call.call_id}".rstrip(), state.phase, command)


# -- evolve and due ----------------------------------------------------------------------------


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Called(at=at, afford=afford):
            return replace(state, call=rune, at=at, afford=afford)
        case ApprovalRequested(deadline=until, approval_id=approval_id):
            asked = state.asked + 1
            return replace(state, asked=asked, approval_id=approval_id, deadline=until)
        case Approved(actor="timeout"):
            return replace(state, deadline=None)
        case Approved(approver=approver, at=at, afford=afford, trigger=trigger):
            heard = Answered(state.approval_id, approver, meant(trigger))
            return replace(state, answered=heard, at=at, afford=afford, deadline=None)
        case Denied(approver=approver) if state.phase is Phase.AWAITING_APPROVAL:
            heard = Answered(state.approval_id, approver, meant("deny"))
            return replace(state, answered=heard, deadline=None)
        case Started(deadline=until):
            return replace(state, started=True, deadline=until)
        case Retried(attempt=attempt, deadline=until):
            return replace(state, attempt=attempt, doubted=False, deadline=until)
        case Doubted(deadline=until):
            return replace(state, doubted=True, deadline=until)
        case Result():
            return _ended(state, rune)
        case _:
            return state


def _ended(state: State, rune: Result) -> State:
    over = not TABLE[state.phase]
    told = state.phase is Phase.DENIED and state.status is None and rune.status == "denied"
    if over and not told:
        # The table cannot say this: a denial has moved the phase before its result comes.
        msg = f"{NAME} in phase {state.phase.value} has its result and takes no tool.result more"
        raise IllegalTransition(msg)
    return replace(state, status=rune.status, doubted=False, deadline=None)


def due(state: State) -> list[Effect]:
    """Say what has to be done while the state is this one."""
    phase = state.phase
    if phase is PENDING_CALL:
        return [] if state.call.hold else [Begin()]
    if phase is not EXECUTING:
        return []
    if not state.started:
        return [Begin()]
    call_id, attempt = state.call.call_id, state.attempt
    return [Probe(call_id, attempt) if state.doubted else RunTool(call_id, attempt)]


# -- what the shell must know ------------------------------------------------------------------


def route(state: State, rune: Rune) -> Routing:
    """Say where a rune belongs: the turn hears of calls and results, the session of doubts."""
    call_id, turn_id = state.call.call_id, state.call.turn_id
    match rune:
        case Called():
            return Routing(rune.call_id, (rune.turn_id,))
        case Result(status="unknown"):
            return Routing(call_id, (turn_id, "session"))
        case Result() | ApprovalRequested() | Approved():
            # A human's time is not the turn's: it stops its own clock meanwhile.
            return Routing(call_id, (turn_id,))
        case Exhausted(scope):
            return Routing("budget", tuple(dict.fromkeys(("session", scope))))
        case Settled():
            # What its calls are charged with is a part of what the turn used.
            return Routing("budget", (turn_id,))
        case Reserved():
            return Routing("budget")
        case Denied() | Started() | Progress() | Doubted() | Retried():
            return Routing(call_id)
        case _:
            return approval.route(approval.State(), rune)


def deadline(state: State) -> int | None:
    """Return when a human, the tool or its probe has had time enough; None if nobody is awaited.

    A tool that can be stopped is stopped by whoever runs it: its end is waited for.
    """
    if state.deadline is None or not is_running(state):
        return state.deadline
    return state.deadline + state.call.rule.grace


def is_running(state: State) -> bool:
    """Say whether the tool itself is at work, as far as is known."""
    return state.phase is EXECUTING and state.started and not state.doubted


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent and the turn that the call belongs to."""
    return state.call.agent_id or None, state.call.turn_id or None


def is_open(state: State) -> bool:
    """Say whether a human is waited for: with the rest, its turn is open as long as it is."""
    return state.phase is AWAITING_APPROVAL


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
)
ENTITY: Final = Entity(
    lifecycle=LIFECYCLE,
    route=route,
    births=(Called,),
    is_open=is_open,
    deadline=deadline,
    internal=INTERNAL,
    external=EXTERNAL,
    pieces=frozenset({Progress}),
    context=context,
)

"""What follows for a tool call: the runes of each step, put together.

`lifecycle` decides which step a command leads to; nothing here looks at commands, except for what
the probe of a call in doubt says, and how a run failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from actors.approval import runes as approval
from actors.budget.runes import BUDGET_EXHAUSTED, Exhausted, Reserved, Settled
from actors.tool.runes import (
    IN_DOUBT,
    ApprovalRequested,
    Approved,
    Denied,
    Doubted,
    Result,
    Retried,
    Started,
    Status,
)
from actors.tool.state import Phase, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.entity import Actor
    from actors.tool.commands import Fail, Probed
    from runelog.rune import Rune

_ADVICE: Final = {
    "unknown_tool": "there is no such tool: call one of those that are listed",
    "bad_arguments": "the arguments do not fit the tool's schema: correct them and call it again",
}
_STOPS: Final[Mapping[str, tuple[str, Actor]]] = {
    "timeout": ("deadline", "timeout"),
    "cancelled": ("cancelled", "system"),
}
_DOUBT: Final = "it was started before a crash and may or may not have happened"
_MAY_HAPPEN: Final = "it was started and may still take effect"


def begin(state: State, now: int, afford: Exhausted | None) -> list[Rune]:
    """Do with a call what the rule says that it was born with."""
    call_id, rule = state.call.call_id, state.call.rule
    match rule.verdict:
        case "unknown_tool" | "bad_arguments":
            return result(state, "error", error=rule.reason or _ADVICE[rule.verdict])
        case "deny":
            return [
                Denied(call_id=call_id, reason=rule.reason, trigger="policy"),
                *result(state, "denied", error=f"denied by policy: {rule.reason}"),
            ]
        case "ask" if afford is None:
            return ask(state, now, rule.reason, "policy")
        case "ask" | "allow":
            return start(state, now, afford)
        case _:
            assert_never(rule.verdict)


def start(state: State, now: int, afford: Exhausted | None) -> list[Rune]:
    """Set one call aside in the budget and start it; or say that the budget has none left."""
    call, approval_id = state.call, state.approval_id
    if afford is not None:
        why = f"the budget of {afford.scope} has no {afford.what} left for it"
        return [afford, *stopped(state, "error", why, BUDGET_EXHAUSTED)]
    runes: list[Rune] = [
        Started(call_id=call.call_id, deadline=now + call.rule.timeout),
        Reserved(key=call.call_id, scope=call.agent_id, amounts=call.rule.cost),
    ]
    return [*runes, approval.Executed(approval_id=approval_id)] if approval_id else runes


def ask(state: State, now: int, reason: str, trigger: str) -> list[Rune]:
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
            call_id=call.call_id,
            tools_hash=call.rule.tools_hash,
            reason=reason,
            deadline=deadline,
            agent_id=call.agent_id,
            trigger=trigger,
        ),
        approval.Awaiting(approval_id=approval_id),
    ]


def approval_of(call_id: str, asked: int = 1) -> str:
    """Return the id of the approval that a call asks for, the first time or a later one.

    >>> approval_of("call_00112233445566aa"), approval_of("call_00112233445566aa", 2)
    ('apr_00112233445566aa', 'apr_00112233445566aa-2')
    """
    first = "apr_" + call_id.removeprefix("call_")
    return first if asked == 1 else f"{first}-{asked}"


# -- in doubt ----------------------------------------------------------------------------------


def in_doubt(state: State, now: int) -> list[Rune]:
    """Settle, by the tool's policy, that nobody knows what became of a call."""
    call_id, rule = state.call.call_id, state.call.rule
    match rule.in_doubt:
        case "rerun" if rule.idempotent:
            return [retried(state, now, "it is idempotent", IN_DOUBT)]
        case "probe":
            deadline = now + rule.timeout
            return [Doubted(call_id=call_id, deadline=deadline, trigger=IN_DOUBT)]
        case "ask":
            return ask(state, now, _DOUBT, IN_DOUBT)
        case "rerun" | "unknown":
            return unknown(state, _DOUBT)
        case _:
            assert_never(rule.in_doubt)


def probed(state: State, found: Probed) -> list[Rune]:
    """Settle a doubt by what the probe says."""
    match found.happened:
        case True:
            return result(state, "success", output=found.output, trigger="probe")
        case False:
            return [retried(state, found.now, "its probe says that it did not happen", "probe")]
        case None:
            return unknown(state, f"{_DOUBT}; its probe cannot say either")


def retried(state: State, now: int, reason: str, trigger: str, actor: Actor = "system") -> Retried:
    """Run it once more, with as much time as the first time."""
    return Retried(
        call_id=state.call.call_id,
        reason=reason,
        attempt=state.attempt + 1,
        deadline=now + state.call.rule.timeout,
        trigger=trigger,
        actor=actor,
    )


def unknown(state: State, why: str, actor: Actor = "system") -> list[Rune]:
    """End a call of which nobody knows whether it happened, and say so."""
    return result(state, "unknown", error=why, trigger=IN_DOUBT, actor=actor)


# -- ends --------------------------------------------------------------------------------------


def result(
    state: State,
    status: Status,
    *,
    output: Any = None,  # noqa: ANN401 -- whatever a tool returns
    error: str = "",
    truncated: int = 0,
    trigger: str = "",
    actor: Actor = "system",
) -> list[Rune]:
    """End a call; if it was started, settle what was set aside for it."""
    result = Result(
        call_id=state.call.call_id,
        status=status,
        output=output,
        error=error,
        truncated=truncated,
        trigger=trigger,
        actor=actor,
    )
    if not state.started:
        return [result]
    call, guessed = state.call, status == "unknown"
    return [result, Settled(key=call.call_id, used=call.rule.cost, estimated=guessed)]


def failed(state: State, how: Fail) -> list[Rune]:
    """End a call that did not come out well, or was stopped by whoever ran it."""
    trigger, actor = _STOPS.get(how.status, ("", "system"))
    if how.stopped is not None:
        trigger, actor = how.stopped.reason or trigger, how.stopped.actor
    return result(
        state,
        how.status,
        output=how.output,
        error=how.error,
        truncated=how.truncated,
        trigger=trigger,
        actor=actor,
    )


def stopped(
    state: State, status: Status, why: str, trigger: str = "", actor: Actor = "system"
) -> list[Rune]:
    """End a call before its tool does, and with it the question that is open about it."""
    error = f"{why}; {_MAY_HAPPEN}" if state.started else why
    runes = result(state, status, error=error, trigger=trigger, actor=actor)
    asked = state.phase is Phase.AWAITING_APPROVAL or not state.started
    if state.approval_id and asked:
        runes.append(approval.Aborted(approval_id=state.approval_id, reason=why, actor=actor))
    return runes


def overdue(state: State) -> list[Rune]:
    """End a call for which a human, its probe or its tool took too long."""
    if state.phase is Phase.AWAITING_APPROVAL and state.started:
        return _unanswered(state)
    if state.phase is Phase.AWAITING_APPROVAL:
        return stopped(state, "timeout", "nobody approved it in time", "deadline", "timeout")
    if state.doubted:
        return unknown(state, f"{_DOUBT}; its probe did not answer in time", "timeout")
    return stopped(state, "timeout", "it took too long", "deadline", "timeout")


def _unanswered(state: State) -> list[Rune]:
    """End a call in doubt of which nobody said in time what became of it: it is not known."""
    why = "nobody said in time what became of it"
    call_id, until = state.call.call_id, state.deadline or 0
    # No timeout: that would say that it did not happen. The table leads there by `executing` only.
    return [
        Approved(call_id=call_id, approver="", at=until, trigger="deadline", actor="timeout"),
        *unknown(state, f"{_DOUBT}; {why}", "timeout"),
        approval.Aborted(approval_id=state.approval_id, reason=why, actor="timeout"),
    ]

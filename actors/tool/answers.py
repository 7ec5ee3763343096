"""What a human may say about a tool call that waits for one, and what is refused and why.

A plain question is answered with yes or no. A call in doubt has three answers: run it again, it
happened with this result, or give up. Whatever is said twice is heard once; what comes late, second
or for another call is refused and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from actors.approval import runes as approval
from actors.tool.commands import Answer, Approve, Deny, HumanWord
from actors.tool.moves import result, retried, unknown
from actors.tool.runes import Approved, Denied
from actors.tool.state import Answered, Phase, State
from runelog.errors import Refused

if TYPE_CHECKING:
    from runelog.rune import Rune

_WAY_OUT: Final = {
    Phase.PENDING_CALL: "wait until it asks",
    Phase.AWAITING_APPROVAL: "answer the approval that it waits for",
    Phase.EXECUTING: "cancel it if it must not go on",
}
_OVER: Final = "the model is told how it came out and may call the tool again"


def meant(trigger: str) -> str:
    """Return what was said, whichever of its names it was said under."""
    return "deny" if trigger == "give_up" else trigger


def answered(state: State, word: HumanWord) -> list[Rune]:
    """Do what a human says, unless it was said before or cannot be said now."""
    if state.answered == Answered(word.approval_id, word.approver, meant(_trigger(word))):
        return []
    _refuse_misplaced(state, word)
    match word:
        case Approve():
            return [
                _approved(state, word, "approve"),
                _agreed(word),
            ]
        case Deny(reason=reason) if not state.started:
            return _denied(state, word, reason)
        case Deny(reason=reason):
            return _given_up(state, word, reason)
        case Answer(verdict="give_up"):
            return _given_up(state, word, "given up")
        case Answer():
            return _settled(state, word)
        case _:
            assert_never(word)


def _refuse_misplaced(state: State, word: HumanWord) -> None:
    """Refuse what comes late, second or for another call, or does not answer the question."""
    asked, way_out = word.approval_id, _WAY_OUT.get(state.phase, _OVER)
    last = state.answered
    if not asked and not state.approval_id:
        why = "it asked for no approval"
    elif last is not None and last.approval_id == asked:
        why = f"{last.approver} has answered approval {asked} already ({last.word})"
    elif asked != state.approval_id:
        why = f"it did not ask for approval {asked}"
    elif state.phase is not Phase.AWAITING_APPROVAL:
        why = f"the answer to approval {asked} comes too late"
    elif state.deadline is not None and word.now >= state.deadline:
        why, way_out = f"approval {asked} has lapsed", _OVER
    elif state.started and isinstance(word, Approve):
        why = "it was started before a crash and may have happened"
        way_out = "answer that it is to rerun, that it happened, or give up (runefold answer)"
    elif not state.started and isinstance(word, Answer):
        why, way_out = "it was never started", "approve or deny it"
    else:
        return
    msg = f"{state.call.call_id} is {state.phase.value}: {why}; {way_out}"
    raise Refused(msg)


def _trigger(word: HumanWord) -> str:
    match word:
        case Approve():
            return "approve"
        case Deny():
            return "deny"
        case Answer(verdict=verdict):
            return verdict
        case _:
            assert_never(word)


def _approved(state: State, word: HumanWord, trigger: str) -> Approved:
    return Approved(
        call_id=state.call.call_id,
        approver=word.approver,
        at=word.now,
        afford=word.afford if isinstance(word, Approve) else None,
        process=word.process,
        trigger=trigger,
        actor="user",
    )


def _agreed(word: HumanWord) -> approval.Approved:
    return approval.Approved(
        approval_id=word.approval_id, approver=word.approver, process=word.process, actor="user"
    )


def _denied(state: State, word: Deny, reason: str) -> list[Rune]:
    denied = Denied(
        call_id=state.call.call_id,
        reason=reason,
        approver=word.approver,
        process=word.process,
        trigger="deny",
        actor="user",
    )
    return [
        denied,
        *result(state, "denied", error=f"denied by {word.approver}: {reason}", actor="user"),
        *_rejected(word, reason),
    ]


def _given_up(state: State, word: Deny | Answer, reason: str) -> list[Rune]:
    # Not a denial: what was started before may have happened, and the model must not be told
    # otherwise. The table leads there through `executing`.
    error = f"it was started before a crash and may or may not have happened; {reason}"
    return [
        _approved(state, word, "give_up"),
        *unknown(state, error, actor="user"),
        *_rejected(word, reason),
    ]


def _rejected(word: HumanWord, reason: str) -> list[Rune]:
    rejected = approval.Rejected(
        approval_id=word.approval_id,
        approver=word.approver,
        reason=reason,
        process=word.process,
        actor="user",
    )
    return [rejected, approval.Aborted(approval_id=word.approval_id, reason=reason, actor="user")]


def _settled(state: State, word: Answer) -> list[Rune]:
    """Let a call in doubt run again, or take the result that a human knows of."""
    if word.verdict == "rerun":
        reason = f"{word.approver} says that it is to run again"
        follows: list[Rune] = [retried(state, word.now, reason, "rerun", "user")]
    else:
        follows = result(state, "success", output=word.output, trigger="happened", actor="user")
    return [
        _approved(state, word, word.verdict),
        _agreed(word),
        *follows,
        approval.Executed(approval_id=word.approval_id),
    ]

"""What a turn's runes add up to.

Of earlier rounds only sums are kept, and of the current one so much as its limit on calls allows:
a turn's state does not grow with its length.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from actors.budget import runes as budget
from actors.budget.runes import BUDGET_EXHAUSTED
from actors.budget.sums import plus
from actors.entity import Actor
from actors.model import runes as model
from actors.tool import runes as tool
from actors.turn.runes import (
    RETRIES,
    HeldUp,
    OnCrash,
    Started,
    StreamRestarted,
    ToolCallsReceived,
    ToolsFinished,
    WentOn,
)

if TYPE_CHECKING:
    from runelog.rune import Rune

MAX_CALLS: Final = 128
"""How many tools a model may ask for in one round. Beyond that it is not working, it is stuck."""


class Phase(StrEnum):
    """What a turn can be."""

    IDLE = "idle"
    STREAMING = "streaming"
    TOOL_EXECUTING = "tool_executing"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    ERROR = "error"


# To look a member up in its enum takes longer than to compare with it.
STREAMING: Final = Phase.STREAMING
TOOL_EXECUTING: Final = Phase.TOOL_EXECUTING


class Answer(msgspec.Struct, frozen=True):
    """How the round's model call ended."""

    how: Literal["completed", "failed", "cancelled"]
    asked: tuple[str, ...] = ()
    """The calls it asks for; cut off just beyond the limit, for there they are all the same."""
    error_type: str = ""
    """What went wrong; of a cancelled one, the reason."""
    message: str = ""
    retryable: bool = False
    actor: Actor = "system"
    """Who had it cancelled."""


class Call(msgspec.Struct, frozen=True):
    """One call of the round."""

    call_id: str
    hold: bool = False
    """Whether it waits for the others."""
    status: tool.Status | None = None
    """How it came out; None until it did."""
    asked: bool = False
    """Whether it waits for a human, or the agent that it asks does."""


class Stretch(msgspec.Struct, frozen=True):
    """Time that is set aside in the budget and passes now."""

    key: str
    until: int
    """When all of it will have passed."""
    length: int


class State(msgspec.Struct, frozen=True):
    """What a turn's runes add up to. Of earlier rounds only sums are kept."""

    phase: Phase = Phase.IDLE
    turn_id: str = ""
    agent_id: str = ""
    model: str = ""
    on_crash: OnCrash = "retry"
    retries: int = RETRIES
    deadline: int | None = None
    round: int = 0
    attempt: int = 0
    """How often the model was asked in vain in this round: so many retries are gone."""
    model_call_id: str = ""
    """The model call of this attempt; nothing until it was made."""
    answer: Answer | None = None
    calls: tuple[Call, ...] = ()
    stopped: str = ""
    """Why the turn is to end: a call of this round was cancelled, or could not be afforded."""
    stopped_by: Actor = "system"
    """Who wants it to end."""
    waited: bool = False
    """Whether a human was asked something since the model was: a human's time is not the turn's."""
    used: budget.Amounts = budget.Amounts()
    timed: bool = False
    """Whether its time is counted."""
    stretch: Stretch | None = None
    """What is set aside of its time; None while the clock stands."""
    stretches: int = 0
    """How many there were."""
    broke: bool = False
    """Whether the budget had no more time for it."""
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""
    asked_by: str = ""
    """The call of that turn."""
    held_up: bool = False
    """Whether that turn was told last that only a human is waited for here."""


def under_way(state: State) -> tuple[str, ...]:
    """Name what has not ended yet: the model call, or the tool calls without a result."""
    phase = state.phase
    if phase is STREAMING:
        waits = state.model_call_id and state.answer is None
        return (state.model_call_id,) if waits else ()
    if phase is TOOL_EXECUTING:
        return tuple([call.call_id for call in state.calls if call.status is None])
    return ()


def expected(state: State) -> str:
    """Return the id of this attempt's model call."""
    return _attempt(state, state.attempt)


def before_it(state: State) -> str:
    """Return the id of the model call of the attempt before this one; nothing if there is none."""
    return _attempt(state, state.attempt - 1) if state.attempt else ""


def _attempt(state: State, number: int) -> str:
    return f"{state.turn_id}-r{state.round}-a{number}"


def evolve(state: State, rune: Rune) -> State:  # noqa: PLR0911 -- one for each kind of rune
    """Take a rune's data into the state."""
    match rune:
        case Started():
            return State(
                phase=state.phase,
                turn_id=rune.turn_id,
                agent_id=rune.agent_id,
                model=rune.model,
                on_crash=rune.on_crash,
                retries=rune.retries,
                deadline=rune.deadline,
                timed=rune.timed,
                asked_in=rune.asked_in,
                asked_by=rune.message_id if rune.asked_in else "",
            )
        case model.Called(model_call_id, turn_by=turn_by) if _is_awaited(state, model_call_id):
            by = state.deadline if turn_by is None else turn_by
            return replace(state, model_call_id=model_call_id, deadline=by, waited=False)
        case model.Completed() | model.Failed() | model.Cancelled():
            return _answered(state, rune)
        case ToolCallsReceived(call_ids):
            return replace(state, calls=tuple([Call(call_id) for call_id in call_ids]))
        case tool.Called() | tool.ApprovalRequested() | tool.Approved() | tool.Result():
            return _with_call(state, rune)
        case ToolsFinished():
            begun = state.round + 1
            return replace(state, round=begun, attempt=0, model_call_id="", answer=None, calls=())
        case StreamRestarted(attempt=attempt):
            return replace(state, attempt=attempt, model_call_id="", answer=None)
        case budget.Reserved() | budget.Settled() | budget.Exhausted():
            return _spent(state, rune)
        case HeldUp(turn_id) | WentOn(turn_id):
            if turn_id == state.turn_id:
                return replace(state, held_up=isinstance(rune, HeldUp))
            return _with_call(state, rune)
        case _:
            return state


def _spent(state: State, rune: budget.Reserved | budget.Settled | budget.Exhausted) -> State:
    """Note what becomes of the turn's time, and what its tool calls are charged with.

    A call that was never begun is not charged. Model calls say themselves what they used.
    """
    match rune:
        case budget.Reserved(key=key, amounts=amounts, until=int(until)):
            stretch = Stretch(key, until, amounts.wall)
            return replace(state, stretch=stretch, stretches=state.stretches + 1)
        case budget.Settled(key=key, used=used) if state.stretch and key == state.stretch.key:
            return replace(state, stretch=None, used=plus(state.used, used))
        case budget.Settled(key=key, used=used) if any(at.call_id == key for at in state.calls):
            return replace(state, used=plus(state.used, used))
        case budget.Exhausted(what="wall"):
            return replace(state, broke=True)
        case _:
            return state


def _is_awaited(state: State, model_call_id: str) -> bool:
    return not state.model_call_id and model_call_id == expected(state)


def _answered(state: State, rune: model.Completed | model.Failed | model.Cancelled) -> State:
    """Note how the round's model call ended; other model calls do not count any more."""
    if under_way(state) != (rune.model_call_id,):
        return state
    answer: Answer
    match rune:
        case model.Completed(calls=calls):
            asked = tuple([call.call_id for call in calls[: MAX_CALLS + 1]])
            answer = Answer("completed", asked)
        case model.Failed():
            kind, message, retryable = rune.error_type, rune.message, rune.retryable
            answer = Answer("failed", error_type=kind, message=message, retryable=retryable)
        case model.Cancelled(reason=reason, actor=actor):
            answer = Answer("cancelled", error_type=reason, actor=actor)
    return replace(state, answer=answer, used=plus(state.used, rune.usage))


def _with_call(
    state: State,
    rune: tool.Called | tool.ApprovalRequested | tool.Approved | tool.Result | HeldUp | WentOn,
) -> State:
    """Note what became of a call of this round; others do not count any more."""
    ids = [call.call_id for call in state.calls]
    if rune.call_id not in ids:
        return state
    at = ids.index(rune.call_id)
    call = state.calls[at]
    if call.status is not None:
        return state
    match rune:
        case tool.Called(rule=rule, hold=hold):
            call = replace(call, hold=hold)
            state = replace(state, waited=state.waited or rule.verdict == "ask")
        case tool.ApprovalRequested() | HeldUp():
            call = replace(call, asked=True)
            state = replace(state, waited=True)
        case tool.Approved() | WentOn():
            call = replace(call, asked=False)
        case tool.Result(status=status):
            call = replace(call, status=status)
            if status == "cancelled" and state.stopped in {"", BUDGET_EXHAUSTED}:
                reason = rune.trigger or "interrupt"
                state = replace(state, stopped=reason, stopped_by=rune.actor)
            elif rune.trigger == BUDGET_EXHAUSTED and not state.stopped:
                state = replace(state, stopped=BUDGET_EXHAUSTED, stopped_by="system")
    return replace(state, calls=(*state.calls[:at], call, *state.calls[at + 1 :]))

"""The law of a turn.

    idle ── started ──> streaming ── completed ────> completed ─ ─ ─┐
                        │ ^ │ ^ │                                   │
     tool_calls_received│ │ └─┘ ├──── interrupted ─> interrupted ─ ─┤ the agent is free again:
                        │ │stream_restarted                         │ printed, not folded
                        v │tools_finished                           │
                  tool_executing ──── error ───────> error ─ ─ ─ ─ ─┴─> idle
                      │   ^
                      └───┘ tool.result

A round is one answer of the model and the calls it asks for. Every call has its result before the
model is asked again, and no turn ends while a model call or a tool call of it is without an end. So
to stop a turn, its actor cancels what is `under_way`, with the reason; what is due once the last of
them has ended carries that reason on, also after a crash in between.

Where a budget limits its time, a turn has a clock: see `time_slices`.
Where another agent asks it from a turn of its own, it was delegated: see `delegation`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from actors.budget import lifecycle as ledger
from actors.budget import runes as budget
from actors.budget.runes import BUDGET_EXHAUSTED
from actors.children import EnsureChild
from actors.common_commands import Recover, TimeUp
from actors.entity import ROOT, Actor, Routing
from actors.model import runes as model
from actors.model.call_ids import of_round
from actors.model.lifecycle import TIMEOUT, Begin, begun
from actors.model.runes import CRASH
from actors.session.runes import HandedOver
from actors.tool import runes as tool
from actors.tool.lifecycle import NAME as TOOL
from actors.turn.delegation import Delegation, GoOn, HoldUp
from actors.turn.runes import (
    MAX_ROUNDS,
    NAME,
    RETRIES,
    Completed,
    Error,
    HeldUp,
    Interrupted,
    OnCrash,
    Started,
    StreamRestarted,
    Summary,
    TimeReserved,
    TimeSettled,
    ToolCallsReceived,
    ToolsFinished,
    WentOn,
)
from actors.turn.time_slices import (
    Halt,
    Run,
    Stand,
    StartClock,
    StopClock,
    Tick,
    TimeSlice,
    begin_slice,
    clock_effects,
    end_slice,
)
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Row, Table, refusal
from runelog.rune import Rune, kind_of

MAX_CALLS: Final = 128
"""How many tools a model may ask for in one round. Beyond that it is not working, it is stuck."""
_TOO_LONG: Final = "the turn took longer than it may"


class Phase(StrEnum):
    """What a turn can be."""

    IDLE = "idle"
    STREAMING = "streaming"
    TOOL_EXECUTING = "tool_executing"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    ERROR = "error"


STREAMING: Final = Phase.STREAMING
TOOL_EXECUTING: Final = Phase.TOOL_EXECUTING
# To look a member up in its enum takes longer than to compare with it.

TABLE: Table[Phase] = {
    Phase.IDLE: {Started: Phase.STREAMING},
    Phase.STREAMING: {
        StreamRestarted: Phase.STREAMING,
        ToolCallsReceived: Phase.TOOL_EXECUTING,
        Completed: Phase.COMPLETED,
        Interrupted: Phase.INTERRUPTED,
        Error: Phase.ERROR,
    },
    Phase.TOOL_EXECUTING: {
        tool.Result: Phase.TOOL_EXECUTING,
        ToolsFinished: Phase.STREAMING,
        Completed: Phase.COMPLETED,
        Interrupted: Phase.INTERRUPTED,
        Error: Phase.ERROR,
    },
    Phase.COMPLETED: {},
    Phase.INTERRUPTED: {},
    Phase.ERROR: {},
}


# -- state -------------------------------------------------------------------------------------


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


class State(msgspec.Struct, frozen=True):
    """What a turn's runes add up to.

    Of earlier rounds only sums are kept, and of the current one so much as its limit on calls
    allows: a turn's state does not grow with its length.
    """

    phase: Phase = Phase.IDLE
    turn_id: str = ""
    agent_id: str = ""
    model: str = ""
    on_crash: OnCrash = "retry"
    retries: int = RETRIES
    max_rounds: int = MAX_ROUNDS
    deadline: int | None = None
    round: int = 0
    attempt: int = 0
    """How often the model was asked in vain in this round: so many retries are gone."""
    model_call_id: str = ""
    """The model call of this attempt; empty until it was made."""
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
    time_slice: TimeSlice | None = None
    """What is set aside of its time; None while the clock stands."""
    time_slices: int = 0
    """How many there were."""
    broke: bool = False
    """Whether the budget had no more time for it."""
    delegation: Delegation | None = None
    """Which turn asks for it, if another agent does."""
    handed_to: str = ""
    """The agent that answers the message instead: nothing more is asked of this one's model."""


def is_open(state: State) -> bool:
    """Return True while there is work left that a restart must see to."""
    return state.phase is STREAMING or state.phase is TOOL_EXECUTING


def under_way(state: State) -> tuple[str, ...]:
    """Return what has not ended yet: the model call, or the tool calls without a result."""
    if state.phase is STREAMING:
        waits = state.model_call_id and state.answer is None
        return (state.model_call_id,) if waits else ()
    if state.phase is TOOL_EXECUTING:
        return tuple([call.call_id for call in state.calls if call.status is None])
    return ()


def works(state: State) -> bool:
    """Return True if the turn does anything itself, rather than wait for a human."""
    if state.phase is not Phase.TOOL_EXECUTING:
        return state.phase is Phase.STREAMING
    waiting = [call for call in state.calls if call.status is None]
    return not any(call.asked for call in waiting) or not all(
        call.asked or call.hold for call in waiting
    )


def expected(state: State) -> str:
    """Return the id of this attempt's model call."""
    return _attempt(state, state.attempt)


def spoken_by(state: State) -> str:
    """Return the id of the model call whose words are the turn's last; empty if there is none.

    Between two attempts, and where there was no budget for the next one, it is the one that failed.
    """
    answer = state.answer
    refused = answer is not None and (answer.how, answer.error_type) == ("failed", BUDGET_EXHAUSTED)
    if state.model_call_id and not refused:
        return state.model_call_id
    return _attempt(state, state.attempt - 1) if state.attempt else ""


def _attempt(state: State, number: int) -> str:
    return of_round(state.turn_id, state.round, number)


# -- commands ----------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True):
    """Make the model call that is due."""

    model_call_id: str
    upto: int
    prompt: str
    request: str
    """The hash of all that is sent."""
    made_by: int
    """The version of the code that made the messages out of runes."""
    sent: int
    """About how many tokens are sent."""
    max_output_tokens: int
    """At most so many come back."""
    cost: int | None
    """What that costs at most; None if the model has no price."""
    first_byte_by: int
    turn_by: int | None = None
    """When the turn must be over if its time begins now; counts only if a human was waited for."""


class TakeCalls(msgspec.Struct, frozen=True):
    """Make the calls that the model asked for: all of them, in its order."""

    plans: tuple[tool.Called, ...]
    """Their births. Those that are not safe in parallel have `hold`."""


class Complete(msgspec.Struct, frozen=True):
    """End well, with the model's last words."""

    text: str = ""
    now: int | None = None


class Interrupt(msgspec.Struct, frozen=True):
    """Stop and keep what there is. Model and tools have to be cancelled first."""

    reason: str
    text: str = ""
    actor: Actor = "user"
    now: int | None = None


class Fail(msgspec.Struct, frozen=True):
    """Give up and keep what there is. Model and tools have to be cancelled first."""

    error_type: str
    message: str = ""
    text: str = ""
    now: int | None = None


# -- internal effects: commands that are decided in the append that made them due ----------------


class CloseRound(msgspec.Struct, frozen=True):
    """Every call of the round is back, which has to be recorded."""


class RestartStream(msgspec.Struct, frozen=True):
    """The model call failed and may be made again, which has to be recorded."""


Internal: TypeAlias = HoldUp | GoOn | CloseRound | RestartStream
"""Effects that are decided in the append that made them due."""
Command: TypeAlias = (
    Ask | TakeCalls | Complete | Interrupt | Fail | Run | Stand | Internal | Recover | TimeUp
)


# -- effects -----------------------------------------------------------------------------------


class AskModel(msgspec.Struct, frozen=True):
    """The model has to be asked; comes back as `Ask`."""

    model_call_id: str
    round: int
    attempt: int


class PerformModelCall(msgspec.Struct, frozen=True):
    """The model call goes on: its request is sent and its answer taken in, until it has ended."""

    model_call_id: str


class ReceiveCalls(msgspec.Struct, frozen=True):
    """The model asks for tools: each needs a ruling. Comes back as `TakeCalls`."""

    model_call_id: str


class Release(msgspec.Struct, frozen=True):
    """Those before it are done: this call need not hold any longer."""

    call_id: str


class End(msgspec.Struct, frozen=True):
    """The turn has to end. Comes back as `how`, with the text there is and the time."""

    model_call_id: str
    how: Complete | Interrupt | Fail


Action: TypeAlias = (
    AskModel
    | PerformModelCall
    | ReceiveCalls
    | Release
    | End
    | StartClock
    | Tick
    | StopClock
    | Halt
)
"""What the actor of a turn does."""
Effect: TypeAlias = Action | EnsureChild | Internal


# -- decide ------------------------------------------------------------------------------------


def decide(
    state: State, command: Command, account: ledger.State = ledger.LIFECYCLE.initial
) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    phase, runs = state.phase, is_open(state)
    match command:
        case Ask() if phase is Phase.STREAMING:
            return _ask(state, command, account)
        case TakeCalls() if runs:
            return _take(state, command)
        case CloseRound() if phase is Phase.TOOL_EXECUTING and _next(state) == command:
            results = tuple([Summary(at.call_id, at.status) for at in state.calls if at.status])
            return [ToolsFinished(results, trigger="tools_finished")]
        case RestartStream() if phase is Phase.STREAMING and _next(state) == command:
            return _restart(state)
        case Complete() if runs:
            return _complete(state, command)
        case Interrupt(reason, text, actor, now) if runs:
            _check_still(state, command)
            trigger = reason or "interrupt"
            settled, used = _settled(state, now)
            end = Interrupted(reason, text, state.turn_id, used, trigger=trigger, actor=actor)
            return [*settled, end]
        case Fail(error_type, message, text, now) if runs:
            _check_still(state, command)
            return _error(state, now, error_type, message, text)
        case TimeUp():
            return _time_up(state, command)
        case Recover():
            # Calls and model calls settle what is in doubt of theirs.
            return end_slice(state.time_slice, None)
        case Run(now):
            return _run(state, now, account)
        case Stand(now, anyhow):
            return end_slice(state.time_slice, now) if anyhow or not works(state) else []
        case HoldUp() | GoOn():
            return _hold_up(state, command)
        case _:
            raise refusal(NAME, state.phase, command)


def _check_still(state: State, command: Command) -> None:
    """Refuse to end while something of the turn goes on: it would be left without an end."""
    going = under_way(state)
    if going:
        shown = ", ".join(going[:3]) + (f" and {len(going) - 3} more" if len(going) > 3 else "")
        msg = (
            f"{NAME} {state.turn_id} is {state.phase.value}: it cannot take "
            f"{type(command).__name__} while {shown} goes on; cancel first"
        )
        raise Refused(msg)


def _error(state: State, now: int | None, error_type: str, message: str, text: str) -> list[Rune]:
    settled, used = _settled(state, now)
    end = Error(
        error_type,
        message,
        text,
        state.turn_id,
        used,
        trigger=error_type or "fault",
        actor="timeout" if error_type == TIMEOUT else "system",
    )
    return [*settled, end]


def _settled(state: State, now: int | None) -> tuple[list[Rune], budget.Amounts]:
    """Return what settles the time of a turn that ends, and all that it was charged with."""
    settled = end_slice(state.time_slice, now)
    for rune in settled:
        state = evolve(state, rune)
    return settled, state.used


def _time_up(state: State, command: TimeUp) -> list[Rune]:
    """End the turn where it would otherwise begin something new.

    What goes on already is cancelled first, with `TIMEOUT` as the reason: then every call has its
    result, and what the model said so far is kept.
    """
    by = time_limit(state)
    if by is None or command.now < by:
        return []
    _check_still(state, command)
    return _error(state, command.now, TIMEOUT, _TOO_LONG, command.text)


def _ask(state: State, command: Ask, account: ledger.State) -> list[Rune]:
    key, scope = command.model_call_id, state.agent_id
    if key != expected(state):
        raise refusal(NAME, state.phase, command)
    if state.model_call_id:
        return []
    tokens = command.sent + command.max_output_tokens
    called = model.Called(
        model_call_id=key,
        caller=state.turn_id,
        agent_id=scope,
        model=state.model,
        round=state.round,
        attempt=state.attempt,
        upto=command.upto,
        prompt=command.prompt,
        request=command.request,
        made_by=command.made_by,
        account=scope,
        reserved=budget.Amounts(tokens=tokens, retries=1 if state.attempt else 0),
        first_byte_by=command.first_byte_by,
        turn_by=command.turn_by if state.waited else None,
        sent=command.sent,
    )
    return begun(Begin(called, command.cost), account)


def _take(state: State, command: TakeCalls) -> list[Rune]:
    plans = command.plans
    ids = tuple(plan.call_id for plan in plans)
    if state.phase is Phase.TOOL_EXECUTING and ids == tuple(at.call_id for at in state.calls):
        return []
    if not isinstance(_next(state), ReceiveCalls):
        raise refusal(NAME, state.phase, command)
    assert state.answer is not None
    owners = {(plan.caller, plan.agent_id) for plan in plans}
    if ids != state.answer.asked or owners != {(state.turn_id, state.agent_id)}:
        msg = f"{NAME} {state.turn_id}: these are not the calls that {state.model_call_id} asks for"
        raise Refused(msg)
    if all(plan.hold for plan in plans):
        # None goes before the first one.
        plans = (replace(plans[0], hold=False), *plans[1:])
    return [ToolCallsReceived(ids, state.round, trigger="tool_calls"), *plans]


def _restart(state: State) -> list[Rune]:
    assert state.answer is not None
    reason, attempt = state.answer.error_type, state.attempt + 1
    trigger = reason or "fault"
    return [StreamRestarted(state.round, attempt, reason, state.model_call_id, trigger=trigger)]


def _complete(state: State, command: Complete) -> list[Rune]:
    _check_still(state, command)
    following = _next(state)
    well = following == End(state.model_call_id, Complete())
    if not well and not isinstance(following, CloseRound):
        raise refusal(NAME, state.phase, command)
    settled, used = _settled(state, command.now)
    trigger = "response_done" if state.phase is Phase.STREAMING else "tools_finished"
    end = Completed(command.text, used, state.turn_id, handed_to=state.handed_to, trigger=trigger)
    return [*settled, end]


def _run(state: State, now: int, account: ledger.State) -> list[Rune]:
    """Set a slice of time aside, unless one passes now or there is nothing to count."""
    passes = state.time_slice is not None and now < state.time_slice.until
    if passes or not state.timed or state.broke or not works(state):
        return []
    key = f"{state.turn_id}-w{state.time_slices}"
    return begin_slice(state.time_slice, key, state.agent_id, now, account)


def _hold_up(state: State, command: HoldUp | GoOn) -> list[Rune]:
    """Tell the turn that asked that a human is waited for, or no longer; nothing if that is old."""
    if state.delegation is None or command not in _delegation(state):
        return []
    return [state.delegation.told(state.turn_id, command)]


# -- evolve ------------------------------------------------------------------------------------

_ENDS: Final = frozenset({Completed, Interrupted, Error})


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    if type(rune) in _ENDS:
        # They say what is known.
        return state
    match rune:
        case model.Called():
            if not _is_awaited(state, rune.model_call_id):
                return state
            by = state.deadline if rune.turn_by is None else rune.turn_by
            return replace(state, model_call_id=rune.model_call_id, deadline=by, waited=False)
        case model.Completed() | model.Failed() | model.Cancelled():
            return _answered(state, rune)
        case tool.Called() | tool.ApprovalRequested() | tool.Approved() | tool.Result():
            return _with_call(state, rune)
        case Started():
            return State(
                phase=state.phase,
                turn_id=rune.turn_id,
                agent_id=rune.agent_id,
                model=rune.model,
                on_crash=rune.on_crash,
                retries=rune.retries,
                max_rounds=rune.max_rounds,
                deadline=rune.deadline,
                timed=rune.timed,
                delegation=Delegation(rune.asked_in, rune.message_id) if rune.asked_in else None,
            )
        case ToolCallsReceived(call_ids):
            return replace(state, calls=tuple([Call(call_id) for call_id in call_ids]))
        case ToolsFinished():
            begun = state.round + 1
            return replace(state, round=begun, attempt=0, model_call_id="", answer=None, calls=())
        case StreamRestarted(attempt=attempt):
            return replace(state, attempt=attempt, model_call_id="", answer=None)
        case TimeReserved(slice_id, until, reserved=reserved):
            new = TimeSlice(slice_id, until, reserved.wall)
            return replace(state, time_slice=new, time_slices=state.time_slices + 1)
        case TimeSettled(charged=charged):
            return replace(state, time_slice=None, used=state.used + charged)
        case budget.Exhausted(what="wall"):
            return replace(state, broke=True)
        case HandedOver(to=to):
            return replace(state, handed_to=to)
        case HeldUp(turn_id) | WentOn(turn_id):
            if turn_id == state.turn_id and state.delegation is not None:
                told = replace(state.delegation, held_up=isinstance(rune, HeldUp))
                return replace(state, delegation=told)
            return _with_call(state, rune)
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
    return replace(state, answer=answer, used=state.used + rune.charged)


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
        case tool.Result(status=status, charged=charged):
            call = replace(call, status=status)
            state = replace(state, used=state.used + charged)
            if status == "cancelled" and state.stopped in {"", BUDGET_EXHAUSTED}:
                reason = rune.trigger or "interrupt"
                state = replace(state, stopped=reason, stopped_by=rune.actor)
            elif rune.trigger == BUDGET_EXHAUSTED and not state.stopped:
                state = replace(state, stopped=BUDGET_EXHAUSTED, stopped_by="system")
    return replace(state, calls=(*state.calls[:at], call, *state.calls[at + 1 :]))


# -- due ---------------------------------------------------------------------------------------


def due(state: State) -> list[Effect]:
    """Return what has to be done while the state is this one."""
    following = _next(state)
    if following is not None and not state.timed and state.delegation is None:
        return [following]
    effects: list[Effect] = []
    if state.timed:
        # Before anything else: time is set aside before it passes.
        effects += clock_effects(
            state.time_slice,
            state.time_slices,
            broke=state.broke,
            works=works(state),
            goes_on=bool(under_way(state)),
            ends=isinstance(following, End),
        )
    effects += _delegation(state)
    if following is not None:
        effects.append(following)
    elif state.phase is Phase.TOOL_EXECUTING:
        effects += _awaited(state)
    return effects


def _delegation(state: State) -> list[HoldUp | GoOn]:
    """Return what the turn that asked for this one has to be told."""
    if state.delegation is None or not is_open(state):
        return []
    return state.delegation.due(works=works(state))


def _awaited(state: State) -> list[Effect]:
    """Return what the turn waits for: the calls without a result, whose actors have to be there.

    Where only such are left that wait for the others, the first goes, alone: not safe in parallel
    is not safe with any other.
    """
    waiting = [call for call in state.calls if call.status is None]
    effects: list[Effect] = [EnsureChild(call.call_id, TOOL) for call in waiting]
    if all(call.hold for call in waiting):
        effects.append(Release(waiting[0].call_id))
    return effects


def _next(state: State) -> Effect | None:
    """Return what the turn does next of itself; None while it waits for its tools."""
    found: Effect
    phase = state.phase
    if phase is STREAMING:
        if state.model_call_id:
            if state.answer is None:
                return PerformModelCall(state.model_call_id)
            found = _after(state, state.answer)
        elif state.handed_to and not state.attempt:
            found = End("", Complete())
        else:
            found = AskModel(expected(state), state.round, state.attempt)
    elif phase is not TOOL_EXECUTING or under_way(state):
        return None
    else:
        found = _stop(state, state.stopped, state.stopped_by) if state.stopped else CloseRound()
    if state.broke and found != End(state.model_call_id, Complete()):
        return _given_up(state, BUDGET_EXHAUSTED, "its budget has no time left")
    return found


def _after(state: State, answer: Answer) -> Effect:
    """Return what follows from the way the model call ended."""
    crashed = answer.error_type == CRASH
    match answer.how:
        case "completed" if not answer.asked:
            return End(state.model_call_id, Complete())
        case "completed" if len(answer.asked) > MAX_CALLS:
            message = f"the model asked for more than {MAX_CALLS} calls at once"
            return _given_up(state, "too_many_calls", message)
        case "completed" if state.round + 1 >= state.max_rounds:
            message = (
                f"the model still asks for tools in its answer number {state.round + 1}, and a "
                f"turn of this agent has max_rounds={state.max_rounds}"
            )
            return _given_up(state, "too_many_rounds", message)
        case "completed":
            return ReceiveCalls(state.model_call_id)
        case "cancelled":
            return _stop(state, answer.error_type, answer.actor)
        case "failed" if crashed and state.on_crash == "interrupt":
            return _stop(state, CRASH, "system")
        case "failed" if answer.retryable and state.attempt < state.retries:
            return RestartStream()
        case "failed":
            return _given_up(state, answer.error_type, answer.message)
        case _:
            assert_never(answer.how)


def _stop(state: State, reason: str, actor: Actor) -> Effect:
    """Return how a turn ends that was stopped. What a user calls the reason is only a word."""
    if actor == "timeout":
        return _given_up(state, TIMEOUT, _TOO_LONG)
    if actor == "system" and reason == BUDGET_EXHAUSTED:
        message = "the budget has no room for a call that the model asked for"
        return _given_up(state, BUDGET_EXHAUSTED, message)
    return End(state.model_call_id, Interrupt(reason, actor=actor))


def _given_up(state: State, error_type: str, message: str) -> End:
    return End(state.model_call_id, Fail(error_type, message))


# -- what the shell must know ------------------------------------------------------------------


def route(state: State, rune: Rune) -> Routing:
    """Return where a rune that this law decides belongs, its own birth included."""
    match rune:
        case model.Called() | model.Failed():
            return Routing(rune.model_call_id, (state.turn_id, ledger.NAME))
        case tool.Called():
            return Routing(rune.call_id, (state.turn_id,))
        case ToolCallsReceived() | StreamRestarted():
            # How it goes on within: no other fold needs it.
            return Routing(state.turn_id)
        case ToolsFinished():
            return Routing(state.turn_id, (ROOT,))
        case Completed() | Interrupted() | Error():
            return Routing(state.turn_id, (state.agent_id, ROOT))
        case Started(turn_id, agent_id):
            return Routing(turn_id, (agent_id, ROOT))
        case TimeReserved() | TimeSettled():
            return Routing(state.turn_id, (ledger.NAME,))
        case budget.Exhausted(what=what):
            at = ledger.route(ledger.LIFECYCLE.initial, rune)
            return Routing(at.owner, (*at.observers, state.turn_id)) if what == "wall" else at
        case HeldUp(turn_id, asked_in=asked_in) | WentOn(turn_id, asked_in=asked_in):
            return Routing(turn_id, (asked_in,))
        case _:
            return Routing(state.turn_id, (state.agent_id, ROOT))


def deadline(state: State) -> int | None:
    """Return when the turn must be looked at: its time is up, or a slice of it has passed."""
    by, current = time_limit(state), state.time_slice
    if current is None or not is_open(state):
        return by
    return current.until if by is None else min(by, current.until)


def time_limit(state: State) -> int | None:
    """Return when the turn's time is up; None while it waits for a human, or is about to end.

    A human has the time that the approval says. An end that is due is reached whatever the clock
    says: an answer that is all there is not thrown away for being a moment late.
    """
    if state.waited or not is_open(state):
        return None
    # Before the model has answered nothing ends a turn but want of time.
    may_end = state.answer is not None or state.broke or state.handed_to
    return None if may_end and isinstance(_next(state), End) else state.deadline


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent and the turn that its runes belong to."""
    return state.agent_id, state.turn_id


LIFECYCLE: Final = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    observed=frozenset({tool.Result}),
    printed=(
        Row(Phase.STREAMING.value, Phase.STREAMING.value, kind_of(model.AssistantDelta)),
        *(
            Row(phase.value, Phase.IDLE.value, "finalized")
            for phase in (Phase.COMPLETED, Phase.INTERRUPTED, Phase.ERROR)
        ),
    ),
    reads=ledger.NAME,
    version=10,
)

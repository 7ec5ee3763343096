"""The law of a turn.

    idle ── started ──> streaming ── completed ────> completed ─ ─ ─┐
                        │ ^ │ ^ │                                   │
     tool_calls_received│ │ └─┘ ├──── interrupted ─> interrupted ─ ─┤ the engine is free again:
                        │ │stream_restarted                         │ printed, not folded
                        v │tools_finished                           │
                  tool_executing ──── error ───────> error ─ ─ ─ ─ ─┴─> idle
                      │   ^
                      └───┘ tool.result

A round is one answer of the model and the calls it asks for. Every call has its result before the
model is asked again, and no turn ends while a model call or a tool call of it is without an end.
So whoever wants to stop a turn tells what is `under_way` to cancel, with the reason; what is due
once the last of them has ended carries that reason on, also if everybody was killed in between.
Where somebody limits its time, a turn has a clock: see `clock`.
A call whose actor is gone for good is ended under its own law by whoever stands in for it, like a
ward (a tool call by `Abandon`, a model call by `Recover`): the turn hears of it as of any end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from msgspec.structs import replace

from actors.budget import runes as budget
from actors.budget.runes import BUDGET_EXHAUSTED
from actors.commands import Recover, TimeUp
from actors.entity import Actor, Entity
from actors.model import runes as model
from actors.model.lifecycle import TIMEOUT
from actors.model.runes import CRASH
from actors.tool import runes as tool
from actors.turn import asker, clock
from actors.turn.commands import (
    EXTERNAL,
    INTERNAL,
    Ask,
    AskModel,
    CloseRound,
    Command,
    Complete,
    Effect,
    EnsureModel,
    EnsureTool,
    Fail,
    FinishEarly,
    FinishTurn,
    GiveUp,
    GoOn,
    HoldUp,
    Interrupt,
    ReceiveCalls,
    Release,
    RestartStream,
    Run,
    Stand,
    TakeCalls,
)
from actors.turn.place import context, route
from actors.turn.runes import (
    Completed,
    Error,
    Interrupted,
    Started,
    StreamRestarted,
    Summary,
    ToolCallsReceived,
    ToolsFinished,
)
from actors.turn.state import MAX_CALLS, Answer, Phase, State, evolve, expected, under_way
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Row, Table, refusal
from runelog.rune import Rune, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.turn.commands import TimeCommand

NAME: Final = "turn"
TOOLS_FINISHED: Final = "tools_finished"
"""What ends a round: every call has its result."""
STREAMING: Final = Phase.STREAMING
TOOL_EXECUTING: Final = Phase.TOOL_EXECUTING

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


# -- where it stands ---------------------------------------------------------------------------


def is_open(state: State) -> bool:
    """Say whether there is work left that a restart must see to."""
    return state.phase in _RUNNING


def deadline(state: State) -> int | None:
    """Say when the turn must be looked at: its time is up, or a stretch of it has passed."""
    by, stretch = time_limit(state), state.stretch
    if stretch is None or state.phase not in _RUNNING:
        return by
    return stretch.until if by is None else min(by, stretch.until)


def time_limit(state: State) -> int | None:
    """Say when the turn's time is up; never while it waits for a human, or is about to end.

    A human has the time that the approval says. An end that is due is reached whatever the clock
    says: an answer that is all there is not thrown away for being a moment late.
    """
    if state.phase not in _RUNNING or state.waited:
        return None
    # Before the model has answered nothing ends a turn but want of time.
    may_end = state.answer is not None or state.broke
    return None if may_end and isinstance(_next(state), _ENDINGS) else state.deadline


_RUNNING: Final = frozenset({Phase.STREAMING, Phase.TOOL_EXECUTING})
_ENDINGS: Final = (FinishTurn, FinishEarly, GiveUp)


# -- decide ------------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    phase, runs = state.phase, is_open(state)
    match command:
        case Ask() if phase is STREAMING:
            return _ask(state, command)
        case TakeCalls(plans) if runs:
            return _take(state, plans, command)
        case CloseRound() if phase is TOOL_EXECUTING and _next(state) == command:
            results = tuple([Summary(at.call_id, at.status) for at in state.calls if at.status])
            return [ToolsFinished(results, trigger=TOOLS_FINISHED)]
        case Complete(final_output, now) if runs:
            return _complete(state, final_output, now, command)
        case Recover() | TimeUp() | Run() | Stand() | HoldUp() | GoOn():
            return _about_time(state, command)
        case RestartStream() if phase is STREAMING and _next(state) == command:
            return _restart(state)
        case Interrupt(reason, text, actor, now) if runs:
            _check_still(state, command)
            trigger = reason or "interrupt"
            end = Interrupted(reason, text, state.turn_id, trigger=trigger, actor=actor)
            return [*clock.stop(state, now), end]
        case Fail(error_type, message, text, now) if runs:
            _check_still(state, command)
            return [*clock.stop(state, now), _error(state, error_type, message, text)]
        case _:
            raise refusal(NAME, state.phase, command)


def _about_time(state: State, command: TimeCommand) -> list[Rune]:
    match command:
        case Recover():
            # Calls and model calls settle what is in doubt of theirs.
            return clock.stop(state, None)
        case TimeUp(now):
            return _time_up(state, now, command)
        case Run():
            return clock.run(state, command)
        case Stand(now, anyhow):
            return clock.stop(state, now) if anyhow or not clock.works(state) else []
        case HoldUp() | GoOn():
            return asker.told(state, command)
        case _:
            assert_never(command)


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


def _error(state: State, error_type: str, message: str, partial_output: str = "") -> Error:
    return Error(
        error_type,
        message,
        partial_output,
        state.turn_id,
        trigger=error_type or "fault",
        actor="timeout" if error_type == TIMEOUT else "system",
    )


def _time_up(state: State, now: int, command: Command) -> list[Rune]:
    """End the turn where it would otherwise begin something new.

    What goes on already is cancelled first, with `TIMEOUT` as the reason: then every call has its
    result, and what the model said so far is kept.
    """
    by = time_limit(state)
    if by is None or now < by:
        return []
    _check_still(state, command)
    return [*clock.stop(state, now), _error(state, TIMEOUT, "the turn took longer than it may")]


def _ask(state: State, command: Ask) -> list[Rune]:
    if command.model_call_id != expected(state):
        raise refusal(NAME, state.phase, command)
    if state.model_call_id:
        return []
    if command.exhausted is not None:
        spent = command.exhausted
        message = f"{spent.what} of {spent.scope}: {spent.used} of {spent.limit} are spoken for"
        end = _error(state, BUDGET_EXHAUSTED, message, command.text)
        return [*clock.stop(state, command.now), spent, end]
    called = model.Called(
        model_call_id=command.model_call_id,
        turn_id=state.turn_id,
        agent_id=state.agent_id,
        model=state.model,
        round=state.round,
        attempt=state.attempt,
        upto=command.upto,
        prompt=command.prompt,
        reserved=command.reserved,
        first_byte_by=command.first_byte_by,
        turn_by=command.turn_by if state.waited else None,
        sent=command.sent,
    )
    key, scope, amounts = command.model_call_id, state.agent_id, command.reserved
    return [called, budget.Reserved(key, scope, amounts), *command.warnings]


def _take(state: State, plans: Sequence[tool.Called], command: Command) -> list[Rune]:
    ids = tuple(plan.call_id for plan in plans)
    if state.phase is Phase.TOOL_EXECUTING and ids == tuple(at.call_id for at in state.calls):
        return []
    if not isinstance(_next(state), ReceiveCalls):
        raise refusal(NAME, state.phase, command)
    assert state.answer is not None
    owners = {(plan.turn_id, plan.agent_id) for plan in plans}
    if ids != state.answer.asked or owners != {(state.turn_id, state.agent_id)}:
        msg = f"{NAME} {state.turn_id}: these are not the calls that {state.model_call_id} asks for"
        raise Refused(msg)
    if all(plan.hold for plan in plans):
        # Nobody goes before the first one.
        plans = (replace(plans[0], hold=False), *plans[1:])
    return [ToolCallsReceived(ids, state.round, trigger="tool_calls"), *plans]


def _restart(state: State) -> list[Rune]:
    assert state.answer is not None
    reason = state.answer.error_type
    attempt = state.attempt + 1
    trigger = reason or "fault"
    return [StreamRestarted(state.round, attempt, reason, state.model_call_id, trigger=trigger)]


def _complete(state: State, final_output: str, now: int | None, command: Command) -> list[Rune]:
    _check_still(state, command)
    if not isinstance(_next(state), FinishTurn | CloseRound):
        raise refusal(NAME, state.phase, command)
    settled = clock.stop(state, now)
    used = clock.spent(state, settled)
    trigger = "response_done" if state.phase is Phase.STREAMING else TOOLS_FINISHED
    return [*settled, Completed(final_output, used, state.turn_id, trigger=trigger)]


# -- due ---------------------------------------------------------------------------------------


def due(state: State) -> list[Effect]:
    """Say what has to be done while the state is this one."""
    following = _next(state)
    effects: list[Effect] = []
    if state.timed:
        # Before anything else: time is set aside before it passes.
        effects += clock.due(state, ends=isinstance(following, _ENDINGS))
    if state.asked_in:
        effects += asker.due(state)
    if following is not None:
        effects.append(following)
    elif state.phase is TOOL_EXECUTING:
        effects += _awaited(state)
    return effects


def _awaited(state: State) -> list[Effect]:
    """Say whom the turn waits for: the calls without a result, all of which have to be there.

    Where only such are left that wait for the others, the first goes, alone: not safe in parallel
    is not safe with anybody.
    """
    waiting = [call for call in state.calls if call.status is None]
    effects: list[Effect] = [EnsureTool(call.call_id) for call in waiting]
    if all(call.hold for call in waiting):
        effects.append(Release(waiting[0].call_id))
    return effects


def _next(state: State) -> Effect | None:
    """Say what the turn does next of itself; nothing while it waits for its tools."""
    found: Effect | None = None
    phase = state.phase
    if phase is STREAMING:
        if not state.model_call_id:
            found = AskModel(expected(state), state.round, state.attempt)
        elif state.answer is None:
            found = EnsureModel(state.model_call_id)
        else:
            found = _after(state, state.answer)
    elif phase is TOOL_EXECUTING and not under_way(state):
        found = _stop(state, state.stopped, state.stopped_by) if state.stopped else CloseRound()
    if state.broke and found is not None and not isinstance(found, EnsureModel | FinishTurn):
        return GiveUp(state.model_call_id, BUDGET_EXHAUSTED, "its budget has no time left")
    return found


def _after(state: State, answer: Answer) -> Effect:
    """Say what follows from the way the model call ended."""
    call, crashed = state.model_call_id, answer.error_type == CRASH
    match answer.how:
        case "completed" if not answer.asked:
            return FinishTurn(call)
        case "completed" if len(answer.asked) > MAX_CALLS:
            message = f"the model asked for more than {MAX_CALLS} calls at once"
            return GiveUp(call, "too_many_calls", message)
        case "completed":
            return ReceiveCalls(call)
        case "cancelled":
            return _stop(state, answer.error_type, answer.actor)
        case "failed" if crashed and state.on_crash == "interrupt":
            return FinishEarly(call, CRASH, "system")
        case "failed" if answer.retryable and state.attempt < state.retries:
            return RestartStream()
        case "failed":
            return GiveUp(call, answer.error_type, answer.message)
        case _:
            assert_never(answer.how)


def _stop(state: State, reason: str, actor: Actor) -> Effect:
    """Say how a turn ends that was stopped. What a user calls the reason is only a word."""
    if actor == "timeout":
        return GiveUp(state.model_call_id, TIMEOUT, "the turn took longer than it may")
    if actor == "system" and reason == BUDGET_EXHAUSTED:
        message = "the budget has no room for a call that the model asked for"
        return GiveUp(state.model_call_id, BUDGET_EXHAUSTED, message)
    return FinishEarly(state.model_call_id, reason, actor)


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
    version=4,
)

ENTITY: Final = Entity(
    lifecycle=LIFECYCLE,
    route=route,
    births=(Started,),
    is_open=is_open,
    deadline=deadline,
    context=context,
    internal=INTERNAL,
    external=EXTERNAL,
)

"""The law of a model call.

      ┌──┐ turn.assistant_delta
      │  v
    calling ── completed ──> completed
      │ │
      │ └───── failed ─────> failed       a fault, no first byte in time, or a crash
      └─────── cancelled ──> cancelled    its caller is being stopped

The rune that begins a call says what is reserved for it, and the one that ends it what it is
charged with: exactly once, whatever crashes when. Where the provider says what was used, that
counts. Where it does not:

* it refused before it had said anything: nothing was used;
* it answered, broke off, or was stopped: about what was sent to it and what it said, as estimated;
* that is not known, as after a crash: all that was reserved, as estimated.

A call that cannot be made (its model is not registered, or the budget has no room for it) fails in
the append that begins it. Nothing is reserved for it, and no provider is asked.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Never, TypeAlias

import msgspec
from msgspec.structs import replace

from actors.budget import lifecycle as ledger
from actors.budget.runes import BUDGET_EXHAUSTED, Amounts, Exhausted
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.entity import Actor, Routing
from actors.model.runes import (
    CRASH,
    AskedCall,
    AssistantDelta,
    Called,
    Cancelled,
    Completed,
    Failed,
)
from actors.model.tokens import tokens_of
from runelog.lifecycle import Lifecycle, Table, refusal
from runelog.rune import Rune, is_id

NAME: Final = "model"

BAD_RESPONSE: Final = "bad_response"
"""The type of error when the answer is not one that can be acted on."""
TIMEOUT: Final = "timeout"
"""The type of error when the provider took too long."""


class Phase(StrEnum):
    """What a model call can be."""

    CALLING = "calling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


CALLING: Final = Phase.CALLING
# To look a member up in its enum takes longer than to compare with it.

TABLE: Table[Phase] = {
    Phase.CALLING: {
        AssistantDelta: Phase.CALLING,
        Completed: Phase.COMPLETED,
        Failed: Phase.FAILED,
        Cancelled: Phase.CANCELLED,
    },
    Phase.COMPLETED: {},
    Phase.FAILED: {},
    Phase.CANCELLED: {},
}


_UNBORN: Final = Called(
    model_call_id="",
    caller="",
    model="",
    upto=0,
    prompt="",
    reserved=Amounts(),
    first_byte_by=0,
)


class State(msgspec.Struct, frozen=True):
    """What a model call's runes add up to. It does not grow with the answer."""

    phase: Phase = Phase.CALLING
    call: Called = _UNBORN
    begun: bool = False
    """Whether anything of the answer is there, be it an empty fragment."""


# -- commands ----------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True):
    """Begin a call, unless it cannot be made: then it begins and fails at once."""

    call: Called
    cost: int | None
    """What it costs at most; None if the model has no price."""
    fault: str = ""
    """Why it cannot be made, as a type of error; empty if it can."""
    message: str = ""


class Finish(msgspec.Struct, frozen=True):
    """The answer is all there."""

    calls: tuple[AskedCall, ...] = ()
    usage: Amounts | None = None
    """What the provider says that it used; None if it did not say."""
    stop_reason: str = ""
    said: int | None = None
    """How many characters have come, calls included; None if that is not known."""
    cost: int | None = None
    """What that costs by the price of the model; None if it has none."""


class Fail(msgspec.Struct, frozen=True):
    """The provider refused, broke off, or fell silent within its stream."""

    error_type: str
    message: str = ""
    retryable: bool = False
    usage: Amounts | None = None
    """What the provider says that it used until then; None if it did not say."""
    said: int | None = None
    """How many characters had come, calls included; None if that is not known."""
    cost: int | None = None
    """What that costs by the price of the model; None if it has none."""
    frames: tuple[str, ...] = ()
    """Where it failed in the app's own code, if it did."""


class BreakOff(msgspec.Struct, frozen=True):
    """The stream was stopped because the caller wants no more of it."""

    reason: str
    usage: Amounts | None = None
    """What the provider says that it used until then; None if it did not say."""
    said: int | None = None
    """How many characters had come, calls included; None if that is not known."""
    cost: int | None = None
    """What that costs by the price of the model; None if it has none."""
    actor: Actor = "user"


Command: TypeAlias = Begin | Finish | Fail | BreakOff | Cancel | TimeUp | Recover | Abandon
"""`Cancel` is `BreakOff` by an entity that does not know what was used."""


# -- effects -----------------------------------------------------------------------------------


Effect: TypeAlias = Never


# -- the law -----------------------------------------------------------------------------------


def decide(
    state: State, command: Command, account: ledger.State = ledger.LIFECYCLE.initial
) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    if state.phase is not CALLING:
        if isinstance(command, Recover | TimeUp | Abandon):
            # Nothing is in doubt any more, and the deadline was met.
            return []
        raise refusal(NAME, state.phase, command)
    if not state.call.model_call_id or isinstance(command, Begin):
        if isinstance(command, Begin) and not state.call.model_call_id:
            return begun(command, account)
        raise refusal(NAME, state.phase, command)
    match command:
        case Finish():
            return _finish(state, command)
        case Fail():
            return _fail(state, command, *_left_off(state, command))
        case BreakOff():
            return _cancel(state, command)
        case Cancel(reason, actor):
            return _cancel(state, BreakOff(reason, actor=actor))
        case Recover() | Abandon():
            crash = Fail(CRASH, "the process ended while the model answered", retryable=True)
            return _fail(state, crash, *_charged(state, crash))
        case TimeUp(now):
            if state.begun or now < state.call.first_byte_by:
                return []
            # What was sent is with the provider, who may be at work on it.
            late = Fail(TIMEOUT, "no first byte came in time", retryable=True, said=0)
            return _fail(state, late, *_charged(state, late))
        case _:
            raise refusal(NAME, state.phase, command)


def begun(command: Begin, account: ledger.State) -> list[Rune]:
    """Return the birth of a call by any caller; with its failure, if it cannot be made.

    Without a price it costs something, so that a limit of nothing refuses it.
    """
    call, cost, fault, message = command.call, command.cost, command.fault, command.message
    if cost is None:
        cost = int(ledger.is_limited(account, call.account, "cost"))
    if cost != call.reserved.cost:
        call = replace(call, reserved=replace(call.reserved, cost=cost))
    spent = None if fault else ledger.afford(account, call)
    if not fault and spent is None:
        return [call]
    if spent is not None:
        fault, message = BUDGET_EXHAUSTED, ledger.in_words(spent)
    failed = Failed(call.model_call_id, error_type=fault, message=message, trigger=fault)
    born = replace(call, reserved=Amounts())
    return [born, failed] if spent is None else [born, spent, failed]


def _finish(state: State, command: Finish) -> list[Rune]:
    ids = [call.call_id for call in command.calls]
    charged, estimated = _charged(state, command)
    if len(set(ids)) < len(ids) or not all(map(is_id, ids)):
        # Each call becomes an entity of its own: two of one id would share one result.
        message = "the calls that the model asks for have no ids of their own"
        bad = Fail(BAD_RESPONSE, message, retryable=True, usage=command.usage)
        return _fail(state, bad, charged, estimated)
    completed = Completed(
        model_call_id=state.call.model_call_id,
        calls=command.calls,
        usage=_known(command.usage),
        stop_reason=command.stop_reason,
        charged=charged,
        estimated=estimated,
        trigger="response_done",
    )
    return [completed]


def _fail(state: State, fault: Fail, charged: Amounts, estimated: bool) -> list[Rune]:  # noqa: FBT001 -- as `_charged` returns it
    failed = Failed(
        model_call_id=state.call.model_call_id,
        error_type=fault.error_type,
        message=fault.message,
        retryable=fault.retryable,
        usage=_known(fault.usage),
        charged=charged,
        estimated=estimated,
        frames=fault.frames,
        trigger=fault.error_type or "fault",
        actor="timeout" if fault.error_type == TIMEOUT else "system",
    )
    return [failed]


def _cancel(state: State, command: BreakOff) -> list[Rune]:
    charged, estimated = _charged(state, command)
    cancelled = Cancelled(
        model_call_id=state.call.model_call_id,
        reason=command.reason,
        usage=_known(command.usage),
        charged=charged,
        estimated=estimated,
        trigger=command.reason or "cancel",
        actor=command.actor,
    )
    return [cancelled]


def _left_off(state: State, fault: Fail) -> tuple[Amounts, bool]:
    """Return the charge of a call that the provider ended; refused at once, it cost nothing."""
    if _known(fault.usage) is None and fault.said == 0 and not state.begun:
        # All the same it was a retry, if it was one.
        return Amounts(retries=state.call.reserved.retries), False
    return _charged(state, fault)


def _charged(state: State, end: Finish | Fail | BreakOff) -> tuple[Amounts, bool]:
    """Return what a call is charged with, and whether that is an estimate.

    That is what the provider says that it used; or else a guess by what was said; or else all that
    was reserved. Whether it was a retry, and what it costs by its price, only we know.
    """
    reserved, usage = state.call.reserved, _known(end.usage)
    if usage is not None:
        cost = usage.cost or end.cost or 0
        return replace(usage, retries=reserved.retries, cost=cost), False
    if end.said is not None:
        # What is only guessed at does not go past what was set aside for it.
        guess = min(state.call.sent + tokens_of(end.said), reserved.tokens)
        cost = reserved.cost if end.cost is None else min(end.cost, reserved.cost)
        reserved = replace(reserved, tokens=guess, cost=cost)
    return reserved, True


def _known(usage: Amounts | None) -> Amounts | None:
    """Return what a provider says was used, if that can be counted."""
    return None if usage is None or min(msgspec.structs.astuple(usage)) < 0 else usage


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Called():
            return replace(state, call=rune)
        case AssistantDelta() if not state.begun and state.phase is CALLING:
            return replace(state, begun=True)
        case _:
            return state


def due(_state: State) -> list[Effect]:
    """Ask for nothing: the entity that calls sees to it, and to its time."""
    return []


def route(state: State, rune: Rune) -> Routing:
    """Say where a rune that this law decides belongs, its own birth included."""
    match rune:
        case Called(model_call_id, caller):
            return Routing(model_call_id, (caller, ledger.NAME))
        case Exhausted():
            return ledger.route(ledger.LIFECYCLE.initial, rune)
        case AssistantDelta():
            # The caller reads fragments as a range: observed, each would move its version.
            return Routing(state.call.model_call_id)
        case _:
            return Routing(state.call.model_call_id, (state.call.caller, ledger.NAME))


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent and the turn that its runes belong to; other callers are no turns."""
    return (state.call.agent_id, state.call.caller) if state.call.agent_id else (None, None)


LIFECYCLE: Final = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    # One behind the end is late, not illegal: it is kept and changes nothing.
    observed=frozenset({AssistantDelta}),
    reads=ledger.NAME,
    version=4,
)

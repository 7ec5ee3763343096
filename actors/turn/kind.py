"""A turn, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from actors.kind import Kind, in_a_line
from actors.turn import lifecycle as law
from actors.turn import runes
from actors.turn.actor import TurnActor
from actors.turn.audits import Turns
from actors.turn.lifecycle import works
from actors.turn.time_slices import StopClock, Tick

if TYPE_CHECKING:
    from actors.kind import Waits
    from actors.turn.lifecycle import Call, State


def waits_for_human(state: State, waits: Waits) -> bool:
    """Return True if it waits for a human, or for another turn that does.

    A call on hold waits for those before it: for a human only if one is asked about any of them.
    """
    if not works(state):
        return True

    def is_asked_about(call: Call) -> bool:
        return call.asked or bool(waits(call.call_id))

    left = [call for call in state.calls if call.status is None]
    asked = [call for call in left if is_asked_about(call)]
    return bool(asked) and all(call.hold or call in asked for call in left)


def summary(state: State) -> str:
    """Return the phase and the agent."""
    return in_a_line(state.phase.value, state.agent_id)


def outcome(state: State) -> dict[str, Any]:
    """Return how it ended, and how its last calls came out; calls may come back in any order."""
    return {
        "model": state.model,
        "phase": state.phase.value,
        "rounds": state.round,
        "calls": tuple(sorted(call.status or "" for call in state.calls)),
    }


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=law.is_open,
    deadline=law.deadline,
    context=law.context,
    internal=frozenset(get_args(law.Internal)),
    prompt=frozenset({law.End, law.ReceiveCalls}),
    external=frozenset({law.PerformModelCall, Tick, StopClock}),
    prefix="turn",
    parents=("session",),
    in_table=False,  # the session's law knows it
    runes=(
        runes.Started,
        runes.ToolCallsReceived,
        runes.ToolsFinished,
        runes.Completed,
        runes.Interrupted,
        runes.Error,
        runes.StreamRestarted,
        runes.TimeReserved,
        runes.TimeSettled,
        runes.HeldUp,
        runes.WentOn,
    ),
    actor=TurnActor,
    waits_for_human=waits_for_human,
    invariants=(Turns,),
    summary=summary,
    outcome=outcome,
    stuck={"streaming": 1_800.0},
)

"""Where the runes belong that a turn decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.budget import lifecycle as ledger
from actors.budget import runes as budget
from actors.entity import Routing
from actors.model import runes as model
from actors.tool import runes as tool
from actors.turn.runes import (
    HeldUp,
    Started,
    StreamRestarted,
    ToolCallsReceived,
    ToolsFinished,
    WentOn,
)

if TYPE_CHECKING:
    from actors.turn.state import State
    from runelog.rune import Rune


def route(state: State, rune: Rune) -> Routing:  # noqa: PLR0911 -- one for each kind of rune
    """Say where a rune that this law decides belongs, its own birth included."""
    match rune:
        case Started(turn_id, agent_id):
            return Routing(turn_id, (agent_id, "session"))
        case model.Called(model_call_id=call) | tool.Called(call_id=call):
            return Routing(call, (state.turn_id,))
        case budget.Reserved(until=None):
            return ledger.UNOBSERVED
        case budget.Settled() | budget.Reserved():
            # Its own time: the calls settle theirs.
            return Routing("budget", (state.turn_id,))
        case budget.Warning() | budget.Exhausted():
            at = ledger.route(ledger.LIFECYCLE.initial, rune)
            is_time = isinstance(rune, budget.Exhausted) and rune.what == "wall"
            return Routing(at.owner, (*at.observers, state.turn_id)) if is_time else at
        case ToolCallsReceived() | StreamRestarted():
            # How it goes on within: nobody else's fold needs it.
            return Routing(state.turn_id)
        case HeldUp(turn_id, asked_in=asked_in) | WentOn(turn_id, asked_in=asked_in):
            return Routing(turn_id, (asked_in,))
        case ToolsFinished():
            return Routing(state.turn_id, ("session",))
        case _:
            return Routing(state.turn_id, (state.agent_id, "session"))


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent and the turn that its runes belong to."""
    return state.agent_id, state.turn_id

"""A call of a tool, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.entity import without_ids
from actors.kind import Kind, in_a_line
from actors.tool import lifecycle as law
from actors.tool import runes
from actors.tool.actor import ToolActor, near
from actors.tool.audits import Tools
from actors.tool.lifecycle import Phase
from actors.tool.public_commands import COMMANDS

if TYPE_CHECKING:
    from actors.kind import Waits
    from actors.tool.lifecycle import State


def waits_for_human(state: State, _waits: Waits) -> bool:
    """Return True while a human is asked about it."""
    return state.phase is Phase.AWAITING_APPROVAL


def summary(state: State) -> str:
    """Return the name of the tool and the phase."""
    return in_a_line(state.call.tool_name, state.phase.value)


def outcome(state: State) -> dict[str, Any]:
    """Return what was called and how it came out."""
    return {
        "tool": state.call.tool_name,
        "arguments": without_ids(state.call.arguments),
        "phase": state.phase.value,
        "status": state.status,
    }


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=law.is_open,
    deadline=law.deadline,
    internal=frozenset({law.Begin}),
    # A call whose beginning is due in the log, since it was approved while no process ran it,
    # begins when it is taken over: its time runs from then.
    external=frozenset({law.RunTool, law.Probe, law.Begin}),
    pieces=frozenset({runes.Progress}),
    context=law.context,
    prefix=runes.PREFIX,
    label="tool_name",
    parents=("turn",),
    in_table=False,  # its caller's law knows it
    runes=(
        runes.Called,
        runes.ApprovalRequested,
        runes.Approved,
        runes.Denied,
        runes.Started,
        runes.Progress,
        runes.Doubted,
        runes.Retried,
        runes.Result,
        runes.Acknowledged,
    ),
    actor=ToolActor,
    commands=COMMANDS,
    waits_for_human=waits_for_human,
    near=near,
    progress=frozenset({runes.Result}),
    invariants=(Tools,),
    summary=summary,
    outcome=outcome,
    stuck={"pending_call": 1_800.0, "executing": 600.0, "awaiting_approval": 3_600.0},
)

"""A call of a tool, as the rest of the house knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.kind import Kind
from actors.tool import runes
from actors.tool.actor import ToolActor, near
from actors.tool.audits import Tools
from actors.tool.lifecycle import ENTITY, Phase
from actors.tool.requests import COMMANDS

if TYPE_CHECKING:
    from actors.kind import Waits
    from actors.tool.lifecycle import State


def waits_for_human(state: State, _waits: Waits) -> bool:
    """Return True while a human is asked about it."""
    return state.phase is Phase.AWAITING_APPROVAL


KIND: Final = Kind.of(
    ENTITY,
    prefix="call",
    parents=("turn",),
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
    ),
    actor=ToolActor,
    commands=COMMANDS,
    waits_for_human=waits_for_human,
    near=near,
    progress=frozenset({runes.Result}),
    invariants=(Tools,),
    stuck={"pending_call": 1_800.0, "executing": 600.0, "awaiting_approval": 3_600.0},
)

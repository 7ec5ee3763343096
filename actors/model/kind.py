"""A call of a model, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.kind import Kind, in_a_line, never_open
from actors.model import lifecycle as law
from actors.model import runes
from actors.model.lifecycle import Phase

if TYPE_CHECKING:
    from actors.model.lifecycle import State


def summary(state: State) -> str:
    """Return the model and the phase."""
    return in_a_line(state.call.model, state.phase.value)


def outcome(state: State) -> dict[str, Any] | None:
    """Return which answer it was; None if there is none: after a kill the model is asked again."""
    if state.phase is not Phase.COMPLETED:
        return None
    return {"model": state.call.model, "round": state.call.round}


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=never_open,
    context=law.context,
    pieces=frozenset({runes.AssistantDelta}),
    prefix="model",
    parents=("turn",),
    in_table=False,  # its caller's law knows it
    runes=(
        runes.Called,
        runes.AssistantDelta,
        runes.Completed,
        runes.Failed,
        runes.Cancelled,
    ),
    summary=summary,
    outcome=outcome,
    stuck={"calling": 1_800.0},
)

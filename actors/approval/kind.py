"""An approval, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.approval import lifecycle as law
from actors.approval import runes
from actors.kind import Kind, in_a_line

if TYPE_CHECKING:
    from actors.approval.lifecycle import State


def summary(state: State) -> str:
    """Return why a human is asked, and the phase."""
    return in_a_line(state.reason, state.phase.value)


def outcome(state: State) -> dict[str, Any]:
    """Return what was asked, and what a human said to it.

    A rejection is final when it is given: that its asker has noted it may be lost with a kill.
    """
    rejected = state.phase is law.Phase.REJECTED
    return {
        "reason": state.reason,
        "phase": (law.Phase.ABORTED if rejected else state.phase).value,
        "approver": state.approver,
        "outcome": state.outcome,
    }


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=law.is_open,
    deadline=law.deadline,
    context=law.context,
    prefix="apr",
    parents=("tool",),
    runes=(
        runes.Requested,
        runes.Awaiting,
        runes.Approved,
        runes.Rejected,
        runes.Executed,
        runes.Aborted,
    ),
    summary=summary,
    outcome=outcome,
)

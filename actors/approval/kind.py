"""An approval, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.approval import lifecycle as law
from actors.approval import runes
from actors.kind import Kind, in_a_line, never_open

if TYPE_CHECKING:
    from actors.approval.lifecycle import State


def summary(state: State) -> str:
    """Return why a human is asked, and the phase."""
    return in_a_line(state.asked.reason, state.phase.value)


def outcome(state: State) -> dict[str, Any]:
    """Return what was asked, and what a human said to it."""
    return {
        "reason": state.asked.reason,
        "phase": state.phase.value,
        "approver": state.approver,
        "outcome": state.outcome,
    }


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=never_open,
    context=law.context,
    prefix=runes.PREFIX,
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

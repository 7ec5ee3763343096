"""When a session is suspended, and when it goes on by itself.

It is suspended for four reasons: its root agent is gone, a budget is exhausted, its actors keep
crashing, or its turns keep ending in error. Only a budget that was raised ends that by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from actors.budget.runes import BUDGET_EXHAUSTED
from actors.session.members import member
from actors.session.runes import BudgetInfo

if TYPE_CHECKING:
    from actors.session.lifecycle import State

ERROR_THRESHOLD: Final = "error_threshold"
"""The reason of a session that is suspended because it kept failing."""
BUDGET_REPLENISHED: Final = "budget_replenished"
"""The reason for which a session goes on whose budget was exhausted."""


class Activate(msgspec.Struct, frozen=True):
    """The root agent is ready or failed: activate the session."""

    trigger: str


class AutoSuspend(msgspec.Struct, frozen=True):
    """Begin no turns until the session is unsuspended; what a user asks for is `Suspend`."""

    reason: str
    budget_info: BudgetInfo | None = None


class AutoUnsuspend(msgspec.Struct, frozen=True):
    """The budget that was exhausted was raised: go on."""


def has_root(state: State) -> bool:
    """Return True if the root agent lives."""
    return member(state.members, state.root) is not None


def keeps_crashing(state: State) -> bool:
    """Return True if its actors were restarted as often as its configuration allows."""
    return state.restarts >= state.config.restarts


def is_stuck(state: State) -> bool:
    """Return True if neither unclean opens nor restarts led to an outcome: it is left alone."""
    return state.unclean >= state.config.unclean_opens or keeps_crashing(state)


def activation(state: State) -> list[Activate]:
    """Return what activates a session that was created."""
    root = member(state.members, state.root)
    if root is None:
        # There is no way from created to suspended but through active.
        return [Activate(trigger=f"root_agent_{state.root_end}")]
    if root.ready:
        return [Activate(trigger="agent_ready")]
    return [Activate(trigger=ERROR_THRESHOLD)] if is_stuck(state) else []


def suspension(state: State) -> list[AutoSuspend]:
    """Return what suspends an active session; nothing if there is no reason."""
    if not has_root(state):
        return [AutoSuspend(f"root_agent_{state.root_end}")]
    if state.exhausted is not None:
        return [AutoSuspend(BUDGET_EXHAUSTED, state.exhausted)]
    if keeps_crashing(state) and state.restarted is not None:
        why = f"{state.restarts} restarts, the last of {state.restarted.child}"
        return [AutoSuspend(f"{ERROR_THRESHOLD}: {why}")]
    if state.failures >= state.config.failed_turns or is_stuck(state):
        return [AutoSuspend(ERROR_THRESHOLD)]
    return []


def recovery(state: State) -> list[AutoUnsuspend]:
    """Return what lets a suspended session go on by itself."""
    raised = state.out_of_budget and state.exhausted is None
    return [AutoUnsuspend()] if raised and has_root(state) else []

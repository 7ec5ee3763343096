"""An agent, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.agent import lifecycle as law
from actors.agent import runes
from actors.agent.actor import AgentActor
from actors.agent.public_commands import COMMANDS
from actors.kind import Kind, in_a_line

if TYPE_CHECKING:
    from actors.agent.lifecycle import State


def summary(state: State) -> str:
    """Return its role and its phase."""
    return in_a_line(state.role, state.phase.value)


def outcome(state: State) -> dict[str, Any]:
    """Return its role and how its turns ended; what they used depends on how they were cut off."""
    stats = state.stats
    return {
        "role": state.role,
        "model": state.model,
        "is_root": state.parent_id is None,
        "config": state.config,
        "phase": state.phase.value,
        "spent": state.spent,
        "turns": stats.turns,
        "completed": stats.completed,
        "interrupted": stats.interrupted,
        "failed": stats.failed,
    }


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=law.is_open,
    context=law.context,
    internal=law.INTERNAL,
    prefix="agt",
    label="role",
    parents=("session",),
    in_table=False,  # the session's law knows it
    runes=(
        runes.Spawning,
        runes.Updated,
        runes.Ready,
        runes.Failed,
        runes.Terminated,
        runes.Equipped,
    ),
    actor=AgentActor,
    commands=COMMANDS,
    summary=summary,
    outcome=outcome,
    stuck={"spawning": 60.0},
)

"""Every lifecycle and every rune, listed by hand; one that is not listed fails a test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from actors.agent import lifecycle as agent
from actors.agent import requests as agent_requests
from actors.agent import runes as agents
from actors.agent.actor import AgentActor
from actors.approval import lifecycle as approval
from actors.approval import runes as approvals
from actors.budget import lifecycle as budget
from actors.budget import runes as budgets
from actors.command import Commands
from actors.model import lifecycle as model
from actors.model import runes as models
from actors.model.actor import ModelActor
from actors.session import lifecycle as session
from actors.session import requests as session_requests
from actors.session import runes as sessions
from actors.session.actor import SessionActor
from actors.tool import lifecycle as tool
from actors.tool import requests as tool_requests
from actors.tool import runes as tools
from actors.tool.actor import ToolActor
from actors.turn import lifecycle as turn
from actors.turn import runes as turns
from actors.turn.actor import TurnActor
from runelog.codec import Codec
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.entity import Entity
    from actors.shell import Shell
    from runelog.rune import Rune

ENTITIES: Final[tuple[Entity, ...]] = (
    session.ENTITY,
    agent.ENTITY,
    turn.ENTITY,
    model.ENTITY,
    tool.ENTITY,
    approval.ENTITY,
    budget.ENTITY,
)
"""Every kind of entity there is."""

LIFECYCLES: Final = (
    session.LIFECYCLE,
    agent.LIFECYCLE,
    turn.LIFECYCLE,
    tool.LIFECYCLE,
    approval.LIFECYCLE,
)
"""Every state machine that is printed. Model calls and budgets are how turns work, not what."""

SHELLS: Final[Mapping[str, type[Shell]]] = {
    "session": SessionActor,
    "agent": AgentActor,
    "turn": TurnActor,
    "model": ModelActor,
    "tool": ToolActor,
}
"""The actor of each kind of entity that has one."""

WARDS: Final[Mapping[str, Entity]] = {"budget": budget.ENTITY, "apr": approval.ENTITY}
"""Entities without an actor, by the first part of their ids."""

BIRTHS: Final[Mapping[type[Rune], Entity]] = {
    birth: entity for entity in ENTITIES for birth in entity.births
}
"""What kind of entity a rune gives birth to."""

COMMANDS: Final = Commands(
    (
        replace(session.ENTITY, commands=session_requests.COMMANDS, single=True),
        replace(agent.ENTITY, commands=agent_requests.COMMANDS),
        replace(tool.ENTITY, commands=tool_requests.COMMANDS),
    )
)
"""What users may ask of each kind of entity."""

RUNES: Final[tuple[type[Rune], ...]] = (
    sessions.Created,
    sessions.Activated,
    sessions.InputAccepted,
    sessions.InputRefused,
    sessions.Paused,
    sessions.Resumed,
    sessions.Suspended,
    sessions.Unsuspended,
    sessions.Closing,
    sessions.Closed,
    sessions.Archived,
    sessions.Rested,
    sessions.Reopened,
    sessions.ChildRestarted,
    sessions.HandedOver,
    agents.Spawning,
    agents.Ready,
    agents.Failed,
    agents.Terminated,
    agents.Equipped,
    turns.Started,
    turns.ToolCallsReceived,
    turns.ToolsFinished,
    turns.Completed,
    turns.Interrupted,
    turns.Error,
    turns.StreamRestarted,
    turns.HeldUp,
    turns.WentOn,
    models.Called,
    models.AssistantDelta,
    models.Completed,
    models.Failed,
    models.Cancelled,
    tools.Called,
    tools.ApprovalRequested,
    tools.Approved,
    tools.Denied,
    tools.Started,
    tools.Progress,
    tools.Doubted,
    tools.Retried,
    tools.Result,
    approvals.Requested,
    approvals.Awaiting,
    approvals.Approved,
    approvals.Rejected,
    approvals.Executed,
    approvals.Aborted,
    budgets.Opened,
    budgets.Reserved,
    budgets.Settled,
    budgets.Warning,
    budgets.Exhausted,
    budgets.Replenished,
    budgets.Closed,
)
"""Every rune there is."""

CODEC: Final = Codec(RUNES)
"""Reads and writes them all."""


def codec_of(kinds: Iterable[Entity]) -> Codec:
    """Return what reads and writes our runes and those of an app's kinds."""
    found = (rune for kind in kinds for rune in (*kind.births, *kind.lifecycle.runes))
    more = sorted({*found} - {*RUNES}, key=kind_of)
    return Codec((*RUNES, *more)) if more else CODEC

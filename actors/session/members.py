"""The agents of a session: how one is spawned, which live, and which lost their parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from actors.agent import runes as agents
from actors.agent.runes import AgentConfig
from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.session.lifecycle import State
    from runelog.rune import Rune


class Member(msgspec.Struct, frozen=True):
    """An agent that lives, or is about to."""

    agent_id: str
    parent_id: str | None
    model: str
    config: AgentConfig
    ready: bool = False
    spent: bool = False
    """Its own budget refused a call, and it terminates for that."""


class Spawn(msgspec.Struct, frozen=True):
    """Create an agent."""

    agent_id: str
    role: str
    model: str
    parent_id: str | None = None
    """The agent that spawns it; None is the root, or makes it the root if there is none."""
    config: AgentConfig = AgentConfig()
    known: bool = False
    """The log has an agent of this id; unless it lives, it is gone for good."""


def spawned(command: Spawn, parent: str | None, payer: str) -> list[Rune]:
    """Return the birth of an agent with its account, whose amounts the `payer` bears too."""
    check_id(command.agent_id, "agent id")
    config = command.config
    check_config(config)
    return [
        agents.Spawning(
            agent_id=command.agent_id,
            role=command.role,
            model=command.model,
            parent_id=parent,
            config=config,
        ),
        budgets.Opened(scope=command.agent_id, limits=config.budget, parent=payer),
    ]


def parent_of_new(members: Sequence[Member], root: str, command: Spawn) -> str | None:
    """Return the parent of an agent that is to be spawned, None for a root; or refuse it."""
    if command.known:
        msg = (
            f"agent {command.agent_id} was here before and is gone: spawn one with an id of its own"
        )
        raise Refused(msg)
    parent = command.parent_id or (root if member(members, root) else None)
    if parent is not None and not is_staying(members, parent):
        msg = f"there is no agent {parent} any more that could spawn {command.agent_id}"
        raise Refused(msg)
    return parent


def is_staying(members: Sequence[Member], agent_id: str) -> bool:
    """Return True if an agent lives and has not lost its parent."""
    return member(members, agent_id) is not None and not is_orphan(members, agent_id)


def member(members: Sequence[Member], agent_id: str | None) -> Member | None:
    """Return the agent if it lives."""
    for each in members:
        if each.agent_id == agent_id:
            return each
    return None


def changed(members: tuple[Member, ...], new: Member | None) -> tuple[Member, ...]:
    """Return the agents, one of them as it is now."""
    if new is None:
        return members
    return tuple([new if each.agent_id == new.agent_id else each for each in members])


def is_orphan(members: Sequence[Member], agent_id: str) -> bool:
    """Return True if an agent has to go because the one that spawned it is gone."""
    found = member(members, agent_id)
    if found is None or found.parent_id is None:
        return False
    return member(members, found.parent_id) is None or is_orphan(members, found.parent_id)


def orphans(members: Sequence[Member]) -> set[str]:
    """Return the agents of which `is_orphan` is true, in one pass: parents come before children."""
    kept: set[str] = set()
    found: set[str] = set()
    for each in members:
        left_behind = each.parent_id is not None and each.parent_id not in kept
        (found if left_behind else kept).add(each.agent_id)
    return found


def has_limited_time(members: Sequence[Member], agent_id: str | None) -> bool:
    """Return True if the time of an agent's turns is limited: its own, or that of an ancestor."""
    found = member(members, agent_id)
    while found is not None:
        if found.config.budget.wall is not None:
            return True
        found = member(members, found.parent_id)
    return False


def check_config(config: AgentConfig) -> None:
    """Refuse settings with which an agent could not work."""
    for name in ("turn_timeout", "first_byte_timeout", "silence_timeout", "max_output_tokens"):
        if getattr(config, name) <= 0:
            msg = f"{name} = {getattr(config, name)} leaves no time to work: give more than 0"
            raise Refused(msg)
    if config.retries < 0:
        msg = f"retries = {config.retries} cannot be counted: give 0 or more"
        raise Refused(msg)
    ledger.check_limits(config.budget)


def with_member(state: State, new: Member | None) -> State:
    """Return the state with an agent as it is now; unchanged if it does not live."""
    return state if new is None else replace(state, members=changed(state.members, new))

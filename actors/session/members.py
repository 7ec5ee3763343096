"""The agents of a session: which live, which agent spawned which, and which are left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.agent.runes import AgentConfig, Stats
from actors.budget.lifecycle import check_limits
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence


class Member(msgspec.Struct, frozen=True):
    """An agent that lives, or is about to."""

    agent_id: str
    parent_id: str | None
    model: str
    config: AgentConfig
    ready: bool = False
    spent: bool = False
    """Its own budget refused a call, and it terminates for that."""
    stats: Stats = Stats()


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
    check_limits(config.budget)

"""The agents of a session: how one is spawned, which live, and which lost their parent."""

from __future__ import annotations

import itertools
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
    name: str = ""
    role: str = ""
    took_over: bool = False
    """The conversation was handed over to it, and it had no turn since."""
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
    name: str = ""
    """What it is to be called; without one it is called by its role."""
    known: bool = False
    """The log has an agent of this id; unless it lives, it is gone for good."""
    only: bool = False
    """One that lives under this id must be the same: the caller chose the id."""


class Update(msgspec.Struct, frozen=True):
    """Have agents work by other settings from their next turns on, each by its name or id."""

    agents: tuple[Spawn, ...]
    joins: bool = False
    """Those whose names no agent has are spawned; if not, they are refused."""


def updated(living: Member, command: Spawn) -> list[Rune]:
    """Return what changes about an agent; nothing if it is so already."""
    role, model, config = command.role, command.model, command.config
    if (living.role, living.model, living.config) == (role, model, config):
        return []
    check_config(config)
    agent_id = living.agent_id
    runes: list[Rune] = [agents.Updated(agent_id=agent_id, role=role, model=model, config=config)]
    if living.config.budget != config.budget:
        runes.append(budgets.Limited(scope=agent_id, limits=config.budget))
    return runes


def spawned(
    command: Spawn, parent: str | None, payer: str, members: Sequence[Member] = ()
) -> list[Rune]:
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
            name=_name_of(command, members),
        ),
        budgets.Opened(scope=command.agent_id, limits=config.budget, parent=payer),
    ]


def _name_of(command: Spawn, members: Sequence[Member]) -> str:
    """Return what a new agent is called: no other agent that lives is."""
    taken = {word for each in members for word in (each.name, each.agent_id)}
    if command.name:
        if command.name in taken:
            other = find(members, command.name)
            msg = (
                f"there is an agent {command.name} already, "
                f"{other.agent_id if other else command.name}: give the new one another name"
            )
            raise Refused(msg)
        return command.name
    names = itertools.chain([command.role], (f"{command.role}-{n}" for n in itertools.count(2)))
    return next(name for name in names if name not in taken)


def check_same(living: Member, command: Spawn) -> None:
    """Refuse to spawn an agent under the id of one that is another."""
    same = (command.role, command.model, command.config, command.name or living.name)
    if (living.role, living.model, living.config, living.name) != same:
        msg = (
            f"agent {living.agent_id} is there already, and is another one: it is called "
            f"{living.name}; use update_agent() to change it, or another id"
        )
        raise Refused(msg)


def find(members: Sequence[Member], word: str) -> Member | None:
    """Return the living agent of that id or name."""
    return next((each for each in members if word in {each.agent_id, each.name}), None)


def named(members: Sequence[Member], word: str) -> Member:
    """Return the living agent of that id or name, or refuse it with those there are."""
    found = find(members, word)
    if found is None:
        names = ", ".join(each.name for each in members) or "none: spawn one first"
        msg = f"there is no agent {word}; there are: {names}"
        raise Refused(msg)
    return found


def parent_of_new(members: Sequence[Member], root: str, command: Spawn) -> str | None:
    """Return the parent of an agent that is to be spawned, None for a root; or refuse it."""
    if command.known:
        msg = (
            f"agent {command.agent_id} was here before and is gone: spawn one with an id of its own"
        )
        raise Refused(msg)
    if not command.parent_id:
        return root if member(members, root) else None
    parent = named(members, command.parent_id).agent_id
    if is_orphan(members, parent):
        msg = f"agent {parent} is about to end: it cannot spawn {command.agent_id}"
        raise Refused(msg)
    return parent


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
    if config.max_rounds < 1:
        msg = f"max_rounds = {config.max_rounds} lets no turn begin: give 1 or more"
        raise Refused(msg)
    if config.retries < 0:
        msg = f"retries = {config.retries} cannot be counted: give 0 or more"
        raise Refused(msg)
    ledger.check_limits(config.budget)


def with_member(state: State, new: Member | None) -> State:
    """Return the state with an agent as it is now; unchanged if it does not live."""
    return state if new is None else replace(state, members=changed(state.members, new))


def with_new(state: State, rune: agents.Spawning) -> State:
    """Return the state with an agent that was born; one without a parent is the root."""
    new = Member(
        agent_id=rune.agent_id,
        parent_id=rune.parent_id,
        model=rune.model,
        config=rune.config,
        name=rune.name or rune.role,
        role=rune.role,
    )
    stats = replace(state.stats, agents=state.stats.agents + 1)
    state = replace(state, members=(*state.members, new), stats=stats)
    if rune.parent_id is not None:
        return state
    return replace(state, root=rune.agent_id, root_end="", default_agent=rune.agent_id)


def changed_by(state: State, rune: agents.Updated) -> State:
    """Return the state with an agent as it was updated: its next turn begins so."""
    found = member(state.members, rune.agent_id)
    changes = {"role": rune.role, "model": rune.model, "config": rune.config}
    return with_member(state, found and replace(found, **changes))


def without(state: State, agent_id: str, end: str) -> State:
    """Return the state without an agent, which came to its `end`."""
    if member(state.members, agent_id) is None:
        return state
    return replace(
        state,
        members=tuple(each for each in state.members if each.agent_id != agent_id),
        gone=(*state.gone, agent_id),
        default_agent=state.root if state.default_agent == agent_id else state.default_agent,
        root_end=end if state.root == agent_id else state.root_end,
    )

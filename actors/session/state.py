"""The state of a session, and what can be told from it.

It holds what is under way: messages that wait, turns that run, agents that live, approvals that
nobody has answered. It does not grow with the length of the conversation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from actors.agent import runes as agents
from actors.door import ASKED_BY_AN_AGENT
from actors.session.runes import BudgetInfo, ChildRestarted, SessionConfig, Stats


class Phase(StrEnum):
    """What a session can be."""

    CREATED = "created"
    ACTIVE = "active"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    CLOSING = "closing"
    CLOSED = "closed"
    ARCHIVED = "archived"


class Member(msgspec.Struct, frozen=True):
    """An agent that lives, or is about to."""

    agent_id: str
    parent_id: str | None
    model: str
    config: agents.AgentConfig
    ready: bool = False
    spent: bool = False
    """Its own budget refused a call, and it terminates for that."""
    stats: agents.Stats = agents.Stats()


class Waiting(msgspec.Struct, frozen=True):
    """A message that was accepted and has not become a turn yet."""

    message_id: str
    content: str
    to: str
    steer: bool


class Running(msgspec.Struct, frozen=True):
    """A turn that began and has not ended yet."""

    turn_id: str
    agent_id: str
    message_id: str


class Pending(msgspec.Struct, frozen=True):
    """An approval that waits for a human."""

    approval_id: str
    call_id: str
    reason: str
    deadline: int


class State(msgspec.Struct, frozen=True):
    """What a session's runes add up to."""

    phase: Phase = Phase.CREATED
    conversation_id: str = ""
    config: SessionConfig = SessionConfig()
    root: str = ""
    """The agent from which all others descend."""
    root_end: str = ""
    """How the root came to its end: `failed` or `terminated`; empty while it lives."""
    front: str = ""
    """The agent that takes messages which name none."""
    members: tuple[Member, ...] = ()
    gone: tuple[str, ...] = ()
    """Agents that came to their end and whose budgets are still open."""
    waiting: tuple[Waiting, ...] = ()
    """In the order in which they were accepted."""
    running: tuple[Running, ...] = ()
    turns: int = 0
    """How many turns began, which is also the number of the last one."""
    finish: bool = True
    """Whether turns may finish while the session is paused."""
    suspension: str = ""
    """Why the session is suspended."""
    broke: bool = False
    """Whether it is for want of money that it is: then more of that is all it needs."""
    exhausted: BudgetInfo | None = None
    """The limit that refused a call and was not raised since."""
    failures: int = 0
    """How many turns in a row ended in error."""
    unclean: int = 0
    """How many unclean opens there were since the last outcome."""
    epoch: int = 0
    """The last open that there was work under way for."""
    rested: bool = False
    """Whether the process that ran it last ended in order, and nothing happened since."""
    requests: tuple[str, ...] = ()
    restarted: ChildRestarted | None = None
    """What a supervisor reported last."""
    restarts: int = 0
    """How often actors were restarted since a turn last completed."""
    approvals: tuple[Pending, ...] = ()
    in_doubt: tuple[str, ...] = ()
    """The calls whose outcome nobody knows, the newest at the end."""
    stats: Stats = Stats()


# -- what can be told --------------------------------------------------------------------------


def member(state: State, agent_id: str) -> Member | None:
    """Return the agent if it lives."""
    for each in state.members:
        if each.agent_id == agent_id:
            return each
    return None


def turn_of(state: State, agent_id: str) -> Running | None:
    """Return the turn that an agent is running."""
    for each in state.running:
        if each.agent_id == agent_id:
            return each
    return None


def next_for(state: State, agent_id: str) -> Waiting | None:
    """Return the message that an agent takes up next: one that steers, or else the oldest."""
    mine = [each for each in state.waiting if each.to == agent_id]
    return next((each for each in mine if each.steer), mine[0] if mine else None)


def is_orphan(state: State, agent_id: str) -> bool:
    """Say whether an agent has to go because the one that spawned it is gone."""
    found = member(state, agent_id)
    if found is None or found.parent_id is None:
        return False
    return member(state, found.parent_id) is None or is_orphan(state, found.parent_id)


def can_begin(state: State, agent_id: str) -> bool:
    """Say whether an agent is free to take a message up."""
    found = member(state, agent_id)
    return (
        found is not None
        and found.ready
        and not found.spent
        and turn_of(state, agent_id) is None
        and not is_orphan(state, agent_id)
    )


def has_root(state: State) -> bool:
    """Say whether the root agent lives."""
    return member(state, state.root) is not None


HALTED: Final = frozenset({Phase.PAUSED, Phase.SUSPENDED})
"""Phases in which no turn begins, and those that run come to their end."""


def refusable(state: State) -> list[Waiting]:
    """Return the messages that nobody will ever take up, or not before it is too late.

    A turn that asks another agent is to end although the session is halted; its question would
    wait for the turn of its own that does not begin before the session goes on.
    """
    if not state.waiting or state.phase is Phase.CLOSING:
        return list(state.waiting)
    halted = state.phase in HALTED
    return [
        each
        for each in state.waiting
        if member(state, each.to) is None
        or (halted and each.message_id.startswith(ASKED_BY_AN_AGENT))
    ]

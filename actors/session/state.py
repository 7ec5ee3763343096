"""The state of a session, and what can be told from it.

It holds what is under way: messages that wait, turns that run, agents that live, approvals that
nobody has answered. It does not grow with the length of the conversation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from actors.agent import runes as agents
from actors.children import Child
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
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""


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
    in_doubt: bool = False
    """Whether it is about a call of which nobody knows what became of it."""


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
    """The calls that ended without anybody knowing their outcome, the newest at the end."""
    children: tuple[Child, ...] = ()
    """Entities of other kinds that were born here and live."""
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


def orphans(state: State) -> set[str]:
    """Name the agents of which `is_orphan` is true, at one go: whoever spawned one comes before."""
    kept: set[str] = set()
    found: set[str] = set()
    for each in state.members:
        left_behind = each.parent_id is not None and each.parent_id not in kept
        (found if left_behind else kept).add(each.agent_id)
    return found


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


def is_stuck(state: State) -> bool:
    """Say whether it was opened, or its actors started, again and again, and nothing came of it."""
    return state.unclean >= state.config.unclean_opens or keeps_crashing(state)


def keeps_crashing(state: State) -> bool:
    """Say whether its actors were started again and again."""
    return state.restarts >= state.config.restarts


HALTED: Final = frozenset({Phase.PAUSED, Phase.SUSPENDED})
"""Phases in which no turn begins, and those that run come to their end."""


def why_in_vain(state: State, asked_in: str) -> str:
    """Say why a question need not be asked in a turn now; nothing if it need.

    That turn may have ended. Or it is to end although the session is halted, while the question
    would wait until that goes on. In a session that is stuck nothing goes on before, nor ends.
    """
    if not asked_in:
        return ""
    if state.phase in HALTED and not is_stuck(state):
        return f"the session is {state.phase.value}, and nobody answers before it goes on"
    if all(each.turn_id != asked_in for each in state.running):
        return "the turn that asks has ended"
    return ""


def in_doubt(state: State) -> tuple[str, ...]:
    """Name the calls whose outcome nobody knows: those that ended so, and those asked about."""
    return *state.in_doubt, *(each.call_id for each in state.approvals if each.in_doubt)


def refusable(state: State) -> dict[str, str]:
    """Return the messages that nobody will ever take up, or in vain, each with the reason."""
    found: dict[str, str] = {}
    for each in state.waiting:
        if state.phase is Phase.CLOSING:
            reason = "the session closes"
        elif member(state, each.to) is None:
            reason = f"agent {each.to} is gone"
        else:
            reason = why_in_vain(state, each.asked_in)
        if reason:
            found[each.message_id] = reason
    return found

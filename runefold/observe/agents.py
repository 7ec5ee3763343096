"""The agents of a session, as an app sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from actors.session.queue import turn_of
from runefold.observe.spending import Spending, spending

if TYPE_CHECKING:
    from actors.session.lifecycle import State
    from actors.session.members import Member
    from runelog.log import Log


class Agent(msgspec.Struct, frozen=True):
    """An agent that lives.

    >>> Agent("billing", id="agt_1", role="billing clerk", model="demo", phase="idle").is_default
    False
    """

    name: str
    """What it is called in its session: `send(to="billing")`."""
    id: str
    role: str
    model: str
    phase: Literal["spawning", "idle", "running_turn"]
    turn: str = ""
    """The turn that it runs."""
    parent: str = ""
    """The id of the agent that it ends with; empty for the root."""
    is_default: bool = False
    """Whether messages that name no agent go to it."""
    spending: Spending | None = None
    """What it has spent, its children included, what is set aside, and what is left."""


def agents_of(log: Log, conversation: str, state: State) -> list[Agent]:
    """Return the agents of a session that live, in the order they came."""
    # What a session knows may be on its way to the disk yet.
    log.flush(conversation)
    spent = spending(log, conversation).agents
    return [_agent(each, state, spent.get(each.name)) for each in state.members]


def _agent(member: Member, state: State, spent: Spending | None) -> Agent:
    turn = turn_of(state.running, member.agent_id)
    return Agent(
        name=member.name,
        id=member.agent_id,
        role=member.role,
        model=member.model,
        phase="running_turn" if turn else "idle" if member.ready else "spawning",
        turn=turn.turn_id if turn else "",
        parent=member.parent_id or "",
        is_default=member.agent_id == state.default_agent,
        spending=spent,
    )

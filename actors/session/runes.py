"""What happens to a session, and how one is configured."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

import msgspec

from actors.agent import runes as agents
from actors.budget.runes import Limits, What
from actors.entity import Clocked, Moved
from runelog.rune import Rune

NAME: Final = "session"
"""The name of the kind, and the id of the one session of a conversation."""
PARENT_CLOSED: Final = "parent_closed"
"""The reason for which an agent, or its turn, ends because its parent agent has ended."""
Mode: TypeAlias = Literal["queue", "steer"]
"""Whether a message waits for the running turn to end, or takes it over."""


ToolTraffic: TypeAlias = Literal["summary", "omit"]
"""What an agent that takes over is told of the calls before: each in a line, or nothing."""


class SessionConfig(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a session works."""

    budget: Limits = Limits()
    """What all its agents may spend together."""
    failed_turns: int = 5
    """So many turns in a row that end in error suspend it."""
    unclean_opens: int = 3
    """So many unclean opens without a new outcome suspend it."""
    restarts: int = 5
    """So many restarts of its actors since a turn last completed suspend it."""
    timeouts: dict[str, float] = {}
    """Seconds by `kind.phase`, where they differ from the time-outs of the laws."""
    labels: dict[str, str] = {}
    """Whatever the app wants to find it by."""
    client_id: str = ""
    """The client of the app's that it is for, if it named one."""


class Stats(agents.Stats, frozen=True, gc=False, omit_defaults=True):
    """What a session's life adds up to."""

    messages: int = 0
    """Accepted."""
    refused: int = 0
    """Accepted, and refused later because their agent was gone."""
    agents: int = 0


class BudgetInfo(msgspec.Struct, frozen=True, gc=False):
    """Which limit stands in the way."""

    scope: str
    what: What
    used: int
    limit: int


class Created(Rune, frozen=True, gc=False, tag="session.created"):
    """A conversation begins: the session's birth."""

    conversation_id: str
    config: SessionConfig = SessionConfig()


class Activated(Moved, frozen=True, gc=False, tag="session.activated"):
    """Turns may begin."""

    root_agent_id: str


class InputAccepted(Rune, frozen=True, gc=False, tag="session.input_accepted"):
    """A message is kept: it becomes a turn or is refused, and is never lost."""

    message_id: str
    content: str
    mode: Mode = "queue"
    to: str = ""
    """The agent it is for."""
    asked_in: str = ""
    """The turn in which another agent asks it; empty for what comes from outside."""


class InputRefused(Rune, frozen=True, gc=False, tag="session.input_refused"):
    """An accepted message never becomes a turn.

    Its agent is gone, or the session closes; or it is a question whose asker does not wait for it
    any more.
    """

    message_id: str
    reason: str


class Paused(Clocked, frozen=True, gc=False, tag="session.paused"):
    """No turn begins until the session is resumed."""

    clocks: ClassVar[Literal["stand"]] = "stand"
    reason: str = ""
    finish: bool = True
    """Running turns may finish; if not, they are interrupted."""


class Resumed(Clocked, frozen=True, gc=False, tag="session.resumed"):
    """Turns may begin again."""


class Suspended(Moved, frozen=True, gc=False, tag="session.suspended"):
    """No turn begins until a human has seen to the reason."""

    reason: str
    budget_info: BudgetInfo | None = None


class Unsuspended(Moved, frozen=True, gc=False, tag="session.unsuspended"):
    """The reason was seen to: failures are counted from nought again."""

    reason: str = ""


class Closing(Clocked, frozen=True, gc=False, tag="session.closing"):
    """Nothing more is accepted; turns are interrupted and agents terminate."""

    reason: str = ""


class Closed(Moved, frozen=True, gc=False, tag="session.closed"):
    """All agents are gone, every turn has ended and every message has its answer."""

    final_stats: Stats = Stats()


class Archived(Moved, frozen=True, gc=False, tag="session.archived"):
    """The conversation may move to cold storage."""


class Rested(Rune, frozen=True, gc=False, tag="session.rested"):
    """The process that ran it ended in order, with work left: to open it again is no mishap."""


class Reopened(Rune, frozen=True, gc=False, tag="session.reopened"):
    """The log was opened, and there was work under way in it."""

    unclean: int
    """How many opens there were without a new outcome since, and without an end in order before."""
    epoch: int = 0
    """The writer's epoch: one open counts once."""


class ChildRestarted(Rune, frozen=True, gc=False, tag="session.child_restarted"):
    """A supervisor started an actor again that had crashed."""

    child: str
    reason: str
    restarts: int = 1
    """How often this child was restarted since the session's actors were started."""
    at: int = 0
    """When a supervisor saw to it, in nanoseconds: each counts once, in whichever process."""


class HandedOver(Rune, frozen=True, gc=False, tag="session.handed_over"):
    """Messages that name no agent go to another one from now on."""

    sender: str
    to: str
    turn_id: str = ""
    """The turn that hands over its message, which the other agent answers; empty if none does."""
    call_id: str = ""
    """The call by which it does."""
    last: int | None = None
    """How many messages the other agent is shown of what was said before; None: all of them."""
    tools: ToolTraffic = "summary"
    """Whether it is told which tools were called."""
    briefing: tuple[str, ...] | None = None
    """What it is shown instead, where the app has said that in words of its own."""

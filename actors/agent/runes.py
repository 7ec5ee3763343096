"""What happens to an agent, and how one is configured."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from actors.budget.runes import Amounts, Limits
from actors.entity import Moved
from actors.turn.runes import MAX_ROUNDS, RETRIES, OnCrash
from actors.units import SECOND
from runelog.rune import Rune

NAME: Final = "agent"
"""The name of the kind."""
ASK: Final = "ask_agent"
"""The tool by which an agent asks another one of its session."""
HAND_OVER: Final = "hand_over"
"""The tool by which it hands the conversation over."""


class AgentConfig(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How an agent works. Spans of time are in nanoseconds."""

    instructions: str = ""
    """What the model is told of its role, before everything else."""
    tools: tuple[str, ...] = ()
    """The names of the tools it may call."""
    budget: Limits = Limits()
    """What it may spend, its children included."""
    on_exhausted: Literal["suspend", "terminate"] = "suspend"
    """What follows when its own budget is spent: the session waits for a hand, or it ends."""
    retries: int = RETRIES
    """How often a model call of a turn is made again after a crash or a fault."""
    on_crash: OnCrash = "retry"
    """What becomes of a turn that was streaming when the process died."""
    turn_timeout: int = 30 * 60 * SECOND
    first_byte_timeout: int = 60 * SECOND
    silence_timeout: int = 60 * SECOND
    max_output_tokens: int = 4096
    """The output cap of one model call: what is reserved for its answer."""
    max_rounds: int = MAX_ROUNDS
    """So often its model may answer in one turn, all but the last time by asking for tools."""
    asks: tuple[str, ...] = ()
    """The names of the agents of its session that it may ask."""
    hands_over_to: tuple[str, ...] = ()
    """The names of those that it may hand the conversation over to."""


class Stats(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What an agent's turns add up to."""

    turns: int = 0
    completed: int = 0
    interrupted: int = 0
    failed: int = 0
    usage: Amounts = Amounts()
    """What its turns were charged with, however they ended; one that runs is in the budget only."""


class Spawning(Rune, frozen=True, gc=False, tag="agent.spawning"):
    """An agent is being made ready: its birth."""

    agent_id: str
    role: str
    model: str
    parent_id: str | None = None
    config: AgentConfig = AgentConfig()
    name: str = ""
    """What it is called in its session; of an old one its role."""


class Updated(Rune, frozen=True, gc=False, tag="agent.updated"):
    """It has another prompt, other tools, another model or budget: from its next turn on."""

    agent_id: str
    role: str
    model: str
    config: AgentConfig = AgentConfig()


class Ready(Moved, frozen=True, gc=False, tag="agent.ready"):
    """It can take work."""

    agent_id: str


class Failed(Moved, frozen=True, gc=False, tag="agent.failed"):
    """It never became ready."""

    agent_id: str
    error: str


class Terminated(Moved, frozen=True, gc=False, tag="agent.terminated"):
    """It takes no more work, ever. A turn it was still running is stopped by the session."""

    agent_id: str
    reason: str
    stats: Stats = Stats()


class Equipped(Rune, frozen=True, gc=False, tag="agent.equipped"):
    """Prompt material that is not in history: stored once, named by its hash in each model call."""

    agent_id: str
    hash: str
    system: str
    tools: tuple[dict[str, Any], ...] = ()
    """The descriptions of the tools as the model is shown them."""

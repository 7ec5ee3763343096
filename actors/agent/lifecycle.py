"""The law of an agent: one turn at a time, from the day it is ready until it is terminated.

    spawning ── ready ──> idle ── turn.started ──> running_turn
       │                   │ ^                        │  │
       │ failed            │ └── turn.completed ──────┘  │ terminated (by force)
       v                   │     turn.interrupted        │
     failed                │     turn.error              │
                           └── terminated ──> terminated <┘

An agent that is terminated by force leaves its turn behind; the session, which hears of both, has
the turn interrupted. So a turn that began still ends.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from actors.agent.public_commands import Terminate
from actors.agent.runes import (
    NAME,
    AgentConfig,
    Equipped,
    Failed,
    Ready,
    Spawning,
    Stats,
    Terminated,
    Updated,
)
from actors.budget import runes as budgets
from actors.budget.runes import BUDGET_EXHAUSTED
from actors.children import EnsureChild
from actors.common_commands import Abandon, Cancel
from actors.entity import ROOT, Actor, Routing
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Table, refusal

if TYPE_CHECKING:
    from runelog.rune import Rune

MATERIALS: Final = 32
"""So many hashes of prompt material are remembered; an older one may be stored a second time."""


T = TypeVar("T", bound=Stats)
"""An agent's sums, or a session's."""


class Phase(StrEnum):
    """What an agent can be."""

    SPAWNING = "spawning"
    IDLE = "idle"
    RUNNING_TURN = "running_turn"
    FAILED = "failed"
    TERMINATED = "terminated"


TABLE: Table[Phase] = {
    Phase.SPAWNING: {Ready: Phase.IDLE, Failed: Phase.FAILED},
    Phase.IDLE: {turns.Started: Phase.RUNNING_TURN, Terminated: Phase.TERMINATED},
    Phase.RUNNING_TURN: {
        turns.Completed: Phase.IDLE,
        turns.Interrupted: Phase.IDLE,
        turns.Error: Phase.IDLE,
        Terminated: Phase.TERMINATED,
    },
    Phase.FAILED: {},
    Phase.TERMINATED: {},
}


class State(msgspec.Struct, frozen=True):
    """What an agent's runes add up to."""

    phase: Phase = Phase.SPAWNING
    agent_id: str = ""
    role: str = ""
    model: str = ""
    parent_id: str | None = None
    config: AgentConfig = AgentConfig()
    name: str = ""
    """What it is called in its session."""
    turn_id: str | None = None
    """The turn that is running."""
    update: Updated | None = None
    """What it becomes once that turn has ended."""
    spent: bool = False
    """Its own budget refused a call and was not replenished since."""
    materials: tuple[str, ...] = ()
    """The hashes of the prompt material that was stored last, the newest at the end."""
    stats: Stats = Stats()


# -- commands ----------------------------------------------------------------------------------


class BecomeReady(msgspec.Struct, frozen=True):
    """Everything it needs is there."""


class Fail(msgspec.Struct, frozen=True):
    """It cannot be made ready."""

    error: str


class Equip(msgspec.Struct, frozen=True):
    """Keep the prompt material that the next model call names by its hash."""

    hash: str
    system: str
    tools: tuple[dict[str, Any], ...] = ()


Command: TypeAlias = BecomeReady | Fail | Terminate | Cancel | Abandon | Equip


# -- effects -----------------------------------------------------------------------------------


class Prepare(msgspec.Struct, frozen=True):
    """What it needs has to be found: its model, its tools. Answered by `BecomeReady` or `Fail`."""


Effect: TypeAlias = Prepare | EnsureChild | Cancel
INTERNAL: Final = frozenset[type]({Cancel})
"""Decided in the append that made it due."""


# -- the law -----------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match state.phase, command:
        case Phase.SPAWNING, BecomeReady():
            return [Ready(agent_id=state.agent_id, trigger="init_complete")]
        case ((Phase.IDLE | Phase.RUNNING_TURN), BecomeReady()):
            return []
        case Phase.SPAWNING, Fail(error):
            return [_failed(state, error, "init_error")]
        case Phase.FAILED, Fail():
            return []
        case _, Terminate(reason, force):
            return _terminate(state, reason, "user", force=force)
        case _, Cancel(reason, actor):
            return _terminate(state, reason, actor)
        case _, Abandon(error):
            return _abandon(state, error)
        case ((Phase.IDLE | Phase.RUNNING_TURN), Equip(material, system, tools)):
            if has_material(state, material):
                return []
            return [Equipped(agent_id=state.agent_id, hash=material, system=system, tools=tools)]
        case _:
            raise refusal(NAME, state.phase, command)


def has_material(state: State, material: str) -> bool:
    """Return True if prompt material of this hash is stored, however often it changed since."""
    return material in state.materials


def _terminate(state: State, reason: str, actor: Actor, *, force: bool = False) -> list[Rune]:
    match state.phase:
        case Phase.SPAWNING:
            # It was never ready, so that there is nothing to terminate: it failed to become so.
            error = f"terminated before it was ready: {reason}"
            return [_failed(state, error, reason or "kill", actor)]
        case Phase.RUNNING_TURN if not force:
            msg = (
                f"agent {state.agent_id} is running {state.turn_id}: "
                "interrupt it first, or terminate by force"
            )
            raise Refused(msg)
        case Phase.IDLE | Phase.RUNNING_TURN:
            by_force = state.phase is Phase.RUNNING_TURN
            return [
                _terminated(state, reason, "kill(force)" if by_force else reason or "kill", actor)
            ]
        case Phase.FAILED | Phase.TERMINATED:
            return []
        case _:
            assert_never(state.phase)


def _abandon(state: State, error: str) -> list[Rune]:
    """Write the end of an agent whose actors kept crashing."""
    if state.phase in {Phase.FAILED, Phase.TERMINATED}:
        return []
    if state.phase is Phase.SPAWNING:
        return [_failed(state, error, "crash")]
    return [_terminated(state, f"crashed: {error}", "crash")]


def _failed(state: State, error: str, trigger: str, actor: Actor = "system") -> Failed:
    return Failed(agent_id=state.agent_id, error=error, trigger=trigger, actor=actor)


def _terminated(state: State, reason: str, trigger: str, actor: Actor = "system") -> Terminated:
    return Terminated(
        agent_id=state.agent_id, reason=reason, stats=state.stats, trigger=trigger, actor=actor
    )


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Spawning(agent_id, role, model, parent_id, config, name) if not state.agent_id:
            return replace(
                state,
                agent_id=agent_id,
                role=role,
                model=model,
                parent_id=parent_id,
                config=config,
                name=name or role,
            )
        case Updated():
            return replace(state, update=rune) if state.turn_id else _updated(state, rune)
        case turns.Started(turn_id=turn_id):
            stats = replace(state.stats, turns=state.stats.turns + 1)
            return replace(state, turn_id=turn_id, stats=stats)
        case turns.Completed() | turns.Interrupted() | turns.Error():
            state = replace(state, turn_id=None, stats=counted(state.stats, rune))
            return state if state.update is None else _updated(state, state.update)
        case Equipped(hash=material):
            return replace(state, materials=(*state.materials, material)[-MATERIALS:])
        case budgets.Exhausted(scope=scope) if scope == state.agent_id:
            return replace(state, spent=True)
        case budgets.Replenished(scope=scope) | budgets.Limited(scope=scope) if (
            scope == state.agent_id
        ):
            return replace(state, spent=False)
        case _:
            return state


def _updated(state: State, rune: Updated) -> State:
    return replace(state, role=rune.role, model=rune.model, config=rune.config, update=None)


def counted(stats: T, end: turns.Completed | turns.Interrupted | turns.Error) -> T:
    """Return the sums with one more turn that ended."""
    stats = replace(stats, usage=stats.usage + end.usage)
    match end:
        case turns.Completed():
            return replace(stats, completed=stats.completed + 1)
        case turns.Interrupted():
            return replace(stats, interrupted=stats.interrupted + 1)
        case turns.Error():
            return replace(stats, failed=stats.failed + 1)
        case _:
            assert_never(end)


def due(state: State) -> list[Effect]:
    """Return what has to be done while the state is this one."""
    match state.phase:
        case Phase.SPAWNING:
            return [Prepare()]
        case Phase.IDLE:
            over = state.spent and state.config.on_exhausted == "terminate"
            return [Cancel(BUDGET_EXHAUSTED, "system")] if over else []
        case Phase.RUNNING_TURN:
            assert state.turn_id is not None
            return [EnsureChild(state.turn_id, turns.NAME)]
        case Phase.FAILED | Phase.TERMINATED:
            return []
        case _:
            assert_never(state.phase)


def route(state: State, rune: Rune) -> Routing:
    """Return where a rune of this agent belongs: the session observes its life.

    The parent agent does not observe it: its fold could not tell the child's end from its own.
    """
    return Routing(state.agent_id, () if isinstance(rune, Equipped) else (ROOT,))


def is_open(state: State) -> bool:
    """Return True if it has to become ready. A turn that it runs is open by itself."""
    return state.phase is Phase.SPAWNING


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent that its runes belong to; those of its turns have a context of their own."""
    return state.agent_id, None


LIFECYCLE: Final = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    observed=frozenset({turns.Started, turns.Completed, turns.Interrupted, turns.Error}),
    version=3,
)

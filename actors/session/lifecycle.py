"""The law of a session: what is accepted, who takes it up, and when nothing may begin.

    created ── activated ──> active ── paused ─────> paused ── resumed ─────────> active
       │                       │ └──── suspended ──> suspended ── unsuspended ──> active
       │ closing               │ closing (from paused and suspended too)
       └───────> closing <─────┘
                    └── closed ──> closed ── archived ──> archived

Accepting is separate from running. A message that was accepted waits until its agent is free and
then becomes a turn; one that steers goes first and has the running turn stopped; one whose agent is
gone is refused with a rune. So each has exactly one answer.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Final, assert_never

from actors import children
from actors.agent import runes as agents
from actors.budget import lifecycle as budget
from actors.budget import runes as budgets
from actors.entity import Entity, Routing
from actors.session import commands as ask
from actors.session.decide import LIVE, NAME, decide
from actors.session.fold import evolve
from actors.session.runes import (
    Activated,
    Archived,
    Closed,
    Closing,
    Created,
    InputAccepted,
    InputRefused,
    Paused,
    Resumed,
    Suspended,
    Unsuspended,
)
from actors.session.state import (
    Phase,
    State,
    can_begin,
    has_root,
    is_stuck,
    keeps_crashing,
    member,
    next_for,
    orphans,
    refusable,
    turn_of,
)
from actors.turn import runes as turns
from runelog.lifecycle import Lifecycle, Table

if TYPE_CHECKING:
    from actors.session.commands import Effect, Internal
    from runelog.rune import Rune

TABLE: Table[Phase] = {
    Phase.CREATED: {Activated: Phase.ACTIVE, Closing: Phase.CLOSING},
    Phase.ACTIVE: {
        turns.Started: Phase.ACTIVE,
        turns.Completed: Phase.ACTIVE,
        turns.Interrupted: Phase.ACTIVE,
        turns.Error: Phase.ACTIVE,
        Paused: Phase.PAUSED,
        Suspended: Phase.SUSPENDED,
        Closing: Phase.CLOSING,
    },
    Phase.PAUSED: {Resumed: Phase.ACTIVE, Closing: Phase.CLOSING},
    Phase.SUSPENDED: {Unsuspended: Phase.ACTIVE, Closing: Phase.CLOSING},
    Phase.CLOSING: {Closed: Phase.CLOSED},
    Phase.CLOSED: {Archived: Phase.ARCHIVED},
    Phase.ARCHIVED: {},
}

# To look a member up in its enum takes longer than to compare with it.
ACTIVE: Final = Phase.ACTIVE
_OVER: Final = frozenset({Phase.CLOSED, Phase.ARCHIVED})
_TAKES_UP: Final = frozenset({Phase.CREATED, Phase.ACTIVE})
BUDGET: Final = "budget_exhausted"
ERRORS: Final = "error_threshold"
"""Reasons for which a session is suspended; the others name the root agent's end."""


# -- due ---------------------------------------------------------------------------------------


def due(state: State) -> list[Effect]:
    """Say what has to be done while the state is this one."""
    if not state.conversation_id:
        return []
    at_once = _at_once(state)
    if at_once:
        return [*at_once]
    found = _by_itself(state)
    if state.phase is ACTIVE or (state.phase in LIVE and not is_stuck(state)):
        found += _ensured(state)
        found += children.ensured(state.children)
    return found


def _by_itself(state: State) -> list[Effect]:
    """Return what it has to do beside having its agents there."""
    if state.phase is ACTIVE:
        found = _leaving(state)
        if state.waiting:
            found += _steered(state)
            found += _begun(state)
        return found
    match state.phase:
        case Phase.CREATED | Phase.PAUSED | Phase.SUSPENDED:
            if is_stuck(state):
                # What went wrong again and again is left alone until somebody has looked.
                return []
            stopped = _stopped(state, "pause") if _is_stopped(state) else []
            return [*_leaving(state), *stopped]
        case Phase.CLOSING:
            ending = [
                ask.TerminateAgent(each.agent_id, "session closed")
                for each in state.members
                if turn_of(state, each.agent_id) is None
            ]
            left = children.stopped(state.children, "session closed")
            return [*_stopped(state, "closing"), *ending, *left]
        case Phase.CLOSED | Phase.ARCHIVED:
            return []
        case _:
            assert_never(state.phase)


def is_at_work(state: State) -> bool:
    """Say whether it has something to do by itself; what waits behind a turn waits with that."""
    return bool(state.conversation_id) and bool(_at_once(state) or _by_itself(state))


def _is_stopped(state: State) -> bool:
    return state.phase is Phase.PAUSED and not state.finish


def _at_once(state: State) -> list[Internal]:
    """Return what is decided in the append that made it due."""
    if state.phase in _OVER:
        return []
    found: list[Internal] = []
    if state.waiting and refusable(state):
        found.append(ask.RefuseInputs())
    if state.gone:
        found += [ask.CloseBudget(each) for each in state.gone if turn_of(state, each) is None]
    if state.phase is ACTIVE:
        return [*found, *_suspension(state)]
    match state.phase:
        case Phase.CREATED:
            found += _activation(state)
        case Phase.SUSPENDED if state.broke:
            if state.exhausted is None and has_root(state):
                found.append(ask.Unsuspend(reason="budget_replenished", actor="system"))
        case Phase.CLOSING if not (state.members or state.running or state.children or found):
            found.append(ask.Finish())
        case _:
            pass
    return found


def _activation(state: State) -> list[ask.Activate]:
    root = member(state, state.root)
    if root is None:
        # There is no way from created to suspended but through active.
        return [ask.Activate(trigger=f"root_agent_{state.root_end}")]
    if root.ready:
        return [ask.Activate(trigger="agent_ready")]
    if is_stuck(state):
        return [ask.Activate(trigger=ERRORS)]
    return []


def _suspension(state: State) -> list[ask.Suspend]:
    if not has_root(state):
        return [ask.Suspend(reason=f"root_agent_{state.root_end}")]
    if state.exhausted is not None:
        return [ask.Suspend(reason=BUDGET, budget_info=state.exhausted)]
    if keeps_crashing(state) and state.restarted is not None:
        why = f"{state.restarts} restarts, the last of {state.restarted.child}"
        return [ask.Suspend(reason=f"{ERRORS}: {why}")]
    if state.failures >= state.config.failed_turns or is_stuck(state):
        return [ask.Suspend(reason=ERRORS)]
    return []


def _leaving(state: State) -> list[Effect]:
    """Return what follows from agents that are gone: their turns stop, their children go too."""
    left_behind = orphans(state)
    living = {each.agent_id for each in state.members}
    found: list[Effect] = []
    for turn in state.running:
        if turn.agent_id not in living:
            found.append(ask.InterruptTurn(turn.turn_id, "agent_terminated", "system"))
        elif turn.agent_id in left_behind:
            found.append(ask.InterruptTurn(turn.turn_id, "parent_closed", "system"))
    found += [
        ask.TerminateAgent(each.agent_id, "parent closed")
        for each in state.members
        if each.agent_id in left_behind and turn_of(state, each.agent_id) is None
    ]
    return found


def _stopped(state: State, reason: str) -> list[Effect]:
    return [ask.InterruptTurn(turn.turn_id, reason) for turn in state.running]


def _steered(state: State) -> list[Effect]:
    return [
        ask.SteerTurn(turn.turn_id)
        for turn in state.running
        if (message := next_for(state, turn.agent_id)) is not None and message.steer
    ]


def _begun(state: State) -> list[Effect]:
    return [
        ask.BeginTurn(each.agent_id, message.message_id)
        for each in state.members
        if can_begin(state, each.agent_id)
        and (message := next_for(state, each.agent_id)) is not None
    ]


def _ensured(state: State) -> list[Effect]:
    """Return the agents that have something to do, or have to become ready."""
    needed = {each.agent_id for each in state.running}
    if state.phase is ACTIVE:
        needed.update([each.to for each in state.waiting])
    return [
        ask.EnsureAgent(each.agent_id)
        for each in state.members
        if each.agent_id in needed or each.spent or not each.ready
    ]


# -- where runes belong ------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def message_entity(message_id: str) -> str:
    """Return the stream in which the log's index finds a message, whatever its age.

    >>> message_entity("first")
    'msg_a2a8c2514ffc1da3'
    """
    return "msg_" + hashlib.blake2b(message_id.encode(), digest_size=8).hexdigest()


def route(_state: State, rune: Rune) -> Routing:
    """Say where a rune that this session decided belongs."""
    match rune:
        case InputAccepted(message_id) | InputRefused(message_id):
            return Routing(NAME, (message_entity(message_id),))
        case turns.Started(turn_id, agent_id, _, message_id):
            return Routing(turn_id, (agent_id, NAME, message_entity(message_id)))
        case agents.Spawning(agent_id) | agents.Failed(agent_id) | agents.Terminated(agent_id):
            return Routing(agent_id, (NAME,))
        case budgets.Opened() | budgets.Replenished() | budgets.Closed():
            return budget.route(budget.State(), rune)
        case _:
            return Routing(NAME)


def is_open(state: State) -> bool:
    """Say whether something is left to do; a session that waits for a human is not open.

    That the actors of its agents have to be there does not count: agents and turns that have work
    left are open by themselves, and say so in the append that makes it so.
    """
    waits = bool(state.waiting) and state.phase in _TAKES_UP
    return waits or is_at_work(state)


INTERNAL: Final = frozenset[type](
    {ask.Activate, ask.Suspend, ask.Unsuspend, ask.RefuseInputs, ask.CloseBudget, ask.Finish}
)
EXTERNAL: Final = frozenset[type]()
LIFECYCLE: Final = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    observed=frozenset({turns.Started, turns.Completed, turns.Interrupted, turns.Error}),
    version=6,
)
ENTITY: Final = Entity(
    lifecycle=LIFECYCLE,
    route=route,
    births=(Created,),
    is_open=is_open,
    internal=INTERNAL,
    external=EXTERNAL,
)

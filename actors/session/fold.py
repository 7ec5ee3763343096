"""What a session's runes add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from msgspec.structs import replace

from actors import children
from actors.agent import lifecycle as agent
from actors.agent import runes as agents
from actors.approval import runes as approvals
from actors.budget import runes as budgets
from actors.session.runes import (
    BudgetInfo,
    ChildRestarted,
    Created,
    HandedOver,
    InputAccepted,
    InputRefused,
    Paused,
    Reopened,
    Rested,
    Suspended,
    Unsuspended,
)
from actors.session.state import Member, Pending, Running, State, Waiting, member
from actors.tool import runes as tools
from actors.turn import runes as turns

if TYPE_CHECKING:
    from runelog.rune import Rune

DOUBTS: Final = 100
"""So many calls whose outcome nobody knows are listed, the newest."""
REQUESTS: Final = 32
"""So many requests that were carried out are remembered, the newest."""

TurnEnd: TypeAlias = turns.Completed | turns.Interrupted | turns.Error


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    rests = type(rune) is Rested
    if state.rested is not rests:
        state = replace(state, rested=rests)
    match rune:
        case turns.Started():
            return _begun(state, rune)
        case turns.Completed() | turns.Interrupted() | turns.Error():
            return _ended(state, rune)
        case InputAccepted() | InputRefused():
            return _queued(state, rune)
        case agents.Spawning() | agents.Ready() | agents.Failed() | agents.Terminated():
            return _populated(state, rune)
        case budgets.Exhausted() | budgets.Replenished() | budgets.Closed():
            return _funded(state, rune)
        case children.Started() | children.Ended():
            return replace(state, children=children.evolve(state.children, rune))
        case turns.ToolsFinished() | tools.Result():
            return _worked(state, rune)
        case approvals.Requested() | approvals.Approved() | approvals.Rejected():
            return _asked(state, rune)
        case _:
            return _evolve_rarely(state, rune)


def _evolve_rarely(state: State, rune: Rune) -> State:
    match rune:
        case approvals.Aborted():
            return _asked(state, rune)
        case Created(conversation_id, config):
            return replace(state, conversation_id=conversation_id, config=config)
        case Paused(finish=finish):
            return replace(state, finish=finish)
        case Suspended(reason, budget_info):
            return replace(state, suspension=reason, broke=budget_info is not None)
        case Unsuspended():
            state = replace(state, suspension="", broke=False, exhausted=None)
            return replace(state, failures=0, unclean=0, restarts=0)
        case HandedOver(to=to):
            return replace(state, front=to)
        case Reopened(unclean, epoch):
            return replace(state, unclean=unclean, epoch=epoch)
        case _:
            if isinstance(rune, ChildRestarted):
                state = replace(state, restarted=rune, restarts=state.restarts + 1)
            return state


def _begun(state: State, rune: turns.Started) -> State:
    turn = Running(turn_id=rune.turn_id, agent_id=rune.agent_id, message_id=rune.message_id)
    found = member(state, rune.agent_id)
    if found is not None:
        stats = replace(found.stats, turns=found.stats.turns + 1)
        found = replace(found, stats=stats)
    return replace(
        state,
        members=_members(state, found),
        waiting=tuple([each for each in state.waiting if each.message_id != rune.message_id]),
        running=(*state.running, turn),
        turns=state.turns + 1,
        stats=replace(state.stats, turns=state.stats.turns + 1),
    )


def _ended(state: State, rune: TurnEnd) -> State:
    ended = _which(state, rune)
    if ended is None:
        return state
    failures, restarts = state.failures, state.restarts
    if isinstance(rune, turns.Error):
        failures += 1
    elif isinstance(rune, turns.Completed):
        failures = restarts = 0
    found = member(state, ended.agent_id)
    if found is not None:
        found = replace(found, stats=agent.counted(found.stats, rune))
    return replace(
        state,
        members=_members(state, found),
        running=tuple([each for each in state.running if each is not ended]),
        unclean=0,
        failures=failures,
        restarts=restarts,
        stats=agent.counted(state.stats, rune),
    )


def _which(state: State, rune: TurnEnd) -> Running | None:
    for each in state.running:
        if each.turn_id == rune.turn_id:
            return each
    return None


def _queued(state: State, rune: InputAccepted | InputRefused) -> State:
    stats = state.stats
    match rune:
        case InputAccepted(message_id, content, mode, to, asked_in):
            new = Waiting(message_id, content, to, mode == "steer", asked_in)
            stats = replace(stats, messages=stats.messages + 1)
            return replace(state, waiting=(*state.waiting, new), stats=stats)
        case InputRefused(message_id):
            left = tuple(each for each in state.waiting if each.message_id != message_id)
            stats = replace(stats, refused=stats.refused + 1)
            return replace(state, waiting=left, stats=stats)
        case _:
            assert_never(rune)


def _populated(
    state: State, rune: agents.Spawning | agents.Ready | agents.Failed | agents.Terminated
) -> State:
    match rune:
        case agents.Spawning():
            return _spawned(state, rune)
        case agents.Ready(agent_id):
            found = member(state, agent_id)
            return _with_member(state, found and replace(found, ready=True))
        case agents.Failed(agent_id):
            return _left(state, agent_id, "failed")
        case agents.Terminated(agent_id):
            return _left(state, agent_id, "terminated")
        case _:
            assert_never(rune)


def _funded(state: State, rune: budgets.Exhausted | budgets.Replenished | budgets.Closed) -> State:
    match rune:
        case budgets.Exhausted(scope, what, used, limit):
            found = member(state, scope)
            if found is not None and found.config.on_exhausted == "terminate":
                return _with_member(state, replace(found, spent=True))
            info = BudgetInfo(scope=scope, what=what, used=used, limit=limit)
            return replace(state, exhausted=info)
        case budgets.Replenished(scope, amounts, request_id=request_id):
            spent = state.exhausted
            # More of something else would only begin a turn that ends for the same want.
            helps = spent is not None and spent.scope == scope and getattr(amounts, spent.what) > 0
            requests = (*state.requests, request_id)[-REQUESTS:] if request_id else state.requests
            exhausted = None if helps else state.exhausted
            state = replace(state, exhausted=exhausted, requests=requests)
            found = member(state, scope)
            return _with_member(state, found and replace(found, spent=False))
        case budgets.Closed(scope):
            return replace(state, gone=tuple(each for each in state.gone if each != scope))
        case _:
            assert_never(rune)


def _worked(state: State, rune: turns.ToolsFinished | tools.Result) -> State:
    """Take in an outcome: whatever made the session fail before, it has come further now."""
    if isinstance(rune, tools.Result) and rune.status == "unknown":
        state = replace(state, in_doubt=(*state.in_doubt, rune.call_id)[-DOUBTS:])
    return replace(state, unclean=0) if state.unclean else state


def _asked(
    state: State,
    rune: approvals.Requested | approvals.Approved | approvals.Rejected | approvals.Aborted,
) -> State:
    if isinstance(rune, approvals.Requested):
        new = Pending(
            approval_id=rune.approval_id,
            call_id=rune.call_id,
            reason=rune.reason,
            deadline=rune.deadline,
            in_doubt=rune.trigger == tools.IN_DOUBT,
        )
        return replace(state, approvals=(*state.approvals, new))
    left = tuple(each for each in state.approvals if each.approval_id != rune.approval_id)
    return replace(state, approvals=left)


def _with_member(state: State, changed: Member | None) -> State:
    return state if changed is None else replace(state, members=_members(state, changed))


def _members(state: State, changed: Member | None) -> tuple[Member, ...]:
    """Return the agents, one of them as it is now."""
    if changed is None:
        return state.members
    name = changed.agent_id
    return tuple([changed if each.agent_id == name else each for each in state.members])


def _spawned(state: State, rune: agents.Spawning) -> State:
    new = Member(
        agent_id=rune.agent_id, parent_id=rune.parent_id, model=rune.model, config=rune.config
    )
    stats = replace(state.stats, agents=state.stats.agents + 1)
    state = replace(state, members=(*state.members, new), stats=stats)
    if rune.parent_id is not None:
        return state
    return replace(state, root=rune.agent_id, root_end="", front=rune.agent_id)


def _left(state: State, agent_id: str, end: str) -> State:
    if member(state, agent_id) is None:
        return state
    return replace(
        state,
        members=tuple(each for each in state.members if each.agent_id != agent_id),
        gone=(*state.gone, agent_id),
        front=state.root if state.front == agent_id else state.front,
        root_end=end if state.root == agent_id else state.root_end,
    )

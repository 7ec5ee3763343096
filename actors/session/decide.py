"""How a session answers: with the runes that a command leads to, or with a refusal.

The time comes with commands. That a message can be taken up is due (`BeginTurn`), and the answer
(`Begin`) says what time it is; an accepted message brings its own, and so needs no second append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from actors import children
from actors.agent import runes as agents
from actors.budget import runes as budgets
from actors.budget.lifecycle import check_amounts, check_limits
from actors.session import commands as ask
from actors.session.fold import evolve
from actors.session.runes import (
    Activated,
    Archived,
    ChildRestarted,
    Closed,
    Closing,
    Created,
    HandedOver,
    InputAccepted,
    InputRefused,
    Paused,
    Reopened,
    Rested,
    Resumed,
    SessionConfig,
    Suspended,
    Unsuspended,
)
from actors.session.state import (
    Member,
    Phase,
    State,
    Waiting,
    can_begin,
    has_root,
    is_orphan,
    member,
    next_for,
    refusable,
    why_in_vain,
)
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.lifecycle import refusal
from runelog.rune import check_id

if TYPE_CHECKING:
    from actors.session.commands import Command
    from runelog.rune import Rune

NAME: Final = "session"
MOST_WAITING: Final = 1_000
"""So many messages may wait; whoever sends more is told to come back later."""
LIVE: Final = frozenset({Phase.CREATED, Phase.ACTIVE, Phase.PAUSED, Phase.SUSPENDED})
"""The phases in which a session takes messages and agents."""
_WAY_OUT: Final = {
    Phase.CREATED: "wait until it is active",
    Phase.PAUSED: "resume it first",
    Phase.SUSPENDED: "unsuspend it first",
}
_TAKES_UP: Final = frozenset({Phase.CREATED, Phase.ACTIVE})
"""Those in which a message may become a turn at once."""


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match command:
        case ask.Accept() | ask.Withdraw() | ask.Begin() | ask.RefuseInputs():
            return _about_messages(state, command)
        case (
            ask.Create()
            | ask.Spawn()
            | ask.HandOver()
            | ask.AgentGone()
            | ask.CloseBudget()
            | ask.Adopt()
        ):
            return _about_agents(state, command)
        case ask.Pause() | ask.Resume() | ask.Suspend() | ask.Unsuspend() | ask.Replenish():
            return _about_halts(state, command)
        case ask.Activate() | ask.Close() | ask.Finish() | ask.Archive():
            return _about_its_course(state, command)
        case ask.Reopen() | ask.Rest() | ask.NoteRestart():
            return _about_mishaps(state, command)
        case _:
            assert_never(command)


def _refusal(state: State, command: Command) -> Refused:
    """Return the answer to what the phase does not allow, with the way out of it."""
    if isinstance(command, ask.Archive):
        way_out = "close it first" if state.phase in LIVE else "wait until it is closed"
    else:
        way_out = _WAY_OUT.get(state.phase, "create another one")
    return Refused(f"{refusal(NAME, state.phase, command)}; {way_out}")


def _about_messages(state: State, command: ask.MessageCommand) -> list[Rune]:
    match command:
        case ask.Accept(message_id=message_id, known=known):
            return [] if known or _is_known(state, message_id) else _accept(state, command)
        case ask.Withdraw(reason, turn_id, message_id):
            return [
                InputRefused(message_id=each.message_id, reason=reason)
                for each in state.waiting
                if each.asked_in and (each.asked_in == turn_id or each.message_id == message_id)
            ]
        case ask.Begin(message_id, now):
            found = next((each for each in state.waiting if each.message_id == message_id), None)
            # What was due a moment ago may have been overtaken, by a pause or by a steer.
            if found is None or state.phase is not Phase.ACTIVE or not _is_next(state, found):
                return []
            return [_begin(state, found, now)]
        case ask.RefuseInputs():
            refused = refusable(state).items()
            return [InputRefused(message_id=each, reason=reason) for each, reason in refused]
        case _:
            assert_never(command)


def _is_known(state: State, message_id: str) -> bool:
    """Say whether a message is being dealt with; older ones are found by the log's index."""
    return message_id in [each.message_id for each in state.waiting] or (
        message_id in [each.message_id for each in state.running]
    )


def _accept(state: State, command: ask.Accept) -> list[Rune]:
    check_id(command.message_id, "message id")
    to = command.to or state.front
    if state.phase not in LIVE or not state.conversation_id:
        msg = f"session is {state.phase.value}: it takes no more messages; create another one"
        raise Refused(msg)
    if member(state, to) is None:
        msg = f"there is no agent {to} any more: spawn one, or send to another"
        raise Refused(msg)
    if vain := why_in_vain(state, command.asked_in):
        raise Refused(vain)
    if len(state.waiting) >= MOST_WAITING:
        msg = f"{MOST_WAITING} messages wait already: send it again once some were taken up"
        raise Refused(msg)
    accepted = InputAccepted(
        message_id=command.message_id,
        content=command.content,
        mode=command.mode,
        to=to,
        asked_in=command.asked_in,
    )
    runes: list[Rune] = [accepted]
    if state.phase is Phase.CREATED:
        runes.insert(0, _activated(state, "first_message"))
    state, was = evolve(state, accepted), state.phase
    new = state.waiting[-1]
    may_begin = command.begin and was in _TAKES_UP
    if may_begin and _is_next(state, new):
        runes.append(_begin(state, new, command.now))
    return runes


def _activated(state: State, trigger: str) -> Activated:
    return Activated(root_agent_id=state.root, trigger=trigger)


def _is_next(state: State, message: Waiting) -> bool:
    return can_begin(state, message.to) and next_for(state, message.to) == message


def _begin(state: State, message: Waiting, now: int) -> turns.Started:
    found = member(state, message.to)
    assert found is not None
    return turns.Started(
        turn_id=f"turn_{state.turns + 1}",
        agent_id=found.agent_id,
        input=message.content,
        message_id=message.message_id,
        deadline=now + found.config.turn_timeout,
        model=found.model,
        retries=found.config.retries,
        on_crash=found.config.on_crash,
        timed=_is_timed(state, found),
        asked_in=message.asked_in,
        trigger="steer" if message.steer else "message",
    )


def _is_timed(state: State, found: Member | None) -> bool:
    """Say whether the time of an agent's turns is limited: by itself, or by who pays for it."""
    while found is not None:
        if found.config.budget.wall is not None:
            return True
        found = None if found.parent_id is None else member(state, found.parent_id)
    return state.config.budget.wall is not None


def _about_agents(state: State, command: ask.AgentCommand) -> list[Rune]:
    match command:
        case ask.Create(conversation_id, root, config):
            if state.conversation_id == conversation_id:
                return []
            if state.conversation_id:
                raise _refusal(state, command)
            _check(config)
            limits = budgets.Opened(scope=NAME, limits=config.budget)
            created = Created(conversation_id=conversation_id, config=config)
            return [created, limits, *_spawn(root)]
        case ask.Spawn(agent_id):
            return [] if member(state, agent_id) is not None else _spawn_child(state, command)
        case ask.HandOver(to):
            return _hand_over(state, command, to, state.front)
        case ask.AgentGone(agent_id, error):
            return _bury(state, agent_id, error)
        case ask.Adopt(child, kind, on_close):
            if command.known or any(each.child == child for each in state.children):
                return []
            if state.phase not in LIVE or not state.conversation_id:
                raise _refusal(state, command)
            return [children.Started(child, kind, on_close)]
        case ask.CloseBudget(agent_id):
            return [budgets.Closed(scope=agent_id)] if agent_id in state.gone else []
        case _:
            assert_never(command)


def _check(config: SessionConfig) -> None:
    for name in ("failed_turns", "unclean_opens", "restarts"):
        if getattr(config, name) <= 0:
            msg = f"{name} = {getattr(config, name)} would never let it work: give 1 or more"
            raise Refused(msg)
    check_limits(config.budget)


def _spawn_child(state: State, command: ask.Spawn) -> list[Rune]:
    if state.phase not in LIVE or not state.conversation_id:
        raise _refusal(state, command)
    if command.known:
        msg = (
            f"agent {command.agent_id} was here before and is gone: spawn one with an id of its own"
        )
        raise Refused(msg)
    alive = member(state, state.root) is not None
    parent = command.parent_id or (state.root if alive else None)
    if parent is not None and (member(state, parent) is None or is_orphan(state, parent)):
        msg = f"there is no agent {parent} any more that could spawn {command.agent_id}"
        raise Refused(msg)
    return _spawn(command, parent)


def _spawn(command: ask.Spawn, parent: str | None = None) -> list[Rune]:
    check_id(command.agent_id, "agent id")
    config = command.config
    for name in ("turn_timeout", "first_byte_timeout", "silence_timeout", "max_output_tokens"):
        if getattr(config, name) <= 0:
            msg = f"{name} = {getattr(config, name)} leaves no time to work: give more than 0"
            raise Refused(msg)
    if config.retries < 0:
        msg = f"retries = {config.retries} cannot be counted: give 0 or more"
        raise Refused(msg)
    check_limits(config.budget)
    return [
        agents.Spawning(
            agent_id=command.agent_id,
            role=command.role,
            model=command.model,
            parent_id=parent,
            config=config,
        ),
        budgets.Opened(scope=command.agent_id, limits=config.budget, parent=parent or NAME),
    ]


def _hand_over(state: State, command: ask.HandOver, to: str, sender: str) -> list[Rune]:
    if state.phase not in LIVE:
        raise _refusal(state, command)
    if member(state, to) is None or is_orphan(state, to):
        msg = f"there is no agent {to} any more that could take over"
        raise Refused(msg)
    return [] if to == state.front else [HandedOver(sender=sender, to=to)]


def _bury(state: State, agent_id: str, error: str) -> list[Rune]:
    """Write the end of an agent whose actor cannot."""
    found = member(state, agent_id)
    if found is None:
        return []
    if not found.ready:
        return [agents.Failed(agent_id=agent_id, error=error)]
    stats = found.stats
    return [agents.Terminated(agent_id=agent_id, reason=f"crashed: {error}", stats=stats)]


def _about_halts(state: State, command: ask.HaltCommand) -> list[Rune]:
    match state.phase, command:
        case Phase.ACTIVE, ask.Pause(reason, finish):
            return [Paused(reason=reason, finish=finish, actor="user")]
        case Phase.PAUSED, ask.Pause(finish=finish) if finish or not state.finish:
            return []
        case Phase.PAUSED, ask.Pause():
            return _pause_harder(state)
        case Phase.PAUSED, ask.Resume():
            return [Resumed(actor="user")]
        case Phase.ACTIVE, ask.Suspend(reason, budget_info, actor):
            return [Suspended(reason=reason, budget_info=budget_info, actor=actor)]
        case Phase.SUSPENDED, ask.Unsuspend(reason, actor) if has_root(state):
            return [Unsuspended(reason=reason, actor=actor)]
        case Phase.SUSPENDED, ask.Unsuspend():
            msg = f"session is suspended: its root agent {state.root} is gone; spawn one first"
            raise Refused(msg)
        case (Phase.ACTIVE, ask.Resume() | ask.Unsuspend()) | (Phase.SUSPENDED, ask.Suspend()):
            return []
        case _, ask.Replenish() if state.phase in LIVE:
            return _replenish(state, command)
        case _:
            raise _refusal(state, command)


def _pause_harder(state: State) -> list[Rune]:
    """Refuse to stop what a pause lets finish: the table has no way from paused to paused."""
    if not state.running:
        return []
    running = ", ".join(each.turn_id for each in state.running)
    msg = (
        f"{NAME} is paused: it cannot take Pause(finish=False) now, as the pause lets {running} "
        "finish; stop what runs with interrupt() (runefold interrupt), and it stays paused"
    )
    raise Refused(msg)


def _replenish(state: State, command: ask.Replenish) -> list[Rune]:
    if command.request_id in state.requests:
        return []
    check_id(command.request_id, "request id")
    if command.scope != NAME and member(state, command.scope) is None:
        msg = f"there is no agent {command.scope} any more whose budget could be raised"
        raise Refused(msg)
    amounts = check_amounts(command.amounts)
    return [
        budgets.Replenished(
            scope=command.scope,
            amounts=amounts,
            actor=command.actor,
            request_id=command.request_id,
        )
    ]


def _about_its_course(state: State, command: ask.CourseCommand) -> list[Rune]:
    match state.phase, command:
        case Phase.CREATED, ask.Activate(trigger):
            return [_activated(state, trigger)]
        case Phase.ACTIVE, ask.Activate():
            return []
        case _, ask.Close(reason):
            return [Closing(reason=reason, actor="user")] if state.phase in LIVE else []
        case Phase.CLOSING, ask.Finish():
            return [Closed(final_stats=state.stats)]
        case Phase.CLOSED, ask.Archive():
            return [Archived(actor="user")]
        case (Phase.ARCHIVED, ask.Archive()) | (Phase.CLOSED | Phase.ARCHIVED, ask.Finish()):
            return []
        case _:
            raise _refusal(state, command)


def _about_mishaps(state: State, command: ask.NoteCommand) -> list[Rune]:
    match command:
        case ask.Reopen(epoch, outcome):
            if epoch == state.epoch or state.phase in {Phase.CLOSED, Phase.ARCHIVED}:
                return []
            since = 0 if outcome else state.unclean
            return [Reopened(unclean=since if state.rested else since + 1, epoch=epoch)]
        case ask.Rest():
            return [Rested()] if _is_there(state) and not state.rested else []
        case ask.NoteRestart(child, reason, restarts, at):
            note = ChildRestarted(child=child, reason=reason, restarts=restarts, at=at)
            return [note] if _is_there(state) and note != state.restarted else []
        case _:
            assert_never(command)


def _is_there(state: State) -> bool:
    """Say whether it was created and is not over: only then is anything noted about it."""
    return bool(state.conversation_id) and state.phase not in {Phase.CLOSED, Phase.ARCHIVED}

"""The messages of a session: those that wait, and those that run as turns.

Accepting is separate from running. A message that was accepted waits until its agent is free and
then becomes a turn; one that steers goes first and has the running turn stopped.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from actors.entity import Actor
from actors.session.members import has_limited_time, is_orphan, member, named, with_member
from actors.session.runes import InputAccepted, InputRefused, Mode
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.session.lifecycle import State

MOST_WAITING: Final = 1_000
"""So many messages may wait; more are refused until some were taken up."""


class Waiting(msgspec.Struct, frozen=True):
    """A message that was accepted and has not become a turn yet."""

    message_id: str
    content: str
    to: str
    steer: bool
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""
    continues: str = ""
    """The turn that handed it over, if one did."""
    handed_on: int = 0
    """How often it was handed over."""


class Running(msgspec.Struct, frozen=True):
    """A turn that began and has not ended yet."""

    turn_id: str
    agent_id: str
    message_id: str
    content: str = ""
    asked_in: str = ""
    handed_on: int = 0
    handed_to: str = ""
    """The agent that answers its message instead, once it has ended."""


# -- commands ----------------------------------------------------------------------------------


class Accept(msgspec.Struct, frozen=True):
    """Keep a message, and take it up at once if its agent is free."""

    message_id: str
    content: str
    now: int
    mode: Mode = "queue"
    to: str = ""
    """The id or name of an agent; empty for the session's default agent."""
    earlier: InputAccepted | None = None
    """What was accepted under this id before, however long ago: it is sent again."""
    begin: bool = True
    """A runtime can run its turn; if not, it waits even for an agent that is free."""
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""


class Withdraw(msgspec.Struct, frozen=True):
    """Take questions back that still wait: all that were asked in a turn, or one."""

    reason: str
    turn_id: str = ""
    message_id: str = ""


class Begin(msgspec.Struct, frozen=True):
    """Make a turn of a message that waits; the answer to `BeginTurn`."""

    message_id: str
    now: int


# -- effects -----------------------------------------------------------------------------------


class BeginTurn(msgspec.Struct, frozen=True):
    """A message can be taken up: ask for `Begin` with the time it is."""

    agent_id: str
    message_id: str


class InterruptTurn(msgspec.Struct, frozen=True):
    """The turn has to stop: also, with reason `steer`, for a message that takes it over.

    Its actor is started first if it is not there.
    """

    turn_id: str
    reason: str
    actor: Actor = "user"


# -- rules -------------------------------------------------------------------------------------


def turn_of(running: Sequence[Running], agent_id: str) -> Running | None:
    """Return the turn that an agent is running."""
    for each in running:
        if each.agent_id == agent_id:
            return each
    return None


def next_for(waiting: Sequence[Waiting], agent_id: str) -> Waiting | None:
    """Return the message that an agent takes up next: one that steers, or else the oldest."""
    mine = [each for each in waiting if each.to == agent_id]
    return next((each for each in mine if each.steer), mine[0] if mine else None)


def can_begin(state: State, agent_id: str) -> bool:
    """Return True if an agent is free to take a message up."""
    found = member(state.members, agent_id)
    return (
        found is not None
        and found.ready
        and not found.spent
        and turn_of(state.running, agent_id) is None
        and not is_orphan(state.members, agent_id)
    )


def is_sent_again(state: State, command: Accept) -> bool:
    """Return True if a message was accepted before; refuse another one under its id.

    Its address is a part of it, as it was when it was accepted: a turn may hand it over.

    Those that wait or run are known here, older ones are found by the log's index.
    """
    message_id, earlier = command.message_id, command.earlier
    before = [
        *([] if earlier is None else [(earlier.content, earlier.to)]),
        *[(each.content, each.to) for each in state.waiting if each.message_id == message_id],
        *[(each.content, each.agent_id) for each in state.running if each.message_id == message_id],
    ]
    if not before:
        return False
    content, to = before[0]
    agent = member(state.members, to)
    # The agent may be gone, and its name be another's; one that named none may have gone to any.
    elsewhere = command.to and agent and command.to not in {agent.agent_id, agent.name}
    if content != command.content or elsewhere:
        whom = f" to {agent.name}" if agent and elsewhere else ""
        msg = (
            f"the message id {message_id} is taken, by another message{whom}: {content!r:.80}; "
            "give each message an id of its own"
        )
        raise Refused(msg)
    return True


def accepted(state: State, command: Accept, to: str) -> InputAccepted:
    """Return the rune that keeps a message for an agent, or refuse it."""
    check_id(command.message_id, "message id")
    agent = named(state.members, to)
    if len(state.waiting) >= MOST_WAITING:
        msg = f"{MOST_WAITING} messages wait already: send it again once some were taken up"
        raise Refused(msg)
    return InputAccepted(
        message_id=command.message_id,
        content=command.content,
        mode=command.mode,
        to=agent.agent_id,
        asked_in=command.asked_in,
    )


def begun(state: State, message_id: str, now: int) -> list[turns.Started]:
    """Return the beginning of a message's turn; none if the message is not next at its agent.

    What was due a moment ago may have been overtaken, by a message that steers for instance.
    """
    for message in state.waiting:
        if message.message_id == message_id:
            agent, following = message.to, next_for(state.waiting, message.to)
            is_next = can_begin(state, agent) and following == message
            return [_started(state, message, now)] if is_next else []
    return []


def _started(state: State, message: Waiting, now: int) -> turns.Started:
    agent = member(state.members, message.to)
    assert agent is not None
    limits_time = state.config.budget.wall is not None
    return turns.Started(
        turn_id=f"turn_{state.stats.turns + 1}",
        agent_id=agent.agent_id,
        input=message.content,
        message_id=message.message_id,
        deadline=now + agent.config.turn_timeout,
        model=agent.model,
        retries=agent.config.retries,
        max_rounds=agent.config.max_rounds,
        on_crash=agent.config.on_crash,
        timed=limits_time or has_limited_time(state.members, agent.agent_id),
        asked_in=message.asked_in,
        continues=message.continues,
        catches_up=agent.took_over,
        trigger="hand_over" if message.continues else "steer" if message.steer else "message",
    )


def taken_up(state: State, rune: turns.Started) -> State:
    """Return the state in which a message that waited runs as a turn."""
    message = next((each for each in state.waiting if each.message_id == rune.message_id), None)
    turn = Running(
        turn_id=rune.turn_id,
        agent_id=rune.agent_id,
        message_id=rune.message_id,
        content=rune.input,
        asked_in=rune.asked_in,
        handed_on=0 if message is None else message.handed_on,
    )
    agent = member(state.members, rune.agent_id)
    if agent is not None and agent.took_over:
        state = with_member(state, replace(agent, took_over=False))
    return replace(
        state,
        waiting=tuple([each for each in state.waiting if each is not message]),
        running=(*state.running, turn),
        stats=replace(state.stats, turns=state.stats.turns + 1),
    )


def withdrawn(state: State, command: Withdraw) -> list[InputRefused]:
    """Return the refusals of questions that are taken back."""
    turn_id, message_id = command.turn_id, command.message_id
    return [
        InputRefused(message_id=each.message_id, reason=command.reason)
        for each in state.waiting
        if each.asked_in and (each.asked_in == turn_id or each.message_id == message_id)
    ]


def stops(state: State, reason: str) -> list[InterruptTurn]:
    """Return the interrupts of all turns that run."""
    return [InterruptTurn(turn.turn_id, reason) for turn in state.running]


def steers(state: State) -> list[InterruptTurn]:
    """Return the interrupts of turns that a message takes over."""
    return [
        InterruptTurn(turn.turn_id, "steer")
        for turn in state.running
        if (message := next_for(state.waiting, turn.agent_id)) is not None and message.steer
    ]


def beginnings(state: State) -> list[BeginTurn]:
    """Return the messages that can be taken up now."""
    return [
        BeginTurn(each.agent_id, message.message_id)
        for each in state.members
        if can_begin(state, each.agent_id)
        and (message := next_for(state.waiting, each.agent_id)) is not None
    ]


@functools.lru_cache(maxsize=64)
def message_entity(message_id: str) -> str:
    """Return the stream in which the log's index finds a message, whatever its age.

    >>> message_entity("first")
    'msg_a2a8c2514ffc1da3'
    """
    return "msg_" + hashlib.blake2b(message_id.encode(), digest_size=8).hexdigest()

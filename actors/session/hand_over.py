"""Handing over: another agent answers the message at hand, and those that name no agent.

The turn that hands over ends once its calls have; its message then waits for the other agent,
before all others, and has another turn. So a message may have several turns, of which the last
answers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from actors.session.members import is_orphan, member, named, with_member
from actors.session.queue import Waiting
from actors.session.runes import HandedOver, ToolTraffic
from runelog.errors import Refused

if TYPE_CHECKING:
    from actors.session.lifecycle import State
    from actors.session.queue import Running
    from actors.turn import runes as turns

MOST_TIMES: Final = 10
"""So often one message may be handed on: agents that give it to each other never answer it."""


class TakeOver(msgspec.Struct, frozen=True):
    """Make another agent the one that answers messages which name none."""

    to: str
    """Its id or its name."""
    turn_id: str = ""
    """The turn whose message it is to answer too."""
    call_id: str = ""
    """The call by which that turn asks for it."""
    last: int | None = None
    tools: ToolTraffic = "summary"
    briefing: tuple[str, ...] | None = None


def handed_over(state: State, command: TakeOver) -> list[HandedOver]:
    """Return the hand-over, none if there is nothing to change; or refuse it."""
    to, sender = named(state.members, command.to).agent_id, state.default_agent
    if is_orphan(state.members, to):
        msg = f"agent {to} is about to end: it cannot take over"
        raise Refused(msg)
    turn = next((each for each in state.running if each.turn_id == command.turn_id), None)
    if turn is not None and turn.agent_id == to:
        turn = None
    if turn is not None and turn.handed_on >= MOST_TIMES:
        msg = f"this message was handed on {MOST_TIMES} times already: answer it yourself"
        raise Refused(msg)
    if turn is not None and turn.handed_to == to:
        return []
    if turn is None and to == sender:
        return []
    return [
        HandedOver(
            sender=sender if turn is None else turn.agent_id,
            to=to,
            turn_id="" if turn is None else turn.turn_id,
            call_id="" if turn is None else command.call_id,
            last=command.last,
            tools=command.tools,
            briefing=command.briefing,
        )
    ]


def took_over(state: State, rune: HandedOver) -> State:
    """Return the state in which another agent is the one for messages that name none."""
    running = tuple(
        [
            replace(each, handed_to=rune.to) if each.turn_id == rune.turn_id else each
            for each in state.running
        ]
    )
    state = replace(state, default_agent=rune.to, running=running)
    found = member(state.members, rune.to)
    return with_member(state, found and replace(found, took_over=True))


def passed_on(state: State, ended: Running, rune: turns.Completed) -> State:
    """Return the state in which the message of a turn that handed it over waits, as the first."""
    if not rune.handed_to:
        return state
    message = Waiting(
        message_id=ended.message_id,
        content=ended.content,
        to=rune.handed_to,
        steer=False,
        asked_in=ended.asked_in,
        continues=ended.turn_id,
        handed_on=ended.handed_on + 1,
    )
    return replace(state, waiting=(message, *state.waiting))

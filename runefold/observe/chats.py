"""What was said in a session: its messages, their turns, and the chat that an agent is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.agent.history import History
from actors.agent.runes import Spawning
from actors.session.members import find, named
from actors.session.queue import message_entity
from actors.session.runes import InputAccepted
from actors.turn.runes import Started
from runelog.errors import Refused
from runelog.rune import check_id, kind_of

if TYPE_CHECKING:
    from actors.model.provider import Message
    from actors.session.lifecycle import State
    from runelog.log import Log


def turn_of(log: Log, conversation: str, name: str) -> tuple[str, int]:
    """Return the message that a turn is of, by the id of either, and the event before it."""
    check_id(name, "turn id")
    log.flush(conversation)
    birth = next(iter(log.stream(conversation, name)), None)
    started = None if birth is None else birth.payload
    message = started.message_id if isinstance(started, Started) else name
    for accepted in log.stream(conversation, message_entity(message)):
        return message, accepted.event_id - 1
    msg = f"{conversation} has no turn and no message {name}: turns() gives those there are"
    raise Refused(msg)


def turns_of(
    log: Log, conversation: str, state: State, *, running: bool = False
) -> list[tuple[str, int]]:
    """Return the same of all messages, or of those whose turns have not ended."""
    log.flush(conversation)
    left = {each.message_id for each in state.running}
    left.update(each.message_id for each in state.waiting)
    return [
        (rune.message_id, envelope.event_id - 1)
        for envelope in log.read(conversation, kinds={kind_of(InputAccepted)})
        if isinstance(rune := envelope.payload, InputAccepted)
        and (rune.message_id in left or not running)
    ]


def chat(
    log: Log, conversation: str, state: State, agent: str = "", at: int | None = None
) -> list[Message]:
    """Return the chat as an agent's model is shown it, up to event `at`; by default all of it."""
    found = find(state.members, agent or state.default_agent)
    name = agent if found is None else found.agent_id
    log.flush(conversation)
    if found is None and not any(
        isinstance(each.payload, Spawning) for each in log.stream(conversation, name)
    ):
        # Of one that is gone the chat is still there, under its id.
        named(state.members, name)
    until = log.conversation(conversation).head if at is None else at
    return History.read(log, conversation, name, until).messages

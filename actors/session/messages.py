"""What the actor of a session is sent beside commands of its law, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actors.entity import Actor  # noqa: TC001 -- read by msgspec: these come from other processes
from actors.session.queue import message_entity
from actors.session.runes import InputRefused, Mode
from actors.turn import runes as turns

if TYPE_CHECKING:
    from actors.process.process import Answer
    from runelog.log import Log
    from runelog.rune import Rune


class Send(NamedTuple):
    """A message for an agent. With an id of the sender's own, a resend is harmless."""

    message_id: str
    content: str
    mode: Mode = "queue"
    to: str = ""
    own_id: bool = False
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""


class Await(NamedTuple):
    """Answer when the turn that a message became has ended."""

    message_id: str
    halt: Interrupt | None = None
    """What is to end it, said before: a session that began anew since then knows nothing of it."""


class Look(NamedTuple):
    """Answer with the state."""


class Interrupt(NamedTuple):
    """Stop the turns that run now; answered with the messages they were about."""

    reason: str
    turns: tuple[str, ...] = ()
    """Only these; all of them if none is named."""
    actor: Actor = "user"
    """The cause: a user, or `system` for the runtime itself."""


class Sent(NamedTuple):
    """A message was accepted and is on disk."""

    message_id: str
    before: int
    """An event before it: a reader that follows from there misses nothing of its turn."""
    end: Answer | None = None
    """What will be answered when its turn has ended, as to `Await`; None if that is not known."""


class Ended(NamedTuple):
    """A turn has ended, and that is on disk."""

    turn_id: str
    rune: turns.Completed | turns.Interrupted | turns.Error


class Refusal(NamedTuple):
    """A message never became a turn."""

    message_id: str
    reason: str


def ended(log: Log, conversation: str, message_id: str) -> Ended | Refusal | None:
    """Return what became of a message, as the log has it; None if that is still to come."""
    turn_id = ""
    for envelope in log.stream(conversation, message_entity(message_id)):
        match envelope.payload:
            case turns.Started(turn_id=turn_id):
                pass  # the last one answers it: those before have handed it over
            case InputRefused(reason=reason):
                return Refusal(message_id, reason)
    if not turn_id:
        return None
    version = log.version(conversation, turn_id)
    last = next(iter(log.stream(conversation, turn_id, after=version - 1)), None)
    rune = None if last is None else last.payload
    if not isinstance(rune, _ENDS) or is_handed_over(rune):
        return None
    return Ended(turn_id, rune)


def is_handed_over(rune: Rune) -> bool:
    """Return True if the message of a turn that ended so is answered by another turn."""
    return isinstance(rune, turns.Completed) and bool(rune.handed_to)


_ENDS = (turns.Completed, turns.Interrupted, turns.Error)

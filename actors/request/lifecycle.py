"""The law of a request to another conversation.

    sent ──┬── answered ──> answered
     ^─────┘ withdrawn

Two conversations have no common append. So a request is a rune in the caller's conversation, due
until its answer, a rune as well, is back; and what it begins in the other one is keyed by an id
that follows from the request. Both sides repeat themselves until the other one has recorded it, and
what is repeated changes nothing: killed at any moment, each begins once and is answered once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from actors.common_commands import Abandon, Cancel, Recover
from actors.entity import Routing
from actors.request.runes import Answered, Sent, Status, Withdrawn
from runelog.lifecycle import Lifecycle, Table, refusal

if TYPE_CHECKING:
    from runelog.rune import Rune

NAME: Final = "request"


class Phase(StrEnum):
    """What a request can be."""

    SENT = "sent"
    ANSWERED = "answered"


TABLE: Table[Phase] = {
    Phase.SENT: {Withdrawn: Phase.SENT, Answered: Phase.ANSWERED},
    Phase.ANSWERED: {},
}


class State(msgspec.Struct, frozen=True):
    """What a request's runes add up to."""

    phase: Phase = Phase.SENT
    sent: Sent | None = None
    """None until it is born."""
    withdrawn: str = ""
    """Why the caller wants it no longer."""
    status: Status | None = None


# -- commands ----------------------------------------------------------------------------------


class Hear(msgspec.Struct, frozen=True):
    """The other conversation has answered."""

    status: Status
    phase: str = ""
    answer: Any = None
    message: str = ""
    event: int = 0


Command: TypeAlias = Hear | Cancel | Abandon | Recover


# -- effects -----------------------------------------------------------------------------------


class Deliver(msgspec.Struct, frozen=True):
    """The other conversation has to know: of the request, or that it is withdrawn."""

    request_id: str
    withdrawn: str = ""


Effect: TypeAlias = Deliver


# -- the law -----------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    sent = state.sent
    if sent is None:
        raise refusal(NAME, state.phase, command)
    match command:
        case Recover():
            # It is asked for again, which is harmless.
            return []
        case Hear() | Cancel() | Abandon() if state.phase is Phase.ANSWERED:
            return []
        case Hear(status, phase, answer, message, event):
            return [_answered(sent, status, phase, answer, message, event)]
        case Cancel(reason, actor):
            reason = reason or "withdrawn"
            return [] if state.withdrawn else [Withdrawn(reason, trigger=reason, actor=actor)]
        case Abandon(reason):
            return [_answered(sent, "lost", message=reason)]
        case _:
            raise refusal(NAME, state.phase, command)


def _answered(
    sent: Sent,
    status: Status,
    phase: str = "",
    answer: Any = None,  # noqa: ANN401 -- whatever a kind says of its end
    message: str = "",
    event: int = 0,
) -> Answered:
    where = sent.request_id, sent.key
    return Answered(*where, status, phase, answer, message, event, trigger=status)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Sent():
            return replace(state, sent=rune)
        case Withdrawn(reason):
            return replace(state, withdrawn=reason)
        case Answered(status=status):
            return replace(state, status=status)
        case _:
            return state


def due(state: State) -> list[Effect]:
    """Return what has to be done while the state is this one."""
    if state.sent is None or state.phase is not Phase.SENT:
        return []
    return [Deliver(state.sent.request_id, state.withdrawn)]


# -- what the shell must know ------------------------------------------------------------------


def route(state: State, rune: Rune) -> Routing:
    """Return where a rune of the request belongs: its caller observes all of them."""
    sent = rune if isinstance(rune, Sent) else state.sent
    assert sent is not None, "a request has its birth first"
    return Routing(sent.request_id, (sent.caller,))


def is_open(state: State) -> bool:
    """Return True while the answer is not back."""
    return state.sent is not None and state.phase is Phase.SENT


LIFECYCLE: Final = Lifecycle(
    name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due
)

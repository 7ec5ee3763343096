"""What an app was told, held against the log: from then on it counts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.session import runes as sessions
from actors.turn import runes as turns
from tests.scenarios.plays import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.log import Log
    from tests.scenarios.world import Till

UNKNOWN: Final = "It is not known"
"""How the model is told of a call whose outcome nobody knows."""


def _ends(log: Log) -> dict[str, str]:
    """Return how the turn of each message ended."""
    messages: dict[str, str] = {}
    found: dict[str, str] = {}
    for envelope in log.read(NAME):
        match envelope.payload:
            case turns.Started(turn_id=turn, message_id=message):
                messages[turn] = message
            case turns.Completed():
                found[messages[envelope.owner]] = "completed"
            case turns.Interrupted():
                found[messages[envelope.owner]] = "interrupted"
            case turns.Error():
                found[messages[envelope.owner]] = "error"
            case sessions.InputRefused(message_id=message):
                found[message] = "refused"
            case _:
                pass
    return found


def broken_promises(log: Log, till: Till) -> Iterator[str]:
    """Say what an app was told and the log does not know any more."""
    if not till.promises():
        return
    ends = _ends(log)
    accepted = {
        rune.message_id
        for envelope in log.read(NAME)
        if isinstance(rune := envelope.payload, sessions.InputAccepted)
    }
    for promise in till.promises():
        what, _, message = promise.partition(" ")
        kept = message in accepted if what == "accepted" else ends.get(message) == what
        if not kept:
            yield f"the app was told that {message} is {what}, and the log has lost it"

"""What the log says, held against the world outside: what was done, said, and told to the app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.session import runes as sessions
from actors.tool import runes as tools
from actors.turn import runes as turns
from runelog.rune import State
from tests.scenarios.app import BESIDE, NAME
from tests.scenarios.labour import HAULED, written
from tests.scenarios.world import is_charge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.log import Log
    from runelog.rune import Envelope, Rune
    from tests.scenarios.world import Till

UNKNOWN: Final = "It is not known"
"""How the model is told of a call whose outcome nobody knows."""


def _ends(log: Log) -> dict[str, str]:
    """Return how the turn of each message ended."""
    # Of each conversation: their turns are numbered alike.
    messages: dict[tuple[str, str], str] = {}
    found: dict[str, str] = {}
    for envelope in envelopes(log):
        where = envelope.conversation, envelope.owner
        match envelope.payload:
            case turns.Started(message_id=message):
                messages[where] = message
            case turns.Completed():
                found[messages[where]] = "completed"
            case turns.Interrupted():
                found[messages[where]] = "interrupted"
            case turns.Error():
                found[messages[where]] = "error"
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
        for envelope in envelopes(log)
        if isinstance(rune := envelope.payload, sessions.InputAccepted)
    }
    for promise in till.promises():
        what, _, message = promise.partition(" ")
        kept = message in accepted if what == "accepted" else ends.get(message) == what
        if not kept:
            yield f"the app was told that {message} is {what}, and the log has lost it"


def misdeeds(log: Log, till: Till, *, blind: bool) -> Iterator[str]:
    """Say what was done outside otherwise than the log has it."""
    entries = till.entries()
    results = {rune.call_id: rune for rune in _runes(log) if isinstance(rune, tools.Result)}
    charged = {call for call, result in results.items() if is_charge(result)}
    stopped = {call for call, result in results.items() if result.status == "cancelled"}
    # Other functions do not ask whether they should stop, and may well take effect.
    obedient = {rune.call_id for rune in _calls(log, "dig")}
    if len(entries) != len(set(entries)):
        yield "something was charged twice"
    if not set(entries) <= set(results):
        yield "something was charged that the log does not know"
    if not charged <= set(entries):
        yield "something was said to be charged that was not"
    if stopped & obedient & set(entries):
        yield "something was charged that was called off"
    if not blind and any(result.status == "unknown" for result in results.values()):
        yield "something is unknown although there is a probe"


def misprints(log: Log, place: Path) -> Iterator[str]:
    """Say what programs did otherwise than the log has it, and whether any are left."""
    lines = written(place)
    asked = {rune.call_id: rune.arguments["receipt"] for rune in _calls(log, "write")}
    done = [
        asked[rune.call_id]
        for rune in _runes(log)
        if isinstance(rune, tools.Result) and rune.status == "success" and rune.call_id in asked
    ]
    if len(lines) != len(set(lines)):
        yield f"something was written twice: {lines}"
    if not set(done) <= set(lines):
        yield f"something was said to be written that was not: {done}, and there is {lines}"
    if not set(lines) <= set(asked.values()):
        yield f"something was written that was called off: {lines}"
    for process in Path("/proc").glob("[0-9]*"):
        if _is_in(process, place):
            yield f"the process {process.name} is still there"


def _is_in(process: Path, place: Path) -> bool:
    """Return True if a process runs in a directory; its own ids may be of another namespace."""
    try:
        return (process / "cwd").readlink() == place.resolve()
    except OSError:
        return False


def stutters(log: Log) -> Iterator[str]:
    """Say which calls have come to their end and are not on record with all that they said.

    Of a run that a crash cut off anything may be missing; what was said again is said whole.
    """
    said: dict[str, list[str]] = {}
    for rune in _runes(log):
        match rune:
            case tools.Called(call_id=call, tool_name="haul"):
                said[call] = []
            case tools.Retried(call_id=call) if call in said:
                said[call] = []
            case tools.Progress(call_id=call, chunk=chunk) if call in said:
                said[call].append(chunk)
            case tools.Result(call_id=call, status="success", trigger=why) if call in said:
                heard = "".join(said[call])
                if why != "probe" and heard != "".join(HAULED):
                    yield f"of what {call} said there is {heard!r}"


def misplaced(log: Log) -> Iterator[str]:
    """Say whether messages were taken up in another order, or put away otherwise than is said."""
    waiting: dict[str, list[str]] = {}
    begun: dict[str, list[str]] = {}
    said = False
    for rune in _runes(log):
        match rune:
            case sessions.InputAccepted(message_id=message, mode="queue", to=agent):
                waiting.setdefault(agent, []).append(message)
            case turns.Started(message_id=message, agent_id=agent):
                begun.setdefault(agent, []).append(message)
            case sessions.Archived():
                said = True
            case _:
                pass
    for agent, messages in waiting.items():
        order = [message for message in begun.get(agent, []) if message in messages]
        if order != [message for message in messages if message in order]:
            yield f"messages came as {messages} and were taken up as {order}"
    if said != (log.conversation(NAME).state is State.ARCHIVED):
        yield "it is put away, and does not say so" if not said else "it says that it is put away"


def envelopes(log: Log) -> Iterator[Envelope]:
    """Yield what was written in the conversations that there are, one after the other."""
    there = {each.id for each in log.conversations()}
    for name in (NAME, BESIDE):
        if name in there:
            yield from log.read(name)


def _runes(log: Log) -> Iterator[Rune]:
    return (envelope.payload for envelope in envelopes(log))


def _calls(log: Log, tool: str) -> Iterator[tools.Called]:
    for rune in _runes(log):
        if isinstance(rune, tools.Called) and rune.tool_name == tool:
            yield rune

"""Verdicts on a run with a fault in it: what was lost, done twice, or never reported.

Whether it came to the same end is for `endings` to say.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from actors.agent.runes import ASK, HAND_OVER
from actors.entity import nameless
from actors.model import runes as models
from actors.session import runes as sessions
from actors.session.messages import Ended, ended
from actors.tool import runes as tools
from runefold.testing.crash.instrumentation.journal import (
    Committed,
    Hit,
    Opened,
    Synced,
    Told,
    Wrong,
)
from runefold.testing.crash.plan.faults import INSTEAD, RAISED, WORDS
from runefold.testing.crash.plan.points import Verdict
from runefold.testing.crash.verdict.named import in_what
from runefold.testing.crash.verdict.outcome import conversations, folded
from runefold.turns import outcome
from runelog.errors import UnknownConversation
from runelog.rune import SYSTEM, Tombstone
from runelog.rune import State as Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runefold.runtime import Runtime
    from runefold.testing.crash.effects import Effects
    from runefold.testing.crash.instrumentation.journal import Line
    from runelog.log import Log


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong."""

    verdict: Verdict
    message: str

    def __str__(self) -> str:
        """Say it."""
        return f"{self.verdict}: {self.message}"


# -- what was acknowledged -------------------------------------------------------------------------


def forgotten(lines: Iterable[Line], log: Log) -> Iterator[Finding]:
    """Yield what an app was told in an earlier life and the log, just opened, does not know."""
    there = set(conversations(log))
    accepted: dict[str, set[str]] = {
        name: {
            rune.message_id
            for envelope in log.read(name, kinds={"session.input_accepted"})
            if isinstance(rune := envelope.payload, sessions.InputAccepted)
        }
        for name in there
    }
    for line in lines:
        if not isinstance(line, Told):
            continue
        name, message = line.conversation, line.message_id
        if name not in there:
            yield Finding("acknowledged", f"the app was told that {name} is there, and it is not")
        elif message and message not in accepted[name]:
            told = f"the app was told that {message} is {line.what}"
            yield Finding("acknowledged", f"{name}: {told}, and the log has lost the message")
        elif line.what in ENDS and _end_of(log, name, message) != line.what:
            told = f"the app was told that {message} is {line.what}"
            yield Finding("acknowledged", f"{name}: {told}, and the log says otherwise")


def noted(lines: Iterable[Line]) -> list[Finding]:
    """Return what was found wrong on the way, in this life and in those before it."""
    return [Finding(line.verdict, line.message) for line in lines if isinstance(line, Wrong)]


ENDS: Final = frozenset({"completed", "interrupted", "error"})
"""How a turn can end."""


def _end_of(log: Log, conversation: str, message_id: str) -> str:
    found = ended(log, conversation, message_id)
    return outcome(found.turn_id, found.rune).status if isinstance(found, Ended) else ""


def lost(lines: Sequence[Line], log: Log) -> Iterator[Finding]:
    """Yield every rune that was acknowledged as durable and is not in the log as it was."""
    upto: dict[tuple[int, str], int] = {}
    for line in lines:
        if isinstance(line, Synced):
            upto[line.life, line.conversation] = line.upto
    expected: dict[str, dict[int, tuple[str, int]]] = {}
    for line in lines:
        if isinstance(line, Committed):
            limit = upto.get((line.life, line.conversation), 0)
            pairs = zip(line.kinds, line.sums, strict=True)
            for event_id, (kind, crc) in enumerate(pairs, line.first):
                if event_id <= limit:
                    # The first one counts: what is acknowledged is never replaced.
                    expected.setdefault(line.conversation, {}).setdefault(event_id, (kind, crc))
    for name, events in expected.items():
        yield from _missing(log, name, dict(events))


def _missing(log: Log, name: str, events: dict[int, tuple[str, int]]) -> Iterator[Finding]:
    try:
        for envelope in log.read(name):
            kind, crc = events.pop(envelope.event_id, ("", 0))
            payload = envelope.payload
            if kind and not isinstance(payload, Tombstone):
                found = zlib.crc32(msgspec.msgpack.encode(payload))
                if (envelope.kind, found) != (kind, crc):
                    told = f"event {envelope.event_id} was acknowledged as {kind}"
                    yield Finding("acknowledged", f"{name}: {told}, and is now {envelope.kind}")
    except UnknownConversation:
        pass
    for event_id, (kind, _) in sorted(events.items())[:_MOST]:
        told = f"event {event_id}, {kind}, was acknowledged"
        yield Finding("acknowledged", f"{name}: {told}, and is not in the log")


_MOST: Final = 5
"""So many runes that are gone are named."""


# -- effects ---------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """What the log knows of a call."""

    rune: tools.Called
    retried: int = 0
    by_hand: int = 0
    """How often a human said that it is to run again,"""
    by_probe: int = 0
    """and how often its probe, having said that it had not happened."""
    status: str = ""
    hearsay: bool = False
    """Whether its result is from a probe or a human, rather than from the tool."""


def _known(log: Log) -> dict[str, _Known]:
    found: dict[str, _Known] = {}
    for name in conversations(log):
        for envelope in log.read(name):
            match envelope.payload:
                case tools.Called(call_id=call) as rune:
                    found[call] = _Known(rune)
                case tools.Retried(call_id=call) if call in found:
                    found[call] = _again(found[call], envelope.payload)
                case tools.Result(call_id=call, status=status, trigger=why) if call in found:
                    hearsay = why in {"probe", "happened"}
                    found[call] = found[call]._replace(status=status, hearsay=hearsay)
                case _:
                    pass
    return found


def _again(known: _Known, rune: tools.Retried) -> _Known:
    return known._replace(
        retried=known.retried + 1,
        by_hand=known.by_hand + (rune.actor == "user"),
        by_probe=known.by_probe + (rune.trigger == "probe"),
    )


def misdone(log: Log, effects: Effects) -> Iterator[Finding]:
    """Yield effects that were executed twice, or never, or without the log knowing of them."""
    known = _known(log)
    begun = Counter(done.call_id for done in effects)
    # What was called off, or failed, did nothing as far as it knows itself: its probe knows better.
    over = Counter(done.call_id for done in effects if done.status == "success")
    names = {done.call_id: (done.what, done.name) for done in effects}
    for call, count in begun.items():
        what, name = names[call]
        if what == "model":
            if count > 1:
                yield Finding("effect", f"{call} ({name}) was asked {count} times under one id")
        elif call not in known:
            yield Finding("effect", f"{name} was executed as {call}, and the log has no such call")
        else:
            yield from _too_often(known[call], count, over[call])
    for call, each in known.items():
        name = each.rune.tool_name
        # Those by which the agents of a team reach each other are ours, and not watched.
        seen = begun[call] or each.hearsay or name in {ASK, HAND_OVER}
        if each.status == "success" and not seen:
            yield Finding("effect", f"{name} ({call}) has a result and was never executed")
    if effects.fault != INSTEAD:
        yield from _unasked(log, begun)


def _unasked(log: Log, begun: Counter[str]) -> Iterator[Finding]:
    """Yield the answers of models that were never asked."""
    for name in conversations(log):
        for envelope in log.read(name, kinds={"model.completed"}):
            call = f"{name}/{envelope.owner}"
            if not begun[call]:
                yield Finding("effect", f"{call} has an answer, and no model was asked")


def _too_often(known: _Known, begun: int, over: int) -> Iterator[Finding]:
    rune = known.rune
    label = f"{rune.tool_name} ({rune.call_id})"
    # How far a call got that was cut off is unknown: that it began counts, not that it ended.
    may = 1 + known.by_hand + (known.by_probe if rune.rule.in_doubt == "probe" else 0)
    if not rune.rule.idempotent and over > 1 + known.by_hand:
        why = "" if known.retried else ", and the log knows of one"
        if known.retried and rune.rule.in_doubt == "probe":
            why = ": its probe said that it had not happened"
        yield Finding("effect", f"{label} took effect {over} times{why}")
    elif begun > may and not (rune.rule.idempotent and rune.rule.in_doubt == "rerun"):
        told = f"was begun {begun} times, and nobody knew that it had not happened"
        yield Finding("effect", f"{label} {told}")
    elif begun > 1 + known.retried:
        times = f"was executed {begun} times, and the log knows of {1 + known.retried}"
        yield Finding("effect", f"{label} {times}")


def untold(log: Log, fault: str, lines: Iterable[Line]) -> Iterator[Finding]:
    """Yield what an app's own code was made to raise if the log, which tells everybody, does not.

    How a call ended that was cancelled meanwhile does not matter.
    """
    if fault not in RAISED:
        return
    there = set(conversations(log))
    for line in lines:
        if isinstance(line, Hit) and line.conversation in there and not _is_told(log, line):
            who = fault.partition("-")[0]
            yield Finding("actor", f"a {who} has raised, and nobody was told")


def _is_told(log: Log, hit: Hit) -> bool:
    """Return True if the log says how an effect ended that was made to raise."""
    for envelope in log.read(hit.conversation):
        if envelope.owner != hit.entity:
            continue
        match envelope.payload:
            case tools.Result(error=words) | models.Failed(message=words) if WORDS in words:
                return True
            case models.Cancelled() | tools.Result(status="cancelled"):
                return True
            case _:
                pass
    return False


# -- what is alive ---------------------------------------------------------------------------------


def alive(runtime: Runtime) -> Iterator[Finding]:
    """Yield sessions whose live state is not what their runes add up to."""
    for each in runtime.log.conversations():
        if each.id == SYSTEM or each.state is not Standing.LIVE:
            continue
        told = ""
        for _ in range(_LOOKS):
            if not (told := _split(runtime, each.id)):
                break
        if told:
            yield Finding("state", nameless(f"{each.id}: {told}"))


def _split(runtime: Runtime, conversation: str) -> str:
    """Say in what a session's live state is not what its runes add up to, before or afterwards."""
    log = runtime.log
    log.flush()
    before = folded(log, conversation)
    live = runtime.session(conversation).state
    log.flush()
    replayed = folded(log, conversation)
    if live in (before, replayed):
        return ""
    return f"the live state is not the replayed one: {in_what(live, replayed)}"


_LOOKS: Final = 5
"""So often a state is compared: that an actor was restarted may be noted just between two looks."""


# -- what was done ---------------------------------------------------------------------------------


class Step(msgspec.Struct, frozen=True):
    """What recovery appended: one commit of a life that followed a crash."""

    life: int
    conversation: str
    first: int
    kinds: tuple[str, ...]
    mark: str = ""


def recovered(lines: Sequence[Line]) -> list[Step]:
    """Return the commits of every life but the first."""
    return [
        Step(line.life, line.conversation, line.first, line.kinds, line.mark)
        for line in lines
        if isinstance(line, Committed) and line.life > 1
    ]


def found_at(lines: Sequence[Line], life: int) -> dict[str, int]:
    """Return how much of each conversation a life found in the log."""
    for line in lines:
        if isinstance(line, Opened) and line.life == life:
            return line.heads
    return {}


def hit_at(lines: Sequence[Line], life: int) -> str:
    """Return at which moment a life was hit; nothing if it was not."""
    return next((line.kind for line in lines if isinstance(line, Hit) and line.life == life), "")

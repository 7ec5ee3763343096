"""What a log came to, told from its runes alone and without the ids that are new in each run."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from actors.agent import runes as agents
from actors.agent.history import History
from actors.budget import lifecycle as ledger
from actors.invariants import violations
from actors.session import runes as sessions
from actors.session.fold import Phase
from actors.session.lifecycle import LIFECYCLE
from actors.tool import runes as tools
from actors.turn import runes as turns
from runelog.replay import replay
from runelog.rune import SYSTEM
from runelog.rune import State as Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.session.fold import Member, State
    from runelog.log import Log
    from runelog.rune import Envelope, Rune

_IDS = re.compile(r"\b(conv|agt|call|msg|req|plan|task|run|hyp|epi)_[0-9a-f]{16}\b")


def nameless(text: str) -> str:
    """Return a text without the ids in it: those of another run are others.

    >>> nameless("call_0123456789abcdef is done")
    'call is done'
    """
    return _IDS.sub(r"\1", text)


class End(msgspec.Struct, frozen=True):
    """How the turn of a message ended."""

    kind: str
    text: str = ""
    reason: str = ""

    def __str__(self) -> str:
        """Say it."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.kind}{why}: {self.text!r}" if self.text else f"{self.kind}{why}"


class Call(msgspec.Struct, frozen=True):
    """A call of a tool, and what became of it."""

    tool: str
    arguments: str
    status: str
    """`` if it has no result."""


class Talk(msgspec.Struct, frozen=True):
    """What one conversation came to."""

    ends: dict[str, End]
    """By message; of messages that agents sent each other, by a number."""
    session: dict[str, Any]
    histories: list[tuple[str, list[tuple[str, str]]]]
    """What the model of each agent is shown."""
    calls: list[Call]
    spent: int
    """Tool calls, as the budget has them."""
    doubts: int
    """Calls of which the app is told that nobody knows how they came out."""
    unknown: int
    """Calls whose result says so."""
    told_doubts: int
    """Calls of which a model is told so."""


class Upshot(msgspec.Struct, frozen=True):
    """What a log came to."""

    talks: dict[str, Talk]
    problems: list[str]
    """Invariants that do not hold."""
    runes: int


def upshot(log: Log) -> Upshot:
    """Tell what a log came to. Everything must be at rest and on disk."""
    talks: dict[str, Talk] = {}
    problems: list[str] = []
    runes = 0
    for name in conversations(log):
        envelopes = list(log.read(name))
        runes += len(envelopes)
        found = violations(envelopes, at_rest=True)
        problems += [nameless(f"{p.invariant} at {p.where}: {p.message}") for p in found]
        talks[name] = _talk(log, name, envelopes)
    return Upshot(talks, problems, runes)


def conversations(log: Log) -> list[str]:
    """Name the conversations that can be read."""
    return [
        each.id
        for each in log.conversations()
        if each.id != SYSTEM and each.state is not Standing.ERASED
    ]


def folded(log: Log, conversation: str) -> State:
    """Return a session's state as the log has it."""
    state, _, _ = replay(log, conversation, LIFECYCLE, entity="session")
    return state


def _talk(log: Log, name: str, envelopes: list[Envelope]) -> Talk:
    state = folded(log, name)
    budget, _, _ = replay(log, name, ledger.LIFECYCLE, entity="budget")
    root = ledger.find(budget, "session")
    payloads = [envelope.payload for envelope in envelopes]
    people = [rune for rune in payloads if isinstance(rune, agents.Spawning)]
    histories = [
        (each.role, list(_shown(History.read(log, name, each.agent_id, len(envelopes)))))
        for each in people
    ]
    results = {rune.call_id: rune.status for rune in payloads if isinstance(rune, tools.Result)}
    unknown = [call for call, status in results.items() if status == "unknown"]
    return Talk(
        ends=_ends(envelopes),
        session=_session(state),
        histories=sorted(histories),
        calls=sorted(_calls(payloads, results), key=msgspec.structs.astuple),
        spent=0 if root is None else root.used.tool_calls,
        doubts=len(state.in_doubt),
        unknown=len(unknown),
        told_doubts=_told(log, name, [each.agent_id for each in people], len(envelopes)),
    )


def _session(state: State) -> dict[str, Any]:
    """Return what a session is, but for ids and for what only a recovery writes."""
    return {
        "phase": state.phase.value,
        "members": sorted(map(_member, state.members)),
        "waiting": [nameless(each.message_id) for each in state.waiting],
        "running": [nameless(each.message_id) for each in state.running],
        "turns": state.turns,
        "suspension": nameless(state.suspension),
        "exhausted": "" if state.exhausted is None else state.exhausted.what,
        "failures": state.failures,
        # One that ended meanwhile has no outcome more to come that would reset the count.
        "unclean": 0 if state.phase in {Phase.CLOSED, Phase.ARCHIVED} else state.unclean,
        "approvals": len(state.approvals),
        "messages": state.stats.messages,
        "refused": state.stats.refused,
        "agents": state.stats.agents,
        "completed": state.stats.completed,
        "interrupted": state.stats.interrupted,
        "failed": state.stats.failed,
    }


def _member(member: Member) -> list[Any]:
    stats = member.stats
    ends = [stats.turns, stats.completed, stats.interrupted, stats.failed]
    return [member.parent_id is None, member.ready, member.spent, *ends]


def _calls(runes: list[Rune], results: Mapping[str, str]) -> Iterator[Call]:
    for rune in runes:
        if isinstance(rune, tools.Called):
            arguments = msgspec.json.encode(rune.arguments, order="deterministic").decode()
            yield Call(rune.tool_name, nameless(arguments), results.get(rune.call_id, ""))


def _shown(history: History) -> Iterator[tuple[str, str]]:
    """Yield what is shown, but for ids, and for the order in which tools came back."""
    for role, group in itertools.groupby(history.messages, lambda message: message.role):
        texts = [(role, nameless(message.text)) for message in group]
        yield from sorted(texts) if role == "tool" else texts


def _told(log: Log, name: str, people: list[str], head: int) -> int:
    return sum(
        message.status == "unknown"
        for agent in people
        for message in History.read(log, name, agent, head).messages
    )


def _ends(envelopes: list[Envelope]) -> dict[str, End]:
    names = _Messages()
    messages: dict[str, str] = {}
    found: dict[str, End] = {}
    for envelope in envelopes:
        owner = envelope.owner
        match envelope.payload:
            case turns.Started(turn_id=turn, message_id=message):
                messages[turn] = names.of(message)
            case turns.Completed(final_output=text):
                found[messages.get(owner, owner)] = End("completed", nameless(text))
            case turns.Interrupted(reason=reason, partial_output=text):
                end = End("interrupted", nameless(text), nameless(reason))
                found[messages.get(owner, owner)] = end
            case turns.Error(error_type=reason, partial_output=text):
                found[messages.get(owner, owner)] = End("error", nameless(text), reason)
            case sessions.InputRefused(message_id=message, reason=reason):
                found[names.of(message)] = End("refused", "", nameless(reason))
            case _:
                pass
    return found


class _Messages:
    """Names for messages: their own, or a number if an agent sent them under the id of a call."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def of(self, message: str) -> str:
        if message not in self._names:
            short = nameless(message)
            self._counts[short] += 1
            same = short == message
            self._names[message] = message if same else f"{short}#{self._counts[short]}"
        return self._names[message]


def encoded(value: Upshot) -> bytes:
    """Return it as JSON, for another process."""
    return msgspec.json.encode(value)


def decoded(value: bytes) -> Upshot:
    """Read it again."""
    return msgspec.json.decode(value, type=Upshot)

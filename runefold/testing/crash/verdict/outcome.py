"""What a log came to, told from its runes alone and without the ids that are new in each run."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from actors.agent import runes as agents
from actors.agent.history import History
from actors.budget import lifecycle as ledger
from actors.catalogue import KINDS
from actors.entity import nameless, without_ids
from actors.invariants import violations
from actors.session import runes as sessions
from actors.session.lifecycle import LIFECYCLE
from actors.tool import runes as tools
from actors.turn import runes as turns
from runefold.testing.crash.verdict.taint import Taint
from runelog.replay import replay
from runelog.rune import SYSTEM
from runelog.rune import State as Standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.kind import Kind, Kinds
    from actors.session.lifecycle import State
    from runelog.log import Log
    from runelog.rune import Envelope, Rune


class TurnEnd(msgspec.Struct, frozen=True):
    """How the turn of a message ended."""

    kind: str
    text: str = ""
    reason: str = ""

    def __str__(self) -> str:
        """Return it as one line."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.kind}{why}: {self.text!r}" if self.text else f"{self.kind}{why}"


class Call(msgspec.Struct, frozen=True):
    """A call of a tool, and what became of it."""

    tool: str
    arguments: str
    status: str
    """`` if it has no result."""
    sure: bool = True
    """Whether the caller asked for it before anything was unknown to it."""


class AgentHistory(msgspec.Struct, frozen=True):
    """What the model of one agent is shown."""

    role: str
    messages: list[tuple[str, str]]
    turns: list[str]
    """The messages that its turns were begun by, in order."""
    asked: list[str]
    """What the app, and no other agent, said to it."""
    sure: int | None = None
    """So many messages do not follow from anything unknown; None if none does."""

    def ends_at(self, turn: str) -> int:
        """Return where the last words of one of its turns are, or would be."""
        begins = [at for at, (role, _) in enumerate(self.messages) if role == "user"]
        number = self.turns.index(turn)
        end = begins[number + 1] if number + 1 < len(begins) else len(self.messages)
        said = end > begins[number] and self.messages[end - 1][0] == "assistant"
        return end - 1 if said else end


class ConversationOutcome(msgspec.Struct, frozen=True):
    """What one conversation came to."""

    messages: list[str]
    """Those that were accepted, in order."""
    ends: dict[str, TurnEnd]
    """By message; of messages that agents sent each other, by a number."""
    histories: list[AgentHistory]
    calls: dict[str, list[Call]]
    """By the message whose turn made them."""
    spent: int
    """Tool calls, as the budget has them: they are paid for also beside something unknown."""
    doubts: int
    """Calls of which the app is told that their outcome is unknown."""
    unknown: int
    """Calls whose result says so."""
    told_doubts: int
    """Calls of which a model is told so."""
    shaken: list[str]
    """Messages whose turns depend on something unknown, directly or through another turn."""
    adrift: bool = False
    """Whether one of those decided which agent is active from then on."""


class EntityOutcome(msgspec.Struct, frozen=True, order=True):
    """What one entity came to."""

    outcome: str
    """As its kind says, in JSON without ids."""
    message: str = ""
    """The message whose turn it is or belongs to."""
    sure: bool = True
    """Whether nothing that is unknown led to it."""


class LogOutcome(msgspec.Struct, frozen=True):
    """What a log came to."""

    talks: dict[str, ConversationOutcome]
    """In the order in which they began."""
    entities: dict[str, dict[str, list[EntityOutcome]]]
    """What the entities of each kind came to, by conversation and the name of the kind."""
    problems: list[str]
    """Invariants that do not hold."""
    runes: int
    drawn: bool = False
    """Of an undisturbed run: whether another one has other ids."""
    varying: list[str] = []
    """Of an undisturbed run: in what another one differs."""


def outcome_of(log: Log, kinds: Kinds = KINDS) -> LogOutcome:
    """Return what a log of these kinds came to. Everything must be at rest and on disk."""
    talks: dict[str, tuple[int, ConversationOutcome]] = {}
    entities: dict[str, dict[str, list[EntityOutcome]]] = {}
    problems: list[str] = []
    runes = 0
    for name in conversations(log):
        envelopes = list(log.read(name))
        runes += len(envelopes)
        found = violations(envelopes, at_rest=True, kinds=kinds)
        problems += [nameless(f"{p.invariant} at {p.where}: {p.message}") for p in found]
        taint, names = Taint(), _Messages()
        for envelope in envelopes:
            taint.take(envelope)
        if name != SYSTEM:
            begun = envelopes[0].position if envelopes else 0
            talks[name] = (begun, _talk(log, name, envelopes, taint, names))
        entities[name] = _entities(envelopes, kinds, taint, names)
    in_order = sorted(talks.items(), key=lambda each: each[1][0])
    by_name = {name: talk for name, (_, talk) in in_order}
    return LogOutcome(by_name, entities, problems, runes)


def conversations(log: Log) -> list[str]:
    """Return the ids of the conversations that can be read, the system's own among them."""
    return [each.id for each in log.conversations() if each.state is not Standing.ERASED]


def folded(log: Log, conversation: str) -> State:
    """Return a session's state as the log has it."""
    state, _, _ = replay(log, conversation, LIFECYCLE, entity="session")
    return state


def _entities(
    envelopes: list[Envelope], kinds: Kinds, taint: Taint, names: _Messages
) -> dict[str, list[EntityOutcome]]:
    """Return what each entity came to, by the name of its kind; those without an outcome left out.

    They are in no order: which of several is the first depends on time.
    """
    folds: dict[str, tuple[Kind, Any]] = {}
    for envelope in envelopes:
        rune = envelope.payload
        if envelope.owner not in folds and type(rune) in kinds.births:
            kind = kinds.births[type(rune)]
            folds[envelope.owner] = kind, kind.lifecycle.initial
        for entity in dict.fromkeys((envelope.owner, *envelope.observers)):
            if entity in folds:
                kind, state = folds[entity]
                folds[entity] = kind, kind.lifecycle.apply(state, rune)
    found: dict[str, list[EntityOutcome]] = {}
    for entity, (kind, state) in folds.items():
        outcome = kind.outcome(state)
        if outcome is not None:
            turn = entity if entity in taint.messages else kind.context(state)[1] or ""
            message = names.of(taint.messages[turn]) if turn in taint.messages else ""
            # What counts for all of a conversation counts what is unknown too.
            shared = kind.single and not kind.is_root and taint.is_doubtful
            sure = not shared and taint.is_sure(entity) and taint.is_sure(turn)
            sure = sure or kind.is_root
            found.setdefault(kind.name, []).append(
                EntityOutcome(without_ids(outcome), message, sure)
            )
    return {name: sorted(several) for name, several in sorted(found.items())}


def _talk(
    log: Log, name: str, envelopes: list[Envelope], taint: Taint, names: _Messages
) -> ConversationOutcome:
    state = folded(log, name)
    budget, _, _ = replay(log, name, ledger.LIFECYCLE, entity="budget")
    root = ledger.find(budget, "session")
    payloads = [envelope.payload for envelope in envelopes]
    people = [rune for rune in payloads if isinstance(rune, agents.Spawning)]
    ends = _ends(envelopes, names)
    histories = [(each, History.read(log, name, each.agent_id, len(envelopes))) for each in people]
    shown = [_shown(each.role, each.agent_id, history, taint, names) for each, history in histories]
    results = {rune.call_id: rune.status for rune in payloads if isinstance(rune, tools.Result)}
    return ConversationOutcome(
        messages=[
            names.of(rune.message_id)
            for rune in payloads
            if isinstance(rune, sessions.InputAccepted)
        ],
        ends=ends,
        histories=sorted(shown, key=lambda each: (each.role, each.messages)),
        calls=_calls(payloads, results, taint, names),
        spent=0 if root is None else root.used.tool_calls,
        # Told once is told, also if a human has seen to it since.
        doubts=len(state.in_doubt) + sum(isinstance(rune, tools.Acknowledged) for rune in payloads),
        unknown=sum(status == "unknown" for status in results.values()),
        told_doubts=sum(
            message.status == "unknown" for _, history in histories for message in history.messages
        )
        # A caller that is no turn, such as a machine of an app, is told by the result: it folds it.
        + sum(
            isinstance(rune, tools.Called)
            and rune.caller not in taint.messages
            and results.get(rune.call_id) == "unknown"
            for rune in payloads
        ),
        shaken=[names.of(taint.messages[turn]) for turn in sorted(taint.shaken)],
        adrift=taint.adrift,
    )


def _calls(
    runes: list[Rune], results: Mapping[str, str], taint: Taint, names: _Messages
) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for rune in runes:
        if isinstance(rune, tools.Called):
            arguments = msgspec.json.encode(rune.arguments, order="deterministic").decode()
            status = results.get(rune.call_id, "")
            call = Call(rune.tool_name, nameless(arguments), status, rune.call_id not in taint.late)
            message = names.of(taint.messages.get(rune.caller, rune.caller))
            found.setdefault(message, []).append(call)
    return found


def _shown(role: str, agent: str, history: History, taint: Taint, names: _Messages) -> AgentHistory:
    """Return what is shown, but for ids."""
    messages: list[tuple[str, str]] = []
    turns = taint.turns.get(agent, [])
    begun = 0
    sure: int | None = None
    for who, group in itertools.groupby(history.messages, lambda message: message.role):
        several = list(group)
        if sure is None and any(message.call_id in taint.causes for message in several):
            sure = len(messages)
        for message in several:
            if who == "user":
                if sure is None and begun < len(turns) and turns[begun] in taint.from_the_start:
                    sure = len(messages)
                begun += 1
            messages.append((who, nameless(message.text)))
    return AgentHistory(
        role,
        messages,
        [names.of(taint.messages[turn]) for turn in turns],
        [nameless(taint.inputs[turn]) for turn in turns if turn not in taint.callers],
        sure,
    )


def _ends(envelopes: list[Envelope], names: _Messages) -> dict[str, TurnEnd]:
    messages: dict[str, str] = {}
    found: dict[str, TurnEnd] = {}
    for envelope in envelopes:
        owner = envelope.owner
        match envelope.payload:
            case turns.Started(turn_id=turn, message_id=message):
                messages[turn] = names.of(message)
            case turns.Completed(final_output=text):
                found[messages.get(owner, owner)] = TurnEnd("completed", nameless(text))
            case turns.Interrupted(reason=reason, partial_output=text):
                end = TurnEnd("interrupted", nameless(text), nameless(reason))
                found[messages.get(owner, owner)] = end
            case turns.Error(error_type=reason, partial_output=text):
                found[messages.get(owner, owner)] = TurnEnd("error", nameless(text), reason)
            case sessions.InputRefused(message_id=message, reason=reason):
                found[names.of(message)] = TurnEnd("refused", "", nameless(reason))
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


def encoded(value: LogOutcome) -> bytes:
    """Return it as JSON, for another process."""
    return msgspec.json.encode(value)


def decoded(value: bytes) -> LogOutcome:
    """Read it again."""
    return msgspec.json.decode(value, type=LogOutcome)

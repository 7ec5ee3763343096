"""What must hold of every rune, given what really happened outside."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from actors.agent.history import History
from actors.model import runes as models
from actors.model.runes import CRASH
from actors.session import runes as sessions
from actors.session.messages import is_handed_over
from actors.tool import runes as tools
from actors.tool.lifecycle import State as Call
from actors.turn import runes as turns
from actors.turn.lifecycle import spoken_by
from runefold.testing.simulation.checks.requests import Requests
from runefold.testing.simulation.world.models import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.kind import Kind, Kinds
    from actors.model.provider import Message, Request
    from actors.session.lifecycle import State as Session
    from actors.tool.context import Call as Running
    from runefold.testing.simulation.checks.ground_truth import GroundTruth
    from runelog.log import Log
    from runelog.rune import Envelope, Rune

NO_ROOM = (CRASH, "LogFull", "LogFailed")
"""Why words that were heard need not be on disk: they are dropped, and asked for again."""
ENDS = (turns.Completed, turns.Interrupted, turns.Error)


class Fold:
    """One entity, as the log has it."""

    __slots__ = ("kind", "seen", "state", "version")

    def __init__(self, kind: Kind) -> None:
        """Begin before its first rune."""
        self.kind = kind
        self.state: Any = kind.lifecycle.initial
        self.version = 0
        self.seen: Any = None
        """The state in memory that was last compared with this one, and was equal."""


class LogChecker:
    """Folds what is on disk, rune by rune, and holds it against what happened outside."""

    def __init__(self, truth: GroundTruth, kinds: Kinds) -> None:
        """Begin with an empty log of these kinds."""
        self._kinds = kinds
        self._truth = truth
        self.requests = Requests(truth)
        self.folds: dict[tuple[str, str], Fold] = {}
        self.accepted: dict[tuple[str, str], None] = {}
        """Every message that is on disk, by conversation and id, in the order they came."""
        self.began: dict[tuple[str, str], str] = {}
        """The turn of every message that became one."""
        self.ends: dict[tuple[str, str], Rune] = {}
        """How each message ended: its turn's end, or its refusal."""
        self._messages: dict[tuple[str, str], str] = {}
        """The message of every turn."""
        self._texts: dict[tuple[str, str], str] = {}
        """What the log has of each model call's words."""

    # -- what there is ------------------------------------------------------------------------

    def session(self, conversation: str) -> Session | None:
        """Return what a session's runes add up to, None if there is none."""
        fold = self.folds.get((conversation, "session"))
        return None if fold is None else fold.state

    def call(self, conversation: str, call_id: str) -> Call | None:
        """Return what a tool call's runes add up to, None if there is none."""
        fold = self.folds.get((conversation, call_id))
        return fold.state if fold is not None and isinstance(fold.state, Call) else None

    # -- rune by rune -------------------------------------------------------------------------

    def take(self, envelope: Envelope) -> None:
        """Take in one more rune that is on disk."""
        rune, name = envelope.payload, envelope.conversation
        if KEY.encode() in bytes(envelope.body):
            self._truth.complain("no secrets", f"{envelope.kind} of {envelope.owner} has the key")
        self.requests.about_messages(name, self.session(name), rune)
        self.requests.about_answers(name, self.call(name, envelope.owner), rune)
        self._about_messages(name, envelope.owner, rune)
        self._about_the_outside(name, envelope.owner, rune)
        key = (name, envelope.owner)
        if key not in self.folds and type(rune) in self._kinds.births:
            self.folds[key] = Fold(self._kinds.births[type(rune)])
        for entity in dict.fromkeys((envelope.owner, *envelope.observers)):
            fold = self.folds.get((name, entity))
            if fold is not None:
                fold.version += 1
                fold.state = fold.kind.lifecycle.apply(fold.state, rune)

    def _about_messages(self, name: str, owner: str, rune: Rune) -> None:
        """Look whether each message is accepted once and comes to one end."""
        match rune:
            case sessions.InputAccepted(message_id=message):
                self._once(message, (name, message) in self.accepted, "accepted")
                self.accepted[name, message] = None
            case turns.Started(turn_id=turn, message_id=message):
                self._once(message, (name, message) in self.began, "taken up")
                if (name, message) not in self.accepted:
                    self._truth.complain("accept first", f"{turn} is about {message}, unheard of")
                self.began[name, message] = turn
                self._messages[name, turn] = message
            case sessions.InputRefused(message_id=message):
                over = (name, message) in self.began or (name, message) in self.ends
                self._once(message, over, "refused")
                self.ends[name, message] = rune
            case turns.Completed() | turns.Interrupted() | turns.Error():
                self._ended(name, owner, rune)
            case _:
                pass

    def _about_the_outside(self, name: str, owner: str, rune: Rune) -> None:
        """Look whether models and tools really said what the log has."""
        match rune:
            case models.AssistantDelta(text=text):
                self._heard(name, owner, text)
            case models.Completed(model_call_id=call):
                if (name, call) not in self._truth.finished:
                    self._truth.complain("as said", f"{call} is completed, and is not")
                self._spoken(name, call)
                used = self._truth.used.get((name, call))
                if (rune.charged.tokens, rune.estimated) != (used, False):
                    charge = f"{rune.charged.tokens} tokens, not {used}"
                    self._truth.complain("as used", f"{call} is charged {charge}")
            case models.Cancelled(model_call_id=call):
                self._spoken(name, call)
            case models.Failed(model_call_id=call, error_type=kind) if kind not in NO_ROOM:
                self._spoken(name, call)
            case tools.Result(call_id=call, status="success", output=output):
                said = [*self._truth.returned.get(call, ()), *self._truth.told.get(call, ())]
                if said and output not in said:
                    self._truth.complain("as returned", f"{call} has {output!r}, not {said!r}")
                if said and rune.charged.tool_calls != 1:
                    self._truth.complain("as used", f"{call} took effect and is not charged")
            case tools.Result(call_id=call, status="cancelled"):
                self._cancelled(name, call)
            case _:
                pass

    def _cancelled(self, name: str, call: str) -> None:
        """Look whether a call that can be stopped was: it did not return, and runs no more."""
        found = self.call(name, call)
        if found is None or not found.call.rule.grace:
            return
        if call in self._truth.done:
            self._truth.complain("as returned", f"{call} is cancelled, and it returned something")
        if call in self._truth.at_work.get((name, found.call.caller), ()):
            self._truth.complain("as returned", f"{call} is cancelled, and it still runs")

    def _once(self, message: str, again: bool, what: str) -> None:  # noqa: FBT001 -- one word for three
        if again:
            self._truth.complain("once", f"{message} is {what} and was dealt with before")

    def _heard(self, name: str, call: str, text: str) -> None:
        found = self._texts[name, call] = self._texts.get((name, call), "") + text
        if not self._truth.said.get((name, call), "").startswith(found):
            said = self._truth.said.get((name, call))
            self._truth.complain("as said", f"{call} has {found!r} of {said!r}")

    def _spoken(self, name: str, call: str) -> None:
        said, found = self._truth.said.get((name, call), ""), self._texts.get((name, call), "")
        if said != found:
            self._truth.complain("as said", f"{call} ends with {found!r} of {said!r}")

    def _ended(self, name: str, turn: str, rune: Rune) -> None:
        assert isinstance(rune, ENDS)
        state = self.folds[name, turn].state
        last = spoken_by(state)
        text = self._texts.get((name, last), "")
        out = rune.final_output if isinstance(rune, turns.Completed) else rune.partial_output
        said = self._truth.said.get((name, last), "")
        # What a model call that crashed had said, and was not on disk yet, is kept with the turn.
        known = out.startswith(text) and said.startswith(out)
        if out != text and (isinstance(rune, turns.Completed) or not known):
            self._truth.complain("as said", f"{turn} ends with {out!r}, and {last} said {text!r}")
        message = self._messages.get((name, turn), "")
        if is_handed_over(rune):
            # Another turn takes it up.
            del self.began[name, message]
            return
        self._once(message, (name, message) in self.ends, "ended")
        self.ends[name, message] = rune

    # -- what is asked of the outside ---------------------------------------------------------

    def model_asked(self, log: Log, request: Request, call: str) -> None:
        """Look at a request as a model gets it: meant, new, and true to the log."""
        name = request.conversation
        fold = self.folds.get((name, call))
        if fold is None:
            self._truth.complain("intent first", f"a model is asked for {call}, not on disk")
            return
        if (name, call) in self._truth.said:
            self._truth.complain("asked once", f"a model is asked for {call} a second time")
        history = History.read(log, name, request.agent_id, fold.state.call.upto)
        # What another caller sends is no history of an agent.
        if request.agent_id and list(request.messages) != history.messages:
            shown = [*map(_short, request.messages)]
            had = [*map(_short, history.messages)]
            self._truth.complain("as the log has it", f"{call} is shown {shown}, not {had}")
        self.requests.shown(call, request.messages)
        for complaint in _unsound(request.messages):
            self._truth.complain("sound history", f"{call} is shown a history where {complaint}")

    def tool_runs(self, conversation: str, call_id: str) -> None:
        """Look at a run of a tool as it begins: meant, and allowed."""
        self._truth.done.discard(call_id)
        call = self.call(conversation, call_id)
        if call is None or not call.started:
            self._truth.complain("intent first", f"{call_id} runs, and no tool.started is on disk")
        elif call.status == "denied":
            self._truth.complain("not if denied", f"{call_id} runs, and it was denied")

    @contextlib.contextmanager
    def at_work(self, call: Running, *, safe: bool) -> Iterator[None]:
        """Look whether a call may run beside those of its turn that do and have no result yet."""
        working = self._truth.at_work.setdefault((call.conversation, call.caller), {})
        for other, other_safe in working.items():
            found = self.call(call.conversation, other)
            is_open = found is not None and not found.status and other != call.call_id
            if is_open and not (safe and other_safe):
                told = f"{call.call_id} runs while {other} does, and they must not"
                self._truth.complain("one at a time", told)
        working[call.call_id] = safe
        try:
            yield
        finally:
            working.pop(call.call_id, None)

    def took_effect(self, call_id: str, *, repeatable: bool) -> None:
        """Count an effect; once for each call, unless it is harmless or a human wants it again."""
        self._truth.effects[call_id] += 1
        times, most = self._truth.effects[call_id], 1 + self._truth.permitted[call_id]
        if times > most and not repeatable:
            self._truth.complain("effect once", f"{call_id} took effect {times} times")

    # -- what an app was told -----------------------------------------------------------------

    def promised(self, conversation: str, message: str) -> None:
        """Hold it against the log that an app was told its message is safe."""
        if (conversation, message) not in self.accepted:
            self._truth.complain("never lost", f"the app was told {message} is safe; it is not")

    def reported(self, conversation: str, message: str, status: str) -> None:
        """Hold it against the log that an app was told how a turn ended."""
        rune = self.ends.get((conversation, message))
        found = "" if rune is None else type(rune).__name__.lower()
        if found != status:
            told = f"the app was told {message} is {status}; on disk it is {found or 'open'}"
            self._truth.complain("never lost", told)


def open_work(checker: LogChecker, conversation: str) -> dict[str, int | None]:
    """Return what the index ought to say of a conversation: who has work left, until when."""
    found: dict[str, int | None] = {}
    for (name, entity), fold in checker.folds.items():
        if name == conversation and fold.kind.is_open(fold.state):
            found[entity] = fold.kind.deadline(fold.state)
    return found


def _short(message: Message) -> tuple[str, str, int]:
    return message.role, message.text[:40], len(message.calls)


def _unsound(messages: Any) -> list[str]:  # noqa: ANN401 -- a sequence of messages
    """Say where a call has not exactly one result, before anybody else speaks."""
    found: list[str] = []
    waiting: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.call_id not in waiting:
                found.append(f"{message.call_id} has a result too many")
            waiting.discard(message.call_id)
            continue
        if waiting:
            found.append(f"{sorted(waiting)} have no result when {message.role} speaks")
        waiting = {asked.call_id for asked in message.calls}
    if waiting:
        found.append(f"{sorted(waiting)} have no result at the end")
    if not messages or messages[-1].role == "assistant":
        found.append("there is nothing to answer")
    return found

"""What an agent's model is shown: a fold over the runes of its turns.

It is kept while the agent is alive and read from the log again when it wakes. Every call in it has
exactly one result, whatever was interrupted, because no turn ends before that is so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.model import runes as model
from actors.model.call_ids import turn_of
from actors.model.provider import Asked, Message
from actors.model.request_hash import MessagesHash
from actors.model.tokens import length_of_message
from actors.shell.shared_caches import SharedCache
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.log import Log
    from runelog.rune import Rune

RUNES: Final = frozenset[type["Rune"]](
    {
        turn.Started,
        turn.ToolCallsReceived,
        turn.ToolsFinished,
        turn.Interrupted,
        turn.Error,
        model.Completed,
        tool.Result,
    }
)
"""The runes of turns that a history is made of."""
KINDS: Final = frozenset(map(kind_of, RUNES | {model.AssistantDelta}))
"""Their kinds; the words of models are beside them in the log."""


HISTORY_VERSION: Final = 1
"""Raised when the same runes make other messages than before: model calls name it."""


class History:
    """The messages of one agent, in order."""

    def __init__(self) -> None:
        """Begin before the first message."""
        self.messages: list[Message] = []
        self._hash = MessagesHash()
        self.characters = 0
        """How long everything is together: what an estimate of tokens starts from."""
        self._answered = True
        """Whether the model's last words are among the messages."""
        self._said: Message | None = None
        """What it said and asked for, until its calls are begun."""

    def take(self, rune: Rune, text: Callable[[str], str]) -> None:
        """Take in a rune of one of the agent's turns; `text` gives the words of a model call."""
        match rune:
            case turn.Started(input=said):
                self._add(Message("user", said))
                self._answered = False
            case model.Completed(model_call_id=call, calls=calls):
                asked = tuple(Asked(c.call_id, c.tool_name, c.arguments, c.raw) for c in calls)
                self._said = Message("assistant", text(call), asked)
                if not asked:
                    self._add(self._said)
                    self._said = None
                self._answered = True
            case turn.ToolCallsReceived() if self._said is not None:
                self._add(self._said)
                self._said = None
            case tool.Result(call_id=call_id, status=status):
                self._add(Message("tool", told(rune), call_id=call_id, status=status))
            case turn.ToolsFinished():
                self._put_in_order()
                self._answered = False
            case turn.Interrupted(partial_output=partial) | turn.Error(partial_output=partial):
                self._put_in_order()
                if partial and (not self._answered or self._said is not None):
                    # Whatever it asked for last was never begun: only its words are kept.
                    self._add(Message("assistant", partial))
                self._said = None
                self._answered = True
            case _:
                pass

    def _put_in_order(self) -> None:
        """Have the last results as they were asked for, however they came: a crash changes that."""
        first = len(self.messages)
        while first and self.messages[first - 1].role == "tool":
            first -= 1
        asked = self.messages[first - 1].calls if first else ()
        place = {call.call_id: at for at, call in enumerate(asked)}
        results = self.messages[first:]
        ordered = sorted(results, key=lambda told: place.get(told.call_id, 0))
        if ordered != results:
            self.messages[first:] = ordered
            if self._hash.count > first:
                self._hash = MessagesHash()

    def hashed(self) -> MessagesHash:
        """Return the hash of the messages as they are now; each is looked at once."""
        self._hash.add(self.messages)
        return self._hash

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.characters += length_of_message(message)

    @classmethod
    def read(cls, log: Log, conversation: str, agent: str, until: int) -> History:
        """Read the history of an agent from the log, up to event `until`."""
        history = cls()
        turns: set[str] = set()
        words: dict[str, list[str]] = {}
        for envelope in log.read(conversation, until=until, kinds=KINDS):
            rune = envelope.payload
            if isinstance(rune, model.AssistantDelta):
                if turn_of(envelope.owner) in turns:
                    words.setdefault(envelope.owner, []).append(rune.text)
            elif isinstance(rune, turn.Started):
                if rune.agent_id == agent:
                    turns.add(rune.turn_id)
                    history.take(rune, _nothing)
            elif turns.intersection((envelope.owner, *envelope.observers)):
                history.take(rune, lambda call: "".join(words.pop(call, ())))
        return history


HISTORIES: Final = SharedCache[History]()
"""By agent."""


def _nothing(_call: str) -> str:
    return ""


def told(result: tool.Result) -> str:
    """Return what the model is told of a result."""
    output = _shown(result.output)
    match result.status:
        case "success":
            return output
        case "unknown":
            return (
                f"It is not known whether this call took effect: {result.error}. "
                "Assume neither, and check before you ask for it again."
            )
        case "timeout":
            return f"No result in time: {result.error} {output}".strip()
        case status if result.error.startswith(status):
            return f"{result.error} {output}".strip()
        case status:
            return f"{status}: {result.error} {output}".strip()


def _shown(output: Any) -> str:  # noqa: ANN401 -- whatever a tool returned
    if output is None:
        return ""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()

"""What an agent's model is shown: a fold over the runes of its turns.

It is kept while the agent is alive and read from the log again when it wakes. Every call in it has
exactly one result, whatever was interrupted, because no turn ends before that is so.

An agent that took over is shown what was said before in the turns of others: see `transcript`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.agent import runes as agents
from actors.agent.transcript import Transcript, told
from actors.model import runes as model
from actors.model.provider import Asked, Message
from actors.model.request_hash import MessagesHash
from actors.model.tokens import length_of_message
from actors.scheduling.pool import letting_others
from actors.session import runes as sessions
from actors.shell.shared_caches import SharedCache
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
_BESIDE: Final = frozenset[type["Rune"]](
    {model.AssistantDelta, agents.Spawning, sessions.HandedOver, tool.Called}
)
KINDS: Final = frozenset(map(kind_of, RUNES | _BESIDE))
"""Their kinds; the words of models are beside them in the log."""


HISTORY_VERSION: Final = 2
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
                asked = tuple(
                    Asked(c.call_id, c.tool_name, c.arguments, c.raw, c.provider_id) for c in calls
                )
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

    def catch_up(self, said: Iterable[Message]) -> None:
        """Take in what was said in the turns of others, before its own turn begins."""
        for message in said:
            self._add(message)
        self._answered = False

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
        return cls._read(log, conversation, agent, until)[0]

    @classmethod
    def unseen(cls, log: Log, conversation: str, agent: str, until: int) -> list[Message]:
        """Return what others said that an agent was not shown, up to event `until`."""
        return cls._read(log, conversation, agent, until)[1].messages()

    @classmethod
    def _read(
        cls, log: Log, conversation: str, agent: str, until: int
    ) -> tuple[History, Transcript]:
        history = cls()
        turns: set[str] = set()
        others = Transcript(agent)
        words: dict[str, list[str]] = {}

        def said(call: str) -> str:
            return "".join(words.pop(call, ()))

        for envelope in letting_others(log.read(conversation, until=until, kinds=KINDS)):
            rune = envelope.payload
            if isinstance(rune, model.AssistantDelta):
                words.setdefault(envelope.owner, []).append(rune.text)
            elif isinstance(rune, turn.Started) and rune.agent_id == agent:
                turns.add(rune.turn_id)
                if rune.catches_up:
                    history.catch_up(others.until(rune))
                else:
                    history.take(rune, said)
            elif isinstance(rune, sessions.HandedOver):
                others.hand_over(rune)
            elif turns.intersection((envelope.owner, *envelope.observers)):
                history.take(rune, said)
            else:
                others.take(rune, envelope, said)
        return history, others


HISTORIES: Final = SharedCache[History]()
"""By agent."""

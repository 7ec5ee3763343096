"""Which entities and messages depend on an outcome that is unknown: their state may differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.approval import runes as approvals
from actors.session import runes as sessions
from actors.tool import runes as tools
from actors.turn import runes as turns

if TYPE_CHECKING:
    from runelog.rune import Envelope


class Taint:
    """A fold over the runes of a conversation.

    A turn is shaken when one of its calls is unknown; so is every later turn of its agent, which is
    shown the same. A turn that such a one asks another agent for is shaken from its start, and one
    that gets its answer from such a one from there on.
    """

    def __init__(self) -> None:
        """Begin with nothing unknown."""
        self.turns: dict[str, list[str]] = {}
        """By agent."""
        self.messages: dict[str, str] = {}
        """By turn: what it was begun by."""
        self.inputs: dict[str, str] = {}
        """By turn: what it was told."""
        self.callers: dict[str, str] = {}
        """By turn: the call that another agent began it with."""
        self.shaken: set[str] = set()
        self.from_the_start: set[str] = set()
        """Of those, the turns that were shaken before they began."""
        self.causes: set[str] = set()
        """The calls whose results shook a turn."""
        self.late: set[str] = set()
        """The calls that were asked for by a turn that was shaken."""
        self.touched: set[str] = set()
        """Entities of whatever kind that heard of something unknown, or of one that did."""
        self.adrift = False
        """Whether a turn that was shaken decided who speaks from then on."""
        self._begun: set[str] = set()
        """Calls that were started."""
        self._questions: set[str] = set()
        """Approvals that ask what became of a call: no undisturbed run has them."""
        self._turn_of: dict[str, str] = {}
        self._agent_of: dict[str, str] = {}
        self._agents: set[str] = set()

    @property
    def is_doubtful(self) -> bool:
        """Whether anything is unknown."""
        return bool(self.causes)

    def is_sure(self, entity: str) -> bool:
        """Return True if nothing that is unknown led to what an entity came to."""
        return not any(entity in each for each in (self.shaken, self.touched, self._questions))

    def take(self, envelope: Envelope) -> None:
        """Take in a rune."""
        if envelope.owner in self.touched:
            self.touched.update(envelope.observers)
        match envelope.payload:
            case turns.Started(turn_id=turn, agent_id=agent, message_id=message, input=text):
                self._started(turn, agent, message, text)
            case tools.Called(call_id=call, caller=turn):
                self._turn_of[call] = turn
                if not self.is_sure(turn):
                    self.late.add(call)
                    self.touched.add(call)
            case tools.Started(call_id=call):
                self._begun.add(call)
            case approvals.Requested(asker=call) if call in self._begun:
                self._questions.add(envelope.owner)
            case tools.Result(call_id=call, status=status):
                asked = {turn for turn, caller in self.callers.items() if caller == call}
                if status == "unknown" or asked & self.shaken:
                    self.causes.add(call)
                    self.touched |= {call, *envelope.observers}
                    self._shake(self._turn_of.get(call, ""))
            case sessions.HandedOver(sender=sender) if sender in self._agents:
                self.adrift = True
            case _:
                pass

    def _started(self, turn: str, agent: str, message: str, text: str) -> None:
        self.turns.setdefault(agent, []).append(turn)
        self.messages[turn] = message
        self.inputs[turn] = text
        self._agent_of[turn] = agent
        if message in self._turn_of:
            self.callers[turn] = message
        if self.adrift or agent in self._agents or self._turn_of.get(message, "") in self.shaken:
            self.from_the_start.add(turn)
            self._shake(turn)

    def _shake(self, turn: str) -> None:
        if turn in self._agent_of:
            self.shaken.add(turn)
            self._agents.add(self._agent_of[turn])

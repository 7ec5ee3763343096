"""What was said in the turns of other agents, for an agent that takes over.

Users' messages are as they were. What another agent said is told under its name, its calls in a
line each: to the one that takes over they are news, not words of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from actors.agent import runes as agents
from actors.model import runes as model
from actors.model.provider import Message
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.rune import Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.session.runes import HandedOver
    from runelog.rune import Envelope, Rune

LONGEST: Final = 500
"""So many characters are told of the arguments of a call, and of its result."""


class _Line(NamedTuple):
    """One thing that was said."""

    message: Message
    message_id: str = ""
    """Of a user's message: its id."""
    is_call: bool = False


class Transcript:
    """What was said in the turns of others since one agent last caught up."""

    def __init__(self, agent: str) -> None:
        """Begin with nothing said to `agent`."""
        self._agent = agent
        self._lines: list[_Line] = []
        self._names: dict[str, str] = {}
        self._turns: dict[str, turn.Started] = {}
        self._calls: dict[str, tool.Called] = {}
        self._handed: HandedOver | None = None

    def take(self, rune: Rune, envelope: Envelope, text: Callable[[str], str]) -> None:
        """Take in a rune of another agent's turn; `text` gives the words of a model call."""
        match rune:
            case agents.Spawning(agent_id, role, name=name):
                self._names[agent_id] = name or role
            case turn.Started(asked_in=""):
                self._turns[rune.turn_id] = rune
                if not rune.continues:
                    self._add(_Line(Message("user", rune.input), rune.message_id))
            case model.Completed(model_call_id=call):
                self._say(envelope, text(call))
            case turn.Interrupted(partial_output=partial) | turn.Error(partial_output=partial):
                self._say(envelope, partial)
            case tool.Called() if envelope.visibility is not Visibility.SECRET:
                self._calls[rune.call_id] = rune
            case tool.Result(call_id=call_id):
                called = self._calls.pop(call_id, None)
                if called is not None and envelope.visibility is not Visibility.SECRET:
                    self._tell(envelope, called, rune)
            case _:
                pass

    def messages(self) -> list[Message]:
        """Return all of it."""
        return [line.message for line in self._lines]

    def hand_over(self, rune: HandedOver) -> None:
        """Note how much of this the agent is to be shown, if it is the one that takes over."""
        self._calls.pop(rune.call_id, None)
        if rune.to == self._agent:
            self._handed = rune

    def until(self, begins: turn.Started) -> Iterator[Message]:
        """Yield what the agent is shown before its turn, the message of the turn included."""
        handed, lines = self._handed, self._lines
        assert handed is not None
        if handed.tools == "omit":
            lines = [line for line in lines if not line.is_call]
        if handed.last is not None:
            lines = lines[len(lines) - handed.last :] if handed.last < len(lines) else lines
        if handed.briefing is not None:
            lines = [_Line(Message("user", text)) for text in handed.briefing]
        self._lines = []
        yield from (line.message for line in lines)
        if begins.message_id not in {line.message_id for line in lines}:
            yield Message("user", begins.input)

    def _say(self, envelope: Envelope, text: str) -> None:
        if text and (name := self._name_of(envelope)):
            self._add(_Line(Message("user", f"[{name}] {text}")))

    def _tell(self, envelope: Envelope, called: tool.Called, result: tool.Result) -> None:
        if name := self._name_of(envelope):
            asked = f"{called.tool_name}({_short(shown(called.arguments))})"
            line = f"[{name} called {asked}: {_short(told(result))}]"
            self._add(_Line(Message("user", line), is_call=True))

    def _name_of(self, envelope: Envelope) -> str:
        """Return the name of the agent whose turn a rune is of; empty if it is shown to no other.

        What an agent answers to another one in a question of its own is between the two.
        """
        started = self._turns.get(envelope.turn or "")
        return "" if started is None else self._names.get(started.agent_id, started.agent_id)

    def _add(self, line: _Line) -> None:
        self._lines.append(line)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def told(result: tool.Result) -> str:
    """Return what the model is told of a result."""
    output = shown(result.output)
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


def shown(output: Any) -> str:  # noqa: ANN401 -- whatever a tool returned
    """Return a value as a model is shown it."""
    if output is None:
        return ""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()

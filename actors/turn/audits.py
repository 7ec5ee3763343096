"""Turns: one at a time for each agent, in order, and each comes to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.audit import Audit, Found
from actors.turn import runes as turn
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope


class Turns(Audit):
    """One turn at a time for each agent, in order, and each comes to its end."""

    holds = ("INV-TURN-SEQUENTIAL", "INV-TURN-TERMINAL", "INV-TURN-ORDER")

    def __init__(self) -> None:
        """Begin before the first turn."""
        self._running: dict[str, str] = {}
        """The agent of each turn that runs."""
        self._number = 0

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong about the beginning or the end of a turn."""
        at, owner = envelope.event_id, envelope.owner
        match rune := envelope.payload:
            case turn.Started(turn_id=name, agent_id=agent):
                for other, theirs in self._running.items():
                    if theirs == agent:
                        message = f"{agent} begins {name} while it runs {other}"
                        yield Found("INV-TURN-SEQUENTIAL", at, message)
                number = name.rpartition("_")[2]
                if not number.isdecimal() or int(number) <= self._number:
                    message = f"{name} begins after turn {self._number}"
                    yield Found("INV-TURN-ORDER", at, message)
                self._number = int(number) if number.isdecimal() else self._number
                self._running[name] = agent
            case turn.Completed() | turn.Interrupted() | turn.Error():
                if self._running.pop(owner, None) is None:
                    message = f"{owner} ends with {kind_of(rune)} and was not running"
                    yield Found("INV-TURN-TERMINAL", at, message)
            case _:
                pass

    def rest(self, at: int) -> Iterator[Found]:
        """Yield the turns that have not ended."""
        for name in self._running:
            yield Found("INV-TURN-TERMINAL", at, f"{name} began and never ended")

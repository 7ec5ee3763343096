"""Supervision: every entity begins under one that is there, and a crash stays where it happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.agent import runes as agents
from actors.audit import Audit, Found
from actors.model import runes as model
from actors.session import runes as session
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope

SUPERVISED: Final = "INV-AGENT-SUPERVISED"


class Supervision(Audit):
    """What begins does so under an entity that lives; and none ends because of a sibling.

    Looked at where a session was created: what is only a part of a log says nothing about it.
    """

    holds = (SUPERVISED,)

    def __init__(self) -> None:
        """Begin without any entity."""
        self._is_session = False
        self._parents: dict[str, str | None] = {}
        """The parent of each agent that lives."""
        self._living: set[str] = set()
        """Entities of any kind that own a rune and have not ended."""
        self._turns: dict[str, str] = {}
        """Whose turn it is, of those that run."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what begins without a parent, or ends because of another entity."""
        at, owner = envelope.event_id, envelope.owner
        self._living.add(owner)
        match rune := envelope.payload:
            case session.Created():
                self._is_session = True
            case agents.Spawning(agent_id=name, parent_id=parent):
                yield from self._spawned(at, name, parent)
            case agents.Failed(agent_id=name) | agents.Terminated(agent_id=name):
                yield from self._gone(at, name, rune)
            case turn.Started(turn_id=name, agent_id=agent):
                self._turns[name] = agent
                if agent not in self._parents:
                    yield from self._say(at, f"{name} begins under {agent}, which is not there")
            case model.Called(caller=of, agent_id=agent) | tool.Called(caller=of, agent_id=agent):
                if self._turns.get(of) != agent if agent else of not in self._living:
                    message = f"{owner} begins under {of} of {agent}, which does not run"
                    yield from self._say(at, message)
            case turn.Completed() | turn.Interrupted() | turn.Error():
                self._turns.pop(owner, None)
            case _:
                pass

    def skipped(self, envelope: Envelope) -> None:
        """Take notice of an entity of a kind that is not known: it may call tools."""
        self._living.add(envelope.owner)

    def ended(self, at: int, entity: str) -> Iterator[Found]:
        """Take notice of an end."""
        del at
        self._living.discard(entity)
        yield from ()

    def _spawned(self, at: int, name: str, parent: str | None) -> Iterator[Found]:
        if name in self._parents:
            yield from self._say(at, f"{name} is spawned a second time")
        if parent is None and None in self._parents.values():
            yield from self._say(at, f"{name} has no parent, and there is a root already")
        if parent is not None and parent not in self._parents:
            yield from self._say(at, f"{name} is spawned by {parent}, which is not there")
        self._parents[name] = parent

    def _gone(self, at: int, name: str, rune: agents.Failed | agents.Terminated) -> Iterator[Found]:
        if name not in self._parents:
            yield from self._say(at, f"{name} ends with {kind_of(rune)} and was not there")
            return
        parent = self._parents.pop(name)
        closed = isinstance(rune, agents.Terminated) and rune.reason == session.PARENT_CLOSED
        if closed and parent in self._parents and not self._is_orphan(parent):
            message = f"{name} goes because its parent closed, and {parent} is still there"
            yield from self._say(at, message)

    def _is_orphan(self, name: str | None) -> bool:
        """Return True if an ancestor has ended: then it ends too, perhaps a moment later."""
        while name is not None:
            if name not in self._parents:
                return True
            name = self._parents[name]
        return False

    def _say(self, at: int, message: str) -> Iterator[Found]:
        if self._is_session:
            yield Found(SUPERVISED, at, message)

"""Privacy: a secret rune is in no fold of another agent, so it gets into none of its prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.audit import Audit, Found
from runelog.rune import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope


class Privacy(Audit):
    """A secret is observed by entities of its own agent only."""

    holds = ("INV-MEMORY-PRIVACY",)

    def __init__(self) -> None:
        """Begin without knowing which agent an entity belongs to."""
        self._agents: dict[str, str] = {}
        """The agent that an entity belongs to, as its first rune says."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield each entity that observes a secret of an agent that is not its own."""
        if envelope.agent is not None:
            self._agents.setdefault(envelope.owner, envelope.agent)
        if envelope.visibility is not Visibility.SECRET:
            return
        for name in (envelope.owner, *envelope.observers):
            theirs = self._agents.get(name)
            if theirs is not None and theirs != envelope.agent:
                message = f"a secret of {envelope.agent} is in the fold of {name} ({theirs})"
                yield Found("INV-MEMORY-PRIVACY", envelope.event_id, message)

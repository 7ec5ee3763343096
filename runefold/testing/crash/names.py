"""Names for what is seen of an app: whatever has a new id in each run is numbered instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from actors.agent.runes import Spawning
from actors.model import runes as models
from actors.tool import runes as tools
from runefold.testing.crash.points import Effect
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Change, Rune

FRAGMENT: Final = kind_of(models.AssistantDelta)
_MADE_UP: Final = re.compile(r"[0-9a-f]{8}|[0-9]{6}", re.IGNORECASE)
"""What an id has in it that is random, or a time.

Others are kept as they are: of conversations that begin beside each other, it is a matter of time
which one is the first.
"""


class Names:
    """Names for what has only ids, the same in every run: the second call of a tool, say."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._names: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._tools: dict[str, str] = {}

    def of(self, entity: str) -> str:
        """Return the name of an entity; its id, if that is the same in every run."""
        return self._names.get(entity, entity)

    def numbered(self, entity: str, kind: str, talk: str = "") -> str:
        """Return the name of an entity; if it has none, the how manieth of its kind it is.

        In its own conversation: which of several comes first is a matter of time.
        """
        if entity not in self._names:
            count = self._counts[talk, kind] = self._counts.get((talk, kind), 0) + 1
            self._names[entity] = f"{kind}#{count}"
        return self._names[entity]

    def talk(self, conversation: str) -> str:
        """Return the name of a conversation; a number, if its id looks made up anew each time."""
        if _MADE_UP.search(conversation) is None:
            return conversation
        return self.numbered(conversation, "conversation")

    def marks(self, conversation: str, changes: Sequence[Change]) -> list[str]:
        """Return what an append is told by: each of its runes, for others may be beside them.

        What is written together is a matter of time, as is where an answer is cut into fragments.
        """
        talk = self.talk(conversation)
        found: list[str] = []
        for change in changes:
            for rune in change.runes:
                match rune:
                    case tools.Called(call_id=call, tool_name=name):
                        self.numbered(call, name, talk)
                        self._tools[call] = name
                    case Spawning(agent_id=agent, role=role):
                        self.numbered(agent, role, talk)
                    case _:
                        pass
                if not isinstance(rune, models.AssistantDelta):
                    found.append(f"{talk} {self.of(change.entity)} {kind_of(rune)}")
        if found:
            return found
        owner = self.of(changes[0].entity) if changes else ""
        kind = FRAGMENT if any(change.runes for change in changes) else "index"
        return [f"{talk} {owner} {kind}"]

    def over(self, conversation: str, runes: Sequence[Rune]) -> list[str]:
        """Return by what fragments are told of which there are no more: the answer is all there.

        Where one ends is a matter of time: the last may be a commit of its own, or none.
        """
        talk = self.talk(conversation)
        return [
            f"{talk} {self.of(rune.model_call_id)} {FRAGMENT}"
            for rune in runes
            if isinstance(rune, models.Completed | models.Failed | models.Cancelled)
        ]

    def effects(self, conversation: str, runes: Sequence[Rune]) -> list[Effect]:
        """Return what some runes begin outside."""
        talk = self.talk(conversation)
        found = []
        for rune in runes:
            match rune:
                case tools.Started(call_id=call) | tools.Retried(call_id=call):
                    mark = f"{talk} {self.of(call)} {kind_of(rune)}"
                    found.append(Effect("tool", self._tools.get(call, ""), call, mark=mark))
                case models.Called(model_call_id=call, model=model):
                    mark = f"{talk} {call} {kind_of(rune)}"
                    found.append(Effect("model", model, call, mark=mark))
                case _:
                    pass
        return found

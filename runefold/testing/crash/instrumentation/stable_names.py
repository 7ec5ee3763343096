"""Names for what is seen of an app: whatever has a new id in each run is numbered instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from actors.entity import nameless
from actors.model import runes as models
from actors.tool import runes as tools
from runefold.testing.crash.plan.points import Effect
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.kind import Kinds
    from runelog.rune import Change, Rune

_MADE_UP: Final = re.compile(r"[0-9a-f]{8}|[0-9]{6}", re.IGNORECASE)
"""What an id has in it that is random, or a time.

Others are kept as they are: of conversations that begin beside each other, it is a matter of time
which one is the first.
"""


class Names:
    """Names for what has only ids, the same in every run: the second call of a tool, say."""

    def __init__(self, kinds: Kinds) -> None:
        """Begin with nothing seen of entities of these kinds."""
        self._kinds = kinds
        self._pieces = frozenset(rune for kind in kinds for rune in kind.pieces)
        self._streams = {
            ending: kind.pieces for kind in kinds if kind.pieces for ending in kind.endings
        }
        """The runes that end a stream of pieces, and what those pieces are."""
        self._names: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._labels: dict[str, str] = {}

    def of(self, entity: str) -> str:
        """Return the name of an entity; its id, if that is the same in every run."""
        return self._names.get(entity, entity)

    def numbered(self, entity: str, kind: str, talk: str = "") -> str:
        """Return the name of an entity; if it has none, its number among those of its kind.

        In its own conversation: which of several comes first depends on time.
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

    def _born(self, entity: str, rune: Rune, talk: str) -> None:
        """Name an entity by the label of its kind; one whose id is new in each run, by its kind."""
        kind = self._kinds.births.get(type(rune))
        if kind is None:
            return
        if kind.label:
            self._labels[entity] = getattr(rune, kind.label)
            self.numbered(entity, self._labels[entity], talk)
        elif nameless(entity) != entity:
            self.numbered(entity, kind.name, talk)

    def marks(self, conversation: str, changes: Sequence[Change]) -> list[str]:
        """Return what an append is told by: each of its runes, for others may be beside them.

        What is written together depends on time, as does where a stream is cut into pieces.
        """
        talk = self.talk(conversation)
        found: list[str] = []
        for change in changes:
            for rune in change.runes:
                self._born(change.entity, rune, talk)
                if type(rune) not in self._pieces:
                    found.append(f"{talk} {self.of(change.entity)} {kind_of(rune)}")
        if found:
            return found
        owner = self.of(changes[0].entity) if changes else ""
        pieces = [kind_of(rune) for change in changes for rune in change.runes]
        return [f"{talk} {owner} {pieces[0] if pieces else 'index'}"]

    def over(self, conversation: str, changes: Sequence[Change]) -> list[str]:
        """Return by what pieces are told of which there are no more: their stream has ended.

        Where one ends depends on time: the last may be a commit of its own, or none.
        """
        talk = self.talk(conversation)
        return [
            f"{talk} {self.of(change.entity)} {kind_of(piece)}"
            for change in changes
            for rune in change.runes
            for piece in self._streams.get(type(rune), ())
        ]

    def effects(self, conversation: str, runes: Sequence[Rune]) -> list[Effect]:
        """Return what some runes begin outside."""
        talk = self.talk(conversation)
        found = []
        for rune in runes:
            match rune:
                case tools.Started(call_id=call) | tools.Retried(call_id=call):
                    mark = f"{talk} {self.of(call)} {kind_of(rune)}"
                    found.append(Effect("tool", self._labels.get(call, ""), call, mark=mark))
                case models.Called(model_call_id=call, model=model):
                    mark = f"{talk} {call} {kind_of(rune)}"
                    found.append(Effect("model", model, call, mark=mark))
                case _:
                    pass
        return found

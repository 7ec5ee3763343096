"""A decision on its way into the log: what changes, in order, and what that makes of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.hall import Newborn
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.entity import Entity, Place, Placed
    from actors.hall import Hall, Ward
    from runelog.rune import Rune


class Author(Protocol):
    """Whoever decided."""

    @property
    def entity(self) -> Entity:
        """What kind of entity it is."""
        ...

    me: str
    version: int
    noted: tuple[bool, int | None] | None
    """What the index says of it: whether it has work left, and its deadline; None if unknown."""

    event: int
    """The last event it knows of, 0 if none: that led to the decision."""


class _Other:
    """A ward, or a newborn, as this decision makes it."""

    __slots__ = ("kind", "name", "runes", "state", "ward")

    def __init__(self, name: str, kind: Entity, state: Any, ward: Ward | None) -> None:  # noqa: ANN401 -- any law's
        self.name = name
        self.kind = kind
        self.state = state
        self.ward = ward
        """As the hall has it until then; a newborn is none."""
        self.runes: list[Rune] = []


_UNSAID: Final = (None, None)


class Draft:
    """Lays out runes as changes; folds the wards and the newborn that they concern."""

    def __init__(
        self,
        hall: Hall,
        author: Author,
        after: Any,  # noqa: ANN401 -- of whichever law
        placed: Iterable[Placed],
    ) -> None:
        """Lay out what was decided and leads to `after`."""
        self._hall = hall
        self._me = author.me
        # What is on the page already, nobody else can have come between.
        self._touched = hall.page.touched
        self._version = None if author.me in self._touched else author.version
        """What the author's stream is expected to have; it is said once for each."""
        self._parts: list[tuple[Place, int | None, list[Rune]]] = []
        """Consecutive runes of one place, and the version that the stream must have."""
        self._others: dict[str, _Other | None] = {}
        """Whoever else is written to; None for one whose own actor folds it."""
        self._births: list[_Other] = []
        self._wards: list[_Other] = []
        self.own: list[Rune] = []
        """Those of the runes that are in the author's own stream."""
        self.count = 0
        """How many runes there are."""
        for place, rune in placed:
            self._add(place, rune)
        decided = len(self.own)
        for birth in self._births:
            self._see_to(birth)
        for ward in self._wards:
            self._see_to(ward)
        # What these decided at once, and it observes, it has not folded yet.
        for rune in self.own[decided:]:
            after = author.entity.lifecycle.apply(after, rune)
        self.after = after
        """The author's state once all of it has happened."""
        is_open = author.entity.is_open(after)
        self.noted = (is_open, author.entity.deadline(after) if is_open else None)
        notes = self._notes() if self._others else {}
        if self.noted != author.noted:
            notes[author.me] = self.noted
        self.changes = self._changes(notes, author.entity.context(after), author.event)

    # -- laying out ---------------------------------------------------------------------------

    def _add(self, place: Place, rune: Rune) -> None:
        parts, others, me = self._parts, self._others, self._me
        owner, observers = place.owner, place.observers
        if not parts or parts[-1][0] != place:
            if owner == me:
                expected, self._version = self._version, None
            else:
                expected = None if owner in others else self._meet(owner, rune)
            parts.append((place, expected, [rune]))
        else:
            parts[-1][2].append(rune)
        self.count += 1
        for entity in (owner, *observers):
            if entity == me:
                self.own.append(rune)
            elif entity in others and (other := others[entity]) is not None:
                other.state = other.kind.lifecycle.apply(other.state, rune)
                other.runes.append(rune)

    def _meet(self, owner: str, rune: Rune) -> int | None:
        """Find out who is written to; return the version that its stream must have."""
        ward = self._hall.find_ward(owner)
        if ward is not None:
            other = self._others[owner] = _Other(owner, ward.entity, ward.state, ward)
            self._wards.append(other)
            return None if owner in self._touched else ward.version
        kind = self._hall.births.get(type(rune))
        if kind is None:
            # Written for an entity whose own actor cannot: the log still counts its version.
            self._others[owner] = None
            return None
        other = self._others[owner] = _Other(owner, kind, kind.lifecycle.initial, None)
        self._births.append(other)
        return 0

    def _see_to(self, other: _Other) -> None:
        """Let a newborn, or a ward, decide at once what is due inward."""
        if other.kind.inward:
            for place, rune in other.kind.cascaded(other.name, other.state, ())[1]:
                self._add(place, rune)

    # -- what the index is told ---------------------------------------------------------------

    def _notes(self) -> dict[str, tuple[bool | None, int | None]]:
        """Say of each of the others whether it has work left, and by when, where that is new."""
        notes: dict[str, tuple[bool | None, int | None]] = {}
        for birth in self._births:
            if birth.kind.is_open(birth.state):
                notes[birth.name] = (True, birth.kind.deadline(birth.state))
        for other in self._wards:
            kind, state, ward = other.kind, other.state, other.ward
            assert ward is not None
            if kind.is_open(state):
                notes[other.name] = (True, kind.deadline(state))
            elif kind.is_open(ward.state):
                notes[other.name] = (False, None)
        return notes

    def _changes(
        self,
        notes: dict[str, tuple[bool | None, int | None]],
        context: tuple[str | None, str | None],
        cause: int,
    ) -> list[Change]:
        """Return all of it as changes; the first one of each entity has what is noted of it."""
        changes = []
        for place, expected, runes in self._parts:
            owner = place.owner
            agent, turn = context
            if self._births:
                other = self._others.get(owner)
                if other is not None and other.ward is None:
                    agent, turn = other.kind.context(other.state)
            is_open, by = notes.pop(owner, _UNSAID) if notes else _UNSAID
            changes.append(
                Change(
                    owner,
                    expected,
                    runes,
                    place.observers,
                    agent=agent,
                    turn=turn,
                    cause=cause,
                    open=is_open,
                    deadline=by,
                )
            )
        if notes:
            # What is left is of the author, if all that it decided is for others.
            is_open, by = notes[self._me]
            agent, turn = context
            changes.append(
                Change(
                    self._me,
                    self._version,
                    [],
                    agent=agent,
                    turn=turn,
                    cause=cause,
                    open=is_open,
                    deadline=by,
                )
            )
        return changes

    # -- afterwards ---------------------------------------------------------------------------

    def believe(self, last: int) -> dict[str, Newborn]:
        """Take over what became of the wards; return the newborn as they are after `last`."""
        for other in self._wards:
            assert other.ward is not None
            other.ward.state = other.state
            other.ward.version += len(other.runes)
        found = {}
        for birth in self._births:
            runes = tuple(birth.runes)
            found[birth.name] = Newborn(birth.state, len(runes), last, runes)
        return found

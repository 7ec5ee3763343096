"""A decision on its way into the log: what changes, in order, and what that makes of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.hall import Newborn, Ward
from actors.report import talkative
from actors.telling import Telling
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.entity import Placed, Routing
    from actors.hall import Hall
    from actors.kind import Kind
    from runelog.rune import Rune


class Author(Protocol):
    """Whoever decided."""

    @property
    def kind(self) -> Kind:
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

    def __init__(self, name: str, kind: Kind, state: Any, ward: Ward | None) -> None:  # noqa: ANN401 -- any law's
        self.name = name
        self.kind = kind
        self.state = state
        self.ward = ward
        """As the hall has it until then; a newborn is none."""
        self.runes: list[Rune] = []

    def take(self, rune: Rune) -> None:
        """Fold a rune."""
        self.state = self.kind.lifecycle.apply(self.state, rune)
        self.runes.append(rune)


_UNSAID: Final = (None, None)
_NOWHERE: Final[tuple[None, None, list[Rune]]] = (None, None, [])


class Draft:
    """Lays out runes as changes; folds the wards and the newborn that they concern."""

    def __init__(
        self,
        hall: Hall,
        author: Author,
        after: Any,  # noqa: ANN401 -- of whichever law
        placed: Sequence[Placed],
    ) -> None:
        """Lay out what was decided and leads to `after`."""
        kind, me = author.kind, author.me
        self._hall = hall
        self._me = me
        # What is on the page already, nobody else can have come between.
        self._touched = hall.page.touched
        self._version = None if me in self._touched else author.version
        """What the author's stream is expected to have; it is said once for each."""
        self._parts: list[tuple[Routing, int | None, list[Rune]]] = []
        """Consecutive runes of one place, and the version that the stream must have."""
        self._others: dict[str, _Other | None] = {}
        """Whoever else is written to; None for one whose own actor folds it."""
        self._births: list[_Other] = []
        self._wards: list[_Other] = []
        self.own: list[Rune] = []
        """Those of the runes that are in the author's own stream."""
        self.count = 0
        """How many runes there are."""
        self._lay_out(placed)
        notes: dict[str, tuple[bool | None, int | None]] = {}
        if self._others:
            decided = len(self.own)
            for birth in self._births:
                # The wards after each: what one newborn makes due goes before what the next does.
                self._see_to(birth)
                self._see_to_wards()
            if not self._births:
                self._see_to_wards()
            # What these decided at once, and it observes, it has not folded yet.
            for rune in self.own[decided:]:
                after = kind.lifecycle.apply(after, rune)
            self._note(notes)
        self.after = after
        """The author's state once all of it has happened."""
        is_open = kind.is_open(after)
        self.noted = (is_open, kind.deadline(after) if is_open else None)
        if self.noted != author.noted:
            notes[me] = self.noted
        self.changes = self._changes(notes, kind.context(after), author.event)

    # -- laying out ---------------------------------------------------------------------------

    def _lay_out(self, placed: Sequence[Placed]) -> None:
        """Add runes behind what is there; whoever they concern beside the author folds them."""
        parts, others, own, me = self._parts, self._others, self.own, self._me
        at, _, runes = parts[-1] if parts else _NOWHERE
        for place, each in placed:
            rune = each
            owner = place.owner
            if owner != me:
                rune = self._stamped(owner, rune)
            if place == at:
                runes.append(rune)
            else:
                if owner == me:
                    expected, self._version = self._version, None
                else:
                    expected = None if owner in others else self._meet(owner, rune)
                at, runes = place, [rune]
                parts.append((place, expected, runes))
            if owner == me:
                own.append(rune)
            elif (other := others[owner]) is not None:
                other.take(rune)
            for entity in place.observers:
                if entity == me:
                    own.append(rune)
                elif (other := others.get(entity)) is not None:
                    other.take(rune)
        self.count += len(placed)

    def _stamped(self, owner: str, rune: Rune) -> Rune:
        """Return a rune of a newborn with the deadline of the phase that it enters."""
        other = self._others.get(owner)
        kind = self._hall.kinds.births.get(type(rune)) if other is None else other.kind
        if kind is None or not kind.lifecycle.enforced:
            return rune
        state = kind.lifecycle.initial if other is None else other.state
        return self._hall.stamp(kind.lifecycle, state, rune)

    def _meet(self, owner: str, rune: Rune) -> int | None:
        """Find out who is written to; return the version that its stream must have."""
        ward = self._hall.find_ward(owner)
        if ward is not None:
            other = self._others[owner] = _Other(owner, ward.kind, ward.state, ward)
            self._wards.append(other)
            return None if owner in self._touched else ward.version
        kind = self._hall.kinds.births.get(type(rune))
        if kind is None:
            # Written for an entity whose own actor cannot: the log still counts its version.
            self._others[owner] = None
            return None
        other = self._others[owner] = _Other(owner, kind, kind.lifecycle.initial, None)
        self._births.append(other)
        return 0

    def _see_to_wards(self) -> None:
        """Let each of the wards decide at once what is due inward."""
        for ward in self._wards:
            self._see_to(ward)

    def _see_to(self, other: _Other) -> None:
        """Let a newborn, or a ward, decide at once what is due inward."""
        kind = other.kind
        # Mostly there is nothing: that is found out first.
        if kind.internal and (due := kind.lifecycle.due(other.state)):
            stamp = self._hall.stamp if kind.lifecycle.enforced else None
            self._lay_out(kind.cascaded(other.name, other.state, (), due, stamp)[1])

    # -- what the index is told ---------------------------------------------------------------

    def _note(self, notes: dict[str, tuple[bool | None, int | None]]) -> None:
        """Say of each of the others whether it has work left, and by when, where that is new."""
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

    def _changes(
        self,
        notes: dict[str, tuple[bool | None, int | None]],
        context: tuple[str | None, str | None],
        cause: int,
    ) -> list[Change]:
        """Return all of it as changes; the first one of each entity has what is noted of it."""
        changes = []
        births, others = self._births, self._others
        agent, turn = context
        for place, expected, runes in self._parts:
            owner = place.owner
            if births:
                agent, turn = context
                if (other := others.get(owner)) is not None and other.ward is None:
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
        hall, tells = self._hall, talkative()
        for other in self._wards:
            ward = other.ward
            assert ward is not None
            if tells:
                self._tell_of(other, ward.state, last)
            ward.state = other.state
            ward.version += len(other.runes)
        found: dict[str, Newborn] = {}
        for birth in self._births:
            runes = tuple(birth.runes)
            if birth.kind.actor is None:
                hall.adopt(birth.name, Ward(birth.kind, birth.state, len(runes)))
                if tells:
                    self._tell_of(birth, birth.kind.lifecycle.initial, last)
            else:
                found[birth.name] = Newborn(birth.state, len(runes), last, runes)
        return found

    def _tell_of(self, other: _Other, before: Any, last: int) -> None:  # noqa: ANN401 -- any law's
        """Tell operators of an entity that has no actor; one with a single phase never moves."""
        if len(other.kind.lifecycle.table) == 1:
            return
        agent = other.kind.context(other.state)[0]
        Telling(self._hall, other.kind, other.name).of(before.phase, other.runes, agent, last)

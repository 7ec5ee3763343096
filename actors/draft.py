"""A decision on its way into the log: what changes, in order, and what that makes of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actors.hall import Newborn
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.entity import Entity, Place
    from actors.hall import Hall
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

    @property
    def cause(self) -> int:
        """The event that led to the decision, 0 if none did."""
        ...


class _Part:
    """Consecutive runes of one place."""

    __slots__ = ("deadline", "expected", "is_open", "place", "runes")

    def __init__(self, place: Place, expected: int | None) -> None:
        self.place = place
        self.expected = expected
        self.runes: list[Rune] = []
        self.is_open: bool | None = None
        self.deadline: int | None = None


class _Birth:
    """An entity that is born by this decision."""

    __slots__ = ("kind", "runes", "state")

    def __init__(self, kind: Entity) -> None:
        self.kind = kind
        self.state: Any = kind.lifecycle.initial
        self.runes: list[Rune] = []

    def fold(self, rune: Rune) -> None:
        self.state = self.kind.lifecycle.apply(self.state, rune)
        self.runes.append(rune)


class Draft:
    """Lays out runes as changes; folds the wards and the newborn that they concern."""

    def __init__(
        self,
        hall: Hall,
        author: Author,
        before: Any,  # noqa: ANN401 -- of whichever law
        after: Any,  # noqa: ANN401 -- as above
        runes: Sequence[Rune],
    ) -> None:
        """Lay out what was decided in state `before` and leads to `after`."""
        self._hall = hall
        self._author = author
        self._parts: list[_Part] = []
        self._wards: dict[str, tuple[Any, int]] = {}
        self._births: dict[str, _Birth] = {}
        self._seen: set[str] = set()
        self.own: list[Rune] = []
        """Those of the runes that are in the author's own stream."""
        for rune in runes:
            self._add(author.entity.place(before, rune), rune)
        decided = len(self.own)
        for entity, birth in list(self._births.items()):
            self._grow(entity, birth)
        for entity in list(self._wards):
            self._tend(entity)
        # What these decided at once, and it observes, it has not folded yet.
        for rune in self.own[decided:]:
            after = author.entity.lifecycle.apply(after, rune)
        self.after = after
        """The author's state once all of it has happened."""
        self.noted = self._note(after)
        context = author.entity.context(after)
        self.changes = [self._change(part, context) for part in self._parts]
        self.count = sum(len(part.runes) for part in self._parts)
        """How many runes there are."""

    # -- laying out ---------------------------------------------------------------------------

    def _add(self, place: Place, rune: Rune) -> None:
        owner, observers = place
        part = self._parts[-1] if self._parts else None
        if part is None or part.place != place:
            part = _Part(place, self._expected(owner, rune))
            self._parts.append(part)
        part.runes.append(rune)
        for entity in (owner, *observers):
            self._fold(entity, rune)

    def _fold(self, entity: str, rune: Rune) -> None:
        if entity == self._author.me:
            self.own.append(rune)
        elif entity in self._births:
            self._births[entity].fold(rune)
        elif entity in self._wards:
            state, version = self._wards[entity]
            lifecycle = self._hall.ward(entity).entity.lifecycle
            self._wards[entity] = (lifecycle.apply(state, rune), version + 1)

    def _expected(self, owner: str, rune: Rune) -> int | None:
        """Return the version that a stream must have; it is said once for each."""
        if owner in self._seen:
            return None
        self._seen.add(owner)
        # What is on the page already, nobody else can have come between.
        touched = owner in self._hall.page.touched
        if owner == self._author.me:
            return None if touched else self._author.version
        if self._hall.is_ward(owner):
            ward = self._hall.ward(owner)
            self._wards[owner] = (ward.state, ward.version)
            return None if touched else ward.version
        kind = self._hall.births.get(type(rune))
        if kind is None:
            # Written for an entity whose own actor cannot: the log still counts its version.
            return None
        self._births[owner] = _Birth(kind)
        return 0

    def _grow(self, entity: str, birth: _Birth) -> None:
        """Let a newborn decide at once what is due inward."""
        state = birth.state
        _, more = birth.kind.cascade(entity, state, [])
        for rune in more:
            self._add(birth.kind.place(birth.state, rune), rune)

    def _tend(self, entity: str) -> None:
        """Let a ward decide at once what is due inward."""
        kind, state = self._hall.ward(entity).entity, self._wards[entity][0]
        _, more = kind.cascade(entity, state, [])
        for rune in more:
            self._add(kind.place(state, rune), rune)

    # -- what the index is told ---------------------------------------------------------------

    def _note(self, after: Any) -> tuple[bool, int | None]:  # noqa: ANN401 -- any law's
        """Say of each entity whether it has work left, where that is new."""
        for entity, birth in self._births.items():
            if birth.kind.is_open(birth.state):
                self._say(entity, None, is_open=True, deadline=birth.kind.deadline(birth.state))
        for entity, (state, _) in self._wards.items():
            ward = self._hall.ward(entity)
            is_open, was_open = ward.entity.is_open(state), ward.entity.is_open(ward.state)
            if is_open or was_open:
                self._say(entity, None, is_open=is_open, deadline=ward.entity.deadline(state))
        author = self._author
        is_open = author.entity.is_open(after)
        noted = (is_open, author.entity.deadline(after) if is_open else None)
        if noted != author.noted:
            touched = author.me in self._hall.page.touched
            expected = None if touched else author.version
            self._say(author.me, expected, is_open=is_open, deadline=noted[1])
        return noted

    def _say(
        self, entity: str, expected: int | None, *, is_open: bool, deadline: int | None
    ) -> None:
        part = next((part for part in self._parts if part.place.owner == entity), None)
        if part is None:
            part = _Part(type(self._parts[0].place)(entity), expected)
            self._parts.append(part)
        part.is_open = is_open
        part.deadline = deadline if is_open else None

    def _change(self, part: _Part, context: tuple[str | None, str | None]) -> Change:
        owner, observers = part.place
        birth = self._births.get(owner)
        agent, turn = context if birth is None else birth.kind.context(birth.state)
        return Change(
            owner,
            part.expected,
            part.runes,
            observers,
            agent=agent,
            turn=turn,
            cause=self._author.cause,
            open=part.is_open,
            deadline=part.deadline,
        )

    # -- afterwards ---------------------------------------------------------------------------

    def believe(self) -> None:
        """Take over what became of the wards."""
        for entity, (state, version) in self._wards.items():
            ward = self._hall.ward(entity)
            ward.state, ward.version = state, version

    def newborn(self, last: int) -> dict[str, Newborn]:
        """Return the entities that were born, as they are after event `last`."""
        return {
            entity: Newborn(birth.state, len(birth.runes), last, tuple(birth.runes))
            for entity, birth in self._births.items()
        }

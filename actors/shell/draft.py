"""Entities and runes as a decision has them, before any of it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from actors.entity import ROOT
from actors.kind import Kind
from actors.shell.entities import Due, LiveActor, PassiveEntity
from runelog.rune import Rune, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Author(Protocol):
    """The entity that decided."""

    @property
    def kind(self) -> Kind:
        """What kind of entity it is."""
        ...

    me: str
    state: Any
    """Its state before the decision."""
    version: int
    index_entry: tuple[bool, int | None] | None
    """Its entry in the index: whether it has work left, and its deadline; None if unknown."""

    event: int
    """The last event it knows of, 0 if none: that led to the decision."""

    def at_once(self, effect: Any, state: Any, runes: Sequence[Rune]) -> object:  # noqa: ANN401 -- of whichever law
        """Return the command that an effect comes back as; None if it has to be performed.

        It is due in this `state`, behind `runes` of the same append.
        """
        ...


class CannotFold(Exception):
    """An entity cannot fold a rune that it observes, or decide on it: nothing was appended."""

    def __init__(self, name: str, entity: LiveActor, rune: Rune, error: Exception) -> None:
        """Name the entity and the rune."""
        super().__init__(f"{name} cannot take {kind_of(rune)}, so it was not appended: {error}")
        self.entity = entity
        self.error = error


class Draft(msgspec.Struct, gc=False):
    """An entity, with what this decision makes of its state."""

    name: str
    kind: Kind
    before: Any
    state: Any
    """After the runes so far."""
    known: LiveActor | PassiveEntity | Author | None
    """The entity as it was before the decision; None if it is born here."""
    expected: int | None
    """The version that its stream must have, given with its first change only."""
    runes: list[Rune] = []
    """Those that it owns or observes."""
    seen: Any = None
    """The state in which it has decided what is due at once."""
    due: Due = None
    """Of a live actor, that state and what is due in it."""
    decides: bool = False
    """Whether it decided any of the runes itself, or is born with them."""
    index_entry: tuple[bool, int | None] | None = None
    """Its new entry in the index, if it decided anything and is live."""


class Part(msgspec.Struct, gc=False):
    """Consecutive runes of one owner, with the same observers and the same cause."""

    owner: str
    observers: tuple[str, ...]
    expected: int | None
    """The version that the owner's stream must have."""
    cause: int
    """The event of the rune here that led to them; 0 if another did."""
    led_by: str | None
    """What led to them, if that is not what the author knew last."""
    runes: list[Rune]

    def is_like(self, observers: tuple[str, ...], cause: int) -> bool:
        """Return True if a rune of the same owner belongs to these."""
        return self.led_by is None and self.observers == observers and self.cause == cause


def resolved(observers: tuple[str, ...], root: str) -> tuple[str, ...]:
    """Return those that observe a rune, each once, with the name of the conversation's root."""
    return tuple(dict.fromkeys([root if each == ROOT else each for each in observers]))

"""Given what happened, when this is asked, then that follows: tests that read as rules.

A test says `assert Given(LIFECYCLE, Opened(), Entered()).when(Close()) == [Closed()]`, and whoever
reads it has read the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from runelog.lifecycle import Lifecycle, P, Phased, fold

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from runelog.rune import Rune

S = TypeVar("S", bound=Phased)
C = TypeVar("C")
E = TypeVar("E")


class Given(Generic[P, S, C, E]):
    """An entity with a past, without a log or an actor."""

    def __init__(self, lifecycle: Lifecycle[P, S, C, E], *runes: Rune) -> None:
        """Fold `runes` into the state to ask questions of."""
        self.lifecycle = lifecycle
        self.runes = runes
        self.state: S = fold(lifecycle, runes)

    def when(self, command: C, reading: object = None) -> list[Rune]:
        """Return the runes that `command` leads to, or raise the `Refused` it is answered with.

        As before an append, they are folded first: what cannot be folded must never reach the log.
        `reading` is the state of the entity that the law reads, if it reads one.
        """
        law = self.lifecycle
        if reading is None:
            runes = [*law.decide(self.state, command)]
        else:
            runes = [*law.decided(self.state, command, lambda _entity: reading)]
        fold(self.lifecycle, runes, self.state)
        return runes

    def after(self, command: C, reading: object = None) -> Self:
        """Return the entity as it is once `command` was carried out."""
        return type(self)(self.lifecycle, *self.runes, *self.when(command, reading))

    def having(self, *runes: Rune) -> Self:
        """Return the entity as it is once `runes` happened too."""
        return type(self)(self.lifecycle, *self.runes, *runes)

    @property
    def due(self) -> Sequence[E]:
        """What has to be done now."""
        return list(self.lifecycle.due(self.state))

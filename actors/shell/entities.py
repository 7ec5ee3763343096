"""The entities of a conversation that are in memory, as the others see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.kind import Kind
    from actors.process.exits import Exit
    from runelog.rune import Rune


Due: TypeAlias = "tuple[Any, Sequence[Any]] | None"
"""A state, and what is due in it."""


class StartingState(NamedTuple):
    """The state that an entity's actor starts with, as the log has it."""

    state: Any
    version: int
    """How many runes its stream holds."""
    event_id: int
    """The event id of the last of them."""


class LiveActor(Protocol):
    """A live actor of the conversation, as the others see it."""

    def take(self, state: Any, runes: Sequence[Rune], last: int, due: Due) -> None:  # noqa: ANN401 -- of whichever law
        """Take over the state after runes that others appended, the `last` event included.

        `due` is what is due in the state that was asked last: mostly that one.
        """
        ...

    @property
    def is_settled(self) -> bool:
        """Whether its law may decide in appends of others: nothing is in doubt, or to be asked."""
        ...

    def at_once(self, effect: Any, state: Any, runes: Sequence[Rune]) -> object:  # noqa: ANN401 -- as above
        """Return the command that an effect comes back as; None if it has to be performed."""
        ...

    def cannot_fold(self, error: Exception) -> None:
        """End: it cannot take what it observes."""
        ...

    exit: Exit | None
    """How it ended; None while it lives."""
    index_entry: tuple[bool, int | None] | None
    """Its entry in the index: whether it has work left, and its deadline; None if unknown."""

    def tell(self, message: object, reply_to: Any = None) -> None:  # noqa: ANN401 -- pykka's
        """Send it a message; `reply_to` gets the answer."""
        ...

    event: int
    """The last event that it knows of."""
    replayed: bool
    """Whether its state was read from the log: then it may replace an actor that ended."""
    state: Any
    version: int
    """How many runes of its stream are in its state."""

    @property
    def kind(self) -> Kind:
        """What kind of entity it is."""
        ...

    def wake(self) -> None:
        """Make it check what is due."""
        ...

    def resend_to(self, entity: str) -> None:
        """Do again what is under way about an entity whose actor begins anew."""
        ...

    @property
    def waiting(self) -> int:
        """How many messages it has not read."""
        ...

    def is_idle(self) -> bool:
        """Return True if nothing is under way that would be lost if the actor stopped now."""
        ...

    def held_up(self) -> tuple[str, ...]:
        """Return the entities that run for it and only wait for a human; they can be resumed."""
        ...


@dataclass
class PassiveEntity:
    """An entity without an actor of its own; the actor that decides for it folds its runes."""

    kind: Kind
    state: Any
    version: int
    is_settled = False
    """Its law decides where it is seen to, and not as that of a live actor."""

    def take(self, state: Any, runes: Sequence[Rune], last: int, due: Due) -> None:  # noqa: ANN401 -- of whichever law
        """Take over the state after runes that were decided for it, or that it observes."""
        del last, due
        self.state = state
        self.version += len(runes)


@dataclass
class Newborn(PassiveEntity):
    """An entity that was born in this process and whose actor has not started yet."""

    event_id: int
    """The last event that is in its state."""
    runes: list[Rune]
    """All that it is folded from."""

    def take(self, state: Any, runes: Sequence[Rune], last: int, due: Due) -> None:  # noqa: ANN401 -- as above
        """Take over the state, for its actor to start with."""
        super().take(state, runes, last, due)
        self.event_id = last
        self.runes += runes

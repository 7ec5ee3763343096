"""What the shell must know of a kind of entity beside its law: whose runes go where, what is due.

Pure, like the laws themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from runelog.rune import Rune

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runelog.lifecycle import Lifecycle

Actor = Literal["user", "system", "timeout"]
"""Who caused a transition."""


class Moved(Rune, frozen=True, kw_only=True):
    """Base of runes that record a transition with more than one possible cause."""

    trigger: str = ""
    actor: Actor = "system"


class Place(NamedTuple):
    """Where a rune belongs: the entity whose table it moves, and others whose folds need it."""

    owner: str
    observers: tuple[str, ...] = ()


def _never(_state: Any) -> None:  # noqa: ANN401 -- of whichever lifecycle
    """Have no deadline."""


def _nowhere(_state: Any) -> tuple[None, None]:  # noqa: ANN401 -- as above
    """Belong to no agent and no turn."""
    return None, None


@dataclass(frozen=True, kw_only=True, eq=False)
class Entity:
    """A kind of entity: its law, and what the shell needs in order to make it happen."""

    lifecycle: Lifecycle[Any, Any, Any, Any]
    place: Callable[[Any, Rune], Place]
    """Where a rune that this entity decided belongs, given the state before the decision."""
    births: tuple[type[Rune], ...]
    """The runes that begin such an entity; a parent appends them."""
    is_open: Callable[[Any], bool]
    """Whether there is work left that a restart must see to."""
    deadline: Callable[[Any], int | None] = field(default=_never)
    """When the entity must be looked at again, in nanoseconds; None if never."""
    inward: frozenset[type] = frozenset()
    """Effects that are commands of the same law: decided at once, in the same append."""
    context: Callable[[Any], tuple[str | None, str | None]] = field(default=_nowhere)
    """The agent and the turn that such an entity belongs to."""
    outside: frozenset[type] = frozenset()
    """Effects that touch the outside world: the log is settled before they begin."""
    pieces: frozenset[type[Rune]] = frozenset()
    """Runes that come in streams: they are followed, and an operator is not told of each."""

    @property
    def name(self) -> str:
        """The lifecycle's name."""
        return self.lifecycle.name

    def cascade(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- of whichever lifecycle
        runes: Sequence[Rune],
    ) -> tuple[Any, list[Rune]]:
        """Fold `runes` and everything inward that is then due; return the state and all runes.

        What was decided for others is folded only if `me` observes it, as in a replay.
        """
        return self.cascaded(me, state, runes)[:2]

    def cascaded(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- of whichever lifecycle
        runes: Sequence[Rune],
    ) -> tuple[Any, list[Rune], Sequence[Any]]:
        """Do as `cascade`, and return what is due then as well: to say it twice costs time."""
        found = list(runes)
        state = self.folded(me, state, runes)
        for _ in range(_PATIENCE):
            due = self.lifecycle.due(state)
            at_once = next((effect for effect in due if type(effect) in self.inward), None)
            if at_once is None:
                return state, found, due
            more = list(self.lifecycle.decide(state, at_once))
            if not more:
                msg = f"{self.name}: {type(at_once).__name__} is due and decides nothing"
                raise AssertionError(msg)
            state = self.folded(me, state, more)
            found += more
        msg = f"{self.name}: what is due inward does not come to an end"
        raise AssertionError(msg)

    def folded(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- as above
        runes: Sequence[Rune],
    ) -> Any:  # noqa: ANN401 -- as above
        """Return the state after those of `runes` that are in this entity's own stream."""
        for rune in runes:
            owner, observers = self.place(state, rune)
            if owner == me or me in observers:
                state = self.lifecycle.apply(state, rune)
        return state


_PATIENCE = 1_000
"""How many inward decisions may follow from one: a law that needs more goes round in circles."""

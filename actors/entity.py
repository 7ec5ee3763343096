"""What the shell must know of a kind of entity beside its law: whose runes go where, what is due.

Pure, like the laws themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

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


class Place(msgspec.Struct, frozen=True, gc=False):
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
    """Where a rune that this entity decided belongs, given its state before that rune.

    Only by who it is, which is so from its birth on: what it has come to makes no difference.
    """
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
        state, placed, _ = self.cascaded(me, state, runes)
        return state, [rune for _, rune in placed]

    def cascaded(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- of whichever lifecycle
        runes: Sequence[Rune],
        due: Sequence[Any] | None = None,
    ) -> tuple[Any, list[Placed], Sequence[Any]]:
        """Do as `cascade`; say where each rune belongs and what is due in the end as well.

        Both are known on the way, and to find them out once more costs time. So does what is due
        in `state`: whoever knows says it, if there are no `runes`.
        """
        placed: list[Placed] = []
        lifecycle, inward = self.lifecycle, self.inward
        for _ in range(_PATIENCE):
            if runes:
                state = self.laid_out(me, state, runes, placed)
                due = None
            if due is None:
                due = lifecycle.due(state)
            for at_once in due:
                if type(at_once) in inward:
                    break
            else:
                return state, placed, due
            runes = lifecycle.decide(state, at_once)
            if not runes:
                msg = f"{self.name}: {type(at_once).__name__} is due and decides nothing"
                raise AssertionError(msg)
        msg = f"{self.name}: what is due inward does not come to an end"
        raise AssertionError(msg)

    def folded(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- as above
        runes: Sequence[Rune],
    ) -> Any:  # noqa: ANN401 -- as above
        """Return the state after those of `runes` that are in this entity's own stream."""
        return self.laid_out(me, state, runes, [])

    def laid_out(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- as above
        runes: Sequence[Rune],
        placed: list[Placed],
    ) -> Any:  # noqa: ANN401 -- as above
        """Do as `folded`, and add all of the runes to those that are `placed`."""
        place, apply = self.place, self.lifecycle.apply
        for rune in runes:
            at = place(state, rune)
            if at.owner == me or me in at.observers:
                state = apply(state, rune)
            placed.append((at, rune))
        return state


Placed: TypeAlias = tuple[Place, Rune]
"""A rune, and where it belongs."""
_PATIENCE = 1_000
"""How many inward decisions may follow from one: a law that needs more goes round in circles."""

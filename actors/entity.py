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


class Timed(Moved, frozen=True, kw_only=True):
    """Base of runes that enter a phase with a time-out, or begin an entity in one."""

    deadline: int | None = None
    """When the time-out of the phase is over, in nanoseconds; put in by the shell."""


class Routing(msgspec.Struct, frozen=True, gc=False):
    """Where a rune belongs: the entity whose table it moves, and others whose folds need it."""

    owner: str
    observers: tuple[str, ...] = ()


def _own(_state: Any, _rune: Rune) -> Routing:  # noqa: ANN401 -- of whichever lifecycle
    """Keep a rune: nothing else observes it."""
    return Routing("")


def _never(_state: Any) -> None:  # noqa: ANN401 -- of whichever lifecycle
    """Have no deadline."""


def _nowhere(_state: Any) -> tuple[None, None]:  # noqa: ANN401 -- as above
    """Belong to no agent and no turn."""
    return None, None


@dataclass(frozen=True, kw_only=True, eq=False)
class Entity:
    """A kind of entity: its law, and what the shell needs in order to make it happen."""

    lifecycle: Lifecycle[Any, Any, Any, Any]
    route: Callable[[Any, Rune], Routing] = field(default=_own)
    """Where a rune that this entity decided belongs, given its state before that rune.

    Only by its id, which is so from its birth on: what it has come to makes no difference. An
    owner that is empty stands for the entity itself.
    """
    births: tuple[type[Rune], ...]
    """The runes that begin such an entity; a parent appends them."""
    is_open: Callable[[Any], bool]
    """Whether there is work left that a restart must see to."""
    deadline: Callable[[Any], int | None] = field(default=_never)
    """When the entity must be looked at again, in nanoseconds; None if never."""
    internal: frozenset[type] = frozenset()
    """Effects that are commands of the same law: decided at once, in the same append."""
    context: Callable[[Any], tuple[str | None, str | None]] = field(default=_nowhere)
    """The agent and the turn that such an entity belongs to."""
    external: frozenset[type] = frozenset()
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
        stamp: Stamp | None = None,
    ) -> tuple[Any, list[Placed], Sequence[Any]]:
        """Do as `cascade`; say where each rune belongs and what is due in the end as well.

        Both are known on the way, and to find them out once more costs time. So does what is due
        in `state`: a caller that knows it passes it, if there are no `runes`. `stamp` puts
        deadlines into runes that enter a phase with a time-out.
        """
        placed: list[Placed] = []
        lifecycle, internal = self.lifecycle, self.internal
        for _ in range(_PATIENCE):
            if runes:
                state = self.laid_out(me, state, runes, placed, stamp)
                due = None
            if due is None:
                due = lifecycle.due(state)
            for at_once in due:
                if type(at_once) in internal:
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
        stamp: Stamp | None = None,
    ) -> Any:  # noqa: ANN401 -- as above
        """Do as `folded`, and add all of the runes to those that are `placed`."""
        route, lifecycle = self.route, self.lifecycle
        for each in runes:
            rune = each
            at = route(state, rune)
            if not at.owner:
                at = Routing(me, at.observers)
            if at.owner == me or me in at.observers:
                if stamp is not None:
                    rune = stamp(lifecycle, state, rune)
                state = lifecycle.apply(state, rune)
            placed.append((at, rune))
        return state


Stamp: TypeAlias = "Callable[[Lifecycle[Any, Any, Any, Any], Any, Rune], Rune]"
"""Puts the deadline into a rune that enters a phase with a time-out."""
Placed: TypeAlias = tuple[Routing, Rune]
"""A rune, and where it belongs."""
_PATIENCE = 1_000
"""How many inward decisions may follow from one: a law that needs more goes round in circles."""

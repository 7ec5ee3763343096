"""What a kind of entity is: its law, and everything that the rest of the house asks about it.

A machine is one folder that ends in one `KIND`, and one line in the catalogue. Everything else asks
the kind: nothing outside a kind's folder tests the prefix of an id or lists machines by name. Apps
bring machines of their own through the same door.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from actors.entity import Entity
from runelog.codec import Codec
from runelog.errors import Refused
from runelog.lifecycle import targets
from runelog.rune import is_id, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from enum import StrEnum

    from actors.audit import Audit
    from actors.shell import Shell
    from actors.view import LineFile, StateFile, View
    from runelog.rune import Rune

Waits: TypeAlias = "Callable[[str], bool | None]"
"""Say of an id whether the entity that answers for it waits for a human; None if none does."""


def _never(_state: Any, _waits: Waits) -> bool:  # noqa: ANN401 -- of whichever lifecycle
    """Wait for no human."""
    return False


def _no_time(_state: Any) -> None:  # noqa: ANN401 -- as above
    """Have no time that could run short."""


def _nobody(_state: Any) -> Mapping[str, str]:  # noqa: ANN401 -- as above
    """Answer for nothing."""
    return {}


def _whole(state: Any) -> Any:  # noqa: ANN401 -- as above
    """Compare the whole state."""
    return state


def _phase(state: Any) -> str:  # noqa: ANN401 -- as above
    """Show the phase alone."""
    return str(state.phase.value)


ERRORS: Final = frozenset({"error", "failed", "error_result", "timeout_result", "unknown_result"})
"""Phases that users hear of, whichever machine is in them."""


def _on_error(phase: StrEnum) -> str:
    """Tell users of errors, and operators of the rest."""
    return "user" if phase.value in ERRORS else "internal"


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind(Entity):
    """A kind of entity. What is not given has a default that suits most machines."""

    prefix: str
    """What the ids of its entities begin with, before an underscore."""
    runes: tuple[type[Rune], ...]
    """Those that it owns, in the order in which documents list them."""
    single: bool = False
    """Whether a conversation has one such entity, whose id is the prefix alone."""
    streams: tuple[str, ...] = ()
    """Prefixes of further streams that it keeps, which are no entities."""
    parents: tuple[str, ...] = ()
    """The kinds that give birth to it; none for the root of a conversation."""
    actor: type[Shell] | None = None
    """None for one that is decided by whichever actor concerns itself with it."""
    commands: tuple[type, ...] = ()
    """What users may ask of it."""
    waits_for_human: Callable[[Any, Waits], bool] = field(default=_never)
    """Whether an entity with work left only waits for a human: no mishap, and no reason to stay
    awake. Given its state, and a way to ask the same of the entities that it waits for."""
    answers: Callable[[Any], Mapping[str, str]] = field(default=_nobody)
    """Which entity answers for an id that is none, such as that of a message."""
    near: Callable[[Any], int | None] = field(default=_no_time)
    """When most of the time has passed that a human has, in nanoseconds: operators are warned."""
    progress: frozenset[type[Rune]] = frozenset()
    """Runes that show that something has come of an open, whatever crashed since."""
    sealed_by: frozenset[type[Rune]] = frozenset()
    """Runes after which everything in the conversation must have come to its end."""
    invariants: tuple[Callable[[], Audit], ...] = ()
    """Checks over the runes of a conversation, each made anew for it."""
    audience: Callable[[StrEnum], str] = field(default=_on_error)
    """Who is told of a transition into a phase: `user` or `internal`."""
    summary: Callable[[Any], str] = field(default=_phase)
    """One line for lists, the tree and the page."""
    stuck: Mapping[str, float] = field(default_factory=dict)
    """Seconds after which an entity that is still in a phase is reported as stuck."""
    views: tuple[StateFile | LineFile | View, ...] = ()
    """Files, or anything else, that are kept in step with the log and rebuilt from it."""
    outcome: Callable[[Any], Any] = field(default=_whole)
    """What of a state must be equal after any kill: without ids, times and orders that differ."""
    printed: bool = True
    """Whether `runefold lifecycles` shows it."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself; give the actor its kind."""
        super().__post_init__()
        if self.actor is not None:
            self.actor.kind = self

    @classmethod
    def of(cls, entity: Entity, **facts: Any) -> Self:  # noqa: ANN401 -- the fields above
        """Return a kind with the law of an entity."""
        law = {each.name: getattr(entity, each.name) for each in fields(entity) if each.init}
        return cls(**law, **facts)

    @property
    def is_root(self) -> bool:
        """Whether a conversation begins with it."""
        return self.single and not self.parents

    @property
    def endings(self) -> frozenset[type[Rune]]:
        """Its own runes that bring it to its end, from whichever phase."""
        terminal = {*self.lifecycle.terminal}
        found: dict[type[Rune], set[Any]] = {}
        for row in self.lifecycle.table.values():
            for rune, target in row.items():
                found.setdefault(rune, set()).update(targets(target))
        own = {*self.runes}
        return frozenset(rune for rune, to in found.items() if rune in own and to <= terminal)

    @property
    def family(self) -> str:
        """The part before the dot in the kinds of its own runes, its lifecycle's name as a rule."""
        return kind_of(self.runes[0]).partition(".")[0]


class Kinds:
    """The kinds that one runtime, or one reader of a log, knows; ours, and perhaps an app's."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        """Take kinds that fit together; `Refused` names two that do not."""
        self.all: Final = tuple(kinds)
        self.by_name: Final[Mapping[str, Kind]] = {kind.name: kind for kind in self.all}
        self.births: Final[Mapping[type[Rune], Kind]] = {
            birth: kind for kind in self.all for birth in kind.births
        }
        """What kind of entity a rune gives birth to."""
        self.runes: Final = tuple(rune for kind in self.all for rune in kind.runes)
        self.codec: Final = Codec(self.runes)
        """Reads and writes all their runes."""
        self.progress: Final = frozenset(rune for kind in self.all for rune in kind.progress)
        self.endings: Final = frozenset(rune for kind in self.all for rune in kind.endings)
        self.sealing: Final = frozenset(rune for kind in self.all for rune in kind.sealed_by)
        self._by_prefix: Final = {kind.prefix: kind for kind in self.all}

    def __iter__(self) -> Iterator[Kind]:
        """Yield each kind."""
        return iter(self.all)

    def __getitem__(self, name: str) -> Kind:
        """Return the kind of that name."""
        return self.by_name[name]

    def of(self, entity: str) -> Kind | None:
        """Return the kind that an id belongs to; None if this code does not know it."""
        prefix, _, rest = entity.partition("_")
        kind = self._by_prefix.get(prefix)
        return kind if kind is not None and kind.single is not bool(rest) else None

    def passive(self, entity: str) -> Kind | None:
        """Return the kind of an entity that has no actor of its own; None for others."""
        kind = self.of(entity)
        return kind if kind is not None and kind.actor is None else None

    def plus(self, kinds: Iterable[Kind], reserved: Iterable[str] = ()) -> Kinds:
        """Return these kinds and an app's; `Refused` if a name is taken or reserved."""
        taken = {*reserved}
        for kind in self.all:
            taken |= {kind.name, kind.prefix, *kind.streams}
            taken |= {kind_of(rune).partition(".")[0] for rune in kind.runes}
        found = list(self.all)
        for kind in kinds:
            if not isinstance(kind, Kind):
                msg = f"kinds=[...] takes values of Kind, not a {type(kind).__name__}"
                raise Refused(msg)
            names = {kind.name, kind.prefix, *kind.streams}
            names |= {kind_of(rune).partition(".")[0] for rune in kind.runes}
            for name in sorted(names):
                _check(kind, name, taken)
            taken |= names
            found.append(kind)
        known = {kind.name for kind in found}
        for kind in found:
            if missing := set(kind.parents) - known:
                msg = f"{kind.name} is born by {', '.join(sorted(missing))}: there is no such kind"
                raise Refused(msg)
        return Kinds(found)


def _check(kind: Kind, name: str, taken: set[str]) -> None:
    if name in taken:
        msg = f"the kind {kind.name} cannot use the name {name!r}: it is taken; choose another one"
        raise Refused(msg)
    if not is_id(name) or "_" in name or "-" in name:
        msg = f"the kind {kind.name} cannot use the name {name!r}: use letters and digits only"
        raise Refused(msg)

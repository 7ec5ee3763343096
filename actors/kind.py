"""What a kind of entity is: its law, and everything that the rest of the system asks about it.

A machine is one folder that ends in one `KIND`, and one line in the catalogue. Everything else asks
the kind: nothing outside a kind's folder tests the prefix of an id or lists machines by name. Apps
bring machines of their own the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from actors.children import Started
from actors.entity import ROOT, Routing, begins, no_origin
from actors.public_command import Commands
from runelog.codec import Codec
from runelog.errors import Refused
from runelog.lifecycle import step, targets
from runelog.rune import is_id, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from enum import StrEnum

    from actors.audit import Audit
    from actors.children import OnEnd, OnPause
    from actors.entity import LedBy, Origin, Placed
    from actors.public_command import Command
    from actors.shell.shell import Shell
    from actors.view import LineFile, StateFile, View
    from runelog.lifecycle import Lifecycle
    from runelog.rune import Rune

Waits: TypeAlias = "Callable[[str], bool | None]"
"""Say of an id whether the entity that answers for it waits for a human; None if none does."""


def _own(_state: Any, _rune: Rune) -> Routing:  # noqa: ANN401 -- of whichever lifecycle
    """Keep a rune: nothing else observes it."""
    return Routing("")


def _nowhere(_state: Any) -> tuple[None, None]:  # noqa: ANN401 -- as above
    """Belong to no agent and no turn."""
    return None, None


def never_open(_state: Any) -> bool:  # noqa: ANN401 -- as above
    """Return False: another entity is open as long as this one has work left, and sees to it."""
    return False


def _never(_state: Any, _waits: Waits) -> bool:  # noqa: ANN401 -- of whichever lifecycle
    """Wait for no human."""
    return False


def _undecided(_state: Any) -> Any:  # noqa: ANN401 -- as above
    """Stand for what follows from the rest of the kind."""
    raise NotImplementedError


def _deadline(state: Any) -> int | None:  # noqa: ANN401 -- as above
    """Return the deadline that the machinery keeps in the state; none while its clock stands."""
    found: int | None = state.deadline
    return None if getattr(state, "stands_since", None) is not None else found


def _no_time(_state: Any) -> None:  # noqa: ANN401 -- as above
    """Have no time that could run short."""


def _none(_state: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- as above
    """Name no entity, and no time-out."""
    return {}


def _whole(state: Any) -> Any:  # noqa: ANN401 -- as above
    """Compare the whole state."""
    return state


def _phase(state: Any) -> str:  # noqa: ANN401 -- as above
    """Show the phase alone."""
    return str(state.phase.value)


LONGEST_SUMMARY: Final = 160
"""Characters of a summary; more of it is cut off."""


def in_a_line(*parts: str) -> str:
    """Join what there is of the parts of a summary to one line that fits into a list.

    >>> in_a_line("it  writes", "", "awaiting_human")
    'it writes, awaiting_human'
    """
    shown = " ".join(", ".join(part for part in parts if part).split())
    return shown if len(shown) <= LONGEST_SUMMARY else shown[: LONGEST_SUMMARY - 1] + "…"


ERRORS: Final = frozenset({"error", "failed", "error_result", "timeout_result", "unknown_result"})
"""Phases that users hear of, whichever machine is in them."""


def _on_error(phase: StrEnum) -> str:
    """Tell users of errors, and operators of the rest."""
    return "user" if phase.value in ERRORS else "internal"


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A kind of entity. What is not given has a default that suits most machines."""

    # -- what it is
    prefix: str
    """What the ids of its entities begin with, before an underscore."""
    lifecycle: Lifecycle[Any, Any, Any, Any]
    runes: tuple[type[Rune], ...]
    """Those that it owns, in the order in which documents list them."""
    retired: tuple[type[Rune], ...] = ()
    """Those that earlier versions wrote: they are read and folded for ever, and not written."""
    label: str = ""
    """The field of its birth that says what it is, such as a tool's name: reports number entities
    by it, since ids differ from run to run. Without one, by the kind's name."""
    births: tuple[type[Rune], ...] = ()
    """The runes that begin such an entity; its parent appends them. The first of `runes` if none
    is given."""
    parents: tuple[str, ...] = ()
    """The kinds that may give birth to it; if none is given, the root of any conversation."""
    single: bool = False
    """Whether a conversation has one such entity, whose id is the prefix alone. Without parents, a
    conversation begins with it: it is a root."""
    in_table: bool = True
    """Whether its root lists it among its children; not if the root's law knows such entities."""
    on_pause: OnPause = "pause"
    """What becomes of it while its parent, or its session, is paused: `pause`, and it begins
    nothing outside; `cancel`, and it is told to `Cancel`; or `leave`, and it goes on."""
    on_close: OnEnd = "cancel"
    """What becomes of it when its parent ends, or its session closes: `cancel`, or `leave`, and it
    goes on to an end of its own. A session waits for that before it is closed."""
    on_fail: OnEnd = "cancel"
    """The same for a parent that ends in a failure."""
    pauses: frozenset[str] = frozenset()
    """The phases in which its children are paused: `on_pause` of each holds then."""
    streams: tuple[str, ...] = ()
    """Prefixes of further streams that it keeps, which are no entities."""

    # -- how it runs
    actor: type[Shell] | None = None
    """None for one that is decided by whichever actor concerns itself with it."""
    route: Callable[[Any, Rune], Routing] = field(default=_own)
    """Where a rune that an entity decided belongs, given its state before that rune.

    Only by its id, which is so from its birth on: what it has come to makes no difference. An
    owner that is empty stands for the entity itself, and the observer `ROOT` for the root of the
    conversation.
    """
    led_by: Mapping[type[Rune], LedBy] = field(default_factory=dict)
    """The runes that do not follow from what their author knew last, each with what led to it
    instead: that is their `cause`. The births of a root begin something, without being listed."""
    internal: frozenset[type] = frozenset()
    """Effects that are commands of the same law: decided at once, in the same append."""
    prompt: frozenset[type] = frozenset()
    """Effects that its actor may answer with a command at once, if it has what that takes: then it
    is decided in the same append too, and else the effect is performed."""
    external: frozenset[type] = frozenset()
    """Effects that touch the outside world: the log is settled before they begin."""
    context: Callable[[Any], tuple[str | None, str | None]] = field(default=_nowhere)
    """The agent and the turn that such an entity belongs to."""
    pieces: frozenset[type[Rune]] = frozenset()
    """Runes that come in streams: they are followed, and an operator is not told of each."""

    # -- what is left to do, and until when
    is_open: Callable[[Any], bool] = field(default=_undecided)
    """Whether there is work left that a restart must see to: until its end, if it does not say."""
    deadline: Callable[[Any], int | None] = field(default=_undecided)
    """When it must be looked at again, in nanoseconds: its state's `deadline`, if it has one."""
    near: Callable[[Any], int | None] = field(default=_no_time)
    """When most of its time will have passed, in nanoseconds: operators are warned then."""
    waits_for_human: Callable[[Any, Waits], bool] = field(default=_never)
    """Whether an entity with work left only waits for a human: no mishap, and no reason to stay
    awake. Given its state, and a way to ask the same of the entities that it waits for."""
    stands_for: Callable[[Any], Mapping[str, str]] = field(default=_none)
    """Which entity answers for an id that is none, such as that of a message."""
    questions: Callable[[Any], Mapping[str, str]] = field(default=_none)
    """Of a root: which entity asks for each approval that waits for a human, by its id."""
    limits: Callable[[Any], Mapping[str, float]] = field(default=_none)
    """Of a root: seconds by `kind.phase`, where its conversation has time-outs of its own."""
    origin: Callable[[Any], Origin] = field(default=no_origin)
    """Of a root: whom its conversation is for, which tools and policies are told."""
    failures: frozenset[str] = ERRORS
    """The names of phases in which it has failed: `on_fail` of its children holds then."""
    progress: frozenset[type[Rune]] = frozenset()
    """Runes that show that something has come of an open, whatever crashed since."""

    # -- what users see of it
    commands: tuple[type[Command], ...] = ()
    """What users may ask of it."""
    audience: Callable[[StrEnum], str] = field(default=_on_error)
    """The readers that are told of a transition into a phase: `user` or `internal`."""
    summary: Callable[[Any], str] = field(default=_phase)
    """One line for lists, the tree and reports."""
    stuck: Mapping[str, float] = field(default_factory=dict)
    """Seconds after which an entity that is still in a phase is reported as stuck."""
    views: tuple[StateFile | LineFile | View, ...] = ()
    """Files, or anything else, that are kept in step with the log and rebuilt from it."""

    # -- what must hold of it
    invariants: tuple[Callable[[], Audit], ...] = ()
    """Checks over the runes of a conversation, each made anew for it."""
    outcome: Callable[[Any], Any] = field(default=_whole)
    """What of a state must be equal after any kill: without ids, times and orders that differ."""

    answer: Callable[[Any], Any] = field(default=_phase)
    """What is told to the parent that bore such an entity, or to the conversation that asked for
    it, once it has ended."""

    # -- of a root alone
    conversation: str = ""
    """The reserved conversation that begins with it; empty for all others."""
    sealed_by: frozenset[type[Rune]] = frozenset()
    """Runes after which everything in the conversation must have come to its end."""

    # -- what follows from all that
    asks_humans: bool = field(init=False)
    """Whether its law may have `AskHuman` due."""
    stamps: bool = field(init=False)
    """Whether times are put into its runes that its law knows nothing of."""
    settles: bool = field(init=False)
    """Whether its questions are concluded, or its parent is told, when it has come to its end."""

    def __post_init__(self) -> None:
        """Fill in what follows from the rest; derive a class of actors that knows its kind."""
        law = self.lifecycle
        if not self.births:
            object.__setattr__(self, "births", self.runes[:1])
        if self.is_open is _undecided:
            object.__setattr__(self, "is_open", lambda state: not law.is_over(state))
        if self.deadline is _undecided:
            timed = "deadline" in law.initial.__struct_fields__
            object.__setattr__(self, "deadline", _deadline if timed else _no_time)
        object.__setattr__(self, "stamps", law.enforced or bool(self.pauses))
        asks_humans = self.actor is not None and self.actor.asks_humans
        object.__setattr__(self, "asks_humans", asks_humans)
        object.__setattr__(self, "settles", asks_humans or (self.in_table and not self.is_root))
        if self.actor is not None:
            # A class of its own: kinds may share an actor.
            own = type(self.actor.__name__, (self.actor,), {"kind": self})
            object.__setattr__(self, "actor", own)

    def index_entry(self, state: Any) -> tuple[bool, int | None]:  # noqa: ANN401 -- of whichever lifecycle
        """Return what the index has of an entity: whether it has work left, and its deadline."""
        is_open = self.is_open(state)
        return is_open, self.deadline(state) if is_open else None

    @property
    def keeps_children(self) -> bool:
        """Whether its state has a table of children."""
        return "children" in self.lifecycle.initial.__struct_fields__

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
        own = {*self.runes, *self.retired}
        return frozenset(rune for rune, to in found.items() if rune in own and to <= terminal)

    @property
    def name(self) -> str:
        """The lifecycle's name."""
        return self.lifecycle.name

    def moved(self, phase: StrEnum, rune: Rune) -> StrEnum | None:
        """Return the phase that a rune leads to; None if it is none that moves such an entity.

        Raise `IllegalTransition` if it is, and the phase does not allow it.
        """
        law, cls = self.lifecycle, type(rune)
        if cls not in law.runes or cls in self.pieces:
            return None
        if cls not in law.table[phase] and cls in law.observed:
            return None
        found: StrEnum = step(law.table, phase, rune, of=law.name)
        return found

    def fold_and_route(
        self,
        me: str,
        state: Any,  # noqa: ANN401 -- of whichever lifecycle
        runes: Sequence[Rune],
        placed: list[Placed],
    ) -> Any:  # noqa: ANN401 -- as above
        """Route each rune, and add it to those that are `placed`; return the state after them.

        What was decided for others is folded only if `me` observes it, as in a replay.
        """
        for rune in runes:
            at = self.route(state, rune)
            if not at.owner:
                at = Routing(me, at.observers)
            if ROOT in at.observers and self.is_root:
                at = at.within(me)
            if at.owner == me or me in at.observers:
                state = self.lifecycle.apply(state, rune)
            placed.append((at, rune))
        return state


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
        self.commands: Final = Commands(self.all)
        """What users may ask of them."""
        self.retired: Final = tuple(rune for kind in self.all for rune in kind.retired)
        self.codec: Final = Codec((*self.runes, *self.retired))
        """Reads all their runes, and writes them."""
        self.progress: Final = frozenset(rune for kind in self.all for rune in kind.progress)
        self.endings: Final = frozenset(rune for kind in self.all for rune in kind.endings)
        self.sealing: Final = frozenset(rune for kind in self.all for rune in kind.sealed_by)
        parents = {kind.name for kind in self.all if kind.keeps_children}
        self._children: Final = frozenset(
            kind
            for kind in self.all
            if kind.in_table
            and not kind.is_root
            and (not kind.parents or not parents.isdisjoint(kind.parents))
        )
        roots = {birth: begins for kind in self.all if kind.is_root for birth in kind.births}
        self.led_by: Final[Mapping[type[Rune], LedBy]] = roots | {
            rune: by for kind in self.all for rune, by in kind.led_by.items()
        }
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

    def unknown(self, entity: str) -> str:
        """Return why an entity of the log cannot be spoken of here; nothing if it can."""
        if self.of(entity) is not None:
            return ""
        return (
            f"{entity} is of a kind that is not known here: name its app, with --app MODULE:BUILD "
            "or Runtime.open(kinds=[...])"
        )

    def root(self, conversation: str) -> Kind:
        """Return the kind of entity that a conversation begins with."""
        own = [kind for kind in self.all if kind.is_root]
        found = [kind for kind in own if kind.conversation == conversation]
        return (found or [kind for kind in own if not kind.conversation])[0]

    def is_child(self, kind: Kind) -> bool:
        """Return True if parents of such entities list them, and the root of the conversation."""
        return kind in self._children

    def passive(self, entity: str) -> Kind | None:
        """Return the kind of an entity that has no actor of its own; None for others."""
        kind = self.of(entity)
        return kind if kind is not None and kind.actor is None else None

    def plus(self, kinds: Iterable[Kind], reserved: Mapping[str, str] | None = None) -> Kinds:
        """Return these kinds and an app's; `Refused` if a name is taken or `reserved`, with why."""
        taken = dict(reserved or {})
        for kind in self.all:
            taken |= dict.fromkeys(_names(kind), "taken")
        found = list(self.all)
        for kind in kinds:
            if not isinstance(kind, Kind):
                msg = f"kinds=[...] takes values of Kind, not a {type(kind).__name__}"
                raise Refused(msg)
            for name in sorted(_names(kind)):
                _check(kind, name, taken)
            taken |= dict.fromkeys(_names(kind), "taken")
            found.append(kind)
        known = {kind.name for kind in found}
        for kind in found:
            if missing := set(kind.parents) - known:
                msg = f"{kind.name} is born by {', '.join(sorted(missing))}: there is no such kind"
                raise Refused(msg)
        for kind in found[len(self.all) :]:
            for parent in found:
                if kind.in_table and parent.name in kind.parents:
                    _check_keeps(parent, kind)
        return Kinds(found)


def _names(kind: Kind) -> set[str]:
    """Return the words that a kind takes: its name, its prefixes and the families of its runes."""
    families = {kind_of(rune).partition(".")[0] for rune in (*kind.runes, *kind.retired)}
    return {kind.name, kind.prefix, *kind.streams} | families


def _check_keeps(parent: Kind, kind: Kind) -> None:
    """Refuse a parent whose law would not know its children."""
    if not parent.keeps_children:
        msg = (
            f"{kind.name} is born by {parent.name}, whose state keeps no children: give it a field "
            "children: tuple[Child, ...] = ()"
        )
        raise Refused(msg)
    law = parent.lifecycle
    state = law.evolve(law.initial, Started(f"{kind.prefix}_1", kind.name))
    if not state.children:
        msg = f"evolve of {parent.name} keeps no children: decorate it with @keeps_children"
        raise Refused(msg)


def _check(kind: Kind, name: str, taken: Mapping[str, str]) -> None:
    if name in taken:
        msg = f"the kind {kind.name} cannot use the name {name!r}: it is {taken[name]}; use another"
        raise Refused(msg)
    if not is_id(name) or "_" in name or "-" in name:
        msg = f"the kind {kind.name} cannot use the name {name!r}: use letters and digits only"
        raise Refused(msg)

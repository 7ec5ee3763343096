"""Lifecycles: the law of an entity, and how its runes fold into its state.

A `Table` says which rune leads from which phase to which. `decide` turns a command into runes or
refuses it, `evolve` takes a rune's data into the state, `due` says what has to be done while the
state is what it is. All of it is pure: no clock, no ids, no log, so that the same runes give the
same state, live or replayed.

The table alone moves the phase. `evolve` sees the state as it was before the rune and leaves its
phase alone; the machinery then puts it where the table says. So where a rune leads is said once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

import msgspec
from msgspec.structs import replace

from runelog.errors import IllegalTransition, Refused
from runelog.rune import Rune, Tombstone, Unknown, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

P = TypeVar("P", bound=StrEnum)
"""The phases of one lifecycle."""


@final
class ByField(msgspec.Struct, Generic[P], frozen=True):
    """Where a rune leads when that depends on the value of one of its fields.

    >>> class Phase(StrEnum):
    ...     DONE = "done"
    ...     FAILED = "failed"
    >>> target = ByField("status", {"success": Phase.DONE, "error": Phase.FAILED})
    """

    field: str
    targets: Mapping[Any, P]


Target: TypeAlias = P | ByField[P]
"""Where a rune leads: to one phase, or to one of several by the value of a field."""
Table: TypeAlias = Mapping[P, Mapping[type[Rune], P | ByField[P]]]
"""For each phase, the runes it allows and where each leads. A terminal phase allows none: `{}`."""


class Phased(Protocol):
    """What every state has: the phase it is in. States are frozen `msgspec.Struct`s."""

    @property
    def phase(self) -> StrEnum:
        """The phase this state is in."""
        ...


S = TypeVar("S", bound=Phased)
"""The state of one lifecycle."""
C = TypeVar("C")
"""The commands of one lifecycle."""
E = TypeVar("E")
"""The effects of one lifecycle."""

_SKIPPED: Final = frozenset({Tombstone, Unknown})
_deterministic = msgspec.msgpack.Encoder(order="deterministic").encode


def step(table: Table[P], phase: P, rune: Rune, *, of: str = "entity") -> P:
    """Return the phase that `rune` leads to from `phase`, or raise `IllegalTransition`.

    `of` names the kind of entity in the message.
    """
    target = table[phase].get(type(rune))
    if target is None:
        msg = f"{of} in phase {phase.value} does not allow {kind_of(rune)}"
        raise IllegalTransition(msg)
    if isinstance(target, ByField):
        return _by_field(target, phase, rune, of)
    return target


def _by_field(target: ByField[P], phase: P, rune: Rune, of: str) -> P:
    value = getattr(rune, target.field)
    found = target.targets.get(value) if isinstance(value, Hashable) else None
    if found is None:
        msg = (
            f"{of} in phase {phase.value} does not allow {kind_of(rune)} "
            f"with {target.field} = {value!r:.80}"
        )
        raise IllegalTransition(msg)
    return found


def refusal(of: str, phase: StrEnum, command: object) -> Refused:
    """Return the answer to a command that this phase does not allow, for `decide` to raise.

    >>> class Phase(StrEnum):
    ...     CLOSED = "closed"
    >>> class Knock(msgspec.Struct): ...
    >>> str(refusal("door", Phase.CLOSED, Knock()))
    'door is closed: it cannot take Knock now'
    """
    return Refused(f"{of} is {phase.value}: it cannot take {type(command).__name__} now")


class Row(msgspec.Struct, frozen=True, rename={"origin": "from"}):
    """One line of a printed table."""

    origin: str
    to: str
    on: str
    """The kind of the rune, or the trigger where there is none."""


class Timeout(msgspec.Struct, frozen=True):
    """How long a phase may last, and where it leads then."""

    phase: StrEnum
    seconds: float | None
    """The default; None if there is none, so that only a session that gives one has a limit."""
    to: StrEnum
    stands: bool = False
    """Whether its clock stands while the entity is paused with its session; else it runs on."""


class Overdue(msgspec.Struct, frozen=True):
    """A timeout as it is printed."""

    state: str
    seconds: float | None
    to: str


class Description(msgspec.Struct, frozen=True):
    """A lifecycle as it is printed; `msgspec.json.encode` gives its JSON."""

    name: str
    initial: str
    states: tuple[str, ...]
    terminal: tuple[str, ...]
    transitions: tuple[Row, ...]
    timeouts: tuple[Overdue, ...]


class BrokenLaw(ValueError):
    """A lifecycle that contradicts itself; the message lists every way in which it does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lifecycle(Generic[P, S, C, E]):
    """The law of one kind of entity. It checks itself when it is made.

    `initial` is the state before the first rune. `observed` lists runes of other entities that the
    table also mentions: in a phase that has no row for them they do not move the phase, since their
    owners cannot be asked to wait. Runes that the table does not mention at all never move it.
    `enforced` says that the machinery keeps the time-outs: it puts the deadline into the rune that
    enters a phase (its field `deadline`) and, when it is folded, into the state's `deadline`.
    Where a time-out stands, the state has a field `stands_since` as well: an observed rune whose
    class has `clocks` set to "stand" or "go" says when clocks stand, and go on (its field `at`).
    `reads` names another entity of the same conversation: its state, as folded when the decision is
    made, is the third argument of `decide`.
    `printed` are rows that belong to the picture and are not folded. `version` is raised whenever
    folding the same runes would give another state, so that older snapshots are not used.
    """

    name: str
    table: Table[P]
    initial: S
    decide: Callable[[S, C], Sequence[Rune]]
    """Answer a command with the runes it leads to, none if it was answered before; or refuse it."""
    evolve: Callable[[S, Rune], S]
    """Take a rune's data into the state. The phase is not its business."""
    due: Callable[[S], Sequence[E]]
    """What has to be done while the state is this one, however it was reached."""
    observed: frozenset[type[Rune]] = frozenset()
    timeouts: tuple[Timeout, ...] = ()
    enforced: bool = False
    reads: str = ""
    printed: tuple[Row, ...] = ()
    version: int = 1
    runes: frozenset[type[Rune]] = field(init=False, repr=False)
    """Every rune that the table mentions."""
    standing: frozenset[P] = field(init=False, repr=False)
    """The phases whose time-outs stand while the entity is paused."""
    _ways: dict[P, dict[type[Rune], P | ByField[P] | None]] = field(init=False, repr=False)
    """The table as `apply` looks it up: with None for a rune that the phase does not allow."""

    def __post_init__(self) -> None:
        """Refuse a law that contradicts itself."""
        complaints = list(_complaints(self))
        if complaints:
            msg = f"lifecycle {self.name}: " + "; ".join(complaints)
            raise BrokenLaw(msg)
        runes = frozenset(cls for row in self.table.values() for cls in row)
        object.__setattr__(self, "runes", runes)
        standing = frozenset(each.phase for each in self.timeouts if each.stands)
        object.__setattr__(self, "standing", standing)
        barred = dict.fromkeys(runes - self.observed)
        ways = {phase: {**barred, **row} for phase, row in self.table.items()}
        object.__setattr__(self, "_ways", ways)

    @property
    def terminal(self) -> tuple[P, ...]:
        """The phases with no way out."""
        return tuple(phase for phase, row in self.table.items() if not row)

    def is_over(self, state: S) -> bool:
        """Return True if the entity has come to its end."""
        return not self.table[state.phase]  # type: ignore[index]  # a state's phase is a P, as checked

    def decided(self, state: S, command: C, read: Callable[[str], object] | None) -> Sequence[Rune]:
        """Return what `decide` answers; `read` returns the state of the entity that it reads."""
        if not self.reads:
            return self.decide(state, command)
        assert read is not None, f"{self.name} reads {self.reads}"
        return self.decide(state, command, read(self.reads))  # type: ignore[call-arg]  # it takes it

    def apply(self, state: S, rune: Rune) -> S:
        """Return the state after one more rune, or raise `IllegalTransition`."""
        before: P = state.phase  # type: ignore[assignment]  # a state's phase is a P, as checked
        after = self._ways[before].get(type(rune), before)
        if after is not before and (after is None or type(after) is ByField):
            after = step(self.table, before, rune, of=self.name)  # which says why not, if not
        if self.enforced:
            return self._apply_timed(state, rune, before, after)
        state = self.evolve(state, rune)
        if state.phase is not before:
            raise self._moved(state, rune)
        if after is before:
            return state
        return replace(state, phase=after)  # type: ignore[type-var]  # a Struct, as checked

    def _apply_timed(self, state: S, rune: Rune, before: P, after: P) -> S:
        """Do as `apply`, and keep the deadline as well."""
        # What it observes may have deadlines too: of others.
        own = self._is_own(rune) or state == self.initial
        state = self.evolve(state, rune)
        if state.phase is not before:
            raise self._moved(state, rune)
        deadline = getattr(rune, "deadline", None) if own else None
        state = self._timed(state, before, after, deadline)
        return self._clocked(state, rune, own=own) if self.standing else state

    def _moved(self, state: S, rune: Rune) -> IllegalTransition:
        msg = (
            f"evolve of {self.name} moved the phase to {state.phase.value} on {kind_of(rune)}: "
            "only the table moves it"
        )
        return IllegalTransition(msg)

    def _is_own(self, rune: Rune) -> bool:
        """Return True for a rune of the table that is no other entity's."""
        return type(rune) in self.runes and type(rune) not in self.observed

    @staticmethod
    def _timed(state: S, before: P, after: P, deadline: int | None) -> S:
        """Move the phase, and with it the deadline: it is the one that the rune names."""
        if after is before and deadline is None:
            return state
        return replace(state, phase=after, deadline=deadline)  # type: ignore[type-var]  # as above

    def _clocked(self, state: S, rune: Rune, *, own: bool) -> S:
        """Have the clock of the phase stand, or go on with what was left."""
        found: Any = state
        since = found.stands_since
        if own and getattr(rune, "deadline", None) is not None:
            since = getattr(rune, "stands_since", None)
        elif found.deadline is None:
            since = None
        clocks, at = getattr(rune, "clocks", ""), getattr(rune, "at", None)
        if clocks == "stand" and at is not None and since is None and found.phase in self.standing:
            since = at if found.deadline is not None else None
        elif clocks == "go" and at is not None and since is not None:
            found = replace(found, deadline=found.deadline + max(at - since, 0))
            since = None
        return found if since == found.stands_since else replace(found, stands_since=since)  # type: ignore[no-any-return]  # an S, as above

    def allows(self, state: S, rune: Rune) -> bool:
        """Return True if `apply` would take this rune."""
        try:
            self.apply(state, rune)
        except IllegalTransition:
            return False
        return True


def stamped(
    lifecycle: Lifecycle[P, S, C, E],
    state: S,
    rune: Rune,
    now: int,
    limits: Mapping[str, float],
    *,
    paused: bool = False,
) -> Rune:
    """Return a rune with the deadline of the phase that it enters, if that has a time-out.

    So has the rune that begins the entity. `limits` are seconds by `lifecycle.phase`, where they
    differ from the default. If the entity is `paused` and the clock of that phase stands for that,
    it does so from now on.
    """
    if not lifecycle.enforced or getattr(rune, "deadline", 0) is not None:
        return rune
    before: P = state.phase  # type: ignore[assignment]  # a state's phase is a P, as checked
    begins = state == lifecycle.initial
    moves = type(rune) in lifecycle.runes
    after = step(lifecycle.table, before, rune, of=lifecycle.name) if moves else before
    if after is before and not begins:
        return rune
    default = next((each.seconds for each in lifecycle.timeouts if each.phase is after), None)
    seconds = limits.get(f"{lifecycle.name}.{after.value}", default)
    if seconds is None:
        return rune
    deadline = now + round(seconds * 1_000_000_000)
    if paused and after in lifecycle.standing:
        return replace(rune, deadline=deadline, stands_since=now)
    return replace(rune, deadline=deadline)


def fold(lifecycle: Lifecycle[P, S, C, E], runes: Iterable[Rune], state: S | None = None) -> S:
    """Apply `runes` in their order, from `state` or from the very beginning.

    Runes of kinds this version does not know, and tombstones, are skipped: they say nothing it
    understands.
    """
    if state is None:
        state = lifecycle.initial
    apply = lifecycle.apply
    for rune in runes:
        if type(rune) not in _SKIPPED:
            state = apply(state, rune)
    return state


def state_hash(state: object) -> str:
    """Return a hash of the state's value: the same for equal states, in any process, anywhere.

    >>> class Counted(msgspec.Struct):
    ...     by_name: dict[str, int]
    >>> state_hash(Counted({"a": 1, "b": 2})) == state_hash(Counted({"b": 2, "a": 1}))
    True
    """
    return hashlib.sha256(_deterministic(state)).hexdigest()


def describe(lifecycle: Lifecycle[P, S, C, E]) -> Description:
    """Return what a printed table of `lifecycle` shows, in lower case and in the table's order."""
    return Description(
        name=lifecycle.name,
        initial=lifecycle.initial.phase.value,
        states=tuple(phase.value for phase in lifecycle.table),
        terminal=tuple(phase.value for phase in lifecycle.terminal),
        transitions=rows(lifecycle),
        timeouts=tuple(
            Overdue(timeout.phase.value, timeout.seconds, timeout.to.value)
            for timeout in lifecycle.timeouts
        ),
    )


def rows(lifecycle: Lifecycle[P, S, C, E]) -> tuple[Row, ...]:
    """Return one row for each (from, to, on), those of the table first, then those only printed."""
    found = [
        Row(phase.value, to.value, kind_of(cls))
        for phase, row in lifecycle.table.items()
        for cls, target in row.items()
        for to in targets(target)
    ]
    # Several values of a field may lead to one phase; that is still one row.
    return tuple(dict.fromkeys([*found, *lifecycle.printed]))


def targets(target: Target[P]) -> tuple[P, ...]:
    """Return every phase that a rune may lead to."""
    return tuple(target.targets.values()) if isinstance(target, ByField) else (target,)


def _complaints(lifecycle: Lifecycle[P, S, C, E]) -> Iterator[str]:
    """Yield every way in which a lifecycle contradicts itself."""
    state = lifecycle.initial
    if not isinstance(state, msgspec.Struct) or not state.__struct_config__.frozen:
        yield f"its state {type(state).__name__} is not a frozen msgspec.Struct"
    if lifecycle.version < 1:
        yield "its version is below 1"
    initial: Any = state.phase
    phases = type(initial)
    strangers = [phase for phase in lifecycle.table if type(phase) is not phases]
    if initial not in lifecycle.table or strangers:
        yield f"its table is not one of {phases.__qualname__}, the phases of its state"
        return
    for phase in phases:
        if phase not in lifecycle.table:
            yield f"phase {phase.value} is not in the table: a terminal phase is listed with {{}}"
    yield from _complaints_about_rows(lifecycle)
    yield from _complaints_about_reach(lifecycle, initial)
    yield from _complaints_about_timeouts(lifecycle)


def _complaints_about_rows(lifecycle: Lifecycle[P, S, C, E]) -> Iterator[str]:
    kinds: dict[str, type[Rune]] = {}
    for phase, row in lifecycle.table.items():
        for cls, target in row.items():
            if kinds.setdefault(kind_of(cls), cls) is not cls:
                yield f"two classes claim the kind {kind_of(cls)}"
            if isinstance(target, ByField) and target.field not in cls.__struct_fields__:
                yield f"{kind_of(cls)} has no field {target.field}"
            for to in targets(target):
                if to not in lifecycle.table or type(to) is not type(phase):
                    yield f"{kind_of(cls)} leads from {phase.value} to {to!s}, which is no phase"


def _complaints_about_reach(lifecycle: Lifecycle[P, S, C, E], initial: P) -> Iterator[str]:
    reached, ahead = {initial}, [initial]
    while ahead:
        for target in lifecycle.table.get(ahead.pop(), {}).values():
            new = set(targets(target)) - reached
            reached |= new
            ahead.extend(new)
    for phase in lifecycle.table:
        if phase not in reached:
            yield f"phase {phase.value} cannot be reached from {initial.value}"


def _complaints_about_timeouts(lifecycle: Lifecycle[P, S, C, E]) -> Iterator[str]:
    table: Mapping[Any, Mapping[type[Rune], Any]] = lifecycle.table
    if lifecycle.enforced:
        yield from _complaints_about_deadlines(lifecycle)
    for timeout in lifecycle.timeouts:
        if timeout.seconds is not None and timeout.seconds <= 0:
            yield f"the timeout of {timeout.phase.value} is not positive"
        reachable = {
            to for target in table.get(timeout.phase, {}).values() for to in targets(target)
        }
        if timeout.to not in reachable:
            yield f"a timeout ends {timeout.phase.value} in {timeout.to.value}, and no rune does"


def _complaints_about_deadlines(lifecycle: Lifecycle[P, S, C, E]) -> Iterator[str]:
    state: Any = lifecycle.initial
    if "deadline" not in state.__struct_fields__:
        yield "its time-outs are enforced, and its state has no field deadline"
    limited: set[Any] = {timeout.phase for timeout in lifecycle.timeouts}
    stands: set[Any] = {timeout.phase for timeout in lifecycle.timeouts if timeout.stands}
    if stands and "stands_since" not in state.__struct_fields__:
        yield "a time-out of it stands, and its state has no field stands_since"
    for phase, row in lifecycle.table.items():
        for cls, target in row.items():
            enters, fields = (set(targets(target)) & limited) - {phase}, cls.__struct_fields__
            if enters and cls not in lifecycle.observed and "deadline" not in fields:
                names = ", ".join(sorted(to.value for to in enters))
                yield f"{kind_of(cls)} leads to {names}, which has a time-out, without a deadline"
            enters &= stands
            if enters and cls not in lifecycle.observed and "stands_since" not in fields:
                names = ", ".join(sorted(to.value for to in enters))
                yield f"{kind_of(cls)} leads to {names}, whose clock stands, without stands_since"

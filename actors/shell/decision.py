"""A decision as an append: its runes as changes, in order, and the states that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from actors.children import Ended, Started
from actors.entity import ROOT, Clocked, Routing
from actors.operator_log import is_info_enabled
from actors.questions import AskHuman, Conclude
from actors.shell.entities import Newborn, PassiveEntity
from actors.shell.stamping import stamp_of
from actors.shell.transition_log import log_runes
from runelog.rune import Change, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.entity import Placed
    from actors.kind import Kind
    from actors.shell.conversation import ConversationContext
    from actors.shell.entities import LiveActor
    from runelog.rune import Rune


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


class CannotFold(Exception):
    """An entity cannot take a rune that it observes: nothing was appended."""

    def __init__(self, name: str, entity: LiveActor, rune: Rune, error: Exception) -> None:
        """Name the entity and the rune."""
        super().__init__(f"{name} cannot fold {kind_of(rune)}, so it was not appended: {error}")
        self.entity = entity
        self.error = error


class _OtherEntity:
    """Another entity, with what this decision makes of its state."""

    __slots__ = ("before", "kind", "known", "name", "runes", "state")

    def __init__(
        self,
        name: str,
        kind: Kind,
        state: Any,  # noqa: ANN401 -- any law's
        known: LiveActor | PassiveEntity | None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.before = self.state = state
        self.known = known
        """The entity as it was before the decision; None if it is born here."""
        self.runes: list[Rune] = []

    def fold(self, rune: Rune) -> None:
        """Fold a rune, here only."""
        try:
            self.state = self.kind.lifecycle.apply(self.state, rune)
        except Exception as error:
            known = self.known
            if known is None or isinstance(known, PassiveEntity):
                raise
            raise CannotFold(self.name, known, rune, error) from error
        self.runes.append(rune)


MAX_TRIES: Final = 100
"""How often a decision is made anew because others were faster: more would be a live-lock."""


def live_lock(name: str) -> AssertionError:
    """Return the error of an entity whose decisions were always too late."""
    return AssertionError(f"{name}: others were faster {MAX_TRIES} times in a row")


_UNSAID: Final = (None, None)


class Decision:
    """One append: what an entity decided, and everything that follows from it at once.

    That is what is due internally, the end of a question that is not asked any more, and a child's
    end in the table of its root. Every append that a law decides on goes through here, with an
    actor or without, so that a crash cannot separate any of it.
    """

    def __init__(
        self,
        ctx: ConversationContext,
        author: Author,
        runes: Sequence[Rune],
        due: Sequence[Any] | None = None,
        also: Sequence[Placed] = (),
        *,
        cascade: bool = True,
        abandoned: str = "",
    ) -> None:
        """Fold runes and what follows, here only; `changes` is empty if there is nothing at all.

        Without `runes`, it is what is `due` internally that is decided. `also` goes behind them:
        what is decided for entities that cannot. Without `cascade`, what is then due stays so.
        `abandoned` names an entity whose actors kept crashing: its end is a failure.
        """
        kind, me = author.kind, author.me
        self._ctx = ctx
        self._me = me
        self._abandoned = abandoned
        self._others: dict[str, _OtherEntity | None] = {}
        """Other entities that this means something to; None for one that is not in memory."""
        self._born: dict[str, Started] = {}
        """The entries in tables of children that this decision makes."""
        self.changes: list[Change] = []
        stamp = stamp_of(ctx, kind, me, self._born)
        placed: list[Placed] = []
        if cascade:
            state, placed, due = kind.fold_and_decide(me, author.state, runes, due, stamp, ctx.read)
        else:
            state, due = kind.fold_and_route(me, author.state, runes, placed, stamp), ()
        if also:
            also = [(at.within(ctx.root.prefix), rune) for at, rune in also]
            for at, rune in also:
                if me == at.owner or me in at.observers:
                    state = kind.lifecycle.apply(state, rune)
            state, more, due = kind.fold_and_decide(me, state, (), None, stamp, ctx.read)
            placed = [*placed, *also, *more]
        self.due = (state, due)
        """The state after the cascade, and what is due in it."""
        if placed:
            self._prepare(author, state, placed)

    def _prepare(self, author: Author, after: Any, placed: Sequence[Placed]) -> None:  # noqa: ANN401 -- of whichever law
        """Prepare the append of runes that lead the author to the state `after`."""
        kind, me = author.kind, author.me
        # No version is expected of streams in the buffer: no other writer can come between.
        self._touched = self._ctx.buffer.touched
        self._version: int | None = None if me in self._touched else author.version
        """The version expected of the author's stream, given with its first change only."""
        self._parts: list[tuple[Routing, int | None, list[Rune], str | None]] = []
        """Consecutive runes of one routing, the version that the stream must have, and what led to
        them, if that is not what the author knew last."""
        self._last_part: tuple[Routing | None, list[Rune]] = (None, [])
        """The routing that more runes may have, and those that have it."""
        self._is_led = False
        """Whether something else led to any of them."""
        self._births: list[_OtherEntity] = []
        self._passive: list[_OtherEntity] = []
        """Those without an actor, for whom this decision sees to what follows."""
        self._guards: list[Change] = []
        """Which versions the streams of passive entities must have that only observe."""
        self._endings: dict[str, Ended] = {}
        self.own: list[Rune] = []
        """Those of the runes that are in the author's own stream."""
        self.count = 0
        """How many runes there are."""
        self._lay_out(placed)
        entries: dict[str, tuple[bool | None, int | None]] = {}
        folded = len(self.own)
        if self._others:
            for birth in self._births:
                # Passive entities after each birth: what one makes due goes before the next one's.
                self._see_to(birth)
                self._see_to_passive()
            if not self._births:
                self._see_to_passive()
            # The author has not folded yet what the others decided and it observes.
            after = self._folded(kind, after, folded)
            folded = len(self.own)
        self._settle(kind, me, author.state, after)
        if self._others:
            after = self._folded(kind, after, folded)
            self._add_entries(entries)
        if kind.pauses:
            self._add_clock_entries(entries)
        self.after = after
        """The author's state once all of it has happened."""
        self.index_entry = kind.index_entry(after)
        if self.index_entry != author.index_entry:
            entries[me] = self.index_entry
        self.changes = self._changes(entries, kind.context(after), author.event)

    def _folded(self, kind: Kind, state: Any, since: int) -> Any:  # noqa: ANN401 -- of whichever law
        for rune in self.own[since:]:
            state = kind.lifecycle.apply(state, rune)
        return state

    # -- laying out ---------------------------------------------------------------------------

    def _lay_out(self, placed: Sequence[Placed]) -> None:
        """Add runes; fold them into the other entities that own or observe them."""
        parts, others, own, me = self._parts, self._others, self.own, self._me
        root = self._ctx.root.prefix
        led_by = self._ctx.kinds.led_by
        at, runes = self._last_part
        for routed, each in placed:
            rune = each
            place = routed.within(root) if ROOT in routed.observers else routed
            owner = place.owner
            if owner != me:
                rune = self._stamped(owner, rune)
            if isinstance(rune, Started):
                self._born[rune.child] = rune
            by = led_by.get(type(rune))
            if by is None and place == at:
                runes.append(rune)
            else:
                if owner == me:
                    expected, self._version = self._version, None
                else:
                    expected = None if owner in others else self._meet(owner, rune)
                runes = [rune]
                parts.append((place, expected, runes, by and by(rune)))
                # What follows has another cause.
                at = None if by else place
                self._is_led |= by is not None
            if owner == me:
                own.append(rune)
            elif (other := others[owner]) is not None:
                other.fold(rune)
            for entity in place.observers:
                if entity == me:
                    own.append(rune)
                    continue
                if (other := others.get(entity) or self._observe(entity)) is not None:
                    other.fold(rune)
        self.count += len(placed)
        self._last_part = at, runes

    def _stamped(self, owner: str, rune: Rune) -> Rune:
        """Return a rune of a newborn with the deadline of the phase that it enters."""
        other = self._others.get(owner)
        kind = self._ctx.kinds.births.get(type(rune)) if other is None else other.kind
        if kind is None or not kind.lifecycle.enforced:
            return rune
        state = kind.lifecycle.initial if other is None else other.state
        stamp = stamp_of(self._ctx, kind, owner, self._born)
        assert stamp is not None, "its law is enforced"
        return stamp(kind.lifecycle, state, rune)

    def _observe(self, entity: str) -> _OtherEntity | None:
        """Look up an entity that observes a rune, and is not written to; None if not in memory.

        What a passive one is believed to be is what the append is decided by: its version is
        guarded as well.
        """
        known = self._ctx.find(entity)
        if known is None:
            return None
        if type(known) is PassiveEntity and entity not in self._touched:
            self._guards.append(Change(entity, known.version, ()))
        return self._take_in(entity, known)

    def _read(self, entity: str) -> object:
        """Return the state of an entity that a law reads, with what this decision makes of it."""
        other = self._others.get(entity)
        return self._ctx.read(entity) if other is None else other.state

    def _take_in(self, name: str, known: LiveActor | PassiveEntity) -> _OtherEntity:
        other = self._others[name] = _OtherEntity(name, known.kind, known.state, known)
        if type(known) is PassiveEntity:
            self._passive.append(other)
        return other

    def _meet(self, owner: str, rune: Rune) -> int | None:
        """Look up an entity that is written to; return the version that its stream must have."""
        known = self._ctx.find(owner)
        if known is not None:
            self._take_in(owner, known)
            expected = type(known) is PassiveEntity and owner not in self._touched
            return known.version if expected else None
        kind = self._ctx.kinds.births.get(type(rune))
        if kind is None:
            # Its actor has ended and begins anew from the log, which counts its version.
            self._others[owner] = None
            return None
        other = self._others[owner] = _OtherEntity(owner, kind, kind.lifecycle.initial, None)
        self._births.append(other)
        return 0

    def _see_to_passive(self) -> None:
        """Let each passive entity decide at once what is due internally."""
        for passive in self._passive:
            self._see_to(passive)

    def _see_to(self, other: _OtherEntity) -> None:
        """Let an entity decide at once what is due internally; then see to what has ended."""
        kind = other.kind
        # Checked first because mostly nothing is due.
        if kind.internal and (due := kind.lifecycle.due(other.state)):
            stamp = stamp_of(self._ctx, kind, other.name, self._born)
            found = kind.fold_and_decide(other.name, other.state, (), due, stamp, self._read)
            self._lay_out(found[1])
        self._settle(kind, other.name, other.before, other.state)

    # -- what comes to an end -----------------------------------------------------------------

    def _settle(self, kind: Kind, name: str, before: Any, after: Any) -> None:  # noqa: ANN401 -- any law's
        """Conclude the questions that an entity asks no more, and tell the root of its end."""
        ctx, law = self._ctx, kind.lifecycle
        if kind.asks_humans and after is not before:
            for approval_id in sorted(self._asked(kind, name, before)):
                if approval_id not in self._asked(kind, name, after) and ctx.exists(approval_id):
                    self._conclude(approval_id)
        is_end = not law.table[after.phase] and not law.is_over(before)
        if is_end and name not in self._endings and ctx.kinds.is_child(kind):
            ended = self._endings[name] = self._end_of(kind, name, after)
            root = ctx.root.prefix
            at = Routing(ended.parent, (root,)) if ended.parent else Routing(root)
            self._lay_out([(at, ended)])

    def _end_of(self, kind: Kind, name: str, state: Any) -> Ended:  # noqa: ANN401 -- any law's
        """Return what is told of an end: to the root, and to the parent if that lives."""
        phase = state.phase.value
        failed = name == self._abandoned or phase in kind.failures
        found = self._born.get(name) or self._ctx.child(name)
        if found is None or not found.parent or found.parent in self._endings:
            return Ended(name, phase, failed=failed)
        answer = self._ctx.services.redactor.value(msgspec.to_builtins(kind.answer(state)))
        return Ended(name, phase, found.parent, found.key, failed, answer)

    def _asked(self, kind: Kind, name: str, state: Any) -> set[str]:  # noqa: ANN401 -- any law's
        """Return the approvals that an entity in this state wants answered."""
        where, due = (self._ctx.conversation, name), kind.lifecycle.due(state)
        return {effect.approval_id(*where) for effect in due if isinstance(effect, AskHuman)}

    def _conclude(self, approval_id: str) -> None:
        """Let the law of an approval decide that its question is not asked any more."""
        found = self._others.get(approval_id) or self._ctx.passive(approval_id)
        placed: list[Placed] = []
        runes = found.kind.lifecycle.decide(found.state, Conclude("no longer wanted"))
        found.kind.fold_and_route(approval_id, found.state, runes, placed)
        self._lay_out(placed)

    # -- index entries ------------------------------------------------------------------------

    def _add_entries(self, entries: dict[str, tuple[bool | None, int | None]]) -> None:
        """Add the index entries of the other entities that have changed."""
        for other in (*self._births, *self._passive):
            entry = other.kind.index_entry(other.state)
            if entry[0] or (other.known is not None and other.kind.is_open(other.before)):
                entries[other.name] = entry

    def _add_clock_entries(self, entries: dict[str, tuple[bool | None, int | None]]) -> None:
        """Add the entries of entities whose clocks stand or go on with this: they observe it."""
        ctx = self._ctx
        for place, _, runes, _ in self._parts:
            for rune in runes:
                if isinstance(rune, Clocked):
                    for entity in place.observers:
                        kind = ctx.kinds.of(entity)
                        if kind is not None and kind.lifecycle.standing:
                            state = kind.lifecycle.apply(ctx.state_of(kind, entity), rune)
                            entries[entity] = kind.index_entry(state)
                            ctx.forget_index_entry(entity)

    def _changes(
        self,
        entries: dict[str, tuple[bool | None, int | None]],
        context: tuple[str | None, str | None],
        cause: int,
    ) -> list[Change]:
        """Return all of it as changes; the first one of each entity has its index entry."""
        changes = [*self._guards]
        births, others = self._births, self._others
        agent, turn = context
        causes = self._causes(cause) if self._is_led else None
        for place, expected, runes, _ in self._parts:
            owner = place.owner
            if births:
                agent, turn = context
                if (other := others.get(owner)) is not None and other.known is None:
                    agent, turn = other.kind.context(other.state)
            is_open, by = entries.pop(owner, _UNSAID) if entries else _UNSAID
            changes.append(
                Change(
                    owner,
                    expected,
                    runes,
                    place.observers,
                    agent=agent,
                    turn=turn,
                    cause=cause if causes is None else next(causes),
                    open=is_open,
                    deadline=by,
                )
            )
        agent, turn = context
        # What is left: the author's own entry if it decided only for others, and those of others
        # that observe a rune.
        for name, (is_open, by) in entries.items():
            changes.append(
                Change(
                    name,
                    self._version if name == self._me else None,
                    [],
                    agent=agent,
                    turn=turn,
                    cause=cause,
                    open=is_open,
                    deadline=by,
                )
            )
        return changes

    def _causes(self, cause: int) -> Iterator[int]:
        """Yield the event that led to each part, `cause` if not something else did.

        What is behind a rune that something else led to follows from that rune.
        """
        ctx, began = self._ctx, False
        next_event = ctx.buffer.next_event
        for place, _, runes, led_by in self._parts:
            led = cause
            if led_by:
                led = ctx.event_of(led_by) or cause
            elif led_by is not None and not began:
                led, began = 0, True
                ctx.note_begun(place.observers, next_event)
            if led_by is not None:
                cause = next_event
            yield led
            next_event += len(runes)

    # -- afterwards ---------------------------------------------------------------------------

    def believe(self, last: int) -> None:
        """Take over what has become of the other entities, once the log has taken the append."""
        ctx, tells = self._ctx, is_info_enabled()
        for other in self._births:
            kind, name, runes = other.kind, other.name, other.runes
            if kind.actor is None:
                ctx.add_passive(name, PassiveEntity(kind, other.state, len(runes)))
                if tells:
                    self._log_transitions(other, last)
            else:
                ctx.add_newborn(name, Newborn(kind, other.state, len(runes), last, runes))
        for each in self._others.values():
            if each is not None and (known := each.known) is not None and each.runes:
                if tells and type(known) is PassiveEntity:
                    self._log_transitions(each, last)
                known.take(each.state, each.runes, last)

    def _log_transitions(self, other: _OtherEntity, last: int) -> None:
        """Tell operators of an entity that has no actor; one with a single phase never moves."""
        if len(other.kind.lifecycle.table) == 1:
            return
        agent = other.kind.context(other.state)[0]
        log_runes(self._ctx, other.kind, other.name, other.before.phase, other.runes, agent, last)

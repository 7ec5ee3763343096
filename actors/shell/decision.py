"""A decision as an append: its runes as changes, in order, and the states that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.children import Ended, Started
from actors.entity import ROOT, Clocked
from actors.kind import Kind, never_open
from actors.operator_log import is_info_enabled
from actors.questions import AskHuman, Conclude
from actors.shell.draft import Author, CannotFold, Draft, Part, resolved
from actors.shell.entities import Newborn, PassiveEntity
from actors.shell.stamping import with_times
from actors.shell.transition_log import log_runes
from runelog.errors import Refused
from runelog.rune import Change, Rune

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.entity import Placed
    from actors.shell.conversation import ConversationContext
    from actors.shell.entities import LiveActor


MAX_TRIES: Final = 100
"""How often a decision is made anew because others were faster: more would be a live-lock."""
MAX_INTERNAL: Final = 1_000
"""How many internal decisions may follow from one: a law that needs more goes round in circles."""


_UNSAID: Final = (None, None)


def live_lock(name: str) -> AssertionError:
    """Return the error of an entity whose decisions were always too late."""
    return AssertionError(f"{name}: others were faster {MAX_TRIES} times in a row")


class Decision:
    """One append: what an entity decided, and everything that follows from it at once.

    That is what is due internally, the end of a question that is not asked any more, and a child's
    end in the table of its root. Every append that a law decides on goes through here, with an
    actor or without, so that a crash cannot separate any of it. Each rune is folded by its owner
    and by those that observe it, here only, before the next one is decided.
    """

    # Most decisions have none of these.
    _live: tuple[Draft, ...] = ()
    """Live actors that observe something, and decide at once what is due of theirs."""
    _births: tuple[Draft, ...] = ()
    _born: Mapping[str, Started] = {}
    """The entries in tables of children that this decision makes."""
    _endings: Mapping[str, Ended] = {}
    _clocked: tuple[tuple[tuple[str, ...], Rune], ...] = ()
    """Runes with which clocks stand or go on, and who observes them."""
    count = 0
    """How many runes there are."""
    _is_led = False
    """Whether another event than the last that the author knew led to any of them."""

    def __init__(
        self,
        ctx: ConversationContext,
        author: Author,
        runes: Sequence[Rune],
        due: Sequence[Any] | None = None,
        also: Sequence[Placed] = (),
        other: tuple[str, Sequence[Rune]] | None = None,
        *,
        cascade: bool = True,
        abandoned: str = "",
    ) -> None:
        """Fold runes and what follows, here only; `changes` is empty if there is nothing at all.

        Without `runes`, it is what is `due` internally that is decided. `also` goes behind them:
        births, or what was decided for an `other` entity without an actor. Without `cascade`, what
        is then due stays so. The end of one whose actors kept crashing, `abandoned`, is a failure.
        """
        me, state = author.me, author.state
        self._ctx = ctx
        self._abandoned = abandoned
        self._touched = ctx.buffer.touched
        # No version is expected of streams in the buffer: no other writer can come between.
        expected = None if me in self._touched else author.version
        self._author = one = Draft(me, author.kind, state, state, author, expected)
        self._drafts: dict[str, Draft | None] = {me: one}
        """All entities that this means something to; None for one that is not in memory."""
        self._parts: list[Part] = []
        self._cause = 0
        self._passive: list[Draft] = []
        """Those without an actor, for whom this decision sees to what follows."""
        self.changes: list[Change] = []
        """The first say which versions the streams of passive entities have that only observe."""
        if runes:
            self._take(one, runes)
            due = None
        if cascade:
            due = self._cascade(one, due)
        for at, rune in also:
            self._lay(at.owner, at.observers, rune)
        if other is not None:
            self._take(self._passive_draft(other[0]), other[1])
        if also or other is not None:
            due = self._cascade(one, None)
        self.touched: Iterable[str] = self._drafts
        """The entities whose streams are longer with it, or are in it with a version."""
        self.due = (one.state, due or ())
        """The author's state after the cascade, and what is due in it."""
        if self.count:
            self._complete(author)

    def _complete(self, author: Author) -> None:
        """See to what follows for others; then the append is all there."""
        one, seen, before = self._author, 0, 0
        while before != self.count:
            before = self.count
            while seen < len(self._births):
                # Passive entities after each birth: what one makes due goes before the next one's.
                self._see_to(self._births[seen])
                seen += 1
                if seen < len(self._births):
                    self._see_to_passive()
            self._see_to_passive()
            for live in self._live:
                self._see_to_live(live)
        kind = one.kind
        if kind.settles:
            self._settle(one)
        entries: dict[str, tuple[bool | None, int | None]] = {}
        if seen or self._passive or self._live:
            self._add_entries(entries)
        if self._clocked:
            self._add_clock_entries(entries)
        self.own = one.runes
        """Those of the runes that are in the author's own stream."""
        self.after = after = one.state
        """The author's state once all of it has happened."""
        self.index_entry = kind.index_entry(after)
        if self.index_entry != author.index_entry:
            entries[one.name] = self.index_entry
        elif not one.runes:
            # It decided for others only.
            del self._drafts[one.name]
        self._add_changes(entries, kind.context(after), author.event)

    # -- folding ------------------------------------------------------------------------------

    def _take(self, draft: Draft, runes: Iterable[Rune]) -> None:
        """Lay out what the law of an entity decided."""
        name, route, lay = draft.name, draft.kind.route, self._lay
        for rune in runes:
            at = route(draft.state, rune)
            lay(at.owner or name, at.observers, rune)

    def _lay(self, owner: str, observers: tuple[str, ...], rune: Rune) -> None:  # noqa: C901 -- all of it is what one rune means
        """Add a rune; fold it into its owner and those that observe it."""
        ctx, drafts, parts = self._ctx, self._drafts, self._parts
        if ROOT in observers:
            observers = resolved(observers, ctx.root.prefix)
        draft = drafts.get(owner) or self._meet(owner, rune)
        if draft is not None:
            if draft.kind.stamps:
                rune = self._stamped(draft, observers, rune)
            try:
                draft.state = draft.kind.lifecycle.apply(draft.state, rune)
            except Exception as error:
                self._cannot_fold(draft, rune, error)
                raise
            draft.runes.append(rune)
        if type(rune) is Started:
            self._born = {**self._born, rune.child: rune}
        for name in observers:
            seen = drafts[name] if name in drafts else self._observe(name)
            if seen is not None:
                try:
                    seen.state = seen.kind.lifecycle.apply(seen.state, rune)
                except Exception as error:
                    self._cannot_fold(seen, rune, error)
                    raise
                seen.runes.append(rune)
        self.count += 1
        led_by = ctx.kinds.led_by.get(type(rune))
        led = led_by and led_by(rune)
        if led is not None:
            self._is_led = True
        elif parts:
            last = parts[-1]
            if last.owner == owner and last.is_like(observers, self._cause):
                last.runes.append(rune)
                return
        expected = None
        if draft is not None:
            expected, draft.expected = draft.expected, None
        parts.append(Part(owner, observers, expected, self._cause, led, [rune]))

    def _cannot_fold(self, draft: Draft, rune: Rune, error: Exception) -> None:
        """Blame a live actor for what it cannot take; anything else is the author's fault."""
        known, own = draft.known, draft is self._author or isinstance(error, CannotFold)
        if known is not None and not own and not isinstance(known, PassiveEntity):
            raise CannotFold(draft.name, known, rune, error) from error  # type: ignore[arg-type]  # no author

    def _stamped(self, draft: Draft, observers: tuple[str, ...], rune: Rune) -> Rune:
        """Return a rune with the times that its law knows nothing of."""
        rune = with_times(self._ctx, draft.kind, draft.name, draft.state, rune, self._born)
        if draft.kind.pauses and isinstance(rune, Clocked):
            self._clocked = (*self._clocked, (observers, rune))
        return rune

    def _cascade(self, draft: Draft, due: Sequence[Any] | None) -> Sequence[Any]:
        """Let an entity decide at once what is due internally; return what is due in the end."""
        kind = draft.kind
        law, internal, prompt = kind.lifecycle, kind.internal, kind.prompt
        for _ in range(MAX_INTERNAL):
            if due is None:
                due = law.due(draft.state)
            runes: Sequence[Rune] = ()
            for effect in due:
                if type(effect) in internal:
                    runes = law.decided(draft.state, effect, self._read)
                    if not runes:
                        msg = f"{kind.name}: {type(effect).__name__} is due and decides nothing"
                        raise AssertionError(msg)
                    break
                if type(effect) in prompt and (runes := self._prompted(draft, effect)):
                    break
            else:
                return due
            self._take(draft, runes)
            due = None
        msg = f"{kind.name}: what is due internally does not come to an end"
        raise AssertionError(msg)

    def _prompted(self, draft: Draft, effect: Any) -> Sequence[Rune]:  # noqa: ANN401 -- of whichever law
        """Return what an entity decides if its actor can answer an effect at once."""
        ctx, known = self._ctx, draft.known
        if known is None or isinstance(known, PassiveEntity):
            return ()
        command = known.at_once(effect, draft.state, draft.runes)
        if command is None:
            return ()
        command = ctx.services.redactor.value(command)
        try:
            runes = draft.kind.lifecycle.decided(draft.state, command, self._read)
        except Refused:
            # It is performed, as any effect, and refused there.
            return ()
        self._follow()
        return runes

    def _follow(self) -> None:
        if self.count:  # then what comes next follows from the last rune here
            self._cause = self._ctx.buffer.next_event + self.count - 1

    def _read(self, entity: str) -> object:
        """Return the state of an entity that a law reads, with what this decision makes of it."""
        draft = self._drafts.get(entity)
        return self._ctx.read(entity) if draft is None else draft.state

    # -- other entities -----------------------------------------------------------------------

    def _observe(self, name: str) -> Draft | None:
        """Look up an entity that observes a rune, and is not written to; None if not in memory.

        What a passive one is believed to be is what the append is decided by: its version is
        guarded as well.
        """
        known = self._ctx.find(name)
        if known is None:
            self._drafts[name] = None
            return None
        state = known.state
        draft = self._drafts[name] = Draft(name, known.kind, state, state, known, None)
        if type(known) is PassiveEntity:
            self._passive.append(draft)
            if name not in self._touched:
                self.changes.append(Change(name, known.version, ()))
        elif known.is_settled and known.kind.internal:
            self._live = (*self._live, draft)
        return draft

    def _meet(self, owner: str, rune: Rune) -> Draft | None:
        """Look up an entity that is written to, which may be born here."""
        drafts = self._drafts
        known = self._ctx.find(owner)
        if known is None:
            kind = self._ctx.kinds.births.get(type(rune))
            if kind is None:
                # Its actor has ended and begins anew from the log, which counts its version.
                drafts[owner] = None
                return None
            initial = kind.lifecycle.initial
            draft = drafts[owner] = Draft(owner, kind, initial, initial, None, 0, decides=True)
            self._births = (*self._births, draft)
            return draft
        return self._known(owner, known)

    def _passive_draft(self, name: str) -> Draft:
        """Return an entity without an actor, which is written to."""
        return self._drafts.get(name) or self._known(name, self._ctx.passive(name))

    def _known(self, owner: str, known: LiveActor | PassiveEntity) -> Draft:
        state = known.state
        draft = self._drafts[owner] = Draft(owner, known.kind, state, state, known, None)
        if type(known) is PassiveEntity:
            self._passive.append(draft)
            if owner not in self._touched:
                draft.expected = known.version
        elif known.is_settled and known.kind.internal:
            self._live = (*self._live, draft)
        return draft

    def _see_to_passive(self) -> None:
        """Let each passive entity that has changed decide what is due internally."""
        for passive in self._passive:
            if passive.seen is not passive.state:
                self._see_to(passive)

    def _see_to(self, draft: Draft) -> None:
        """Let an entity decide at once what is due internally; then see to what has ended."""
        kind = draft.kind
        if kind.internal:
            self._cascade(draft, None)
        if kind.settles:
            self._settle(draft)
        draft.seen = draft.state

    def _see_to_live(self, draft: Draft) -> None:
        """Let a live actor's law decide at once what is due of it by what it observes here."""
        if draft.seen is draft.state:
            return
        before, cause = self.count, self._cause
        self._follow()
        try:
            due = self._cascade(draft, None)
        except Exception as error:
            self._cannot_fold(draft, draft.runes[-1], error)
            raise
        self._cause = cause
        draft.seen = draft.state
        draft.due = (draft.state, due)
        if self.count != before:
            draft.decides = True
        if draft.kind.settles:
            self._settle(draft)

    # -- what comes to an end -----------------------------------------------------------------

    def _settle(self, draft: Draft) -> None:
        """Conclude the questions that an entity asks no more, and tell the root of its end."""
        ctx, kind, before = self._ctx, draft.kind, draft.before
        if kind.asks_humans and draft.state is not before:
            name, after = draft.name, draft.state
            for approval_id in sorted(self._asked(kind, name, before)):
                if approval_id not in self._asked(kind, name, after) and ctx.exists(approval_id):
                    self._conclude(approval_id)
        if ctx.kinds.is_child(kind) and draft.name not in self._endings:
            law = kind.lifecycle
            if law.is_over(draft.state) and not law.is_over(before):
                ended = self._end_of(kind, draft.name, draft.state)
                self._endings = {**self._endings, draft.name: ended}
                root = ctx.root.prefix
                observers = (root,) if ended.parent else ()
                self._lay(ended.parent or root, observers, ended)

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
        draft = self._passive_draft(approval_id)
        self._take(draft, draft.kind.lifecycle.decide(draft.state, Conclude("no longer wanted")))

    # -- index entries ------------------------------------------------------------------------

    def _add_entries(self, entries: dict[str, tuple[bool | None, int | None]]) -> None:
        """Add the index entries of the other entities that have changed."""
        for draft in (*self._births, *self._passive):
            kind = draft.kind
            if kind.is_open is never_open:
                continue
            entry = kind.index_entry(draft.state)
            if entry[0] or (draft.known is not None and kind.is_open(draft.before)):
                entries[draft.name] = entry
        for draft in self._live:
            if draft.decides:
                known: Any = draft.known
                draft.index_entry = entry = draft.kind.index_entry(draft.state)
                if entry != known.index_entry:
                    entries[draft.name] = entry

    def _add_clock_entries(self, entries: dict[str, tuple[bool | None, int | None]]) -> None:
        """Add the entries of entities whose clocks stand or go on with this: they observe it."""
        ctx = self._ctx
        for observers, rune in self._clocked:
            for entity in observers:
                kind = ctx.kinds.of(entity)
                if kind is not None and kind.lifecycle.standing:
                    state = kind.lifecycle.apply(ctx.state_of(kind, entity), rune)
                    entries[entity] = kind.index_entry(state)
                    ctx.forget_index_entry(entity)

    def _add_changes(
        self,
        entries: dict[str, tuple[bool | None, int | None]],
        context: tuple[str | None, str | None],
        known: int,
    ) -> None:
        """Make all of it changes; the first one of each entity has its index entry."""
        changes, drafts = self.changes, self._drafts
        others = self._births or self._live
        agent, turn = context
        causes = self._causes(known) if self._is_led else None
        for part in self._parts:
            owner = part.owner
            cause = (part.cause or known) if causes is None else next(causes)
            if others:
                agent, turn = context
                draft = drafts[owner]
                if draft is not None and draft.decides:
                    agent, turn = draft.kind.context(draft.state)
            is_open, by = entries.pop(owner, _UNSAID) if entries else _UNSAID
            said = (agent, turn, cause, None, (), is_open, by)
            changes.append(Change(owner, part.expected, part.runes, part.observers, *said))
        agent, turn = context
        # What is left: the author's own if it decided only for others, and those that observe.
        for name, (is_open, by) in entries.items():
            expected = self._author.expected if name == self._author.name else None
            said = (agent, turn, known, None, (), is_open, by)
            changes.append(Change(name, expected, [], (), *said))

    def _causes(self, cause: int) -> Iterator[int]:
        """Yield the event that led to each part, `cause` if not something else did.

        What is behind a rune that something else led to follows from that rune.
        """
        ctx, began = self._ctx, False
        following = ctx.buffer.next_event
        for part in self._parts:
            led, led_by = part.cause or cause, part.led_by
            if led_by:
                led = ctx.event_of(led_by) or led
            elif led_by is not None and not began:
                led, began = 0, True
                ctx.note_begun(part.observers, following)
            if led_by is not None:
                cause = following
            yield led
            following += len(part.runes)

    # -- afterwards ---------------------------------------------------------------------------

    def believe(self, last: int) -> None:
        """Take over what has become of the other entities, once the log has taken the append."""
        tells, author = is_info_enabled(), self._author
        for draft in self._drafts.values():
            if draft is None or draft is author:
                continue
            known, runes = draft.known, draft.runes
            if known is None:
                self._believe_birth(draft, last)
            elif runes:
                if tells and type(known) is PassiveEntity:
                    self._log_transitions(draft, last)
                if draft.index_entry is not None:
                    known.index_entry = draft.index_entry  # type: ignore[union-attr]  # it is live
                known.take(draft.state, runes, last, draft.due)  # type: ignore[union-attr]  # no author

    def _believe_birth(self, draft: Draft, last: int) -> None:
        ctx, kind, name, runes = self._ctx, draft.kind, draft.name, draft.runes
        if kind.actor is None:
            ctx.add_passive(name, PassiveEntity(kind, draft.state, len(runes)))
            if is_info_enabled():
                self._log_transitions(draft, last)
        else:
            ctx.add_newborn(name, Newborn(kind, draft.state, len(runes), last, runes))

    def _log_transitions(self, draft: Draft, last: int) -> None:
        """Tell operators of an entity that has no actor; one with a single phase never moves."""
        kind, name = draft.kind, draft.name
        if len(kind.lifecycle.table) == 1:
            return
        agent = kind.context(draft.state)[0]
        log_runes(self._ctx, kind, name, draft.before.phase, draft.runes, agent, last)

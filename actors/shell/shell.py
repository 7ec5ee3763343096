"""The one loop: replay, then understand -> decide -> fold -> append -> believe -> act.

What a rune means to the entities that observe it is folded in the step that decides it.

Every entity's actor is this shell around its law. It adds two things of its own: how a message is
understood as a command, and how an effect is performed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from actors.children import EnsureChild, StopChild
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.operator_log import is_info_enabled, log
from actors.process.process import NORMAL, Process
from actors.public_command import DecisionInput, Order
from actors.shell.decision import MAX_TRIES, Decision, live_lock
from actors.shell.draft import CannotFold
from actors.shell.signals import WAKE, RetryEffect, Wake
from actors.shell.transition_log import forget_logged, log_replayed, log_runes, warn_time_short
from runelog.errors import Refused, WrongVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.entity import Placed
    from actors.kind import Kind
    from actors.ports import Timer
    from actors.shell.conversation import ConversationContext
    from actors.shell.entities import Due
    from runelog.rune import Rune

NEAR: Final = 5
"""Operators are warned when this part of a limit is left: a fifth, so that 80 % have passed."""


class Shell(Process):
    """An entity, alive."""

    kind: ClassVar[Kind]
    """Set by the kind that has this actor."""
    asks_humans: ClassVar[bool] = False
    """Whether its law may have `AskHuman` due."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before replay."""
        super().__init__(f"{ctx.conversation}/{me}", ctx.lane)
        self.ctx = ctx
        self.me = me
        self.state: Any = self.kind.lifecycle.initial
        self.version = 0
        self.event = 0
        """The last event that was folded."""
        self._under_way: set[msgspec.Struct] = set()
        self._known = 0
        """The last event that was appended here."""
        self._due: tuple[Any, Sequence[Any]] = (None, ())
        """What is due in the last state that was asked."""
        self._until: tuple[Any, int | None] = (None, None)
        """The deadline of a state, the last that was asked."""
        self._timer: Timer | None = None
        self._alarm: int | None = None
        self._warned: int | None = None
        """When operators were warned last that time runs short."""
        self.index_entry: tuple[bool, int | None] | None = None
        """This entity's entry in the index: whether it has work left, and its deadline.

        None if that is not known: what an entity observes changes it without an append of its own.
        """
        self._awaits_commit = False
        self._in_doubt = False
        self._woken = False
        self.replayed = False
        """Whether its state was read from the log, rather than handed over at birth."""

    # -- for each kind of entity to say -------------------------------------------------------

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- of whichever law
        """Return the command that a message means; None if it only asks to look what is due."""
        if isinstance(message, Order):
            facts = DecisionInput(self.ctx, self.me, self.state, message, offline=False)
            return message.command.law_command(facts)
        return None if isinstance(message, Wake) else message

    def perform(self, effect: Any) -> None:  # noqa: ANN401 -- as above
        """Do what is due beside seeing to children; not asked for again while it stays due."""
        raise NotImplementedError

    def on_folded(self, rune: Rune) -> None:
        """Take notice of a rune that was folded here and now, not in a replay."""

    def near(self) -> int | None:
        """Return when most of its time limit will have passed; None if no warning is needed.

        Operators are warned then. It is asked for with each new deadline, and so has to be quick.
        """
        return self.kind.near(self.state)

    @classmethod
    def left_behind(cls, state: Any, conversation: str, me: str) -> Sequence[str]:  # noqa: ANN401 -- of whichever law
        """Return what only the actor of such an entity sees to: ended with it if it is given up."""
        del state, conversation, me
        return ()

    def answered(self) -> object:
        """Return the answer for the caller of a command that was carried out."""
        return self.state

    # -- beginning ----------------------------------------------------------------------------

    def on_start(self) -> None:
        """Take over the state from the entity's birth, or read it from the log."""
        born = self.ctx.take_unstarted(self.me)
        self.replayed = born is None
        if born is None:
            self.state, self.version, self.event = self.ctx.replayed(self.kind, self.me)
            self._in_doubt = True
            # The last actor of an entity that is over has logged all of it.
            if not self.kind.lifecycle.is_over(self.state):
                log_replayed(self.ctx, self.kind, self.me, self._agent, self.event)
        else:
            self.state, self.version, self.event = born.state, born.version, born.event_id
            self._believe(self.kind.lifecycle.initial, born.runes)
            self.index_entry = self.kind.index_entry(self.state)
        self.ctx.join(self.me, self)
        self.wake()

    def on_stop(self) -> None:
        """Unregister; of an entity that is over nothing more will be logged."""
        self._disarm()
        if self.kind.lifecycle.is_over(self.state):
            forget_logged(self.ctx, self.me)
        self.ctx.leave(self.me, self)

    def on_failure(self, *_about: object) -> None:
        """Do nothing more: the supervisor unregisters this actor, and the next reads the log."""
        self._disarm()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- being handed states, and messages ----------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether its law may decide in appends of others: nothing is in doubt, or to be asked."""
        return not self._in_doubt

    def at_once(self, effect: Any, state: Any, runes: Sequence[Rune]) -> object:  # noqa: ANN401 -- of whichever law
        """Return the command that a `prompt` effect comes back as; None if it is to be performed.

        It is due in `state`, behind `runes` of the same append; nothing of that is believed yet.
        """

    def take(self, state: Any, runes: Sequence[Rune], last: int, due: Due) -> None:  # noqa: ANN401 -- as above
        """Take over the state after runes of others; it is woken if there is something to do."""
        before, self.state = self.state, state
        self.version += len(runes)
        self.event = last
        try:
            self._believe(before, runes)
            if due is not None and due[0] is state:
                self._due, wanted = due, due[1]
            else:
                wanted = self.kind.lifecycle.due(state)
            self._under_way.intersection_update(wanted)
            for effect in wanted:
                if type(effect) is EnsureChild and effect not in self._under_way:
                    # The child starts by itself, behind what is done now.
                    self._under_way.add(effect)
                    self._see_to_child(effect)
            has_work = self.has_work(wanted)
        except Exception as error:  # noqa: BLE001 -- what goes wrong here is not the author's fault
            self._crash(error)
            return
        if has_work:
            self.wake()

    def has_work(self, due: Sequence[Any]) -> bool:
        """Return True if it has to act on its present state, in which so much is `due`."""
        state, under_way = self.state, self._under_way
        return (
            not under_way.issuperset(due)
            or self.kind.deadline(state) != self._alarm
            or not self.kind.lifecycle.table[state.phase]
        )

    def cannot_fold(self, error: Exception) -> None:
        """End, since it cannot take what it observes; its supervisor starts it anew."""
        self._crash(error)

    def wake(self) -> None:
        """Queue one check of what is due, unless one is queued already."""
        if not self._woken:
            self._woken = True
            self.deliver(WAKE, limited=False)

    def tell(self, message: object, reply_to: Any = None) -> None:  # noqa: ANN401 -- pykka's
        """Send it a message; from one actor of the conversation to another."""
        self.deliver(message, reply_to, limited=False)

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out one command, or look what is due."""
        if self.ctx.buffer.failed is not None:
            self.ctx.check()
        if self._in_doubt:
            self._in_doubt = False
            self._settle_doubts()
        refusal: Refused | None = None
        if message is WAKE:
            self._woken = False
        elif isinstance(message, RetryEffect):
            self._under_way.discard(message.effect)
        else:
            if isinstance(message, TimeUp):
                message = self._if_due(message)
            command = self.understand(message) if message is not None else None
            if command is not None:
                refusal = self._answer_to(command)
        self.act()
        return refusal or (self.answered() if self._is_asked else None)

    def _answer_to(self, command: object) -> Refused | None:
        """Carry out what a message means; return why not, if it was refused."""
        try:
            return self.carry_out(command)
        except Refused as unfit:
            # A caller is told what cannot be stored. From another actor it is a bug.
            if not self._is_asked:
                raise
            return unfit

    def _reply(self, reply_to: Any, answer: object) -> None:  # noqa: ANN401 -- pykka's
        """Answer once everything is on disk; a refusal at once: nothing was written."""
        if reply_to is None:
            if isinstance(answer, Refused):
                log.info("refused", entity=self.name, reason=str(answer))
        elif isinstance(answer, Refused):
            super()._reply(reply_to, answer)
        else:
            give = super()._reply
            self.ctx.answer(lambda: give(reply_to, answer), reply_to.fail)

    def _believe(self, before: Any, runes: Sequence[Rune]) -> None:  # noqa: ANN401 -- any law's
        """Call `on_folded` for runes that were just folded, and log their transitions."""
        if is_info_enabled():
            log_runes(self.ctx, self.kind, self.me, before.phase, runes, self._agent, self.event)
        for rune in runes:
            self.on_folded(rune)

    @property
    def _agent(self) -> str | None:
        return self.kind.context(self.state)[0]

    def _settle_doubts(self) -> None:
        """After a restart: what the log says began, and not how it ended, is settled by the law."""
        due = self.kind.lifecycle.due(self.state)
        if any(type(effect) in self.kind.external for effect in due):
            self.carry_out(Recover(now=self._now()))

    def _if_due(self, message: TimeUp) -> TimeUp | None:
        """Pass a time that is up on to the law, unless the deadline was moved or is only near."""
        when = self.kind.deadline(self.state)
        # It may have waited here for a while: one that was only near then may be up now.
        message = TimeUp(now=max(message.now, self._now()))
        if when is None or when > message.now:
            self._alarm = None
            near = self.near()
            if when is not None and near is not None and self._warned != near <= message.now:
                self._warned = near
                warn_time_short(self.ctx, self.kind, self.me, self.state, when)
            return None
        # One that is past is not armed again: what follows from it is under way by then.
        return message

    # -- deciding -----------------------------------------------------------------------------

    def carry_out(self, command: object) -> Refused | None:
        """Decide, and make it so; return the refusal if the law does not allow it here."""
        return self.carry_out_with(command, ())

    def carry_out_with(self, command: object, births: Sequence[Placed]) -> Refused | None:
        """Do as `carry_out`; what is born with it is in the same append, if it decides anything."""
        for _ in range(MAX_TRIES):
            try:
                runes = self.ctx.decided(self.kind, self.state, command)
            except Refused as refusal:
                # A refusal is an answer, not a failure: raised, it would kill us.
                return refusal
            if self._commit(runes, also=births if runes else ()):
                return None
        raise live_lock(self.name)

    def append(self, placed: Sequence[Placed]) -> None:
        """Append runes of other entities that this one decides on: births, or an approval's."""
        for _ in range(MAX_TRIES):
            if self._commit((), also=placed):
                return
        raise live_lock(self.name)

    def decide_for(
        self, entity: str, command: object, before: Sequence[Rune] = ()
    ) -> Refused | None:
        """Have the law of an entity without an actor decide; return the refusal if it does.

        `before` is what has happened to it already, and goes into the same append.
        """
        ctx = self.ctx
        for _ in range(MAX_TRIES):
            passive = ctx.passive(entity)
            try:
                runes = ctx.decided(passive.kind, passive.state, command)
            except Refused as refusal:
                return refusal
            abandoned = entity if isinstance(command, Abandon) else ""
            if self._commit((), other=(entity, [*before, *runes]), abandoned=abandoned):
                return None
        raise live_lock(self.name)

    def _commit(
        self,
        runes: Sequence[Rune],
        due: Sequence[Any] | None = None,
        also: Sequence[Placed] = (),
        other: tuple[str, Sequence[Rune]] | None = None,
        abandoned: str = "",
    ) -> bool:
        """Fold, append, only then believe. Return True if it was done; if not, decide anew.

        The arguments are those of `Decision`.
        """
        before, ctx = self.state, self.ctx
        try:
            decision = Decision(ctx, self, runes, due, also, other, abandoned=abandoned)
        except CannotFold as failed:
            failed.entity.cannot_fold(failed.error)
            raise
        if not decision.changes:
            return True
        own, index_entry = decision.own, decision.index_entry
        try:
            # A caller that waits for an answer is told if the log does not take it.
            first = ctx.append(decision.changes, decision.touched, at_once=self._is_asked)
        except WrongVersion:
            # Another writer appended to one of the streams: read them from the log again.
            self.state, self.version, self.event = ctx.replayed(self.kind, self.me)
            ctx.reread_passive()
            return False
        self.state = after = decision.after
        self._due = decision.due
        last = self._known = first + decision.count - 1
        if own:
            self.version += len(own)
            self.event = last
        self.index_entry = index_entry
        if index_entry[0]:
            self._until = (after, index_entry[1])
        decision.believe(last)
        self._believe(before, own)
        return True

    # -- acting -------------------------------------------------------------------------------

    def act(self) -> None:
        """Perform what is due and not under way; then see to the deadline, and to the end."""
        kind, under_way = self.kind, self._under_way
        self._awaits_commit = False
        for _ in range(MAX_TRIES):
            asked, due = self._due
            if asked is not self.state:
                due = kind.lifecycle.due(self.state)
                if kind.internal and self._commits(due):
                    continue
                self._due = (self.state, due)
            if under_way:
                under_way.intersection_update(due)
            if not due or not self._begin(due):
                break
        else:
            msg = f"{self.name}: what is due does not come to an end"
            raise AssertionError(msg)
        if kind.pauses and self.state.phase not in kind.pauses:
            self.ctx.wake_halted()
        if self._awaits_commit:
            return  # it is woken behind that
        self._arm()
        if self.is_done():
            self.stop(NORMAL)

    def _commits(self, due: Sequence[Any]) -> bool:
        """Decide what is due internally; return True if anything was."""
        internal = self.kind.internal
        for effect in due:
            if type(effect) in internal:
                self._commit([], due)
                return True
        return False

    def _begin(self, due: Sequence[Any]) -> bool:
        """Perform what is not under way; return True if that changed what is due.

        What touches the outside world begins when all that is known here is on disk.
        """
        before, under_way, external = self.state, self._under_way, self.kind.external
        for effect in due:
            if effect not in under_way:
                if type(effect) in external and self.awaits_commit():
                    continue
                under_way.add(effect)
                self._perform(effect)
                if self.state is not before:
                    return True
        return False

    def awaits_commit(self) -> bool:
        """Return True if not all that is known here is on disk: it is woken once it is."""
        if self.ctx.is_on_disk(max(self.event, self._known)):
            return False
        self._awaits_commit = True
        self.ctx.wake_behind_commit(self)
        return True

    def _perform(self, effect: Any) -> None:  # noqa: ANN401 -- of whichever law
        if isinstance(effect, EnsureChild | StopChild):
            self._see_to_child(effect)
        else:
            self.perform(effect)

    # -- children -----------------------------------------------------------------------------

    def home_of(self, child: str) -> str:
        """Return the entity under whose supervisor a child lives: the agent, or this one."""
        del child
        return self._agent or self.me

    def ensure(self, kind: str, child: str) -> None:
        """Have a child's actor started, if it is not there."""
        self.ctx.children.ensure(kind, child, self.home_of(child))

    def _see_to_child(self, effect: EnsureChild | StopChild) -> None:
        if effect.kind not in self.ctx.kinds.by_name:
            # It waits for the code of its app.
            return
        self.ensure(effect.kind, effect.child)
        if isinstance(effect, StopChild):
            self.ctx.tell(effect.child, Cancel(effect.reason, "system"))

    # -- the end ------------------------------------------------------------------------------

    def is_done(self) -> bool:
        """Return True if nothing is left to do or to answer, so that this actor may end."""
        return not self._mail and not self.kind.lifecycle.table[self.state.phase]

    def is_idle(self) -> bool:
        """Return True if nothing is under way that would be lost if this actor stopped now."""
        return not (self.waiting or any(type(e) in self.kind.external for e in self._under_way))

    def held_up(self) -> tuple[str, ...]:
        """Return the entities that run for it and only wait for a human; they can be resumed."""
        return ()

    def resend_to(self, entity: str) -> None:
        """Do again what is under way about an entity whose actor begins anew, if it knew or not."""
        found = {effect for effect in self._under_way if entity in msgspec.structs.astuple(effect)}
        if found:
            self._under_way -= found
            self.wake()

    def retry_effect(self, effect: msgspec.Struct, pause: int) -> None:
        """Perform an effect again after a pause, in nanoseconds, if it is still due then."""
        self.later(self._now() + pause, lambda _now: RetryEffect(effect))

    def _arm(self) -> None:
        state, when = self._until
        if state is not self.state:
            when = self.kind.deadline(self.state)
            self._until = (self.state, when)
        if when == self._alarm:
            return
        if self._timer is not None:
            self._disarm()
        self._alarm = when
        if when is not None:
            near = self.near()
            # One alarm for both: mostly it is over before either.
            first = when if near is None or near == self._warned else min(near, when)
            self._timer = self.later(first, lambda now: TimeUp(now=now))

    def _now(self) -> int:
        return self.ctx.services.clock.now()

    def later(self, when: int, message: Callable[[int], object]) -> Timer:
        """Have a message sent to this actor at a time."""
        return self.ctx.services.clock.at(when, lambda: self.ref.notify(message(self._now())))

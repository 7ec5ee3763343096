"""The shell of a conversation's root: it has children of whichever kinds.

It also decides for entities that cannot: those without an actor, and those whose actors keep
crashing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.children import (
    AskedFor,
    ChildEnd,
    ChildGone,
    CreateChild,
    NoteReport,
    ReportEnd,
    owed,
)
from actors.common_commands import Abandon, Cancel
from actors.public_command import Forward, Order
from actors.shell.birth import adoption
from actors.shell.mail import Echo, echo_to, is_answer
from actors.shell.shell import Shell
from actors.units import SECOND
from runelog.errors import Refused, UnknownConversation

if TYPE_CHECKING:
    from actors.children import Asker
    from actors.kind import Kind
    from actors.shell.conversation import ConversationContext
    from runelog.rune import Envelope

REPORT_AGAIN: Final = 5 * SECOND
"""How long to wait before another conversation is told again of an end that it has not recorded."""


class Root(Shell):
    """The first entity of a conversation, with the table of its children."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before anything is asked."""
        super().__init__(ctx, me)
        self._asked: AskedFor | None = None
        """What another conversation asks for in the message at hand."""

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand that a child could not be kept alive: its own law writes its end."""
        match message:
            case ChildGone(child, error):
                self._abandon(child, Abandon(error))
                return None
            case Forward():
                return None
            case AskedFor():
                return message
            case Echo(effect, said):
                return self._hear_of_report(effect, said)
            case _:
                return super().understand(message)

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command; one for another entity is answered by that."""
        self._asked = message if isinstance(message, AskedFor) else None
        answer = super().on_receive(message)
        return message if isinstance(message, Forward) else answer

    def answered(self) -> object:
        """Return the state; to another conversation that asks for a child, its end if it has."""
        if self._asked is None:
            return super().answered()
        return self._child_end(self._asked.kind, self._asked.child)

    def _reply(self, reply_to: Any, answer: object) -> None:  # noqa: ANN401 -- pykka's
        if isinstance(answer, Forward):
            self._forward(answer, reply_to)
        else:
            super()._reply(reply_to, answer)

    def _abandon(self, child: str, command: Abandon) -> None:
        """End a child and, before it, the calls that nothing else would end."""
        ctx, kind = self.ctx, self.ctx.kinds.of(child)
        if kind is not None and kind.actor is not None:
            state = ctx.replayed(kind, child).state
            for call in kind.actor.left_behind(state, ctx.conversation, child):
                self.decide_for_dead(call, command)
        self.decide_for_dead(child, command)

    def decide_for_dead(self, entity: str, command: object) -> Refused | None:
        """Have the law of an entity decide whose actors kept crashing; return its refusal."""
        if not self.ctx.exists(entity):
            return Refused(f"{self.ctx.conversation} has no entity {entity}")
        try:
            return self.decide_for(entity, command)
        finally:
            self.ctx.drop_passive(entity)

    # -- commands for other entities ----------------------------------------------------------

    def why_not(self, order: Forward) -> str:
        """Return why a command cannot be passed on now; nothing if it can."""
        del order
        return ""

    def _forward(self, order: Forward, reply_to: Any) -> None:  # noqa: ANN401 -- pykka's
        """Pass a command on; an entity that is not there cannot take it."""
        ctx, entity, said = self.ctx, order.entity, order.message
        if why := self.why_not(order):
            super()._reply(reply_to, Refused(why))
            return
        if ctx.exists(entity) and (why := ctx.kinds.unknown(entity)):
            super()._reply(reply_to, Refused(why))
            return
        kind = ctx.kinds.of(entity) or ctx.kinds[order.kind]
        home = self._home_of(kind, entity) if self._takes(kind, order) else ""
        if home:
            ctx.children.ensure(kind.name, entity, home)
        if not home or not ctx.tell(entity, said, reply_to):
            noun = (said.command.noun if isinstance(said, Order) else "") or order.kind
            msg = f"there is no {noun} {entity} in {ctx.conversation}"
            super()._reply(reply_to, Refused(msg))

    def _takes(self, kind: Kind, order: Forward) -> bool:
        """Return True if a command is one of its kind's, or answers what an entity asks a human."""
        said = order.message
        own = not isinstance(said, Order) or type(said.command) in kind.commands
        return own or bool(self.ctx.pending(order.entity))

    def _home_of(self, kind: Kind, entity: str) -> str:
        """Return the entity under whose supervisor another one lives; nothing if it is not there.

        Its own law knows best what can still be said about it, also when it is over.
        """
        ctx = self.ctx
        if kind.actor is None or not ctx.exists(entity):
            return ""
        if ctx.kinds.is_child(kind):
            return entity
        first = self._first_of(entity)
        if first is None or first.owner != entity:
            return ""
        return first.agent or next(iter(first.observers), "")

    def caller_of(self, entity: str) -> str:
        """Return the entity that a call is for; nothing if it is not there."""
        first = self._first_of(entity)
        return "" if first is None else next(iter(first.observers), "")

    def _first_of(self, entity: str) -> Envelope | None:
        self.ctx.sync()
        return next(iter(self.ctx.log.stream(self.ctx.conversation, entity)), None)

    # -- children -----------------------------------------------------------------------------

    def carry_out(self, command: object) -> Refused | None:
        """Decide, and make it so; the birth of a child is decided by the child's own law."""
        match command:
            case CreateChild():
                return self._create_child(command)
            case AskedFor():
                return self._ask_for(command)
            case _:
                return super().carry_out(command)

    def is_done(self) -> bool:
        """Stay until the conversation is passivated."""
        return False

    def home_of(self, child: str) -> str:
        """Return the child itself: each has a supervisor of its own."""
        return child

    def perform(self, effect: Any) -> None:  # noqa: ANN401 -- a subclass has more
        """Tell the conversation that asked for a child of its end."""
        if isinstance(effect, ReportEnd):
            self._report(effect)
        else:
            super().perform(effect)

    def _create_child(self, order: CreateChild) -> Refused | None:
        """Append the birth of a child with its entry in the table, or return the refusal."""
        try:
            return self.carry_out_with(*adoption(self.ctx, self.kind, order))
        except Refused as refusal:
            return refusal

    # -- children that other conversations ask for ----------------------------------------------

    def _ask_for(self, asked: AskedFor) -> Refused | None:
        """Begin the child, or tell one that is withdrawn to stop; return why not, if it cannot."""
        kind, child, command, asker, withdrawn = asked
        if not withdrawn:
            return self._create_child(CreateChild(kind, child, command, asker))
        if not self.ctx.exists(child):
            return Refused(f"{child} was withdrawn before it began: {withdrawn}")
        if self._child_end(kind, child) is None:
            self.ctx.children.ensure(kind, child, child)
            self.ctx.tell(child, Cancel(withdrawn, "user"))
        return None

    def _child_end(self, kind: str, child: str) -> ChildEnd | None:
        """Return how a child ended; None while it lives."""
        ctx, known = self.ctx, self.ctx.kinds[kind]
        if child in ctx and not any(each.child == child for each in owed(self.state.children)):
            return None
        found = ctx.replayed(known, child)
        if not known.lifecycle.is_over(found.state):
            return None
        answer = ctx.services.redactor.value(msgspec.to_builtins(known.answer(found.state)))
        return ChildEnd(child, found.state.phase.value, answer, found.event_id)

    def _report(self, effect: ReportEnd) -> None:
        """Tell the conversation that asked for a child of its end, once that is on disk."""
        asker: Asker = effect.asker
        end = self._child_end(effect.kind, effect.child)
        assert end is not None, effect
        self.ctx.sync()
        waiting = self.ctx.kinds.of(asker.request_id)
        assert waiting is not None, asker
        told = Forward(waiting.name, asker.request_id, end)
        self.ctx.services.mail.send(asker.conversation, told, echo_to(self.ref, effect))

    def _hear_of_report(self, effect: ReportEnd, said: object) -> NoteReport | None:
        """Take note that an end was recorded, or that there is nothing left to record it in."""
        if not is_answer(said) and not isinstance(said, UnknownConversation):
            self.retry_effect(effect, REPORT_AGAIN)
            return None
        return NoteReport(effect.child)

    def is_idle(self) -> bool:
        """Return True if nothing is under way here, and no end is to be reported."""
        return super().is_idle() and not owed(self.state.children)

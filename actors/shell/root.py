"""The shell of a conversation's root: it has children of whichever kinds.

It also decides for entities that cannot: those without an actor, and those whose actors keep
crashing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.children import Adopt, Bear, ChildGone, EnsureChild, StopChild
from actors.command import Forward, Order
from actors.commands import Abandon, Cancel
from actors.shell.shell import Shell
from runelog.errors import Refused

if TYPE_CHECKING:
    from actors.entity import Placed
    from actors.kind import Kind


class Root(Shell):
    """The first entity of a conversation, with the table of its children."""

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand that a child could not be kept alive: its own law writes its end."""
        match message:
            case ChildGone(child, error):
                self.stand_in(child, Abandon(error))
                return None
            case Forward():
                return None
            case _:
                return super().understand(message)

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command; one for another entity is answered by that."""
        answer = super().on_receive(message)
        return message if isinstance(message, Forward) else answer

    def _reply(self, reply_to: Any, answer: object) -> None:  # noqa: ANN401 -- pykka's
        if isinstance(answer, Forward):
            self._forward(answer, reply_to)
        else:
            super()._reply(reply_to, answer)

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
        ctx.sync()
        first = next(iter(ctx.log.stream(ctx.conversation, entity)), None)
        if first is None or first.owner != entity:
            return ""
        return first.agent or next(iter(first.observers), "")

    # -- children -----------------------------------------------------------------------------

    def carry_out(self, command: object) -> Refused | None:
        """Decide, and make it so; the birth of a child is decided by the child's own law."""
        return self._bear(command) if isinstance(command, Bear) else super().carry_out(command)

    def is_done(self) -> bool:
        """Stay until the conversation is passivated."""
        return False

    def perform(self, effect: Any) -> None:  # noqa: ANN401 -- a subclass has more
        """See to a child."""
        children = self.ctx.children
        match effect:
            case EnsureChild(child, kind):
                children.ensure(kind, child, child)
            case StopChild(child, kind, reason):
                children.ensure(kind, child, child)
                self.ctx.tell(child, Cancel(reason, "system"))
            case _:
                super().perform(effect)

    def _bear(self, order: Bear) -> Refused | None:
        """Append the birth of a child with its entry in the table, or return the refusal."""
        ctx, kind = self.ctx, self.ctx.kinds.by_name.get(order.kind)
        if kind is None or not ctx.kinds.is_child(kind):
            return Refused(f"{order.kind} is no kind that can be born in {ctx.conversation}")
        if kind.parents and self.kind.name not in kind.parents:
            return Refused(f"{order.kind} is born by {' or '.join(kind.parents)}, not here")
        known = ctx.exists(order.child)
        births: list[Placed] = []
        try:
            if not known:
                initial = kind.lifecycle.initial
                runes = ctx.services.decided(kind.lifecycle, initial, order.command)
                if not runes or type(runes[0]) not in kind.births:
                    name = type(order.command).__name__
                    return Refused(f"{kind.name}: {name} does not begin one; use another command")
                kind.laid_out(order.child, initial, runes, births)
            adopt = Adopt(
                order.child,
                kind.name,
                kind.on_close,
                known=known,
                conversation_id=ctx.conversation,
            )
            return self.carry_out_with(adopt, births)
        except Refused as refusal:
            return refusal

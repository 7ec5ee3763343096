"""The shell of a conversation's root: it has children of whichever kinds.

It also decides for entities that cannot: those without an actor, and those whose actors keep
crashing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.children import Adopt, Bear, ChildGone, EnsureChild, StopChild
from actors.command import Forward, Order
from actors.commands import Abandon, Cancel
from actors.shell import Shell
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
        hall, entity, said = self.hall, order.entity, order.message
        if why := self.why_not(order):
            super()._reply(reply_to, Refused(why))
            return
        kind = hall.kinds.of(entity) or hall.kinds[order.kind]
        home = self._home_of(kind, entity) if self._takes(kind, order) else ""
        if home:
            hall.children.ensure(kind.name, entity, home)
        if not home or not hall.tell(entity, said, reply_to):
            noun = (said.command.noun if isinstance(said, Order) else "") or order.kind
            msg = f"there is no {noun} {entity} in {hall.conversation}"
            super()._reply(reply_to, Refused(msg))

    def _takes(self, kind: Kind, order: Forward) -> bool:
        """Return True if a command is one of its kind's, or answers what an entity asks a human."""
        said = order.message
        own = not isinstance(said, Order) or type(said.command) in kind.commands
        return own or bool(self.hall.pending(order.entity))

    def _home_of(self, kind: Kind, entity: str) -> str:
        """Return the entity under whose supervisor another one lives; nothing if it is not there.

        Its own law knows best what can still be said about it, also when it is over.
        """
        hall = self.hall
        if kind.actor is None or not hall.exists(entity):
            return ""
        if hall.kinds.is_child(kind):
            return entity
        hall.settle()
        first = next(iter(hall.log.stream(hall.conversation, entity)), None)
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
        children = self.hall.children
        match effect:
            case EnsureChild(child, kind):
                children.ensure(kind, child, child)
            case StopChild(child, kind, reason):
                children.ensure(kind, child, child)
                self.hall.tell(child, Cancel(reason, "system"))
            case _:
                super().perform(effect)

    def _bear(self, order: Bear) -> Refused | None:
        """Append the birth of a child with its entry in the table, or return the refusal."""
        hall, kind = self.hall, self.hall.kinds.by_name.get(order.kind)
        if kind is None or not hall.kinds.is_child(kind):
            return Refused(f"{order.kind} is no kind that can be born in {hall.conversation}")
        if kind.parents and self.kind.name not in kind.parents:
            return Refused(f"{order.kind} is born by {' or '.join(kind.parents)}, not here")
        known = hall.exists(order.child)
        births: list[Placed] = []
        try:
            if not known:
                initial = kind.lifecycle.initial
                runes = hall.offices.decided(kind.lifecycle, initial, order.command)
                if not runes or type(runes[0]) not in kind.births:
                    name = type(order.command).__name__
                    return Refused(f"{kind.name}: {name} does not begin one; use another command")
                kind.laid_out(order.child, initial, runes, births)
            adopt = Adopt(
                order.child,
                kind.name,
                kind.on_close,
                known=known,
                conversation_id=hall.conversation,
            )
            return self.carry_out_with(adopt, births)
        except Refused as refusal:
            return refusal

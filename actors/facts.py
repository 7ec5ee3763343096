"""What a command is told where its entity decides on it, online and offline alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runelog.rune import check_id

if TYPE_CHECKING:
    from actors.command import Order
    from actors.hall import Hall


class HallFacts:
    """`Facts` of an entity, from what the actors of its conversation share."""

    def __init__(
        self,
        hall: Hall,
        entity: str,
        state: Any,  # noqa: ANN401 -- of whichever lifecycle
        order: Order,
        *,
        offline: bool = False,
    ) -> None:
        """Take the entity as it is now."""
        self._hall = hall
        self.conversation = hall.conversation
        self.entity = entity
        self.state = state
        self.offline = offline
        self.process = order.process
        self.request_id = order.request_id

    def now(self) -> int:
        """Return the time, in nanoseconds."""
        return self._hall.offices.clock.now()

    def new_id(self, prefix: str) -> str:
        """Return a new id."""
        return self._hall.offices.chance.id(prefix)

    def check_id(self, value: str, what: str) -> str:
        """Return an id, or refuse what is none or holds a secret: ids are kept as they are."""
        return check_id(self._hall.offices.redactor.value(value), what)

    def is_known(self, entity: str) -> bool:
        """Return True if the log has a stream of that name in this conversation."""
        self._hall.settle()
        return self._hall.log.version(self.conversation, entity) > 0

    def passive(self, entity: str) -> Any:  # noqa: ANN401 -- of whichever lifecycle
        """Return the state of an entity that has no actor, such as the budget."""
        return self._hall.ward(entity).state

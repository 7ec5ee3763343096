"""What a caller lays out for its next model call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.model.provider import Request
from actors.shell.shared_caches import SharedCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.model.provider import Message, Provider


class Told(Protocol):
    """Whatever has messages: those there are when the request is sent are sent."""

    @property
    def messages(self) -> Sequence[Message]:
        """Every message, in order."""
        ...


class PendingRequest:
    """A request that is laid out for the model call that sends it."""

    __slots__ = ("_facts", "_history", "first_byte", "provider", "silence")

    def __init__(
        self, provider: Provider, history: Told, waits: tuple[int, int], facts: dict[str, Any]
    ) -> None:
        """Keep what is sent until it is sent; `waits` is how long for a first byte, and the next.

        In nanoseconds.
        """
        self.provider = provider
        self.first_byte, self.silence = waits
        self._history = history
        self._facts = facts

    def request(self, cancelled: Callable[[], bool]) -> Request:
        """Return the request as it is sent."""
        return Request(messages=tuple(self._history.messages), cancelled=cancelled, **self._facts)


PENDING_REQUESTS: Final = SharedCache[PendingRequest]()
"""By the model call that is to send it."""

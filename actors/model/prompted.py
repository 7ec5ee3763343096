"""What a turn lays out for its next model call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.model.provider import Request
from actors.tray import Tray

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.agent.history import History
    from actors.model.provider import Provider


class Prompted:
    """A request that is laid out for the model call that sends it."""

    __slots__ = ("_facts", "_history", "provider", "silence")

    def __init__(
        self, provider: Provider, history: History, silence: int, facts: dict[str, Any]
    ) -> None:
        """Keep what is sent until it is sent."""
        self.provider = provider
        self.silence = silence
        self._history = history
        self._facts = facts

    def request(self, cancelled: Callable[[], bool]) -> Request:
        """Return the request as it is sent."""
        return Request(messages=tuple(self._history.messages), cancelled=cancelled, **self._facts)


PROMPTS: Final = Tray[Prompted]()
"""By the model call that is to send it."""

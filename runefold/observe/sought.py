"""Something that the log will have, to wait for with a thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runelog.log import Log


class Sought:
    """What `look` gives once the log of a conversation has it; each of these kinds may bring it."""

    def __init__(
        self, log: Log, conversation: str, kinds: Collection[str], look: Callable[[], object]
    ) -> None:
        """Begin before the first look."""
        self._log = log
        self._conversation = conversation
        self._kinds = kinds
        self._look = look
        self.found: object = None

    def is_there(self) -> bool:
        """Return True if it is there now."""
        self.found = self._look()
        return self.found is not None

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is there; return True if it is."""
        until = None if timeout is None else time.monotonic() + timeout
        # The cursor comes first, so that nothing comes unseen between the look and the wait.
        cursor = self._log.conversation(self._conversation).head
        while not self.is_there():
            left = None if until is None else max(until - time.monotonic(), 0)
            news = self._log.follow(self._conversation, cursor, kinds=self._kinds, wait=left)
            item = next(news, None)
            if item is None:
                return self.is_there()
            cursor = item.last if isinstance(item, Gap) else item.event_id
        return True

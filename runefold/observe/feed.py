"""What a follower in an event loop is handed as it is committed, so that it reads nothing twice.

The watch that wakes those who wait has read each rune anyway. It hands it to the feeds of its
conversation; a follower that keeps up takes it from there, on the thread of its event loop. One
that falls behind, or waits for the first time, reads the log.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from runefold.observe.async_notify import Waiter
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Callable

    from runefold.observe.async_notify import Watch
    from runelog.rune import Envelope

MOST: Final = 1_024
"""How many runes are kept for a follower that does something else; of more it reads the log."""


class Feed(Waiter):
    """The runes of a conversation, or of all, that were committed since it began."""

    def __init__(
        self, watch: Watch, conversation: str | None, takes: Callable[[Envelope], bool]
    ) -> None:
        """Begin with nothing: the log has to be read before."""
        super().__init__(conversation, None, takes)
        self._watch = watch
        self._handed: deque[tuple[int, Envelope]] = deque()
        self._reached = 0
        """Up to where runes were handed, those that are not wanted included."""
        self._lost = True
        """Whether the log has something that was not handed."""
        self._round = -1
        """The round of the watch in which it was handed everything."""

    def is_in(self, loop: object) -> bool:
        """Return True if it wakes those who wait in this event loop."""
        return self._loop is loop

    # -- in the thread of the watch -----------------------------------------------------------

    def notify(self, item: Envelope | Gap) -> None:
        """Keep a rune that is wanted, and wake the follower."""
        if isinstance(item, Gap) or len(self._handed) >= MOST:
            self._lost = True
        elif not self._lost:
            at = item.position if self.conversation is None else item.event_id
            if self._is_due(item):
                self._handed.append((at, item))
                # In this order: a follower that sees it reached has all up to there.
                self._reached = at
                self._wake()
            self._reached = at
            return
        self._wake()

    def fail(self, failure: Exception) -> None:
        """Have the follower read the log, which says what is wrong."""
        self._lost = True
        super().fail(failure)

    def _wake(self) -> None:
        if not self._notified.is_set():
            self._watch.wake(self._loop, self._notified)

    # -- in the loop --------------------------------------------------------------------------

    def begin(self) -> None:
        """Be handed everything from now on: the caller reads what there is."""
        self._handed.clear()
        self._reached = 0
        self._round = self._watch.round
        self._lost = False

    def lose(self) -> None:
        """Be handed nothing that is of use: the caller has not read all there is."""
        self._lost = True

    def take(self, cursor: int) -> tuple[list[Envelope | Gap], int] | None:
        """Return what was handed behind `cursor`, and up to where; None if it has to be read."""
        reached = max(self._reached, cursor)
        if self._lost or self._round != self._watch.round:
            return None
        found: list[Envelope | Gap] = []
        while self._handed:
            at, item = self._handed.popleft()
            if at > cursor:
                found.append(item)
                reached = max(reached, at)
        return found, reached

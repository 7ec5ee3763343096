"""A log in memory that is followed on the one thread there is: who waits has the others go on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.errors import Unanswered
from actors.units import SECOND
from runefold.testing.stage import FragileLog
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.scheduling.manual_scheduler import ManualScheduler
    from runelog.rune import Envelope


class FollowedLog(FragileLog):
    """A log whose followers need no other thread that would write to it."""

    scheduler: ManualScheduler
    failed: Exception | None = None
    """What every append is refused with from now on; those who follow are told."""

    def follow(
        self,
        conversation: str | None = None,
        after: int = 0,
        *,
        kinds: Collection[str] | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> Iterator[Envelope | Gap]:
        """Yield runes from a cursor on; where there are none yet, run the other actors first."""
        # What cannot be followed is refused here, as ever.
        plain = super().follow(conversation, after, kinds=kinds, max_behind=max_behind, wait=wait)
        if threading.current_thread() is not threading.main_thread():
            return plain
        return self._followed(conversation, max(after, 0), kinds, max_behind, wait)

    def _followed(
        self,
        conversation: str | None,
        cursor: int,
        kinds: Collection[str] | None,
        max_behind: int | None,
        wait: float | None,
    ) -> Iterator[Envelope | Gap]:
        clock = self.scheduler.clock
        since = clock.now()
        while True:
            there = super().follow(conversation, cursor, max_behind=max_behind, wait=0)
            for item in there:
                if isinstance(item, Gap):
                    cursor = item.last
                else:
                    cursor = item.position if conversation is None else item.event_id
                if isinstance(item, Gap) or kinds is None or item.kind in kinds:
                    yield item
                    since = clock.now()
            if self.failed is not None:
                raise self.failed
            left = None if wait is None else since / SECOND + wait - clock.now() / SECOND
            if wait == 0:
                return
            if not self.scheduler.wait(_MoreRunes(self, conversation, cursor), left):
                self._check_power()
                if wait is None:
                    msg = "whoever follows the log waits in vain: nothing more happens by itself"
                    raise Unanswered(msg)
                return


class _MoreRunes:
    """A rune behind a cursor, to wait for."""

    def __init__(self, log: FollowedLog, conversation: str | None, cursor: int) -> None:
        self._log = log
        self._conversation = conversation
        self._cursor = cursor

    def is_there(self) -> bool:
        """Return True if there is."""
        log = self._log
        if log.failed is not None:
            return True
        if self._conversation is None:
            return log.position > self._cursor
        return log.conversation(self._conversation).head > self._cursor

    def wait(self, timeout: float | None) -> bool:
        """Run the other actors until there is; return True if there is."""
        return self._log.scheduler.wait(self, timeout)

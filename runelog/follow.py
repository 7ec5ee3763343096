"""Following a log: what there is from a cursor on, and then what is yet to come.

A follower reads from the log at its own pace, so nothing is kept for it in memory however slow it
is. It is told by the writer of its own process that there is news, and looks for those of another.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from runelog.errors import Closed, Refused
from runelog.line import Bell
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from runelog.rune import Envelope

CHUNK: Final = 1_024
"""About how many runes are taken out of the log at a time."""
POLL: Final = 0.01
"""How often a follower looks whether a writer in another process has committed something."""


def check_kinds(kinds: Collection[str] | None) -> None:
    """Refuse a string where kinds are asked for: each of its parts would be taken for a kind."""
    if isinstance(kinds, str):
        msg = f"kinds is the string {kinds!r}: name kinds in a list or a set"
        raise Refused(msg)


def beginning(after: int) -> int:
    """Return behind which event, version or position to begin, 0 at the least."""
    if not isinstance(after, int):
        raise _no_cursor(after)
    return max(after, 0)


def end(until: int | None, head: int) -> int:
    """Return with which event to end: the last one there is at the latest."""
    if until is None:
        return head
    if not isinstance(until, int):
        raise _no_cursor(until)
    return min(until, head)


def _no_cursor(given: object) -> Refused:
    # Where it is looked up it would be taken for damage.
    return Refused(f"{given!r:.40} is no cursor: give a whole number, as runes and gaps have it")


class News:
    """How far the log is committed, as its writer tells."""

    def __init__(self) -> None:
        """Begin without a writer in this process."""
        self._lock = threading.RLock()
        self._changed = Bell(self._lock)
        self.position = -1
        """The last committed position as told by our own writer; -1 while there is none."""
        self.closed = False
        self.failure: Exception | None = None
        """Why our own writer will commit nothing more."""

    def announce(self, position: int) -> None:
        """Say that everything up to `position` is committed."""
        with self._lock:
            self.position = position
            self._changed.ring()

    def fail(self, failure: Exception) -> None:
        """Say that nothing more is committed here, and why."""
        with self._lock:
            self.failure = failure
            self._changed.ring()

    def close(self) -> None:
        """Wake those who follow: there is nothing more to come."""
        with self._lock:
            self.closed = True
            self._changed.ring()

    def wait(self, seen: int, timeout: float | None) -> None:
        """Wait until there is more than was seen, the log is closed, or time is up."""
        with self._lock:
            if self.position == seen and not self.closed and self.failure is None:
                self._changed.wait(timeout if seen >= 0 else min(POLL, timeout or POLL))


class Follower:
    """Reads on and on. `head` tells how far there is something; `read` gives a stretch of it."""

    def __init__(
        self,
        news: News,
        head: Callable[[], int],
        read: Callable[[int, int], Iterator[Envelope | Gap]],
        conversation: str | None,
    ) -> None:
        """Follow one conversation, or all."""
        self._news = news
        self._head = head
        self._read = read
        self._conversation = conversation

    def follow(
        self,
        cursor: int,
        kinds: Collection[str] | None,
        max_behind: int | None,
        wait: float | None,
    ) -> Iterator[Envelope | Gap]:
        """Yield what comes behind `cursor`, until the log is closed or `wait` seconds are up.

        If the log fails, raise that behind the last that was committed: nothing more will come.
        """
        since = time.monotonic()
        while True:
            last = self._await(cursor, None if wait is None else since + wait)
            if last is None:
                return
            if max_behind is not None and last - cursor > max_behind:
                yield Gap(cursor + 1, last - max_behind, "slow", self._conversation)
                cursor = last - max_behind
                since = time.monotonic()
            stop = min(last, cursor + CHUNK)
            for item in self._until_closed(cursor, stop):
                if isinstance(item, Gap) or kinds is None or item.kind in kinds:
                    yield item
                    since = time.monotonic()
            cursor = stop

    def _until_closed(self, cursor: int, stop: int) -> Iterator[Envelope | Gap]:
        items = self._read(cursor, stop)
        while not self._news.closed:
            try:
                item = next(items)
            except (StopIteration, Closed):
                return
            yield item

    def _await(self, cursor: int, until: float | None) -> int | None:
        """Return how far there is more to read behind `cursor`, None if nothing came in time."""
        while not self._news.closed:
            seen = self._news.position
            try:
                last = self._head()
            except Closed:
                return None
            if last > cursor:
                return last
            if (failure := self._news.failure) is not None:
                raise type(failure)(*failure.args) from failure
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._news.wait(seen, left)
        return None

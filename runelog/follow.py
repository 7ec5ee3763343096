"""Following a log: what there is from a cursor on, and then what is yet to come.

A follower reads from the log at its own pace, so little is kept for it in memory however slow it
is. Once it has read all there is, it hears from the writer of its own process what is committed
(`hearing`); after what one of another process commits it looks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from runelog.checks import check_timeout
from runelog.errors import Closed, Refused
from runelog.hearing import Ear
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from runelog.hearing import News
    from runelog.rune import Envelope

CHUNK: Final = 1_024
"""About how many runes are taken out of the log at a time."""


def check_kinds(kinds: Collection[str] | None) -> None:
    """Refuse a string where kinds are asked for: each of its parts would be taken for a kind."""
    if isinstance(kinds, str):
        msg = f"kinds is the string {kinds!r}: name kinds in a list or a set"
        raise Refused(msg)


def check_following(
    kinds: Collection[str] | None, max_behind: int | None, wait: float | None
) -> None:
    """Refuse to follow in a way that nobody can."""
    if max_behind is not None and max_behind < 1:
        msg = f"max_behind is {max_behind}: a reader must be allowed at least one rune"
        raise Refused(msg)
    check_kinds(kinds)
    check_timeout(wait)


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
        ear = Ear(self._news, self._conversation, kinds, stays=wait is None or wait > 0)
        since = time.monotonic()
        try:
            while True:
                until = None if wait is None else since + wait
                cursor, last = self._await(ear, cursor, until)
                if last <= cursor:
                    return
                if max_behind is not None and last - cursor > max_behind:
                    yield Gap(cursor + 1, last - max_behind, "slow", self._conversation)
                    cursor = last - max_behind
                    since = time.monotonic()
                stop = min(last, cursor + CHUNK)
                for item in self._until_closed(ear, cursor, stop):
                    if isinstance(item, Gap) or kinds is None or item.kind in kinds:
                        yield item
                        since = time.monotonic()
                cursor = stop
        finally:
            ear.leave()

    def _until_closed(self, ear: Ear, cursor: int, stop: int) -> Iterator[Envelope | Gap]:
        heard = ear.take(cursor, stop)
        items = self._read(cursor, stop) if heard is None else iter(heard)
        while not self._news.closed:
            try:
                item = next(items)
            except (StopIteration, Closed):
                return
            yield item

    def _await(self, ear: Ear, cursor: int, until: float | None) -> tuple[int, int]:
        """Wait for more behind `cursor`; return from where to go on, and how far there is more.

        If nothing came in time, or nothing will, there is none.
        """
        while not self._news.closed:
            # It listens first, so that whatever is not found then is heard.
            if ear.deaf and not ear.listen(cursor):
                try:
                    ear.known = self._head()
                except Closed:
                    break
            if (last := ear.last(cursor)) > cursor:
                return cursor, last
            if (failure := self._news.failure) is not None:
                raise type(failure)(*failure.args) from failure
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            cursor = ear.wait(cursor, left)
        return cursor, cursor

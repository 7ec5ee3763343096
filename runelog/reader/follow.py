"""Following a log: what there is from a cursor on, and then what is yet to come.

A follower reads from the log at its own pace, so little is kept for it in memory however slow it
is. Once it has read all there is, it receives what the writer of its own process commits
(`subscriptions`); what a writer in another process commits it polls for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from runelog.errors import Closed
from runelog.rune import Gap
from runelog.writer.subscriptions import Subscriber

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from runelog.rune import Envelope
    from runelog.writer.subscriptions import Subscriptions

CHUNK: Final = 1_024
"""About how many runes are taken out of the log at a time."""


class Follower:
    """Reads on and on. `head` tells how far there is something; `read` gives a stretch of it."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        head: Callable[[], int],
        read: Callable[[int, int], Iterator[Envelope | Gap]],
        conversation: str | None,
    ) -> None:
        """Follow one conversation, or all."""
        self._subscriptions = subscriptions
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
        subscriber = Subscriber(
            self._subscriptions, self._conversation, kinds, stays=wait is None or wait > 0
        )
        since = time.monotonic()
        try:
            while True:
                until = None if wait is None else since + wait
                cursor, last = self._await(subscriber, cursor, until)
                if last <= cursor:
                    return
                if max_behind is not None and last - cursor > max_behind:
                    yield Gap(cursor + 1, last - max_behind, "slow", self._conversation)
                    cursor = last - max_behind
                    since = time.monotonic()
                stop = min(last, cursor + CHUNK)
                for item in self._until_closed(subscriber, cursor, stop):
                    if isinstance(item, Gap) or kinds is None or item.kind in kinds:
                        yield item
                        since = time.monotonic()
                cursor = stop
        finally:
            subscriber.leave()

    def _until_closed(
        self, subscriber: Subscriber, cursor: int, stop: int
    ) -> Iterator[Envelope | Gap]:
        heard = subscriber.take(cursor, stop)
        items = self._read(cursor, stop) if heard is None else iter(heard)
        while not self._subscriptions.closed:
            try:
                item = next(items)
            except (StopIteration, Closed):
                return
            yield item

    def _await(self, subscriber: Subscriber, cursor: int, until: float | None) -> tuple[int, int]:
        """Wait for more behind `cursor`; return from where to go on, and how far there is more.

        If nothing came in time, or nothing will, there is none.
        """
        while not self._subscriptions.closed:
            # It listens first, so that whatever is not found then is heard.
            if subscriber.lagging and not subscriber.subscribe(cursor):
                try:
                    subscriber.known = self._head()
                except Closed:
                    break
            if (last := subscriber.last(cursor)) > cursor:
                return cursor, last
            if (failure := self._subscriptions.failure) is not None:
                raise type(failure)(*failure.args) from failure
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            cursor = subscriber.wait(cursor, left)
        return cursor, cursor

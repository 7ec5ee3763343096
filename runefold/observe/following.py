"""What happens, live, to iterate over with `for` and with `async for`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from runefold import checks
from runefold.observe.async_notify import aside
from runefold.observe.feed import Feed
from runefold.observe.filters import wanted
from runelog.errors import Closed
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from runefold.core import Core
    from runelog.rune import Envelope, Visibility

PORTION: Final = 256
"""How many runes are taken out of the log at a time."""
STRETCH: Final = 4_096
"""How many runes are looked at for that before others get their turn."""


class Following:
    """What happened from a cursor on and what is yet to happen, for `for` or for `async for`.

    Either way it reads from the log at its own pace: a slow reader costs no memory, and one that
    waits in an event loop holds no thread.
    """

    def __init__(
        self,
        core: Core,
        conversation: str | None,
        after: int,
        *,
        kinds: Collection[str] | None = None,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> None:
        """Begin behind `after`; what cannot be followed is refused here."""
        self._home = core.home
        self._log = core.log
        self._scheduler = core.scheduler
        self._watch = core.watch
        self._conversation = conversation
        self._wanted = wanted(kinds, entities, visibility)
        self._max_behind = max_behind
        self._wait = wait = checks.seconds(wait, "wait")
        self._cursor = checks.cursor(after)
        self._portion: deque[Envelope | Gap] = deque()
        self._feed: Feed | None = None
        live = self._log.follow(conversation, after, kinds=kinds, max_behind=max_behind, wait=wait)
        self._live = self._narrowed() if self._wanted.is_narrow else live

    # -- for ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Envelope | Gap]:
        """Give each once."""
        return self._live

    def __next__(self) -> Envelope | Gap:
        """Wait for the next."""
        self._home.check()
        return next(self._live)

    def _narrowed(self) -> Iterator[Envelope | Gap]:
        """Yield what is asked for; what is not does not count as something that came in time."""
        cursor, since = self._cursor, time.monotonic()
        try:
            while True:
                found, cursor, is_all = self._read(cursor)
                for item in found:
                    yield item
                    since = time.monotonic()
                if not is_all:
                    continue
                left = None if self._wait is None else max(since + self._wait - time.monotonic(), 0)
                # Anything at all: whether it is asked for shows when it is read.
                if next(self._log.follow(self._conversation, cursor, wait=left), None) is None:
                    return
        except Closed:
            return

    # -- async for ----------------------------------------------------------------------------

    def __aiter__(self) -> Following:
        """Give each once."""
        return self

    async def __anext__(self) -> Envelope | Gap:
        """Wait for the next, without holding the event loop up."""
        self._home.check()
        if not self._portion:
            try:
                await self._fill()
            except Closed:
                # As with `for`: it was open when it began, and nothing more will come.
                raise StopAsyncIteration from None
        if not self._portion:
            raise StopAsyncIteration
        return self._portion.popleft()

    async def _fill(self) -> None:
        """Take what comes next out of the log; nothing if nothing came in time."""
        loop = asyncio.get_running_loop()
        until = None if self._wait is None else loop.time() + self._wait
        feed = self._fed(loop)
        handed = feed.take(self._cursor)
        if handed is not None and handed[0]:
            found, self._cursor = handed
            self._portion.extend(found)
            return
        with self._watch.awaited(feed):
            while True:
                # First, so that it is notified of what is not read now.
                self._watch.keep()
                feed.clear()
                handed = feed.take(self._cursor)
                if handed is not None:
                    found, self._cursor, is_all = *handed, True
                else:
                    feed.begin()
                    found, self._cursor, is_all = await aside(
                        self._scheduler, "follow", partial(self._read, self._cursor)
                    )
                    if not is_all or self._max_behind is not None:
                        # With a limit on how far it may fall behind, all runes count.
                        feed.lose()
                self._portion.extend(found)
                if found:
                    return
                left = None if until is None else until - loop.time()
                if is_all and not await feed.wait(left):
                    return

    def _fed(self, loop: asyncio.AbstractEventLoop) -> Feed:
        """Return what hands runes to it in this event loop."""
        feed = self._feed
        if feed is None or not feed.is_in(loop):
            takes = self._wanted.takes if self._max_behind is None else _any
            feed = self._feed = Feed(self._watch, self._conversation, takes)
            self._watch.hand_to(feed)
        return feed

    def _read(self, cursor: int) -> tuple[list[Envelope | Gap], int, bool]:
        """Return what comes behind `cursor`, up to where that was looked for, and if it is all."""
        found: list[Envelope | Gap] = []
        there = self._log.follow(self._conversation, cursor, max_behind=self._max_behind, wait=0)
        for number, item in enumerate(there, 1):
            if isinstance(item, Gap):
                cursor = item.last
            else:
                cursor = item.position if self._conversation is None else item.event_id
            if isinstance(item, Gap) or self._wanted.takes(item):
                found.append(item)
            if len(found) >= PORTION or number >= STRETCH:
                return found, cursor, False
        return found, cursor, True


def _any(_rune: Envelope) -> bool:
    """Return True: all runes count."""
    return True

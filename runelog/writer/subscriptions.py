"""Subscriptions: the writer of a log delivers commits to the followers in its own process.

A follower has a `Subscriber`, which receives the appends of one conversation, or of all, as they
are committed, so that they need not be read back. It keeps only a few of them: if its owner is
slow it lags, and the owner reads what it missed from the log.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from runelog.forks import Home
from runelog.writer.committed_append import CommittedAppend, marks_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from runelog.codec import Codec
    from runelog.rune import Envelope
    from runelog.writer.commit_queue import PendingAppend

POLL: Final = 0.01
"""How often a follower looks whether a writer in another process has committed something."""
MAX_RUNES: Final = 1_024
MAX_BYTES: Final = 1 << 20
"""How much a subscriber keeps at most for a busy owner, and `RecentAppends` for new ones."""
MAX_LATEST: Final = 256
"""How many of the last appends are kept at most for new followers."""


class Subscriber:
    """What one follower has received and not taken yet: whole appends, without a gap."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        conversation: str | None,
        kinds: Collection[str] | None,
        *,
        stays: bool = True,
    ) -> None:
        """Subscribe to one conversation or to all; wake the owner for some kinds of runes or all.

        With `stays` false it only takes the recent appends, and nothing is delivered later.
        """
        self.conversation = conversation
        self._stays = stays
        self._subscriptions = subscriptions
        self._marks = None if kinds is None else marks_of(frozenset(kinds))
        self._received: deque[tuple[int, int, CommittedAppend]] = deque()
        """Appends, each with its first and last rune: events, or positions if it follows all."""
        self._runes = self._bytes = 0
        self._cursor = 0
        """Up to where the owner needs nothing more, while it waits."""
        self.waits = False
        """Whether the owner sleeps until there is something for it."""
        self._gate = threading.Lock()
        self._gate.acquire()
        self._lagging = True
        self.known = 0
        """How far there was something in the log when the owner looked last."""

    @property
    def lagging(self) -> bool:
        """Whether the log may have more than was received."""
        # A forked child receives nothing of what its parent commits.
        return self._lagging or not self._stays or self._subscriptions.home.is_left

    # -- the owner ----------------------------------------------------------------------------

    def subscribe(self, cursor: int) -> bool:
        """Receive everything from now on, and what came behind `cursor` if that is still kept.

        Return True if it is; if not, the owner has to read it.
        """
        with self._subscriptions.lock:
            if self._stays:
                self._subscriptions.join(self)
            latest = self._subscriptions.latest.behind(self.conversation, cursor)
            self.fall_behind()
            self._lagging = False
            for told in latest or ():
                self.deliver(told)
            return latest is not None and not self._lagging and not self._subscriptions.home.is_left

    def last(self, cursor: int) -> int:
        """Return how far there is something, received or known; `cursor` if there is nothing."""
        with self._subscriptions.lock:
            heard = self._received
            while heard and heard[0][1] <= cursor:
                told = heard.popleft()[2]
                self._runes -= len(told.item.bodies)
                self._bytes -= told.item.size
            reached = max(cursor, self.known)
            if not heard:
                return reached
            if heard[0][0] > reached + 1:
                self.fall_behind()
                return cursor
            return max(reached, heard[-1][1])

    def take(self, cursor: int, stop: int) -> list[Envelope] | None:
        """Return what was received behind `cursor` up to `stop`; None if some of it was not.

        Most runes of kinds that the owner does not want are left out.
        """
        with self._subscriptions.lock:
            heard = self._received
            if not heard or heard[0][0] > cursor + 1 or heard[-1][1] < stop:
                return None
            told = [each for each in heard if each[0] <= stop]
        found: list[Envelope] = []
        for first, _, each in told:
            found += each.envelopes(self._marks, max(cursor + 1 - first, 0), stop + 1 - first)
        return found

    def wait(self, cursor: int, timeout: float | None) -> int:
        """Wait until there is more behind `cursor`, or time is up; return from where to go on.

        That is further on if all that came meanwhile is of kinds that the owner does not want.
        """
        subscriptions = self._subscriptions
        with subscriptions.lock:
            if self.lagging or self._received or subscriptions.closed:
                return cursor
            self._cursor, self.waits = cursor, True
            polls = subscriptions.position < 0
        if polls:
            timeout = POLL if timeout is None else min(POLL, timeout)
        woken = self._gate.acquire(timeout=-1 if timeout is None else timeout)
        with subscriptions.lock:
            if not woken and not self.waits:
                self._gate.acquire()  # opened since: it is to be shut for the next time
            self.waits = False
            if polls:
                self.fall_behind()
            return self._cursor

    def leave(self) -> None:
        """Unsubscribe."""
        self._lagging = True
        if self._stays:
            self._subscriptions.left.append(self)

    # -- the writer, with the lock ------------------------------------------------------------

    def deliver(self, told: CommittedAppend) -> None:
        """Keep an append, and wake the owner if it may want it."""
        if self._lagging:
            return
        item, count = told.item, len(told.item.bodies)
        first = item.position if self.conversation is None else item.first
        last = first + count - 1
        if self.waits and first <= self._cursor + 1 and not told.may_have(self._marks):
            self._cursor = max(self._cursor, last)
            return
        self._received.append((first, last, told))
        self._runes += count
        self._bytes += item.size
        if self._runes > MAX_RUNES or self._bytes > MAX_BYTES:
            self.fall_behind()
        self.wake()

    def fall_behind(self) -> None:
        """Drop everything: the owner has to read the log."""
        self._lagging = True
        self._received.clear()
        self._runes = self._bytes = self.known = 0

    def wake(self) -> None:
        """Wake the owner if it waits."""
        if self.waits:
            self.waits = False
            self._gate.release()


class RecentAppends:
    """The last appends that were committed, for followers that begin just now.

    Of a conversation that is not at rest, none of them is left out.
    """

    def __init__(self, codec: Codec) -> None:
        """Begin with none."""
        self.codec = codec
        self._items: deque[PendingAppend] = deque()
        self._size = 0
        self._next = 0
        """The position behind the last one that was added."""

    def add(self, items: Sequence[PendingAppend]) -> None:
        """Take in what was just committed, and drop what is too old."""
        kept = self._items
        kept.extend(items)
        for item in items:
            self._size += item.size
            self._next = item.position + len(item.bodies)
        while len(kept) > MAX_LATEST or self._size > MAX_BYTES:
            self._size -= kept.popleft().size

    def forget(self) -> None:
        """Drop all of them."""
        self._items.clear()
        self._size = 0

    def rest(self, conversation: str) -> None:
        """Drop those of a conversation that is not appended to for a while."""
        if self.has(conversation):
            self._items = deque(item for item in self._items if item.cached.id != conversation)
            self._size = sum(item.size for item in self._items)

    def has(self, conversation: str) -> bool:
        """Return True if there is one of this conversation."""
        return any(item.cached.id == conversation for item in reversed(self._items))

    def behind(self, conversation: str | None, cursor: int) -> list[CommittedAppend] | None:
        """Return all that was committed behind `cursor`, None if that is not known."""
        found: deque[CommittedAppend] = deque()
        following = self._next
        for item in reversed(self._items):
            if conversation is None:
                if item.position + len(item.bodies) != following:
                    return None  # what came between was of a conversation at rest
                following = item.position
            if conversation is None or item.cached.id == conversation:
                first = item.position if conversation is None else item.first
                if item.bodies and first + len(item.bodies) - 1 > cursor:
                    found.appendleft(CommittedAppend(item, self.codec))
                if first <= cursor + 1:
                    return [*found]
        return None


class Subscriptions:
    """The subscribers of a log, and how far its writer has committed."""

    def __init__(self, codec: Codec) -> None:
        """Begin without a writer in this process."""
        self.lock = threading.RLock()
        self.position = -1
        """The position up to which our own writer has committed; -1 while there is none."""
        self.closed = False
        self.failure: Exception | None = None
        """Why our own writer will commit nothing more."""
        self.left: deque[Subscriber] = deque()
        """Subscribers that left. They only say so: the thread that drops one may hold any lock."""
        self.latest = RecentAppends(codec)
        self._subscribers: dict[str | None, dict[Subscriber, None]] = {}
        self.home = Home(
            "this log was opened before a fork: open it again in the child, with readonly=True"
        )

    def announce(self, position: int, items: Sequence[PendingAppend] | None = None) -> None:
        """Deliver `items`, the last appends that are committed, everything up to `position` now.

        If none are given, something else has changed, and followers have to read the log.
        """
        with self.lock:
            self.position = position
            if items is None:
                self.stir()
                return
            self.latest.add(items)
            if self._subscribers:
                self._tell(items)

    def _tell(self, items: Sequence[PendingAppend]) -> None:
        self._sweep()
        of_all = self._subscribers.get(None, ())
        for item in items:
            subscribers = self._subscribers.get(item.cached.id, ())
            if (subscribers or of_all) and item.bodies:
                told = CommittedAppend(item, self.latest.codec)
                for subscriber in (*subscribers, *of_all):
                    subscriber.deliver(told)

    def rest(self, conversation: str) -> None:
        """Drop the last appends of a conversation that is not appended to for a while."""
        with self.lock:
            self.latest.rest(conversation)

    def stir(self) -> None:
        """Have all followers read the log again: what was delivered may be out of date."""
        with self.lock:
            self.latest.forget()
            for subscriber in self.listening:
                subscriber.fall_behind()
                subscriber.wake()

    def fail(self, failure: Exception) -> None:
        """Tell followers that nothing more is committed here, and why."""
        with self.lock:
            self.failure = failure
            self.stir()

    def close(self) -> None:
        """Wake the followers: there is nothing more to come."""
        with self.lock:
            self.closed = True
            self.stir()

    def join(self, subscriber: Subscriber) -> None:
        """Deliver all that is committed from now on."""
        with self.lock:
            self._sweep()
            self._subscribers.setdefault(subscriber.conversation, {})[subscriber] = None

    @property
    def listening(self) -> list[Subscriber]:
        """The subscribers that are delivered to."""
        with self.lock:
            self._sweep()
            return [
                subscriber
                for subscribers in self._subscribers.values()
                for subscriber in subscribers
            ]

    def is_live(self, conversation: str) -> bool:
        """Return True if a conversation is known to be there, as it was just appended to."""
        with self.lock:
            return not self.closed and self.latest.has(conversation)

    def _sweep(self) -> None:
        while self.left:
            subscriber = self.left.popleft()
            subscribers = self._subscribers.get(subscriber.conversation)
            if subscribers is not None:
                subscribers.pop(subscriber, None)
                if not subscribers:
                    del self._subscribers[subscriber.conversation]

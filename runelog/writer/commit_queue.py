"""The queue of appends that wait to be committed, and a condition for waiting threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from runelog.index.frame_streams import Seen, seeing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.codec import Codec
    from runelog.rune import Change
    from runelog.writer.segment_writer import CachedConversation

MAX_ITEMS: Final = 4_096
MAX_BYTES: Final = 64 << 20
"""Back-pressure: beyond this, appends have to wait."""
PAGE: Final = 4_096
_entities: Final = itemgetter(0)


Work = tuple[str, bool, int | None]
"""An entity, whether it has something left to do, and by when."""


class PendingAppend:
    """One append on its way to the disk."""

    __slots__ = (
        "awaited",
        "bodies",
        "cached",
        "cost",
        "done",
        "entries",
        "error",
        "first",
        "gate",
        "grown",
        "leads",
        "position",
        "seen",
        "size",
        "time",
        "work",
    )

    def __init__(self, bodies: list[bytes], seen: Seen, work: Sequence[Work] = ()) -> None:
        """Take the encoded runes, who sees them, and what entities have left to do."""
        self.bodies = bodies
        self.seen = seen
        self.size = sum(map(len, bodies))
        self.entries = 3 + sum(map(len, map(_entities, seen)))
        """How many entries of the index it changes at most."""
        self.cost = self.size + (self.size >> 2) + PAGE * self.entries
        self.work = work
        self.awaited = False
        """Whether a thread waits for it."""
        self.leads = True
        """Whether the thread that waits for it may commit for others."""
        self.gate: threading.Lock | None = None
        """Where that thread waits, unless it is committing this itself."""
        self.done = False
        self.error: BaseException | None = None
        self.cached: CachedConversation
        self.first = self.position = self.time = 0
        self.grown: dict[str, int] = {}
        """The version of each stream that sees its runes, with them, as far as that is known."""

    def finish(self) -> None:
        """Tell the waiting thread, if any, that the append is on disk or failed."""
        self.done = True
        if self.gate is not None:
            self.wake()

    def wake(self) -> None:
        """Wake the thread that waits for this append; it may have been woken before."""
        if self.gate is not None and self.gate.locked():
            self.gate.release()


def encoded(codec: Codec, conversation: str, changes: Sequence[Change]) -> PendingAppend:
    """Encode an append, and note which entities see which of its runes."""
    bodies: list[bytes] = []
    seen: Seen = []
    work = []
    for change in changes:
        entity, runes = change.entity, change.runes
        if change.open is not None:
            work.append((entity, change.open, change.deadline))
        if runes:
            codec.encode_into(bodies, conversation, change)
            seen.append((seeing(entity, tuple(change.observers)), len(runes)))
    return PendingAppend(bodies, seen, work)


class LazyCondition(threading.Condition):
    """A condition whose notification costs nothing while no thread waits."""

    waiting = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it rings, or time is up."""
        self.waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting -= 1

    def wake_all(self) -> None:
        """Wake all waiting threads."""
        if self.waiting:
            self.notify_all()


class Bell:
    """Wakes the one thread that waits for it. All is done with the lock held that it is given.

    A ring that no thread waits for ends the next wait.
    """

    def __init__(self, lock: threading.Lock) -> None:
        """Begin silent."""
        self._lock = lock
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, timeout: float | None = None) -> None:
        """Let go of the lock until it rings, or time is up."""
        self._lock.release()
        try:
            self._gate.acquire(timeout=-1 if timeout is None else timeout)
        finally:
            self._lock.acquire()

    def ring(self) -> None:
        """End the wait."""
        if self._gate.locked():
            self._gate.release()


class CommitQueue:
    """Appends in the order they came. The writer's lock guards it."""

    def __init__(self) -> None:
        """Begin empty."""
        self.items: deque[PendingAppend] = deque()
        self.cost = 0
        """The most disk space that all queued and uncommitted appends may take."""
        self.since = 0.0
        """When the first queued append came."""
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many appends are queued."""
        return len(self.items)

    def is_full(self, item: PendingAppend) -> bool:
        """Return True if there is no room for this append."""
        return bool(self.items) and (
            self._bytes + item.size > MAX_BYTES or len(self.items) >= MAX_ITEMS
        )

    def join(self, item: PendingAppend) -> None:
        """Add an append at the end."""
        if not self.items:
            self.since = time.monotonic()
        self.items.append(item)
        self._bytes += item.size
        self.cost += item.cost

    def take(self) -> list[PendingAppend]:
        """Take all queued appends, to commit them."""
        items = list(self.items)
        self.items.clear()
        self._bytes = 0
        return items

    def put_back(self, items: list[PendingAppend]) -> None:
        """Put appends that were taken and not committed back at the front."""
        self.items.extendleft(reversed(items))
        self._bytes += sum(item.size for item in items)

    def served(self, items: list[PendingAppend]) -> int:
        """Release the cost of these; return how many of them and of the queued are waited for."""
        awaited = 0
        for item in items:
            self.cost -= item.cost
            awaited += item.awaited
        for item in self.items:
            awaited += item.awaited
        return awaited

    def first_waiting(self) -> PendingAppend | None:
        """Return the first append whose waiting thread may commit it."""
        for item in self.items:
            if item.awaited and item.leads:
                return item
        return None

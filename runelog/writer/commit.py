"""Group commit: appends of all threads, in one order, synced together.

An append is checked and encoded by its own thread, then admitted, numbered and queued under one
lock; `leader` commits what is queued.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from runelog.checks import MAX_NUMBER, check_append, check_timeout
from runelog.errors import Busy, Refused, WrongVersion
from runelog.rune import Appended
from runelog.writer.commit_queue import encoded
from runelog.writer.leader import ROLL_BYTES, Leader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runelog.codec import Codec
    from runelog.rune import Change
    from runelog.writer.commit_queue import PendingAppend
    from runelog.writer.leader import Home
    from runelog.writer.segment_writer import ActiveSegment, CachedConversation

ROLL_AT: Final = 0.8
"""A segment is rolled when this part of its map is used: transactions need room to copy pages."""
BEHIND: Final = 2
"""A roll beside appends has so many times the bytes until it is not waited for any more."""


class Writer(Leader):
    """The one writer of a log."""

    def __init__(
        self, home: Home, codec: Codec, clock: Callable[[], int], armed: ActiveSegment
    ) -> None:
        """Go on writing where `armed` says the log ends."""
        super().__init__(home, armed)
        self._codec = codec
        self._clock = clock

    def append(
        self, conversation: str, changes: Sequence[Change], *, durable: bool, timeout: float | None
    ) -> Appended:
        """Queue an append; wait until it is durable if asked to."""
        check_append(conversation, changes)
        if timeout is not None:
            check_timeout(timeout)
        item = encoded(self._codec, conversation, changes)
        with self._lock:
            self._admit(item, timeout)
            if self._lost:
                self._check_lost(conversation)
            item.cached = cached = self._cache.take(conversation)
            self._check_versions(cached, changes)
            need = self._queue.cost + item.cost + self._segment.owed
            if self._env.lacks(need):
                self._reserve(need)
            try:
                self._enter(item, cached, self._cache.grown(cached, item.seen))
                if durable:
                    self._start(item)
                elif self._asleep or self._flusher is None:
                    self._start_flusher()
            except BaseException:
                self._abandon(item)
                raise
        if durable and (not item.done or item.error is not None):
            self._settle(item)
        last = item.first + len(item.bodies) - 1
        return Appended(conversation, item.first, last, item.position, item.time)

    def flush(self, conversation: str | None = None) -> int | None:
        """Wait until everything appended so far is durable; raise what kept any of it from that.

        Return the last event of a conversation, None if it is not known here.
        """
        with self._lock:
            self._flush()
            lost = self.take_lost(conversation) if self._lost else None
            self._check()
            head = self._cache.head(conversation)
        if lost is not None:
            raise lost
        return head

    def take_lost(self, conversation: str | None = None) -> Exception | None:
        """Return the error of appends that were not waited for, once."""
        if conversation is not None:
            lost = self._lost.pop(conversation, None)
        else:
            lost = next(iter(self._lost.values()), None)
            self._lost.clear()
        return None if lost is None else type(lost)(*lost.args)

    def _flush(self) -> None:
        last = self._next - 1
        while self._committed < last and self._failure is None:
            if not self._leading:
                if not self._queue.items:
                    return  # what was turned away is neither committed nor queued any more
                if not self._is_interruptible():
                    self._lead()
                    continue
                self._urge()
            gate = threading.Lock()
            gate.acquire()
            place = (last, gate)
            self._flushing.append(place)
            self._lock.release()
            try:
                gate.acquire()
            finally:
                self._lock.acquire()
                self._flushing.remove(place)

    def _check_lost(self, conversation: str) -> None:
        """Raise the error of a lost append, before this one follows it as if it were there."""
        lost = self.take_lost(conversation)
        if lost is not None:
            raise lost

    def _admit(self, item: PendingAppend, timeout: float | None) -> None:
        """Wait for room in the queue and in the segment. Holds the lock, and may let go of it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._failure is not None or self._closing:
                self._check()
            full = self._queue.is_full(item)
            limit = self._env.map_size * ROLL_AT
            cost = self._queue.cost + item.cost
            most = ROLL_BYTES * BEHIND if self._rolls_beside else ROLL_BYTES
            crowded = self._used + cost > limit or self._used > most
            # The file grows only between commits, see _reserve.
            short = self._leading and self._env.lacks(cost + self._segment.owed)
            if not full and not crowded and not short and not self._holds:
                return
            if self._leading or self._holds:
                self._wait_for_room(deadline)
            elif full or self._queue.items:
                self._push()
            elif self._next_is_no_better(item, limit):
                return
            else:
                self._roll(item.cost)

    def _wait_for_room(self, deadline: float | None) -> None:
        if self._maintenance == threading.get_ident():
            msg = "this thread is archiving, restoring, erasing or importing: append afterwards"
            raise Refused(msg)
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            why = (
                "segments are being written" if self._holds else "appends are waiting to be written"
            )
            msg = f"{why} ({len(self._queue):,} in the queue): try again later"
            raise Busy(msg)
        self._kept_waiting = True
        self._idle.wait(left)

    def _check_versions(self, cached: CachedConversation, changes: Sequence[Change]) -> None:
        """Raise if an entity that changes is not at the version that is expected."""
        try:
            self._cache.check_versions(cached, changes)
        except WrongVersion:
            # A caller that missed runes will read and fold them: they must be committed by then.
            if cached.pending:
                self._flush()
            raise

    def _next_is_no_better(self, item: PendingAppend, limit: float) -> bool:
        """Return True if the segment is as good as empty and has room all the same."""
        return self._used < limit / 16 and self._used + item.cost < self._env.map_size * 0.9

    def _enter(
        self, item: PendingAppend, cached: CachedConversation, grown: dict[str, int]
    ) -> None:
        """Give the append its place: from here on it is ordered, and only a failure loses it.

        `grown` are the versions of the streams that see its runes, with them.
        """
        now = self._clock()
        if type(now) is not int or not -MAX_NUMBER <= now <= MAX_NUMBER:
            msg = f"the log's clock says {now!r}: it must give nanoseconds since 1970, as an int"
            raise Refused(msg)
        count = len(item.bodies)
        item.first = cached.head + 1
        item.position = self._next
        item.time = max(self._time, now)
        item.grown = grown
        try:
            cached.head += count
            cached.pending += 1
            self._next += count
            self._time = item.time
            self._queue.join(item)
            cached.versions.update(grown)
        except BaseException:
            # Ctrl-C, in the middle of this.
            if item in self._queue.items:
                cached.versions.update(grown)
            else:  # as if it had come before
                cached.head = item.first - 1
                cached.pending -= 1 if self._next != item.position else 0
                self._next = item.position
            raise

    def _start(self, item: PendingAppend) -> None:
        """Have an append that is waited for committed, with all that are queued."""
        item.awaited = True
        item.leads = not self._is_interruptible()
        if item.leads and not self._leading:
            self._lead()
            return
        item.gate = threading.Lock()
        item.gate.acquire()
        if not self._leading:
            self._urge()
        elif len(self._queue.items) == self._crowd:
            self._gathered.notify()

    def _settle(self, item: PendingAppend) -> None:
        """Wait until the append is on disk; commit it if no other thread does."""
        while not item.done:
            assert item.gate is not None
            try:
                item.gate.acquire()
                if not item.done:
                    with self._lock:
                        if not item.done and not self._leading:
                            self._push()
            except BaseException:
                with self._lock:
                    self._abandon(item)
                raise
        if item.error is not None:
            raise type(item.error)(*item.error.args) from item.error

    def _abandon(self, item: PendingAppend) -> None:
        """Stop waiting for an append, and let another thread commit it."""
        item.awaited = False
        item.gate = None
        if not self._leading:
            self._hand_over()

"""MemoryLog: the `Log` protocol without a disk, for tests and for simulation.

It keeps every rune encoded, so that the codec is exercised as by any other log, and it starts no
thread and never sleeps: with a clock that is given, the same calls have the same outcome always.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from runelog.blobs import MemoryBlobs
from runelog.checks import (
    MAX_NUMBER,
    beginning,
    check_append,
    check_following,
    check_kinds,
    check_live,
    check_readable,
    check_timeout,
    end,
)
from runelog.codec import Codec
from runelog.errors import Closed, Refused, UnknownConversation, WrongVersion
from runelog.memory_store import CHUNK, Home, MemoryStore
from runelog.rune import SYSTEM, Appended, Conversation, Envelope, Gap, State, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Self

    from runelog.memory_store import Stored
    from runelog.rune import Change
    from runelog.snapshot import Snapshots


class MemoryLog:
    """A log in memory. Safe to use from many threads; everything is gone with the object.

    An append is committed when it returns, durable or not. With `hold`, appends that are not
    durable wait unseen until the next durable one, `flush` or `commit_pending`, as on a disk they
    may; and `lose_pending` is the power cut that takes them back.

    >>> from runelog.rune import Change, Rune
    >>> class Noted(Rune, frozen=True, tag="note.taken"):
    ...     text: str
    >>> log = MemoryLog(Codec([Noted]))
    >>> log.append("conv_a", [Change("note_1", 0, [Noted(text="hi")])]).last
    1
    >>> [envelope.payload for envelope in log.read("conv_a")]
    [Noted(text='hi')]
    """

    def __init__(
        self,
        codec: Codec | None = None,
        clock: Callable[[], int] = time.time_ns,
        *,
        hold: bool = False,
    ) -> None:
        """Begin an empty log; `clock` tells nanoseconds since 1970, UTC."""
        self.blobs = MemoryBlobs()
        self.codec = (codec or Codec()).with_blobs(self.blobs)
        self.snapshots: Snapshots | None = None
        """It has no place for them, unless it is given one."""
        self._clock = clock
        self._hold = hold
        self._changed = threading.Condition(threading.RLock())
        self._store = MemoryStore()
        self._time = 0
        self._closed = False

    # -- appending ----------------------------------------------------------------------------

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append the runes of all changes as one: all there, with consecutive ids, or none."""
        with self._changed:
            self._check_open()
            check_append(conversation, changes)
            check_timeout(timeout)  # nothing queues here
            home = self._store.homes.get(conversation) or Home(conversation)
            check_live(home.id, home.state)
            for change in changes:
                expected, actual = change.expected_version, home.version(change.entity, MAX_NUMBER)
                if expected is not None and expected != actual:
                    raise WrongVersion(conversation, change.entity, expected, actual)
            # Encoding may refuse a rune, so it comes before anything is changed.
            bodies = [self.codec.encode(conversation, change) for change in changes]
            self._time = max(self._time, self._clock())
            stored = self._store.place(home, changes, bodies, self._time)
            if durable or not self._hold:
                self.commit_pending()
        first, last = stored[0], stored[-1]
        return Appended(conversation, first.event_id, last.event_id, first.position, first.time)

    def flush(self, conversation: str | None = None) -> int:
        """Commit everything appended so far; return the last event of a conversation, if any."""
        self.commit_pending()
        home = None if conversation is None else self._store.homes.get(conversation)
        return 0 if home is None else home.head

    def rest(self, conversation: str) -> None:
        """Do nothing: there is no cache."""

    def commit_pending(self) -> None:
        """Make pending appends visible to readers."""
        with self._changed:
            self._check_open()
            self._store.commit()
            self._changed.notify_all()

    def lose_pending(self) -> None:
        """Forget what is not committed, as a power cut would; its ids are given out again."""
        with self._changed:
            self._check_open()
            self._store.lose()

    # -- reading ------------------------------------------------------------------------------

    def read(
        self,
        conversation: str,
        after: int = 0,
        until: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Envelope]:
        """Yield the conversation's committed runes with `after` < event id <= `until`, in order."""
        with self._changed:
            home = self._readable(conversation)
            check_kinds(kinds)
            last = end(until, home.head)
        return self._read(home, range(beginning(after) + 1, last + 1), kinds)

    def stream(
        self, conversation: str, entity: str, after: int = 0, until: int | None = None
    ) -> Iterator[Envelope]:
        """Yield what an entity's fold sees: versions `after` + 1 on, event ids to `until`."""
        with self._changed:
            home = self._readable(conversation)
            last = end(until, home.head)
            seen = home.streams.get(entity, [])[beginning(after) : home.version(entity, last)]
        return self._read(home, seen, None)

    def _read(
        self, home: Home, event_ids: Sequence[int], kinds: Collection[str] | None
    ) -> Iterator[Envelope]:
        for start in range(0, len(event_ids), CHUNK):
            with self._changed:
                self._check_open()
                check_readable(home.id, home.state)
                chunk = [home.runes[at - 1] for at in event_ids[start : start + CHUNK]]
            for envelope in map(self._envelope, chunk):
                if kinds is None or envelope.kind in kinds:
                    yield envelope

    def version(self, conversation: str, entity: str) -> int:
        """Return how many runes the entity's stream holds, 0 if there is no such entity."""
        with self._changed:
            self._check_open()
            home = self._store.homes.get(conversation)
            if home is None:
                return 0
            check_readable(home.id, home.state)
            return home.version(entity, home.head)

    def read_all(self, after: int = 0) -> Iterator[Envelope | Gap]:
        """Yield the committed runes of all conversations behind position `after`, with gaps."""
        return self._read_all(beginning(after), self.position)

    def _read_all(self, cursor: int, last: int) -> Iterator[Envelope | Gap]:
        while cursor < last:
            with self._changed:
                self._check_open()
                cursor, chunk = self._store.stretch(cursor, last)
            for item in chunk:
                yield item if isinstance(item, Gap) else self._envelope(item)

    def _envelope(self, rune: Stored) -> Envelope:
        return self.codec.envelope(
            rune.body,
            conversation=rune.conversation,
            event_id=rune.event_id,
            position=rune.position,
            time=rune.time,
        )

    # -- following ----------------------------------------------------------------------------

    def follow(
        self,
        conversation: str | None = None,
        after: int = 0,
        *,
        kinds: Collection[str] | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> Iterator[Envelope | Gap]:
        """Yield runes from a cursor on, those there are and then those to come."""
        check_following(kinds, max_behind, wait)
        with self._changed:
            self._check_open()
            home = None if conversation is None else self._readable(conversation)
        return self._follow(home, beginning(after), kinds, max_behind, wait)

    def _follow(
        self,
        home: Home | None,
        cursor: int,
        kinds: Collection[str] | None,
        max_behind: int | None,
        wait: float | None,
    ) -> Iterator[Envelope | Gap]:
        patience = _Patience(wait)
        while True:
            with self._changed:
                while not self._closed and self._head(home) <= cursor and patience.left() != 0:
                    self._changed.wait(patience.left())
                if self._closed or self._head(home) <= cursor:
                    return
                cursor, chunk = self._next(home, cursor, max_behind)
            for item in chunk:
                found = item if isinstance(item, Gap) else self._envelope(item)
                if isinstance(found, Gap) or kinds is None or found.kind in kinds:
                    yield found
                    patience.renew()

    def _head(self, home: Home | None) -> int:
        """Return how far a cursor can go: in a conversation, or in the whole log."""
        if home is None:
            return self._store.committed
        check_readable(home.id, home.state)
        return home.head

    def _next(
        self, home: Home | None, cursor: int, max_behind: int | None
    ) -> tuple[int, list[Stored | Gap]]:
        """Return what a follower is given next, and its cursor behind that."""
        head = self._head(home)
        if max_behind is not None and head - cursor > max_behind:
            skipped = head - max_behind
            return skipped, [Gap(cursor + 1, skipped, "slow", None if home is None else home.id)]
        if home is None:
            return self._store.stretch(cursor, head)
        last = min(head, cursor + CHUNK)
        return last, [*home.runes[cursor:last]]

    # -- the index ----------------------------------------------------------------------------

    def conversation(self, conversation: str) -> Conversation:
        """Return what the index knows of one conversation, or raise `UnknownConversation`."""
        with self._changed:
            home = self._known(conversation)
            return Conversation(home.id, home.head, home.size, *home.times, home.state)

    def conversations(self) -> Iterator[Conversation]:
        """Yield every conversation in order of id, archived and erased ones too."""
        with self._changed:
            self._check_open()
            known = sorted(id_ for id_, home in self._store.homes.items() if home.known)
            return iter([self.conversation(id_) for id_ in known])

    def open_work(self, conversation: str | None = None) -> Iterator[Work]:
        """Yield the entities with something left to do, of one conversation or of all."""
        with self._changed:
            self._check_open()
            homes = self._store.homes if conversation is None else [self._known(conversation).id]
            return iter(
                [
                    Work(id_, entity, deadline)
                    for id_ in sorted(homes)
                    for entity, deadline in sorted(self._store.homes[id_].work.items())
                ]
            )

    def may_hold(self, start: str) -> bool:
        """Return False if no entity has an id that begins with `start`."""
        with self._changed:
            self._check_open()
            return any(
                entity.startswith(start)
                for home in self._store.homes.values()
                for entity in home.streams
            )

    @property
    def position(self) -> int:
        """The position of the last committed rune; 0 in an empty log."""
        with self._changed:
            self._check_open()
            return self._store.committed

    # -- keeping ------------------------------------------------------------------------------

    def roll(self) -> None:
        """Do nothing: there are no segments in memory."""
        with self._changed:
            self._check_open()

    def rolling(self) -> Iterator[None] | None:
        """Return None: there are no segments here."""
        return None

    def archive(self, *conversations: str) -> None:
        """Mark conversations as archived: still listed, still readable, no longer appended to."""
        with self._changed:
            homes = self._to_put_away(conversations, "archived")
            for home in homes:
                check_readable(home.id, home.state)
                for entity in sorted(home.work):
                    msg = f"{home.id} has open work, {entity}: let it end before archiving"
                    raise Refused(msg)
            for home in homes:
                home.state = State.ARCHIVED
                home.hidden = home.head

    def restore(self, *conversations: str) -> None:
        """Bring archived conversations back, at new positions that `read_all` skips."""
        with self._changed:
            self.commit_pending()
            homes = {name: self._readable(name) for name in sorted(conversations)}
            for home in homes.values():
                if home.state is State.ARCHIVED:
                    self._store.restore(home)
            self._changed.notify_all()

    def erase(self, *conversations: str) -> None:
        """Remove every rune and blob of conversations for good, leaving a tombstone each."""
        with self._changed:
            for home in self._to_put_away(conversations, "erased"):
                home.erase()
                self.blobs.drop(home.id)

    def _to_put_away(self, conversations: Sequence[str], verb: str) -> list[Home]:
        self.commit_pending()
        if SYSTEM in conversations:
            msg = f"{SYSTEM} cannot be {verb}: it holds what belongs to no conversation"
            raise Refused(msg)
        return [self._known(conversation) for conversation in conversations]

    def close(self) -> None:
        """Commit everything and let go of the log. Closing twice does nothing."""
        with self._changed:
            if not self._closed:
                self.commit_pending()
                self._closed = True
                self._changed.notify_all()

    def __enter__(self) -> Self:
        """Return the log itself; leaving the block closes it."""
        with self._changed:
            self._check_open()
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the log."""
        self.close()

    # -- who may ask --------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            msg = "this log has been closed: open it again"
            raise Closed(msg)

    def _known(self, conversation: str) -> Home:
        self._check_open()
        home = self._store.homes.get(conversation)
        if home is None or not home.known:
            raise UnknownConversation(conversation)
        return home

    def _readable(self, conversation: str) -> Home:
        home = self._known(conversation)
        check_readable(home.id, home.state)
        return home


class _Patience:
    """How much longer a follower waits: `wait` seconds from the last rune it was given."""

    def __init__(self, wait: float | None) -> None:
        self._wait = wait
        self.renew()

    def renew(self) -> None:
        """Begin to wait anew."""
        self._since = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds that are left, None for ever."""
        return None if self._wait is None else max(0, self._since + self._wait - time.monotonic())

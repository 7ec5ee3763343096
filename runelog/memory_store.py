"""What a `MemoryLog` keeps: conversations, their streams, the order of all, and what is pending.

Nothing here locks, waits or asks the time; `runelog.memory` does.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.rune import Gap, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Change

CHUNK: Final = 256
"""How many runes a reader takes at a time, and so how long it can keep writers waiting."""


_REASONS: Final = {State.LIVE: "moved", State.ARCHIVED: "archived", State.ERASED: "erased"}


class Stored(NamedTuple):
    """A rune as it is kept: whose, where, when, and its encoded body."""

    conversation: str
    event_id: int
    position: int
    time: int
    body: bytes


class Home:
    """One conversation: its runes, its streams, and what readers may know of it."""

    __slots__ = ("head", "hidden", "id", "runes", "size", "state", "streams", "times", "work")

    def __init__(self, conversation: str) -> None:
        """Begin a conversation that readers do not see yet."""
        self.id = conversation
        self.state = State.LIVE
        self.runes: list[Stored] = []
        self.streams: dict[str, list[int]] = {}
        """The event ids that each entity's fold sees."""
        # What follows is of committed runes only; those above hold the pending ones too.
        self.head = 0
        self.size = 0
        self.times = (0, 0)
        self.work: dict[str, int | None] = {}
        self.hidden = 0
        """Events up to this one were archived or erased at some time: a gap in the order of all."""

    def version(self, entity: str, until: int) -> int:
        """Count the runes of an entity's stream up to event `until`."""
        return bisect_right(self.streams.get(entity, ()), until)

    @property
    def known(self) -> bool:
        """Return True if readers may know of it: there is, or there was, something committed."""
        return self.head > 0 or self.state is State.ERASED

    def gap(self, position: int) -> Gap:
        """Return what stands in the order of all for a hidden rune."""
        return Gap(position, position, _REASONS[self.state], self.id)

    def erase(self) -> None:
        """Forget every rune, and how many there were and when: only the name is left."""
        if self.state is State.ERASED:
            return
        self.state = State.ERASED
        self.hidden = self.head
        self.head = self.size = 0
        self.times = (0, 0)
        self.runes.clear()
        self.streams.clear()
        self.work.clear()


class MemoryStore:
    """All conversations, and the one order their runes are in."""

    def __init__(self) -> None:
        """Begin empty."""
        self.homes: dict[str, Home] = {}
        self.committed = 0
        """The position of the last rune that readers may see."""
        self._order: list[tuple[Home, int] | None] = []
        """By position: whose rune, and which; None for one that was given out at another before."""
        self._pending: list[tuple[Home, list[Stored], Sequence[Change]]] = []

    def place(
        self, home: Home, changes: Sequence[Change], bodies: list[list[bytes]], time: int
    ) -> list[Stored]:
        """Give each rune its event id and position, unseen as yet except by later appends."""
        self.homes[home.id] = home
        stored = []
        for change, encoded in zip(changes, bodies, strict=True):
            for body in encoded:
                rune = Stored(home.id, len(home.runes) + 1, len(self._order) + 1, time, body)
                home.runes.append(rune)
                self._order.append((home, rune.event_id))
                stored.append(rune)
                for entity in {change.entity, *change.observers}:
                    home.streams.setdefault(entity, []).append(rune.event_id)
        self._pending.append((home, stored, tuple(changes)))
        return stored

    def commit(self) -> None:
        """Make what is pending visible to readers."""
        for home, stored, changes in self._pending:
            time = stored[0].time
            home.times = (home.times[0] if home.head else time, time)
            home.head = stored[-1].event_id
            home.size += sum(len(rune.body) for rune in stored)
            for change in changes:
                if change.open:
                    home.work[change.entity] = change.deadline
                elif change.open is not None:
                    home.work.pop(change.entity, None)
        self._pending.clear()
        self.committed = len(self._order)

    def lose(self) -> None:
        """Forget what is pending."""
        for home, _, _ in self._pending:
            del home.runes[home.head :]
            for entity, seen in list(home.streams.items()):
                del seen[home.version(entity, home.head) :]
                if not seen:
                    del home.streams[entity]
            if not home.runes:
                self.homes.pop(home.id, None)
        self._pending.clear()
        del self._order[self.committed :]

    def restore(self, home: Home) -> None:
        """Give the runes of an archived conversation new positions, which `stretch` skips."""
        home.state = State.LIVE
        for at, rune in enumerate(home.runes):
            self._order.append(None)
            home.runes[at] = rune._replace(position=len(self._order))
        self.committed = len(self._order)

    def stretch(self, cursor: int, last: int) -> tuple[int, list[Stored | Gap]]:
        """Return what lies behind position `cursor`, at most a chunk, and where that ends."""
        chunk: list[Stored | Gap] = []
        while cursor < last:
            place = self._order[cursor]
            if place is None:
                cursor += 1
                continue
            home, event_id = place
            hidden = event_id <= home.hidden
            before = chunk[-1] if chunk else None
            if hidden and isinstance(before, Gap) and _touches(before, cursor, home):
                chunk[-1] = Gap(before.first, cursor + 1, before.reason, home.id)
            elif len(chunk) == CHUNK:
                break
            else:
                chunk.append(home.gap(cursor + 1) if hidden else home.runes[event_id - 1])
            cursor += 1
        return cursor, chunk


def _touches(gap: Gap, cursor: int, home: Home) -> bool:
    return gap.last == cursor and gap.conversation == home.id

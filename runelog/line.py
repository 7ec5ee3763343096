"""The line of appends that wait to be written."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from runelog.codec import Codec
    from runelog.inscribe import Desk
    from runelog.rune import Change

MAX_ITEMS: Final = 4_096
MAX_BYTES: Final = 64 << 20
"""Back-pressure: beyond this, whoever appends has to wait."""
_PAGE: Final = 4_096


class Item:
    """One append on its way to the disk."""

    __slots__ = (
        "before",
        "bodies",
        "cost",
        "desk",
        "done",
        "error",
        "first",
        "gate",
        "leads",
        "position",
        "size",
        "time",
        "touched",
        "work",
    )

    def __init__(self, bodies: list[bytes], touched: dict[str, list[tuple[int, int]]]) -> None:
        """Take the encoded runes and, per entity, the stretches of them it owns or observes."""
        self.bodies = bodies
        self.touched = touched
        self.size = sum(map(len, bodies))
        self.cost = self.size + (self.size >> 2) + _PAGE * (3 + len(touched))
        self.work: list[tuple[str, bool, int | None]] = []
        self.gate: threading.Lock | None = None
        self.leads = True
        """Whether the thread that waits for it may commit for others."""
        self.done = False
        self.error: BaseException | None = None
        self.desk: Desk
        self.first = self.position = self.time = 0
        self.before: dict[str, int] = {}
        """The version of each stream it touches, before it, as far as that is known."""

    def finish(self) -> None:
        """Say that the append is on disk, or that it failed, to whoever waits for it."""
        self.done = True
        self.wake()

    def wake(self) -> None:
        """Wake whoever waits for this append; it may have been woken and be on its way."""
        if self.gate is not None:
            with contextlib.suppress(RuntimeError):
                self.gate.release()


def encoded(codec: Codec, conversation: str, changes: Sequence[Change]) -> Item:
    """Encode an append, and note which entities see which of its runes."""
    bodies: list[bytes] = []
    touched: dict[str, list[tuple[int, int]]] = {}
    for change in changes:
        if not change.runes:
            continue
        start = len(bodies)
        bodies += codec.encode(conversation, change)
        stretch = (start, len(bodies) - start)
        # Each once, and in order: the same appends then make the same file.
        for entity in dict.fromkeys((change.entity, *change.observers)):
            touched.setdefault(entity, []).append(stretch)
    item = Item(bodies, touched)
    item.work = [(c.entity, c.open, c.deadline) for c in changes if c.open is not None]
    return item


class Line:
    """First come, first served. The writer's lock guards it."""

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self.items: deque[Item] = deque()
        self.cost = 0
        """What all that are waiting or being served may cost in disk space, at the most."""
        self.since = 0.0
        """When the first that is waiting came."""
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many are waiting."""
        return len(self.items)

    def is_full(self, item: Item) -> bool:
        """Tell whether one more would be too much."""
        return len(self.items) >= MAX_ITEMS or (
            bool(self.items) and self._bytes + item.size > MAX_BYTES
        )

    def join(self, item: Item) -> None:
        """Come last."""
        if not self.items:
            self.since = time.monotonic()
        self.items.append(item)
        self._bytes += item.size
        self.cost += item.cost

    def take(self) -> list[Item]:
        """Take all that are waiting, to serve them."""
        items = list(self.items)
        self.items.clear()
        self._bytes = 0
        return items

    def put_back(self, items: list[Item]) -> None:
        """Let those who were taken and not served come first again."""
        self.items.extendleft(reversed(items))
        self._bytes += sum(item.size for item in items)

    def served(self, items: list[Item]) -> None:
        """Note that these do not cost anything any more."""
        self.cost -= sum(item.cost for item in items)

    def first_waiting(self) -> Item | None:
        """Return the first that somebody waits for who may commit it."""
        return next((item for item in self.items if item.gate is not None and item.leads), None)

"""An append that was just committed, as it is delivered to subscribers.

Runes of other kinds than asked for are left out undecoded: a rune's kind shows in its bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from runelog.errors import printable

if TYPE_CHECKING:
    from runelog.codec import Codec
    from runelog.rune import Envelope
    from runelog.writer.commit_queue import PendingAppend

SEARCHED: Final = 16 << 10
"""Longer appends are not searched for kinds by the committing thread."""
_KIND: Final = msgspec.msgpack.encode("kind")
Marks: TypeAlias = re.Pattern[bytes]
"""A pattern that is found in the bytes of every rune of some kinds."""


class CommittedAppend:
    """An append that was just committed; decoded once for all subscribers to all kinds."""

    __slots__ = (
        "_codec",
        "_found",
        "_picked",
        "item",
    )

    def __init__(self, item: PendingAppend, codec: Codec) -> None:
        """Wrap `item`, which is on disk."""
        self.item = item
        self._codec = codec
        self._found: list[Envelope] | None = None
        self._picked: tuple[Marks, list[int]] | None = None
        """The runes that the last asked marks were found in."""

    def envelopes(self, marks: Marks | None, start: int, stop: int) -> list[Envelope]:
        """Return its runes from `start` to before `stop`, as they would be read from the log.

        Those that bear none of the `marks` are left out, before they are decoded.
        """
        if marks is None:
            return self._all()[start:stop]
        found = self._found
        picked = [at for at in self._pick(marks) if start <= at < stop]
        if found is not None:
            return [found[at] for at in picked]
        item = self.item
        return [
            self._codec.envelope(
                item.bodies[at],
                conversation=item.cached.id,
                event_id=item.first + at,
                position=item.position + at,
                time=item.time,
            )
            for at in picked
        ]

    def _all(self) -> list[Envelope]:
        if self._found is None:
            item = self.item
            self._found = self._codec.envelopes(
                len(item.bodies),
                b"".join(item.bodies),
                item.cached.id,
                item.first,
                item.position,
                item.time,
            )
        return self._found

    def _pick(self, marks: Marks) -> list[int]:
        picked = self._picked
        if picked is None or picked[0] is not marks:
            search = marks.search
            found = [at for at, body in enumerate(self.item.bodies) if search(body) is not None]
            picked = self._picked = (marks, found)
        return picked[1]

    def may_have(self, marks: Marks | None) -> bool:
        """Return True if there may be a rune with one of these marks."""
        return marks is None or self.item.size > SEARCHED or bool(self._pick(marks))


@lru_cache(maxsize=256)
def marks_of(kinds: frozenset[str]) -> Marks:
    """Return what finds, in every stored rune of one of these kinds, what only those begin with.

    It may find it elsewhere too, in a text for instance: the kind is looked at when it is decoded.
    """
    if not kinds:
        return re.compile(rb"(?!)")
    named = b"|".join(re.escape(msgspec.msgpack.encode(printable(kind))) for kind in sorted(kinds))
    return re.compile(re.escape(_KIND) + b"(?:" + named + b")")

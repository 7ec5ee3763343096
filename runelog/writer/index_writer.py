"""The index of the segment that is written to: kept, and written with a later commit."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from runelog.errors import Closed
from runelog.lmdb.environment import MapFull
from runelog.writer.segment_writer import write_appends

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.index.unwritten import Changed, UnwrittenIndex
    from runelog.lmdb.environment import Batch, Environment
    from runelog.writer.commit_queue import PendingAppend
    from runelog.writer.segment_writer import EarlierSegments

_PART: Final = 16
"""The index is written before that takes this part of the map."""


class IndexWriter:
    """Appends to one segment, and brings its index up to that from time to time."""

    def __init__(self, env: Environment, unwritten: UnwrittenIndex) -> None:
        """Go on with what the tables of the index do not hold yet."""
        self._env = env
        self._unwritten = unwritten
        self._last: tuple[Changed, bool] | None = None
        """What the last transaction changes in the index, and whether it wrote all of the index."""
        self.owed = unwritten.cost(env.used)
        """The most space that writing the index takes."""

    def append(self, batch: Batch, past: EarlierSegments, items: list[PendingAppend]) -> None:
        """Write appends in a transaction, and the index as well if too much of it is not written.

        `committed` or `undone` has to follow.
        """
        changed = write_appends(batch, past, items, self._unwritten)
        due = self._unwritten.is_due(changed, self._env.map_size // _PART)
        if due:
            self._unwritten.write(batch, changed)
        self._last = changed, due

    def committed(self) -> None:
        """Note that the last transaction is on disk."""
        if self._last is None:
            return
        changed, due = self._last
        self._last = None
        if due:
            self._unwritten.written(changed.until, changed.end)
        else:
            self._unwritten.add(changed)
        self.owed = self._unwritten.cost(self._env.used)

    def undone(self) -> None:
        """Note that the last transaction was not committed."""
        self._last = None

    def write(self, check: Callable[[Batch], None]) -> None:
        """Write all of the index in a transaction of its own, if `check` does not raise in it.

        If there is no room for it in the map, or the file is closed because another process has
        taken the log over, frames go on to tell it.
        """
        unwritten = self._unwritten
        if unwritten.is_empty or unwritten.until is None:
            return
        with contextlib.suppress(MapFull, Closed):
            with self._env.batch(spare=False) as batch:
                check(batch)
                self._env.reserve(self.owed)
                unwritten.write(batch)
            unwritten.written(unwritten.until, unwritten.end)
        self.owed = unwritten.cost(self._env.used)

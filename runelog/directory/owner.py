"""Owning a log: files are changed outside of transactions only while no other process writes.

A writer that was taken over may wake up at any moment. So before it trims, seals, publishes,
merges or sweeps, a handle takes the mutex that every writer needs to become one, and checks that
the log is still its own.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from runelog.directory.rewrite import epoch_of
from runelog.errors import Corrupt, Fault, Fenced, LogFailed, LogFull
from runelog.index import stamps
from runelog.lmdb.space import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.lmdb.environment import Batch
    from runelog.manifest import Lock, SegmentInfo
    from runelog.reader.segments import Segments

_TAKEN: Final = (
    "another process has taken this log over: nothing more can be written through this handle"
)


class Owner:
    """The right of one handle to change a log's files."""

    def __init__(self, segments: Segments, lock: Lock | None) -> None:
        """Take note of the LOCK that is held; a reader has none and opens no section."""
        self.epoch = 0
        """The epoch of our own writer, 0 while nothing was written."""
        self._segments = segments
        self._path = segments.directory / "LOCK"
        self._lock_file = None if lock is None else lock.identity
        self._mutex = threading.RLock()
        self._inside = False

    @contextlib.contextmanager
    def section(self) -> Iterator[Batch | None]:
        """Hold the mutex of the active segment, and give its transaction; `Fenced` if not ours.

        Without one if the segment is damaged: then no process can become a writer. A section within
        a section is a part of it.
        """
        with self._mutex:
            while not self._inside:
                # Before, too: to begin a transaction reserves room in a file that may be sealed.
                self._check(None)
                current = self._is_current()
                with contextlib.ExitStack() as stack:
                    batch = self._enter(stack) if current else None
                    self._check(batch)
                    if current and self._is_current():
                        self._inside = True
                        active = self._segments.manifest.active
                        try:
                            yield batch
                        finally:
                            self._inside = False
                        if batch is not None and self._segments.manifest.active == active:
                            self._stamp(batch, active)
                        return
                # The writer before us replaced the manifest once more after we had read it.
                if self.epoch or not self._segments.refresh():
                    raise Fenced(_TAKEN)
            yield None

    def _stamp(self, batch: Batch, active: SegmentInfo) -> None:
        """Write the revision of the last published manifest into the active segment.

        Without room for that it says so after the next section.
        """
        segments = self._segments
        env = segments.segment(active.number).env
        if segments.stamped or env is None:
            return
        with contextlib.suppress(LogFull):
            env.reserve(0)
            stamps.publish(batch, segments.manifest.revision)
            segments.stamped = True

    def _is_current(self) -> bool:
        return self._segments.on_disk() == self._segments.manifest

    def _enter(self, stack: contextlib.ExitStack) -> Batch | None:
        active = self._segments.manifest.active
        if not self._usable(active):
            return None
        # Taken, so that it stays open when the manifest does not name it any more.
        segment, _ = stack.enter_context(self._segments.take(active.number))
        assert segment.env is not None
        return stack.enter_context(segment.env.batch(spare=False))

    def _usable(self, active: SegmentInfo) -> bool:
        try:
            return self._segments.segment(active.number).env is not None
        except Corrupt:
            return False

    def _check(self, batch: Batch | None) -> None:
        # As long as a file is open, its number is not given to one that takes its place.
        if identity(self._path) != self._lock_file:
            raise Fenced(_TAKEN)
        if self.epoch and batch is not None and epoch_of(batch) != self.epoch:
            raise Fenced(_TAKEN)

    @contextlib.contextmanager
    def no_way_back(self) -> Iterator[None]:
        """Fail the handle over whatever goes wrong once the manifest is replaced.

        The writer may then have a segment in hand that is not the active one any more.
        """
        before = self._segments.manifest
        try:
            yield
        except Fault:
            raise
        except BaseException as error:
            if self._segments.manifest is before:
                raise
            msg = f"a change of segments was cut short, close the log and open it again: {error!r}"
            raise LogFailed(msg) from error

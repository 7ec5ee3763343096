"""Logs that are watched: on disk, and in memory for the sweep in one process."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from unittest import mock

from runefold.testing.crash.instrumentation.followed_log import FollowedLog
from runelog.lmdb.environment import Environment
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runefold.testing.crash.instrumentation.watch import Watch
    from runelog.rune import Appended, Change


class DiskLog(Runelog):
    """A log on disk whose every append is seen."""

    watch: Watch
    failed: Exception | None = None
    """What every append is refused with from now on."""

    def fail(self, failure: Exception) -> None:
        """Have a sync fail: nothing more is written, and those who follow are told."""
        self.failed = failure
        self.log_directory.reader.subscriptions.fail(failure)

    def lose(self, failure: Exception) -> None:
        """Have every commit from now on fail in earnest, and leave nothing on disk."""

        def batch(_file: Environment, *, spare: bool = True) -> NoReturn:  # noqa: ARG001 -- as the real one
            self.failed = failure
            raise failure

        # For good: it ends with the process, which can do no more with this log.
        mock.patch.object(Environment, "batch", batch).start()

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Stand still for a while; what no caller waits for is not written sooner because of it.

        Otherwise the log's own thread finds afterwards that it is high time, and whatever is copied
        next has more in it than a kill would have left.
        """
        writer = self._writer
        if writer is None:
            yield
            return
        with writer._lock:  # noqa: SLF001 -- its thread waits behind it
            begun = time.monotonic()
            yield
            writer._queue.since += time.monotonic() - begun  # noqa: SLF001 -- as above

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append, and be seen before and after."""
        if self.failed is not None:
            raise self.failed
        passing = self.watch.before(self, conversation, changes, durable=durable)
        appended = super().append(conversation, changes, durable=durable, timeout=timeout)
        self.watch.after(self, passing, appended, durable=durable)
        return appended

    def flush(self, conversation: str | None = None) -> int:
        """Flush, and take note of what is durable then."""
        if self.failed is not None:
            raise self.failed
        upto = self.watch.syncing(self, conversation)
        head = super().flush(conversation)
        self.watch.acknowledged(upto)
        return head


class InProcessLog(FollowedLog):
    """A log in memory whose every append is seen. It stays when the app is cut off."""

    watch: Watch
    directory: Path = Path()
    """Where the app thinks that it is."""
    _losing: Exception | None = None
    """What the next commit fails with."""

    def fail(self, failure: Exception) -> None:
        """Have a sync fail: nothing more is written."""
        self.failed = failure

    def lose(self, failure: Exception) -> None:
        """Have the next commit fail, and leave nothing behind."""
        self._losing = failure

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append, and be seen before and after."""
        self._check_power()
        if self.failed is not None:
            raise self.failed
        passing = self.watch.before(self, conversation, changes, durable=durable)
        if self._losing is not None:
            # What no caller waits for is accepted all the same, and lost.
            self.failed, self._losing = self._losing, None
            if durable:
                raise self.failed
        appended = super().append(conversation, changes, durable=durable, timeout=timeout)
        self.watch.after(self, passing, appended, durable=durable)
        return appended

    def flush(self, conversation: str | None = None) -> int:
        """Flush, and take note of what is durable then."""
        if self.failed is not None:
            raise self.failed
        upto = self.watch.syncing(self, conversation)
        head = super().flush(conversation)
        self.watch.acknowledged(upto)
        return head

    def save(self) -> bool:
        """Commit what no caller waits for, unless nothing gets to disk any more."""
        return self.failed is None and super().save()

"""What an open log holds: released when it is closed, or when it is garbage-collected."""

from __future__ import annotations

import _thread
import os
import threading
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runelog.directory.log_directory import LogDirectory
    from runelog.manifest import Lock
    from runelog.writer.commit import Writer

_PATIENCE: Final = 1.0
"""How many seconds the garbage collection of an open log waits until all is released."""


class Resources:
    """What an open log must let go of."""

    def __init__(self, log_directory: LogDirectory, lock: Lock | None) -> None:
        """Hold the files of a log, and the right to write to it if that was asked for."""
        self.log_directory = log_directory
        self.lock = lock
        self.writer: Writer | None = None
        self.pid = os.getpid()

    def let_go(self) -> None:
        """Unmap and close everything; another process may write from now on."""
        self.log_directory.close()
        if self.lock is not None:
            self.lock.release()


def dropped(resources: Resources) -> None:
    """Release a log that was garbage-collected without being closed."""
    if resources.pid != os.getpid():
        return
    over = threading.Lock()
    over.acquire()

    def let_go() -> None:
        try:
            if resources.writer is not None:
                resources.writer.close()
            resources.let_go()
        finally:
            over.release()

    try:
        warnings.warn(
            f"unclosed runelog in {resources.log_directory.directory}: "
            "close it, or use it in a with statement",
            ResourceWarning,
            stacklevel=2,
        )
    finally:
        # The thread that dropped it may hold a lock that is needed here. So another thread does it,
        # and this one waits for it a little, but not for ever.
        _thread.start_new_thread(let_go, ())
        over.acquire(timeout=_PATIENCE)

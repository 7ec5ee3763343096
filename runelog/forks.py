"""Forks: none happens in the middle of a transaction, so that a child can open the log anew.

A child has copies of its parent's mappings and may not use them. It can open its own once it let go
of those, and it can let go of what no other thread was using at the moment of the fork: that thread
does not exist in the child, but what it held does.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from threading import get_ident
from typing import TYPE_CHECKING, Final

from runelog.errors import Forked

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE: Final = 5.0
"""How many seconds a fork waits for a transaction: a disk that hangs must not hang the process."""
_PAUSE: Final = 0.000_5

passed = 0
"""How many forks lie between this process and the one that was started: a child of what was opened
has one more. To ask the system for the process's id would take longer."""


def _after_fork() -> None:
    global passed  # noqa: PLW0603 -- a process has one past
    passed += 1


os.register_at_fork(after_in_child=_after_fork)


class Home:
    """The process that something was opened in: a forked child has a copy that it may not use.

    The copy is without its threads, and with every lock that they held. So it is asked first,
    before any lock is taken.
    """

    __slots__ = ("_forks", "_message")

    def __init__(self, message: str) -> None:
        """Take note of this process; `message` says what a child has to do instead."""
        self._forks = passed
        self._message = message

    @property
    def is_left(self) -> bool:
        """Whether this is a forked child of that process."""
        return self._forks != passed

    def check(self) -> None:
        """Raise `Forked` in a child of that process."""
        if self._forks != passed:
            raise Forked(self._message)


class Gate:
    """Entered by each transaction; a fork waits until no thread is inside."""

    def __init__(self) -> None:
        """Begin open, with no thread inside."""
        self._reset()

    def _reset(self) -> None:
        self.guard = threading.Lock()
        """Held while an environment is opened or closed."""
        self._guarded_by = 0
        self._inside: dict[int, int] = {}
        self._forking: set[int] = set()
        self._passable = threading.Event()
        self._passable.set()

    def __enter__(self) -> None:
        """Come in, once no fork is under way. A thread that is in may come in again."""
        me = get_ident()
        if me in self._inside:
            self._inside[me] += 1
            return
        # First in, then look: a fork that begins in between sees us.
        self._inside[me] = 1
        while self._forking:
            del self._inside[me]
            self._passable.wait(PATIENCE)
            self._inside[me] = 1

    def __exit__(self, *exc: object) -> None:
        """Go out."""
        me = get_ident()
        depth = self._inside.pop(me, 0)
        if depth > 1:
            self._inside[me] = depth - 1

    def before(self) -> bool:
        """Close the gate and wait for the threads inside; return True if all came out.

        The thread that calls this may be in.
        """
        me = get_ident()
        self._forking.add(me)
        self._passable.clear()
        patience = time.monotonic() + PATIENCE
        while set(self._inside) - {me} and time.monotonic() < patience:
            time.sleep(_PAUSE)
        if self.guard.acquire(timeout=max(0.0, patience - time.monotonic())):
            self._guarded_by = me
        return self._guarded_by == me and not set(self._inside) - {me}

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep all others out, as in a fork; return True if that worked."""
        try:
            yield self.before()
        finally:
            self.after_in_parent()

    def after_in_parent(self) -> None:
        """Open again."""
        me = get_ident()
        if self._guarded_by == me:
            self._guarded_by = 0
            self.guard.release()
        self._forking.discard(me)
        if not self._forking:
            self._passable.set()

    def after_in_child(self) -> None:
        """Begin anew: of all threads only this one is left."""
        self._reset()

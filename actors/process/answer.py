"""The answer that the caller of an actor waits for. It is given once."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Answer:
    """What a caller waits for. Only the first answer counts; a later one is dropped.

    Not pykka's future for threads: each of those has a condition, which is most of what it costs.
    """

    # Most answers are values, and never have an error of their own.
    _given = False
    _value: object = None
    _error: Exception | None = None
    _calls: Sequence[Callable[[], object]] = ()
    """What is to be called once it has come; most callers wait with their thread."""

    def __init__(self) -> None:
        """Begin without an answer."""
        self._first = threading.Lock()
        """Taken by the first that answers, for good."""
        self._there = threading.Lock()
        self._there.acquire()

    def set(self, value: object = None) -> None:
        """Give the answer."""
        if self._first.acquire(blocking=False):
            self._value = value
            self._come()

    def fail(self, error: Exception) -> None:
        """Give an error as the answer."""
        if self._first.acquire(blocking=False):
            self._error = error
            self._come()

    def _come(self) -> None:
        self._given = True
        self._there.release()
        if self._calls:
            self._call()

    def is_there(self) -> bool:
        """Return True if it has come."""
        return self._given

    def wait(self, timeout: float | None) -> bool:
        """Wait until it has come; return True if it has."""
        if self._given:
            return True
        patience = threading.TIMEOUT_MAX if timeout is None else max(timeout, 0.0)
        if self._there.acquire(timeout=min(patience, threading.TIMEOUT_MAX)):
            self._there.release()
        return self._given

    def then(self, call: Callable[[], object]) -> None:
        """Call `call` once it has come, on the thread that gives it; at once if it has."""
        # Of two threads that do this at once, one makes the queue that both use.
        vars(self).setdefault("_calls", deque()).append(call)
        if self._given:
            self._call()

    def forget(self, call: Callable[[], object]) -> None:
        """Call `call` no more, if it was not called yet."""
        with contextlib.suppress(ValueError):
            vars(self)["_calls"].remove(call)

    def _call(self) -> None:
        # The thread that gives it and one that comes as late may both be here: each call is once.
        with contextlib.suppress(IndexError):
            while True:
                vars(self)["_calls"].popleft()()

    def result(self) -> Any:  # noqa: ANN401 -- whatever was answered
        """Return the answer that is there, or raise the error that is."""
        assert self._given, "no answer is there yet"
        if self._error is not None:
            # Each caller has a trace of its own.
            raise self._error.with_traceback(None)
        return self._value

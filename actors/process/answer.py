"""The answer that the caller of an actor waits for. It is given once."""

from __future__ import annotations

import threading
from typing import Any


class Answer:
    """What a caller waits for. Only the first answer counts; a later one is dropped.

    Not pykka's future for threads: each of those has a condition, which is most of what it costs.
    """

    # Most answers are values, and never have an error of their own.
    _given = False
    _value: object = None
    _error: Exception | None = None

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
            self._given = True
            self._there.release()

    def fail(self, error: Exception) -> None:
        """Give an error as the answer."""
        if self._first.acquire(blocking=False):
            self._error = error
            self._given = True
            self._there.release()

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

    def result(self) -> Any:  # noqa: ANN401 -- whatever was answered
        """Return the answer that is there, or raise the error that is."""
        assert self._given, "no answer is there yet"
        if self._error is not None:
            # Each caller has a trace of its own.
            raise self._error.with_traceback(None)
        return self._value

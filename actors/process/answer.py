"""The answer that the caller of an actor waits for: a pykka future that is set once."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pykka
from pykka._future import _Unset

if TYPE_CHECKING:
    from pykka._types import OptExcInfo


class Answer(pykka.Future[Any]):
    """What a caller waits for. Only the first answer counts; a later one is dropped.

    Not pykka's future for threads: each of those has a condition, which is most of what it costs.
    """

    # What pykka's own begins with; most answers never have any of it.
    _get_hook = None
    _get_hook_result: Any = _Unset()
    _given = False
    _value: object = None
    _error: OptExcInfo | None = None

    def __init__(self) -> None:
        """Begin without an answer."""
        self._first = threading.Lock()
        """Taken by the first who answers, for good."""
        self._there = threading.Lock()
        self._there.acquire()

    def set(self, value: object = None) -> None:
        """Give the answer."""
        if self._first.acquire(blocking=False):
            self._value = value
            self._given = True
            self._there.release()

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Give an error as the answer, as pykka has it."""
        if self._first.acquire(blocking=False):
            self._error = sys.exc_info() if exc_info is None else exc_info
            self._given = True
            self._there.release()

    def fail(self, error: Exception) -> None:
        """Give an error as the answer."""
        self.set_exception((type(error), error, None))

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

    def get(self, *, timeout: float | None = None) -> Any:  # noqa: ANN401 -- whatever was answered
        """Wait for the answer and return it, or raise the error that it is, as pykka has it."""
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        if not self.wait(timeout):
            msg = f"{timeout} seconds"
            raise pykka.Timeout(msg)
        return self.result()

    def result(self) -> Any:  # noqa: ANN401 -- whatever was answered
        """Return the answer that is there, or raise the error that is."""
        assert self._given, "no answer is there yet"
        if self._error is None:
            return self._value
        kind, error, trace = self._error
        assert kind is not None
        raise (kind() if error is None else error).with_traceback(trace)

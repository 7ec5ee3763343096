"""What whoever asks an actor waits for: a pykka future that is answered once."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Any

import pykka

if TYPE_CHECKING:
    from pykka._types import OptExcInfo


class Answer(pykka.ThreadingFuture[Any]):
    """What whoever asked waits for. Only the first answer counts; a late one is dropped."""

    def __init__(self) -> None:
        """Begin without an answer."""
        super().__init__()
        self._there = threading.Lock()
        self._there.acquire()
        self._given = False

    def set(self, value: object = None) -> None:
        """Give the answer."""
        # Full is what pykka says when there is one: it looks and sets under one lock.
        with contextlib.suppress(queue.Full):
            super().set(value)
            self._arrive()

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Give an error as the answer, as pykka has it."""
        with contextlib.suppress(queue.Full):
            super().set_exception(exc_info)
            self._arrive()

    def fail(self, error: Exception) -> None:
        """Give an error as the answer."""
        self.set_exception((type(error), error, None))

    def _arrive(self) -> None:
        self._given = True
        self._there.release()

    def is_there(self) -> bool:
        """Tell whether it has come."""
        return self._given

    def wait(self, timeout: float | None) -> bool:
        """Wait until it has come; tell whether it has."""
        patience = threading.TIMEOUT_MAX if timeout is None else max(timeout, 0.0)
        if self._there.acquire(timeout=min(patience, threading.TIMEOUT_MAX)):
            self._there.release()
        return self._given

    def result(self) -> Any:  # noqa: ANN401 -- whatever was answered
        """Return the answer that is there, or raise the error that is."""
        return self.get(timeout=0)

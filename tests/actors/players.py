"""Actors and signs for the tests of what actors run on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actors.process.process import MAILBOX, Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Lane, Scheduler

PATIENCE = 20.0
"""How many seconds a test waits for what must come; it fails then, and does not hang."""


class Sign:
    """Something that is waited for, on threads as by hand."""

    def __init__(self) -> None:
        """Begin before it has come."""
        self._event = threading.Event()

    def give(self) -> None:
        """Let it have come."""
        self._event.set()

    def is_there(self) -> bool:
        """Tell whether it has come."""
        return self._event.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Wait until it has come; tell whether it has."""
        return self._event.wait(timeout)

    def must_come(self) -> None:
        """Wait until it has come, on another thread."""
        assert self.comes()

    def comes(self) -> bool:
        """Wait until it has come, on another thread, but not for ever; tell whether it has."""
        return self._event.wait(PATIENCE)


def rest(scheduler: Scheduler, lane: Lane) -> None:
    """Wait until nothing is left to do in a lane."""
    dry = Sign()
    lane.when_idle(dry.give)
    assert scheduler.wait(dry, PATIENCE)


class Scribe(Process):
    """Writes down what it is told and says it back; raises errors and calls what can be called."""

    def __init__(self, name: str, lane: Lane, *, mailbox: int = MAILBOX) -> None:
        """Begin with an empty page."""
        super().__init__(name, lane, mailbox=mailbox)
        self.heard: list[Any] = []
        self.hooks: list[str] = []

    def on_start(self) -> None:
        """Note it."""
        self.hooks.append("start")

    def on_stop(self) -> None:
        """Note it."""
        self.hooks.append("stop")

    def on_failure(self, *_about: object) -> None:
        """Note it."""
        self.hooks.append("failure")

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Write it down, and do as it says."""
        self.heard.append(message)
        if isinstance(message, BaseException):
            raise message
        return message() if callable(message) else message


class Unwilling(Scribe):
    """Cannot start."""

    def __init__(self, name: str, lane: Lane, start: Callable[[Unwilling], None]) -> None:
        """Begin before the start that fails."""
        super().__init__(name, lane)
        self._how = start

    def on_start(self) -> None:
        """Fail."""
        super().on_start()
        self._how(self)


def raising(error: BaseException) -> Callable[..., None]:
    """Return something that raises this, whatever it is given."""

    def fail(*_given: object) -> None:
        raise error

    return fail


class Unspeakable(Exception):
    """An error that cannot be shown."""

    def __repr__(self) -> str:
        """Fail."""
        raise ValueError

    __str__ = __repr__

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
    """Wait until what is queued in a lane is done, with what follows from it at once."""
    dry = Sign()

    def again(left: int) -> None:
        if left:
            lane.run(lambda: again(left - 1))
        else:
            dry.give()

    again(20)
    assert scheduler.wait(dry, PATIENCE)


class Committed:
    """Has something to commit, and says how far that has come."""

    def __init__(
        self,
        committed: Callable[[], object],
        hand_over: Callable[[], object] = lambda: None,
    ) -> None:
        """Call these two."""
        self._hand_over, self._committed = hand_over, committed

    def hand_over(self) -> None:
        """Hand it over."""
        self._hand_over()

    def committed(self) -> None:
        """Say that it is on disk."""
        self._committed()


class RecordingProcess(Process):
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


class Unwilling(RecordingProcess):
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


def in_turn(*calls: Callable[[], object]) -> Callable[[], None]:
    """Return something that calls these, one after the other."""

    def call() -> None:
        for each in calls:
            each()

    return call


class Unspeakable(Exception):
    """An error that cannot be shown."""

    def __repr__(self) -> str:
        """Fail."""
        raise ValueError

    __str__ = __repr__

"""Runs of tools that are under way in this process, whoever waits for them.

An actor that crashes leaves its tool running: a function cannot be stopped from outside. That is no
doubt yet. Whoever takes over waits for the same run, as asking a probe about it, or running it once
more, would be too early. What it said meanwhile is not lost either.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.tool.context import Cancellation


class RunningCall:
    """One run, and whoever is told how it came out."""

    def __init__(
        self,
        attempt: int | None,
        cancellation: Cancellation,
        tell: Callable[[object], None],
        drop: Callable[[object], None] = lambda _: None,
    ) -> None:
        """Begin; `tell` is how the one who waits is reached, `drop` what is done if none does."""
        self.attempt = attempt
        self.cancellation = cancellation
        self._tell = tell
        self._drop = drop
        self._lock = threading.Lock()
        self._words: deque[object] = deque()
        """What it said on the way and nobody has on record yet."""
        self._outcome: object = None
        self.is_late = False
        """Whether the call has its result already, so that nobody waits for it any more."""

    def take_over(self, tell: Callable[[object], None]) -> None:
        """Tell somebody else from now on: what is not on record yet, and how it came out."""
        with self._lock:
            self._tell = tell
            for word in self._words:
                tell(word)
            outcome = self._outcome
        if outcome is not None:
            tell(outcome)

    def say(self, word: object) -> None:
        """Say something on the way, in order: whoever comes next must not hear it twice."""
        with self._lock:
            if not self.is_late:
                self._words.append(word)
            self._tell(word)

    def heard(self, word: object) -> None:
        """Take note that something is on record: nobody has to hear it again."""
        with self._lock:
            if self._words and self._words[0] is word:
                self._words.popleft()

    def over(self, outcome: object) -> None:
        """Be over: whoever waits is told, and whoever comes next; if nobody will, it is dropped."""
        with self._lock:
            self._outcome = outcome
            tell = self._drop if self.is_late else self._tell
        tell(outcome)

    def end(self) -> object:
        """Take note that nobody waits for it any more; return what it came to by now, or None."""
        with self._lock:
            self.is_late = True
            return self._outcome

    def abandon(self) -> None:
        """Take note that nobody will wait for it any more, and drop what it came to."""
        if (outcome := self.end()) is not None:
            self._drop(outcome)


class RunningCalls:
    """The runs of one runtime, by conversation and call, until their results are recorded."""

    def __init__(self) -> None:
        """Begin without any."""
        self._runs: dict[tuple[str, str], RunningCall] = {}
        self.warned: dict[tuple[str, str], int] = {}
        """When it was said last of a call that waits for a human that its time runs short."""

    def begin(self, conversation: str, call: str, run: RunningCall) -> None:
        """Take note of a run."""
        self._runs[conversation, call] = run

    def find(self, conversation: str, call: str) -> RunningCall | None:
        """Return the run of a call, under way or just over."""
        return self._runs.get((conversation, call))

    def end(self, conversation: str, call: str) -> object:
        """Forget a run: how the call came out is recorded. Return what the run came to by now."""
        run = self._runs.pop((conversation, call), None)
        return None if run is None else run.end()

    def close(self) -> None:
        """Drop what comes from now on: those who waited are gone, and did not record it."""
        while self._runs:
            self._runs.popitem()[1].abandon()

"""Tool calls that are running in this process, also after the actor that began them has ended.

An actor that crashes leaves its tool running: a function cannot be stopped from outside. The call
is not in doubt yet. The next actor of the call waits for the same run: it would be too early to ask
a probe about it, or to run it again. The progress that it reported meanwhile is not lost either.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.tool.context import Cancellation


class RunningCall:
    """One run of a tool, and the actor that is told its outcome."""

    def __init__(
        self,
        attempt: int | None,
        cancellation: Cancellation,
        tell: Callable[[object], None],
        drop: Callable[[object], None] = lambda _: None,
    ) -> None:
        """Begin; `tell` reaches the actor that waits, `drop` takes an outcome that is too late."""
        self.attempt = attempt
        self.cancellation = cancellation
        self._tell = tell
        self._drop = drop
        self._lock = threading.Lock()
        self._words: deque[object] = deque()
        """Progress that was reported and is not in the log yet."""
        self._outcome: object = None
        self.is_late = False
        """Whether the call has its result already, so that no actor waits for the run."""

    def take_over(self, tell: Callable[[object], None]) -> None:
        """Tell another actor from now on, first what is not in the log yet, then the outcome."""
        with self._lock:
            self._tell = tell
            for word in self._words:
                tell(word)
            outcome = self._outcome
        if outcome is not None:
            tell(outcome)

    def say(self, word: object) -> None:
        """Report progress, in order; it is kept for the next actor until it is in the log."""
        with self._lock:
            if not self.is_late:
                self._words.append(word)
            self._tell(word)

    def recorded(self, word: object) -> None:
        """Forget progress that is in the log now."""
        with self._lock:
            if self._words and self._words[0] is word:
                self._words.popleft()

    def over(self, outcome: object) -> None:
        """Tell the outcome to the actor that waits; drop it if the call has its result already."""
        with self._lock:
            self._outcome = outcome
            tell = self._drop if self.is_late else self._tell
        tell(outcome)

    def end(self) -> object:
        """Record that no actor waits for it any more; return its outcome, None if it still runs."""
        with self._lock:
            self.is_late = True
            return self._outcome

    def abandon(self) -> None:
        """Record that no actor will wait for it any more, and drop its outcome."""
        if (outcome := self.end()) is not None:
            self._drop(outcome)


class RunningCalls:
    """The runs of one runtime, by conversation and call, until their results are recorded."""

    def __init__(self) -> None:
        """Begin without any."""
        self._runs: dict[tuple[str, str], RunningCall] = {}
        self.warned: dict[tuple[str, str], int] = {}
        """When operators were last warned that a call's time to be approved runs short."""

    def begin(self, conversation: str, call: str, run: RunningCall) -> None:
        """Add a run."""
        self._runs[conversation, call] = run

    def find(self, conversation: str, call: str) -> RunningCall | None:
        """Return the run of a call, under way or just over."""
        return self._runs.get((conversation, call))

    def end(self, conversation: str, call: str) -> object:
        """Forget a run whose call has its result; return the run's outcome, None if it runs."""
        run = self._runs.pop((conversation, call), None)
        return None if run is None else run.end()

    def close(self) -> None:
        """Drop all outcomes from now on: the actors that waited for them have ended."""
        while self._runs:
            self._runs.popitem()[1].abandon()

"""Waking: what a long conversation comes to is read beside all actors, before its own begin.

Meanwhile it is neither asleep nor awake: messages to it wait, and others go on. Nothing is written,
so a kill in between leaves nothing; what was read is used only if it is what the log has by then.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from actors.errors import Overloaded
from actors.operator_log import log as operator
from actors.scheduling.pool import letting_others
from actors.shell.entities import StartingState
from actors.shell.snapshot_policy import replayed
from runelog.errors import RunefoldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.kind import Kind, Kinds
    from actors.ports import Steps
    from actors.shell.conversation import Services
    from runelog.log import Log
    from runelog.rune import Envelope

LONG: Final = 1_000
"""A conversation of more events than that is read before it wakes."""


class _LettingOthers:
    """A log whose streams are read with regard to others."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the log has
        return getattr(self._log, name)

    def stream(self, *where: Any) -> Iterator[Envelope]:  # noqa: ANN401 -- as a log takes it
        """Read a stream, and let the loop go first from time to time."""
        return letting_others(self._log.stream(*where))


class Waking:
    """The conversations that are waking."""

    def __init__(self, log: Log, services: Services, kinds: Kinds) -> None:
        """Begin with none."""
        self._log = log
        self._services = services
        self._kinds = kinds
        self._lock = threading.Lock()
        self._then: dict[str, list[Callable[[], object]]] = {}
        """What is to be done once a conversation has been read."""
        self._states: dict[str, dict[str, StartingState]] = {}
        """What was read of conversations that are about to wake."""

    def __contains__(self, conversation: str) -> bool:
        """Return True if a conversation is being read."""
        return conversation in self._then

    def when_read(self, conversation: str, then: Callable[[], object]) -> None:
        """Call `then` once a conversation is ready to wake: at once, if it is short."""
        with self._lock:
            waiting = self._then.get(conversation)
            if waiting is not None:
                waiting.append(then)
                return
            if is_long := self._is_long(conversation):
                self._then[conversation] = [then]
        if not is_long:
            then()
            return
        try:
            self._services.scheduler.work(f"{conversation} waking", self._steps(conversation))
        except Overloaded:
            # Its actors read for themselves.
            self._ready(conversation, {})

    def take(self, conversation: str) -> dict[str, StartingState]:
        """Return what was read of a conversation that wakes now, by entity."""
        with self._lock:
            return self._states.pop(conversation, {})

    def _is_long(self, conversation: str) -> bool:
        try:
            return self._log.conversation(conversation).head > LONG
        except RunefoldError:
            return False

    def _steps(self, conversation: str) -> Steps:
        """Read the root, and all that it begins with."""
        states: dict[str, StartingState] = {}
        try:
            yield None
            root = self._kinds.root(conversation)
            first = self._read(conversation, root, root.prefix)
            states[root.prefix] = first
            names = {child.child for child in first.state.children}
            names.update(work.entity for work in self._log.open_work(conversation))
            # Those by which others decide, such as the budget.
            names.update(kind.lifecycle.reads for kind in self._kinds if kind.lifecycle.reads)
            for name in sorted(names):
                kind = self._kinds.of(name)
                if kind is not None and name not in states:
                    yield None
                    states[name] = self._read(conversation, kind, name)
        except Exception as error:  # noqa: BLE001 -- its actors read again, and say what is wrong
            operator.debug("not_read_ahead", conversation=conversation, reason=str(error))
        return lambda: self._ready(conversation, states)

    def _read(self, conversation: str, kind: Kind, name: str) -> StartingState:
        every = self._services.snapshot_every
        state: Any
        log: Any = _LettingOthers(self._log)
        state, event, version = replayed(log, conversation, kind, name, every)
        return StartingState(state, version, event)

    def _ready(self, conversation: str, states: dict[str, StartingState]) -> None:
        with self._lock:
            if states:
                self._states[conversation] = states
            waiting = self._then.pop(conversation)
        for then in waiting:
            then()

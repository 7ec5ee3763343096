"""A program that does nothing but run a runtime: it stays until it is told to end."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runefold.runtime import Runtime

WORDS: Final = (signal.SIGTERM, signal.SIGINT)


def until_told(
    runtime: Runtime,
    *,
    timeout: float = 30.0,
    signals: Sequence[signal.Signals] = WORDS,
    ready: Callable[[], object] | None = None,
) -> None:
    """Keep a runtime running until one of these signals comes, then drain it and close it.

    Running turns have `timeout` seconds to end and are interrupted then. For the main thread. A
    second signal does what it did before: it ends the process. `ready` is called once signals are
    listened to: a process that is told that this runs may end it from then on.
    """
    told = threading.Event()
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for word, handler in before.items():
            signal.signal(word, handler)

    for word in signals:
        before[word] = signal.signal(word, lambda *_: told.set())
    try:
        if ready is not None:
            ready()
        told.wait()
    finally:
        restore()
    runtime.close(drain=True, timeout=timeout)

"""What a running call has around it: its id, a way to say how it goes, a word that it should stop.

A tool's function reaches all of it without a parameter:

    def crawl(site: str) -> int:
        for page in pages(site):
            stop_if_cancelled()
            progress(f"reading {page}")

Outside a call, in a test of the function for instance, `progress` says nothing and nothing is ever
cancelled: the function runs as any other.
"""

from __future__ import annotations

import contextlib
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NewType, Protocol, Self

from actors.redaction.redactor import DEFAULT, Redactor
from actors.tool.output import plain
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CallId = NewType("CallId", str)
"""The id of a call: the same across restarts, so that a service can take it as idempotency key.

A function has it passed to a parameter that is annotated `CallId`; the model never sees that one.
"""


class Cancelled(BaseException):
    """The call was told to stop. Not an `Exception`: what a tool catches as such is its errors."""


class Cancellation:
    """A word from another thread that a call should stop. It is given once and stays.

    >>> cancellation = Cancellation()
    >>> with cancellation.calling(lambda: print("stopping")):
    ...     cancellation.cancel()
    stopping
    >>> cancellation.cancelled
    True
    """

    def __init__(self) -> None:
        """Begin without any wish to stop."""
        self._lock = threading.Lock()
        self._cancelled = False
        self._told: threading.Event | None = None
        """Made only if a call waits: few do, and it costs more than all the rest."""
        self._callbacks: dict[object, Callable[[], object]] = {}

    @property
    def cancelled(self) -> bool:
        """Whether the call should stop."""
        return self._cancelled

    def cancel(self) -> None:
        """Tell the call to stop, from whichever thread; a second time changes nothing."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            if self._told is not None:
                self._told.set()
            for callback in self._callbacks.values():
                # Called under the lock, so that none comes after its `calling` has ended.
                callback()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the word, at most `timeout` seconds; return True if it came."""
        with self._lock:
            if self._cancelled:
                return True
            if self._told is None:
                self._told = threading.Event()
        return self._told.wait(timeout)

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Have `callback` called by `cancel` while the block runs, at once if it was before.

        It must neither block nor raise: it runs on the thread that cancels.
        """
        key = object()
        with self._lock:
            self._callbacks[key] = callback
            if self._cancelled:
                callback()
        try:
            yield
        finally:
            with self._lock:
                del self._callbacks[key]


class Progress(Protocol):
    """Takes what a call says on the way: on which stream, and what."""

    def __call__(self, stream: str, chunk: str, /) -> object:
        """Take one piece."""
        ...


def _unheard(_stream: str, _chunk: str, /) -> None:
    """Drop it: progress is not recorded here."""


def _no_secrets(name: str) -> str:
    msg = f"no secret is named {name!r} here: register it where the runtime is opened"
    raise Refused(msg)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run of a tool, as its adapter is given it.

    >>> Call(call_id="call_1", arguments={"city": "Oslo"}).arguments
    {'city': 'Oslo'}
    """

    call_id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """As they are in the log: what JSON knows, secrets by name only."""
    timeout: float | None = None
    """Seconds left; None leaves it to the tool's own time limit."""
    progress: Progress = _unheard
    cancellation: Cancellation = field(default_factory=Cancellation)
    secret: Callable[[str], str] = _no_secrets
    """Gives the value of a secret by its name, or raises. Only adapters ask."""
    conversation: str = ""
    caller: str = ""
    """The entity that calls: a turn, or any machine."""
    agent_id: str = ""
    """Whose turn it is called in; empty if the caller is no turn."""
    redactor: Redactor = DEFAULT
    """Keeps secrets out of what it says. Whatever an adapter lets through is looked at again."""
    hidden: tuple[str, ...] = ()
    """Directories that a program must not see: the log's."""

    def saying(self, progress: Progress) -> Self:
        """Return the same call, with what it says going to `progress`."""
        # Not `dataclasses.replace`, which takes longer than many a tool.
        call = object.__new__(type(self))
        vars(call).update(vars(self), progress=progress)
        return call


_current: ContextVar[Call | None] = ContextVar("runefold_call", default=None)


@contextlib.contextmanager
def during(call: Call) -> Iterator[None]:
    """Make `call` the current one while the block runs: for adapters."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)


def progress(text: str, stream: str = "progress") -> None:
    """Say how the current call is getting on: recorded as it comes, shown to who watches.

    What is no text is said as one: a tool does not fail of how it tells what it has done.
    """
    if (call := _current.get()) is not None:
        # What takes it in makes it plain: of a text that is not shown there is to be no copy.
        call.progress(plain(str(stream)), str(text))


def cancelled() -> bool:
    """Return True if the current call should stop."""
    call = _current.get()
    return call is not None and call.cancellation.cancelled


def stop_if_cancelled() -> None:
    """Leave the current call here if it should stop: raises `Cancelled`."""
    if cancelled():
        msg = "the call was cancelled"
        raise Cancelled(msg)

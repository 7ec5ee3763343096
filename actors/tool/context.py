"""What a call has around it: for whom it is made, a way to say how it goes, a word to stop.

A function of the app's, whether tool, probe or policy, gets its `Context` by a parameter that is
annotated so. The functions of this module reach the same context without a parameter:

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
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    NewType,
    Protocol,
    TypeVar,
)

from actors.redaction.redactor import DEFAULT, Redactor
from actors.tool.output import plain
from actors.units import SECOND
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.shell.conversation import ConversationContext

App = TypeVar("App")

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


class CallingAgent(NamedTuple):
    """The agent in whose turn a tool is called."""

    id: str = ""
    name: str = ""
    """What it is called in its session."""


_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_APP: Final = (
    "there is no app object here: pass app=... to Runtime.open; for `runefold policy-check`, name "
    "the app that does, with --app MODULE:BUILD"
)


class Context(Generic[App]):
    """For whom a tool, a probe or a policy is called, and what it can use while it is.

    A function gets it by a parameter with this annotation, which a model is never shown. For tests
    it can be made by hand.

    >>> from actors.tool.adapters.function import tool
    >>> @tool(side_effects=False)
    ... def balance(context: Context[dict[str, int]]) -> int:
    ...     "Look up the customer's balance."
    ...     return context.app[context.client_id]
    >>> balance.spec.parameters["properties"]
    {}
    >>> balance(Context(client_id="ada", app={"ada": 12}))
    12
    """

    __slots__ = (
        "_app",
        "_cancellation",
        "_now",
        "_progress",
        "agent",
        "call_id",
        "caller",
        "client_id",
        "labels",
        "session_id",
    )

    def __init__(  # noqa: PLR0913 -- all by name, and most left out
        self,
        *,
        session_id: str = "",
        labels: Mapping[str, str] = _NO_LABELS,
        client_id: str = "",
        agent: CallingAgent = CallingAgent(),  # noqa: B008 -- it cannot change
        caller: str = "",
        call_id: str = "",
        app: App | None = None,
        now: Callable[[], float] = time.time,
        progress: Progress = _unheard,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Say for whom; `now` gives the time in seconds since 1970."""
        self.session_id: Final = session_id
        self.labels: Final[Mapping[str, str]] = MappingProxyType({**labels})
        """Those that the session was created with."""
        self.client_id: Final = client_id
        """The client that the session was created for; empty if none was named."""
        self.agent: Final = agent
        """The agent in whose turn it is called; without id and name if a machine calls."""
        self.caller: Final = caller
        """The entity that calls: a turn, or any machine."""
        self.call_id: Final = call_id
        """The same across restarts, so that a service can take it as idempotency key."""
        self._app: Final = app
        self._now: Final = now
        self._progress: Final = progress
        self._cancellation: Final = cancellation

    def __repr__(self) -> str:
        """Name the call; the app's object is not shown."""
        return f"<Context of {self.call_id} in {self.session_id}>"

    @property
    def turn_id(self) -> str:
        """The turn that calls; empty if a machine does."""
        return self.caller if self.agent.id else ""

    @property
    def app(self) -> App:
        """The object that the runtime was opened with: `Runtime.open(..., app=...)`."""
        if self._app is None:
            raise Refused(_NO_APP)
        return self._app

    def now(self) -> float:
        """Return the time by the runtime's clock, in seconds since 1970, UTC."""
        return self._now()

    @property
    def cancelled(self) -> bool:
        """Whether the call should stop."""
        return self._cancellation is not None and self._cancellation.cancelled

    def stop_if_cancelled(self) -> None:
        """Leave the call here if it should stop: raises `Cancelled`."""
        if self.cancelled:
            msg = "the call was cancelled"
            raise Cancelled(msg)

    def progress(self, text: str, stream: str = "progress") -> None:
        """Say how the call is getting on: recorded as it comes, shown to who watches.

        What is no text is said as one: a tool does not fail of how it tells what it has done.
        """
        # What takes it in makes it plain: of a text that is not shown there is to be no copy.
        self._progress(plain(str(stream)), str(text))


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
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of the session."""
    client_id: str = ""
    """The client that the session is for."""
    caller: str = ""
    """The entity that calls: a turn, or any machine."""
    agent_id: str = ""
    """Whose turn it is called in; empty if the caller is no turn."""
    agent_name: str = ""
    """What that agent is called in its session."""
    app: Any = None
    """The object that the runtime was opened with."""
    clock: Callable[[], int] = time.time_ns
    redactor: Redactor = DEFAULT
    """Keeps secrets out of what it says. Whatever an adapter lets through is looked at again."""
    hidden: tuple[str, ...] = ()
    """Directories that a program must not see: the log's."""

    def context(self, progress: Progress | None = None) -> Context[Any]:
        """Return what the app's function may know of it; what it says goes to `progress`."""
        return Context(
            session_id=self.conversation,
            labels=self.labels,
            client_id=self.client_id,
            agent=CallingAgent(self.agent_id, self.agent_name),
            caller=self.caller,
            call_id=self.call_id,
            app=self.app,
            now=lambda: self.clock() / SECOND,
            progress=progress or self.progress,
            cancellation=self.cancellation,
        )


def surroundings(ctx: ConversationContext, caller: str, agent_id: str) -> dict[str, Any]:
    """Return what a `Call` has of its conversation and its app. It is called on a lane.

    All of it is a fold of the log, apart from the app's object: after a crash it is the same.
    """
    origin, services = ctx.origin(), ctx.services
    return {
        "conversation": ctx.conversation,
        "labels": origin.labels,
        "client_id": origin.client_id,
        "caller": caller,
        "agent_id": agent_id,
        "agent_name": ctx.name_of(agent_id),
        "app": services.app,
        "clock": services.clock.now,
    }


_current: ContextVar[Context[Any] | None] = ContextVar("runefold_call", default=None)


@contextlib.contextmanager
def during(context: Context[Any]) -> Iterator[None]:
    """Make `context` that of the current call while the block runs: for adapters."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def progress(text: str, stream: str = "progress") -> None:
    """Say how the current call is getting on, as `Context.progress` does."""
    if (context := _current.get()) is not None:
        context.progress(text, stream)


def cancelled() -> bool:
    """Return True if the current call should stop."""
    context = _current.get()
    return context is not None and context.cancelled


def stop_if_cancelled() -> None:
    """Leave the current call here if it should stop: raises `Cancelled`."""
    if (context := _current.get()) is not None:
        context.stop_if_cancelled()

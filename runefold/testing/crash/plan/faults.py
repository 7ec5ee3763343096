"""What can go wrong without a kill: models, tools, disks and clocks.

Which of them an app must not notice at all: a model that is asked again, a disk that has room again
and a clock that was set come to the same end. After the others a turn may end in an error; but it
ends, nothing is done twice, and every invariant holds.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, cast

from actors.model.provider import Done, Failure, Pause, Text, ToolCall
from actors.tool.adapters.function import FunctionTool
from actors.tool.outcome import Outcome
from actors.tool.spec import returned
from runelog.errors import LogFailed, LogFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.model.provider import Event, Request
    from actors.tool.context import Call
    from actors.tool.spec import Tool, ToolSpec
    from runelog.log import Log

UNNOTICED: Final = frozenset(
    {
        "provider-429",
        "provider-500",
        "provider-timeout",
        "provider-cut",
        "provider-slow",
        "provider-hangs",
        "disk-full",
        "sync-eio",
        "sync-lost",
        "clock-back",
    }
)
"""Faults after which everything comes to the same end."""

OF_DISKS: Final = frozenset({"disk-full", "sync-eio", "sync-lost"})
"""Faults that are reported to the writer: to the actors, and to the app."""
UNTOLD: Final = frozenset({"provider-429", "provider-500", "provider-cut", "clock-back"})
"""Faults of which an app is told nothing at all, not even that something takes too long."""
RAISED: Final = frozenset({"tool-raises", "tool-breaks", "provider-raises", "provider-refuses"})
"""Faults in which an app's own code raises: that must be told."""
INSTEAD: Final = "provider-garbage"
"""The fault in which something answers in place of a model."""
WORDS: Final = "made to fail by the crash kit"

LONG: Final = 24 * 3600.0
"""Seconds for which nothing comes from a model that is timed out."""
A_WHILE: Final = 10.0
"""Seconds that a slow model pauses."""
JUMP: Final = 3600.0
"""Seconds by which a clock is set forward or back."""
FLOOD: Final = 2 << 20
"""How many bytes a tool returns that floods; a limit of its own cuts most of them off."""


_EIO: Final = "fdatasync failed with EIO (made up by the crash kit): open the log again"


class Time(Protocol):
    """A clock that faults can be played on."""

    def hurry(self) -> None:
        """Have time pass quickly from now on, so that a time limit is reached."""
        ...

    def hasten(self) -> None:
        """Have pauses be over soon from now on, but no time limit: those are to be kept again."""
        ...

    def jump(self, seconds: float) -> None:
        """Be set forward or back."""
        ...

    def outlast(self, call: Call) -> None:
        """Return when the time limit of a call is over and has been reported."""
        ...

    def hang(self, is_over: Callable[[], bool]) -> None:
        """Block this thread until no caller waits for it, if it can be blocked."""
        ...


class MadeToFail(Exception):
    """Raised by a tool or a model, as the crash kit had it."""


class ActorKilled(Exception):
    """One actor of the app dies here."""


class Faults:
    """Plays faults on whatever is watched."""

    def __init__(self, time: Time | None = None) -> None:
        """Use a clock, if the fault needs one."""
        self.time = time

    @contextlib.contextmanager
    def _hurried(self) -> Iterator[None]:
        """Have time pass quickly until the caller gives up."""
        if self.time is None:
            yield
            return
        self.time.hurry()
        try:
            yield
        finally:
            self.time.hasten()

    # -- models -------------------------------------------------------------------------------

    def of_model(
        self, fault: str, real: Callable[[], Iterator[Event]], request: Request
    ) -> Iterator[Event]:
        """Answer in place of a model, or change what it answers."""
        match fault:
            case "provider-429":
                yield Failure("rate_limited", "429 Too Many Requests", retryable=True)
            case "provider-500":
                yield Failure("server_error", "500 Internal Server Error", retryable=True)
            case "provider-timeout":
                with self._hurried():
                    yield Pause(LONG)
                yield Failure("timeout", "nobody waited for this", retryable=True)
            case "provider-cut":
                yield from _half(real())
            case "provider-hangs":
                # In the middle, and silent: it looks like a model that thinks.
                yield from _half(real())
                with self._hurried():
                    if self.time is not None:
                        self.time.hang(request.cancelled)
                    yield Pause(LONG)
                yield Failure("timeout", "nobody waited for this", retryable=True)
            case "provider-raises":
                yield from _half(real())
                _fail()
            case "provider-slow":
                with self._hurried():
                    for event in real():
                        yield Pause(A_WHILE)
                        yield event
            case _:
                yield from self._garbage(request)

    @staticmethod
    def _garbage(request: Request) -> Iterator[Event]:
        yield Text("\ud800 \x00 <|im_end|>")
        yield ToolCall("no such tool \x1b[2J", "{{{")
        yield cast("Event", object()) if request.round % 2 == 0 else Done("\x00")

    @staticmethod
    def refuse() -> NoReturn:
        """Raise in place of a model, before there is anything to read."""
        _fail()

    # -- tools --------------------------------------------------------------------------------

    def of_tool(
        self, fault: str, real: Callable[[], Outcome], call: Call, spec: ToolSpec
    ) -> Outcome:
        """Fail in place of a tool, or change what it returns."""
        match fault:
            case "tool-hangs":
                with self._hurried():
                    if self.time is not None:
                        self.time.outlast(call)
                return Outcome("cancelled", error="it was told to stop")
            case _:
                real()
                for _ in range(100):
                    call.progress("stdout", "x" * 1_000)
                return returned("x" * FLOOD, spec)

    # -- the log and the clock ----------------------------------------------------------------

    def of_log(self, kind: str, log: Log) -> None:
        """Have the disk fail, or the clock be set."""
        match kind:
            case "disk-full":
                if self.time is not None:
                    self.time.hasten()
                msg = "no room for more (made up by the crash kit): nothing is lost"
                raise LogFull(msg)
            case "sync-eio":
                failed = LogFailed(_EIO)
                cast("Any", log).fail(failed)
                raise failed
            case "sync-lost":
                cast("Any", log).lose(LogFailed(_EIO))
            case "clock-forward" if self.time is not None:
                self.time.jump(JUMP)
            case "clock-back" if self.time is not None:
                self.time.jump(-JUMP)
            case _:
                pass


def raising(tool: Tool, *, late: bool = False) -> Tool:
    """Return a tool that raises when it is run, where its own code would: what it is stays.

    Late, it does all that it should first: it is the answer that is lost, as on a bad line.
    """
    if not isinstance(tool, FunctionTool):
        return _Raising(tool, late=late)
    found = copy.copy(tool)
    real = vars(tool)["_function"]
    waits = inspect.iscoroutinefunction(inspect.unwrap(tool))

    def fail(*given: Any, **named: Any) -> NoReturn:  # noqa: ANN401 -- whatever the tool takes
        if late:
            real(*given, **named)
        _fail()

    async def fail_later(*given: Any, **named: Any) -> NoReturn:  # noqa: ANN401 -- as above
        if late:
            await real(*given, **named)
        _fail()

    vars(found)["_function"] = fail_later if waits else fail
    return found


class _Raising:
    """A tool that is no function, and raises."""

    def __init__(self, tool: Tool, *, late: bool) -> None:
        self._tool = tool
        self._late = late
        self.spec = tool.spec
        self.fit = tool.fit

    def run(self, call: Call) -> Outcome:
        if self._late:
            self._tool.run(call)
        _fail()


def _fail() -> NoReturn:
    raise MadeToFail(WORDS)


def _half(events: Iterator[Event]) -> list[Event]:
    kept: list[Event] = [event for event in events if not isinstance(event, Done | Failure)]
    return kept[: max(1, len(kept) // 2)]

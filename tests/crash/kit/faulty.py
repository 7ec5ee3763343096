"""Apps for the faults of the crash kit: a tool that is no function, and runtimes with one bug each.

A bug is put in where the app lives, and dies with it: nobody takes it out again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NoReturn
from unittest import mock

from actors.model.performer import ModelCalls
from actors.model.stream import Stream
from actors.shell.write_buffer import WriteBuffer
from actors.tool import actor as tools
from actors.tool.adapters.function import FunctionTool, tool
from runefold.runtime import Runtime
from tests.crash.kit import bots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from actors.model.provider import Event
    from actors.tool.context import Call
    from actors.tool.outcome import Outcome
    from actors.tool.spec import Tool


class OwnTool:
    """A tool that an app wrote from scratch."""

    def __init__(self, inner: FunctionTool[Any, Any]) -> None:
        """Do what a function does."""
        self._inner = inner
        self.spec = inner.spec

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them."""
        return self._inner.fit(arguments)

    def run(self, call: Call) -> Outcome:
        """Run the function."""
        return self._inner.run(call)


@tool
def pay(cents: int) -> str:
    """Pay somebody."""
    return f"{cents} paid"


def build_own(directory: Path) -> Runtime:
    """Open a bot with such a tool."""
    return Runtime.open(directory, tools=[OwnTool(pay)], providers={"bot": bots.MODEL})


def _put(where: object, name: str, bug: object) -> None:
    mock.patch.object(where, name, bug).start()


def _functions_may_raise() -> None:
    """Pass on what a function raises."""
    real = FunctionTool.run

    def run(self: FunctionTool[Any, Any], call: Call) -> Outcome:
        outcome = real(self, call)
        if outcome.status == "error":
            raise RuntimeError(outcome.error)
        return outcome

    _put(FunctionTool, "run", run)
    _tools_may_raise()


def _tools_may_raise() -> None:
    """Tell nobody that a tool has raised."""

    def run(tool_: Tool, call: Call) -> Outcome:
        return tool_.run(call)

    _put(tools, "_outcome", run)


def _models_may_raise() -> None:
    """Tell nobody that a model has raised in the middle of its answer."""

    def failed(_stream: Stream, error: BaseException) -> NoReturn:
        raise error

    _put(Stream, "_failed", failed)


def _models_may_refuse() -> None:
    """Tell nobody that a model has raised before it said anything."""

    def asked(_stream: Stream, provider: Any, request: Any) -> Iterator[Event]:  # noqa: ANN401 -- as they come
        return iter(provider.stream(request))

    _put(Stream, "_asked", asked)


def _silence_is_golden() -> None:
    """Wait for a model for as long as it likes."""
    watch = ModelCalls._watch

    def deaf(calls: ModelCalls, call_id: str, call: Any, now: int) -> None:  # noqa: ANN401 -- as given
        if not calls._state(call_id).begun:
            watch(calls, call_id, call, now)

    _put(ModelCalls, "_watch", deaf)


def _written_for_sure() -> None:
    """Take what the log says it could not keep for kept."""

    def keep(_buffer: WriteBuffer, do: Callable[[], None]) -> None:
        with contextlib.suppress(Exception):
            do()

    _put(WriteBuffer, "_keep", keep)


BUGS: Final[Mapping[str, Callable[[], None]]] = {
    "functions may raise": _functions_may_raise,
    "tools may raise": _tools_may_raise,
    "models may raise": _models_may_raise,
    "models may refuse": _models_may_refuse,
    "silence is golden": _silence_is_golden,
    "written for sure": _written_for_sure,
}


class Bugged:
    """Opens an app in a runtime with a bug; without one, if it is called nothing."""

    def __init__(self, build: Callable[[Path], Runtime], bug: str) -> None:
        """Name the bug: this goes to other processes."""
        self._build = build
        self._bug = bug

    def __call__(self, directory: Path) -> Runtime:
        """Open it."""
        if self._bug:
            BUGS[self._bug]()
        return self._build(directory)

"""A model that says what it was told to say: for tests, demos and benchmarks.

What it answers depends on the request alone, so that a crash in the middle changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from actors.model.provider import Done, Event, Failure, Pause, Text, ToolCall, Used
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.model.provider import Price, Request

Line: TypeAlias = str | Event
Reply: TypeAlias = Sequence[Line] | str
Script: TypeAlias = Sequence[Reply] | Callable[["Request"], Reply]


def call(name: str, /, **arguments: object) -> ToolCall:
    """Ask for a tool.

    >>> call("add", a=2, b=3)
    ToolCall(name='add', arguments='{"a": 2, "b": 3}')
    """
    return ToolCall(name, json.dumps(arguments))


def pause(seconds: float) -> Pause:
    """Say nothing for a while."""
    return Pause(seconds)


def fail(error_type: str, message: str = "", *, retryable: bool = False) -> Failure:
    """Break off, as a provider does that is overloaded or down."""
    return Failure(error_type, message, retryable)


class Scripted:
    """Answers by a script: a list of replies, one for each answer of a conversation, or a function.

    A reply is a text, or a list of fragments and events. The n-th request with n - 1 answers of the
    model in its history gets the n-th reply; the last one is given again and again.

    >>> from actors.model.provider import Message, Request
    >>> model = Scripted([["It is ", "five."]])
    >>> list(model.stream(Request("demo", "", [Message("user", "2 + 3?")])))[:2]
    [Text(text='It is '), Text(text='five.')]
    """

    price: Price | None = None
    """What it is charged at, if it is."""

    def __init__(self, script: Script, *, blocks: bool | None = None) -> None:
        """Take the script; a function may block, if `blocks` does not say that it never does."""
        if not callable(script) and (isinstance(script, str) or not script):
            msg = "a script is a list of replies, or a function from a request to a reply"
            raise Refused(msg)
        self._script = script
        self.blocks = callable(script) if blocks is None else blocks

    def stream(self, request: Request) -> Iterator[Event]:
        """Yield the reply to a request."""
        lines = self._reply(request)
        said: list[str] = []
        line: Line = ""
        for line in [lines] if isinstance(lines, str) else lines:
            if isinstance(line, str):
                said.append(line)
                yield Text(line)
                continue
            if isinstance(line, Text):
                said.append(line.text)
            if isinstance(line, Done):
                yield self._used(request, said)
            yield line
        if not isinstance(line, Done | Failure):
            yield self._used(request, said)
            yield Done()

    def _reply(self, request: Request) -> Reply:
        if callable(self._script):
            return self._script(request)
        said = sum(message.role == "assistant" for message in request.messages)
        return self._script[min(said, len(self._script) - 1)]

    @staticmethod
    def _used(request: Request, said: list[str]) -> Used:
        asked = sum(len(message.text.split()) for message in request.messages[-1:])
        return Used(input_tokens=asked, output_tokens=len(" ".join(said).split()))

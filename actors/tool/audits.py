"""Tools: every call comes to one result, none begins that may not, and each stays in its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.audit import Audit, Found
from actors.tool import runes as tool
from actors.tool.runes import SANDBOX
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope


class _Call:
    """What is known of one tool call."""

    __slots__ = ("done", "forbidden", "name", "offline", "turn", "waits")

    def __init__(self, rune: tool.Called) -> None:
        self.name = rune.tool_name
        self.turn = rune.caller
        self.offline = not rune.rule.network
        """Its tool declares that it uses no network."""
        self.waits = rune.rule.verdict == "ask"
        """For a human."""
        self.forbidden = rune.rule.verdict not in {"allow", "ask"}
        self.done = False


class Tools(Audit):
    """Every call comes to one result, none begins that may not, each stays in its bounds."""

    holds = (
        "INV-TOOL-TERMINAL",
        "INV-TOOL-CALL-BEFORE-RESULT",
        "INV-TOOL-APPROVAL-BEFORE-EXEC",
        "INV-TOOL-SANDBOX",
    )

    def __init__(self) -> None:
        """Begin before the first call."""
        self._calls: dict[str, _Call] = {}
        self._open: dict[str, dict[str, _Call]] = {}
        """The calls without a result, by their turn."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong about a step of a call."""
        at = envelope.event_id
        match rune := envelope.payload:
            case tool.Called(call_id=name):
                if name in self._calls:
                    yield Found("INV-TOOL-TERMINAL", at, f"{name} is called a second time")
                call = self._calls[name] = _Call(rune)
                self._open.setdefault(call.turn, {})[name] = call
            case tool.Result(call_id=name):
                yield from self._result(at, name)
            case tool.Started(call_id=name) | tool.Retried(call_id=name):
                yield from self._begins(at, name, kind_of(rune))
            case tool.Progress(call_id=name, stream=stream, chunk=chunk) if stream == SANDBOX:
                yield from self._escapes(at, name, chunk)
            case tool.ApprovalRequested(call_id=name) if name in self._calls:
                self._calls[name].waits = True
            case tool.Approved(call_id=name) if name in self._calls:
                self._calls[name].waits = False
            case tool.Denied(call_id=name) if name in self._calls:
                self._calls[name].forbidden = True
            case _:
                pass

    def _result(self, at: int, name: str) -> Iterator[Found]:
        call = self._calls.get(name)
        if call is None:
            yield Found("INV-TOOL-CALL-BEFORE-RESULT", at, f"{name} has a result and no call")
            return
        if call.done:
            yield Found("INV-TOOL-TERMINAL", at, f"{name} has a second result")
        call.done = True
        self._open.get(call.turn, {}).pop(name, None)

    def _begins(self, at: int, name: str, kind: str) -> Iterator[Found]:
        call = self._calls.get(name)
        if call is None:
            yield Found("INV-TOOL-CALL-BEFORE-RESULT", at, f"{name} has {kind} and no call")
        elif call.forbidden or call.waits:
            why = "it may not run" if call.forbidden else "it was not approved"
            yield Found("INV-TOOL-APPROVAL-BEFORE-EXEC", at, f"{name} has {kind} and {why}")

    def _escapes(self, at: int, name: str, how: str) -> Iterator[Found]:
        call = self._calls.get(name)
        if call is not None and call.offline:
            message = f"{name} ({call.name}) was not kept within its bounds: {how}"
            yield Found("INV-TOOL-SANDBOX", at, message)

    def ended(self, at: int, entity: str) -> Iterator[Found]:
        """Yield the calls that their caller has left behind."""
        for call in self._open.pop(entity, ()):
            yield Found("INV-TOOL-TERMINAL", at, f"{entity} ended and {call} has no result")

    def rest(self, at: int) -> Iterator[Found]:
        """Yield the calls without a result."""
        for calls in self._open.values():
            for call in calls:
                yield Found("INV-TOOL-TERMINAL", at, f"{call} has no result")

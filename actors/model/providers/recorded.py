"""A model that says again what it said in a conversation that is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.model.call_ids import of_key, of_round
from actors.model.provider import Done, Event, Failure, Text, ToolCall, Used
from actors.model.runes import AssistantDelta, Cancelled, Completed, Failed
from actors.units import COST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.model.provider import Request
    from runelog.log import Log
    from runelog.rune import Rune


class Recorded:
    """Plays the answers of a conversation back, turn by turn and round by round.

    Of several attempts in a round the last one counts, which is the one the turn went on with.
    """

    blocks = False

    def __init__(self, log: Log, conversation: str) -> None:
        """Take the answers from this conversation."""
        self._log = log
        self._conversation = conversation

    def stream(self, request: Request) -> Iterator[Event]:
        """Yield what was answered then at the same place."""
        found: list[Rune] = []
        for call in self._calls(request):
            if not self._log.version(self._conversation, call):
                break
            found = [e.payload for e in self._log.stream(self._conversation, call)]
        if not found:
            at = repr(request.key) if request.key else f"round {request.round}"
            yield Failure(
                "not_recorded",
                f"{self._conversation} has no answer for {at} of {request.caller}: "
                "the conversation has taken another way",
            )
            return
        for rune in found:
            yield from _events(rune)

    def _calls(self, request: Request) -> Iterator[str]:
        """Yield the ids that the call has in that conversation, one for each attempt."""
        if request.key:
            yield of_key(self._conversation, request.caller, request.key)
            return
        for attempt in range(_MOST):
            yield of_round(request.caller, request.round, attempt)


_MOST = 1_000
"""More attempts than any turn makes."""


def _events(rune: Rune) -> Iterator[Event]:
    match rune:
        case AssistantDelta(text=text):
            yield Text(text)
        case Completed(calls=calls, usage=usage, stop_reason=reason):
            for asked in calls:
                arguments = asked.raw or msgspec.json.encode(asked.arguments).decode()
                yield ToolCall(asked.tool_name, arguments, asked.provider_id)
            if usage is not None:
                yield Used(output_tokens=usage.tokens, cost=usage.cost / COST)
            yield Done(reason or "stop")
        case Failed(error_type=error_type, message=message, retryable=retryable):
            yield Failure(error_type, message, retryable)
        case Cancelled(reason=reason):
            yield Failure("cancelled", reason)
        case _:
            pass

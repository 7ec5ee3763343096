"""What happens to a call of a model."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from actors.budget.runes import Amounts
from actors.entity import Moved
from runelog.rune import Rune

CRASH: Final = "crash"
"""The type of error when the log says that the call was made, and not how it ended."""


class AskedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the model asks for, under the id that its call will have."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any] = {}
    raw: str = ""
    """The arguments as the model wrote them, where they could not be read."""


class Called(Rune, frozen=True, tag="model.called"):
    """A caller asks a model: the birth of the call."""

    model_call_id: str
    caller: str
    """The entity that asks: a turn, or any machine."""
    model: str
    upto: int
    """The last event that the caller knew of: up to there history is sent."""
    prompt: str
    """The hash of what is sent beside a turn's history: system prompt and tool list.

    Of another caller it is the hash of the whole request, which follows from its state at `upto`.
    """
    reserved: Amounts
    first_byte_by: int
    """When the first byte must be there, in nanoseconds."""
    agent_id: str = ""
    """Whose turn it is; empty if the caller is no turn."""
    payer: str = ""
    """The account that it is charged to, if that is not its agent's."""
    round: int = 0
    """How many times the turn had its tools run before."""
    attempt: int = 0
    """How many times it was asked in vain in this round before."""
    turn_by: int | None = None
    """When the turn must be over, if its time began anew because a human was waited for."""
    sent: int = 0
    """About how many tokens are sent; the rest of what is reserved is for the answer."""

    @property
    def account(self) -> str:
        """The account that it is charged to."""
        return self.payer or self.agent_id


class AssistantDelta(Rune, frozen=True, tag="turn.assistant_delta"):
    """A fragment of the answer. Nothing may depend on where one ends and the next begins."""

    text: str


class Completed(Moved, frozen=True, tag="model.completed"):
    """The answer is all there; its text is in the fragments."""

    model_call_id: str
    calls: tuple[AskedCall, ...] = ()
    usage: Amounts = Amounts()
    stop_reason: str = ""


class Failed(Moved, frozen=True, tag="model.failed"):
    """There will be no more of the answer."""

    model_call_id: str
    error_type: str
    message: str = ""
    retryable: bool = False
    usage: Amounts = Amounts()


class Cancelled(Moved, frozen=True, tag="model.cancelled"):
    """Its caller wants no more of the answer."""

    model_call_id: str
    reason: str
    usage: Amounts = Amounts()

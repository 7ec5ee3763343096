"""What happens to a call of a model."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from actors.budget.runes import Amounts, Reserves, Settles
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
    provider_id: str = ""
    """What its provider calls it."""


class Called(Reserves, frozen=True, tag="model.called"):
    """A caller asks a model: the birth of the call."""

    model_call_id: str
    caller: str
    """The entity that asks: a turn, or any machine."""
    model: str
    upto: int
    """The last event that the caller knew of: up to there history is sent."""
    prompt: str
    """The hash of what is sent beside the messages: system prompt and tool list."""
    reserved: Amounts
    first_byte_by: int
    """When the first byte must be there, in nanoseconds."""
    agent_id: str = ""
    """Whose turn it is; empty if the caller is no turn."""
    account: str = ""
    """The account that it is charged to."""
    round: int = 0
    """How many times the turn had its tools run before."""
    attempt: int = 0
    """How many times it was asked in vain in this round before."""
    turn_by: int | None = None
    """When the turn must be over, if its time began anew because a human was waited for."""
    request: str = ""
    """The hash of all that is sent: see `actors.model.request_hash`."""
    made_by: int = 0
    """The version of the code that made the messages out of runes: that of a turn's history, or of
    the law of another caller."""
    sent: int = 0
    """About how many tokens are sent; the rest of what is reserved is for the answer."""

    @property
    def key(self) -> str:
        """The id of the call."""
        return self.model_call_id


class AssistantDelta(Rune, frozen=True, tag="turn.assistant_delta"):
    """A fragment of the answer. Nothing may depend on where one ends and the next begins."""

    text: str


class _End(Settles, Moved, frozen=True):
    """How a call ended."""

    model_call_id: str

    @property
    def key(self) -> str:
        """The id of the call."""
        return self.model_call_id


class Completed(_End, frozen=True, tag="model.completed"):
    """The answer is all there; its text is in the fragments."""

    calls: tuple[AskedCall, ...] = ()
    usage: Amounts | None = None
    """What the provider said that it used; None if it did not say."""
    charged: Amounts = Amounts()
    """What it is charged with: by what was used, or as estimated."""
    estimated: bool = False
    stop_reason: str = ""


class Failed(_End, frozen=True, tag="model.failed"):
    """There will be no more of the answer."""

    error_type: str
    message: str = ""
    retryable: bool = False
    usage: Amounts | None = None
    charged: Amounts = Amounts()
    estimated: bool = False
    frames: tuple[str, ...] = ()
    """Where an error went through the app's own code, the innermost at the end."""


class Cancelled(_End, frozen=True, tag="model.cancelled"):
    """Its caller wants no more of the answer."""

    reason: str
    usage: Amounts | None = None
    charged: Amounts = Amounts()
    estimated: bool = False

"""What a machine may have due beside effects of its own: calls, questions, children, requests.

`actors.machine.Machine` performs these for the law that has them due. Each has a key of the law's
choice, from which the id of the call or the approval follows: asked for again after a crash, it is
the same call. How a tool call or an approval ends, the law observes. How a model call ended is told
to the law as a command, `Answered` or `NotAnswered`, with the words of the model.

A law does not end while a call of its own is under way: it has `StopCall` due and waits for the
end. Nothing else would end the call after a crash.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from actors.budget.runes import Amounts
from actors.entity import keyed
from actors.model import call_ids
from actors.model.provider import Message
from actors.model.runes import AskedCall
from actors.public_command import Command
from actors.questions import AskHuman
from actors.request import runes as requests
from actors.tool import runes as tools


class CallTool(msgspec.Struct, frozen=True):
    """Call a tool. Due until its `tool.result` is observed."""

    key: str
    tool: str
    arguments: dict[str, Any] = {}
    raw: str = ""
    """The arguments as a model wrote them, where they could not be read: a result says so."""

    def __hash__(self) -> int:
        """Return a hash of the key, which names the call within its entity."""
        return hash(self.key)

    def call_id(self, conversation: str, entity: str) -> str:
        """Return the id of the call."""
        return keyed(tools.PREFIX, conversation, entity, self.key)


class CallModel(msgspec.Struct, frozen=True):
    """Ask a model. Due until the law has taken `Answered` or `NotAnswered` for its key.

    The law decides whether it is asked again: under another key.
    """

    key: str
    model: str
    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()
    """The names of registered tools that the model may ask for. The law calls them, or does not."""
    max_output_tokens: int = 4096
    first_byte_timeout: float = 60.0
    """Seconds until something of the answer must be there."""
    silence_timeout: float = 60.0
    """Seconds in which nothing more of it may come."""

    def __hash__(self) -> int:
        """Return a hash of the key, which names the call within its entity."""
        return hash(self.key)

    def call_id(self, conversation: str, entity: str) -> str:
        """Return the id of the call."""
        return call_ids.of_key(conversation, entity, self.key)


class StopCall(msgspec.Struct, frozen=True):
    """Cancel a call of a tool or a model. Due beside that, until it has come to its end."""

    key: str
    reason: str


class BearChild(msgspec.Struct, frozen=True):
    """Bear an entity of another kind. Due until `child.ended` is observed.

    That has the `key`, the `phase` in which the child ended, and what its kind says of that
    (`answer`); or why it was `refused`. Meanwhile it is in the table of children, by its key.
    """

    key: str
    kind: str
    """The name of its kind."""
    command: msgspec.Struct
    """One that begins such an entity."""

    def __hash__(self) -> int:
        """Return a hash of the key, which names the child within its entity."""
        return hash(self.key)

    def child_id(self, prefix: str, conversation: str, entity: str) -> str:
        """Return the id of the child."""
        return keyed(prefix, conversation, entity, self.key)


class EndChild(msgspec.Struct, frozen=True):
    """Tell a child to `Cancel`. Due beside its `BearChild`, until it has come to its end."""

    key: str
    reason: str


class Request(msgspec.Struct, frozen=True):
    """Ask another conversation to begin an entity. Due until `request.answered` is observed.

    That has the `key`, how the entity ended (`phase`), and what its kind says of that (`answer`).
    """

    key: str
    conversation: str
    command: Command
    """One that begins an entity."""

    def __hash__(self) -> int:
        """Return a hash of the key, which names the request within its entity."""
        return hash(self.key)

    def request_id(self, conversation: str, entity: str) -> str:
        """Return the id of the request."""
        return keyed(requests.PREFIX, conversation, entity, self.key)

    def child_id(self, prefix: str, conversation: str, entity: str) -> str:
        """Return the id of the entity in the other conversation."""
        return keyed(prefix, conversation, entity, self.key)


class StopRequest(msgspec.Struct, frozen=True):
    """Withdraw a request. Due beside its `Request`; what it began is told to stop."""

    key: str
    reason: str

    def request_id(self, conversation: str, entity: str) -> str:
        """Return the id of the request."""
        return keyed(requests.PREFIX, conversation, entity, self.key)


class Answered(msgspec.Struct, frozen=True):
    """A command to the law: the model has answered. It must not leave `CallModel` due."""

    key: str
    text: str = ""
    calls: tuple[AskedCall, ...] = ()
    """The tools that the model asks for."""
    usage: Amounts = Amounts()
    """What the call was charged with."""
    stop_reason: str = ""


class NotAnswered(msgspec.Struct, frozen=True):
    """A command to the law: there will be no answer. It must not leave `CallModel` due."""

    key: str
    error_type: str
    """`unknown_model`, `unknown_tool`, `budget_exhausted`, `timeout`, `crash`, `cancelled`, or what
    the provider calls its failure."""
    message: str = ""
    retryable: bool = False
    """Whether the same request may well work a little later."""
    text: str = ""
    """What the model had said until then."""
    usage: Amounts = Amounts()
    """What the call was charged with."""


CANCELLED = "cancelled"
"""The type of error of a call that was stopped."""

Effect: TypeAlias = (
    CallTool | CallModel | StopCall | AskHuman | BearChild | EndChild | Request | StopRequest
)

"""What a machine may have due beside effects of its own: calls of tools, and questions to humans.

`actors.machine.Machine` performs these for whichever law asks for them. Each has a key of the
law's choice, from which the id of the call or the approval follows: asked for again after a crash,
it is the same call.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

import msgspec

from actors.public_command import Command


def _id(prefix: str, conversation: str, entity: str, key: str) -> str:
    """Return the id that belongs to a key, the same in every process."""
    name = f"{prefix}\0{conversation}\0{entity}\0{key}"
    return f"{prefix}_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


class CallTool(msgspec.Struct, frozen=True):
    """Call a tool. Due until its `tool.result` is observed."""

    key: str
    tool: str
    arguments: dict[str, Any] = {}

    def __hash__(self) -> int:
        """Return a hash of the key, which names the call within its entity."""
        return hash(self.key)

    def call_id(self, conversation: str, entity: str) -> str:
        """Return the id of the call."""
        return _id("call", conversation, entity, self.key)


class StopCall(msgspec.Struct, frozen=True):
    """Cancel a call that is under way. Due beside its `CallTool`; its result says how it ended."""

    key: str
    reason: str

    def call_id(self, conversation: str, entity: str) -> str:
        """Return the id of the call."""
        return _id("call", conversation, entity, self.key)


class AskHuman(msgspec.Struct, frozen=True):
    """Ask a human to approve something. Due until `approval.approved` or `rejected` is observed.

    If it is due no more before that, the question is withdrawn.
    """

    key: str
    reason: str

    def approval_id(self, conversation: str, entity: str) -> str:
        """Return the id of the approval."""
        return _id("apr", conversation, entity, self.key)


class Conclude(msgspec.Struct, frozen=True):
    """Tell an approval that its asker goes on, or wants no answer any more."""

    reason: str = ""


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
        return _id("req", conversation, entity, self.key)

    def child_id(self, prefix: str, conversation: str, entity: str) -> str:
        """Return the id of the entity in the other conversation."""
        return _id(prefix, conversation, entity, self.key)


class StopRequest(msgspec.Struct, frozen=True):
    """Withdraw a request. Due beside its `Request`; what it began is told to stop."""

    key: str
    reason: str

    def request_id(self, conversation: str, entity: str) -> str:
        """Return the id of the request."""
        return _id("req", conversation, entity, self.key)


Effect: TypeAlias = CallTool | StopCall | AskHuman | Request | StopRequest

"""A hash of all that a provider is sent: model, system prompt, tools, settings and messages.

A model call keeps it, with the version of the code that made the messages out of runes. So it can
be told later whether a request that is made again from the log is the one that was sent. What only
names a call (its id, its conversation, its caller) is no part of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.model.provider import Message

SETTINGS: Final = ("model", "system", "tools", "max_output_tokens")
"""The fields of a request that are sent beside its messages."""
_SIZE: Final = 16
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class MessagesHash:
    """A hash of messages, to which further ones are added: each is looked at once."""

    def __init__(self) -> None:
        """Begin before the first message."""
        self._hash = hashlib.blake2b(digest_size=_SIZE)
        self.count = 0
        """How many messages are in it."""

    def add(self, messages: Sequence[Message]) -> None:
        """Add the messages that are not in it: those from `count` on."""
        for message in messages[self.count :]:
            self._hash.update(_framed(_encode(message)))
        self.count = len(messages)

    def value(self) -> bytes:
        """Return the hash of all messages so far."""
        return self._hash.digest()


def request_hash(settings: Mapping[str, Any], messages: MessagesHash) -> str:
    """Return the hash of a request that has these fields and messages."""
    found = hashlib.blake2b(digest_size=_SIZE)
    found.update(_framed(_encode([settings[name] for name in SETTINGS])))
    found.update(messages.value())
    return found.hexdigest()


def _framed(encoded: bytes) -> bytes:
    """Return bytes with their length before them, so that no two sequences of them are alike."""
    return len(encoded).to_bytes(8, "big") + encoded

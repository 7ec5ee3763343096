"""About how many tokens a text is, where no provider has counted them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from actors.model.provider import Message

CHARACTERS: Final = 4
"""About so many make a token."""


def tokens_of(characters: int) -> int:
    """Return about how many tokens so many characters are: where there are any, not none.

    >>> tokens_of(4_000), tokens_of(1), tokens_of(0)
    (1000, 1, 0)
    """
    return -(-characters // CHARACTERS)


def length_of(text: str) -> int:
    """Return how long a text is, as an estimate of tokens counts: letters of far alphabets more.

    >>> length_of("cat"), length_of("猫")
    (3, 3)
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def length_of_message(message: Message) -> int:
    """Return how long a message is, with the calls that it asks for."""
    length = length_of(message.text)
    for asked in message.calls:
        shown = length_of(asked.raw) or len(msgspec.json.encode(asked.arguments))
        length += length_of(asked.name) + shown
    return length

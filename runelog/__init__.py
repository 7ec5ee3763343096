"""Remember: the append-only, crash-safe log of runes, and how runes become state.

A rune is an immutable record of something that happened; a conversation is the unit of order and of
isolation; a lifecycle is the law by which an entity's runes fold into its state. This package knows
no entity by name, and nothing outside the log is ever authoritative.

Here are the words of the log, which need no disk; the logs themselves are in `runelog.store` and
`runelog.memory`, and all of it is offered by `runefold`.
"""

from runelog.codec import Codec
from runelog.rune import Appended, Change, Conversation, Envelope, Gap, Rune, Visibility, Work

__all__ = [
    "Appended",
    "Change",
    "Codec",
    "Conversation",
    "Envelope",
    "Gap",
    "Rune",
    "Visibility",
    "Work",
]

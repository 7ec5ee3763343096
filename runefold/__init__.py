"""The front door: what users import and run.

>>> from runefold import Change, Codec, MemoryLog, Rune
>>> class Noted(Rune, frozen=True, tag="note.taken"):
...     text: str
>>> with MemoryLog(Codec([Noted])) as log:
...     appended = log.append("conv_a", [Change("note_1", 0, [Noted(text="hi")])])
...     [envelope.payload for envelope in log.read("conv_a")]
[Noted(text='hi')]
"""

from runefold import _own

# First of all, or an intruder would be imported below under one of our names.
_own.check()

from runelog.codec import Codec
from runelog.errors import (
    BadId,
    BadStream,
    Busy,
    Closed,
    Cold,
    Corrupt,
    Fault,
    Fenced,
    Forked,
    Gone,
    Held,
    IllegalTransition,
    LogFailed,
    LogFull,
    NewerFormat,
    NotALog,
    ReadOnly,
    Refused,
    RunefoldError,
    TooLarge,
    UnknownConversation,
    WrongVersion,
)
from runelog.lifecycle import BrokenLaw, ByField, Lifecycle, Table, Timeout, fold, refusal, step
from runelog.memory import MemoryLog
from runelog.replay import replay
from runelog.rune import (
    Appended,
    Change,
    Conversation,
    Envelope,
    Gap,
    Rune,
    Tombstone,
    Unknown,
    Visibility,
    Work,
)
from runelog.store import Runelog

__version__ = "0.1.0.dev0"

__all__ = [
    "Appended",
    "BadId",
    "BadStream",
    "BrokenLaw",
    "Busy",
    "ByField",
    "Change",
    "Closed",
    "Codec",
    "Cold",
    "Conversation",
    "Corrupt",
    "Envelope",
    "Fault",
    "Fenced",
    "Forked",
    "Gap",
    "Gone",
    "Held",
    "IllegalTransition",
    "Lifecycle",
    "LogFailed",
    "LogFull",
    "MemoryLog",
    "NewerFormat",
    "NotALog",
    "ReadOnly",
    "Refused",
    "Rune",
    "RunefoldError",
    "Runelog",
    "Table",
    "Timeout",
    "Tombstone",
    "TooLarge",
    "Unknown",
    "UnknownConversation",
    "Visibility",
    "Work",
    "WrongVersion",
    "__version__",
    "fold",
    "refusal",
    "replay",
    "step",
]

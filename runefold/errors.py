"""Every error that is raised on purpose; all but `BrokenLaw` are `RunefoldError`s.

What was asked for is `Refused`: nothing was written, and the message says what to do instead. A
`Fault` comes from outside: a disk, another process, a call that took too long. `Corrupt` and
`IllegalTransition` mean damage or a bug: catch them at the edge of the program only.

>>> from runefold.errors import BadTool, Refused
>>> issubclass(BadTool, Refused)
True
"""

from actors.errors import Crashed, Dead, Overloaded, StartFailed, Unanswered
from actors.tool.spec import BadTool
from runefold.control.client import NoRuntime
from runefold.control.wire import Broken
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
    OldManifest,
    ReadOnly,
    Refused,
    RunefoldError,
    TooLarge,
    UnknownConversation,
    WrongVersion,
)
from runelog.lifecycle import BrokenLaw

__all__ = [
    "BadId",
    "BadStream",
    "BadTool",
    "Broken",
    "BrokenLaw",
    "Busy",
    "Closed",
    "Cold",
    "Corrupt",
    "Crashed",
    "Dead",
    "Fault",
    "Fenced",
    "Forked",
    "Gone",
    "Held",
    "IllegalTransition",
    "LogFailed",
    "LogFull",
    "NewerFormat",
    "NoRuntime",
    "NotALog",
    "OldManifest",
    "Overloaded",
    "ReadOnly",
    "Refused",
    "RunefoldError",
    "StartFailed",
    "TooLarge",
    "Unanswered",
    "UnknownConversation",
    "WrongVersion",
]

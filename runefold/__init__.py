"""The front door: what users import and run.

>>> import tempfile
>>> from runefold import AgentSpec, Runtime, tool
>>> from runefold.providers import Scripted, call
>>> @tool(idempotent=True, timeout=5)
... def add(a: int, b: int) -> int:
...     "Add two numbers."
...     return a + b
>>> model = Scripted([["Let me see. ", call("add", a=2, b=3)], ["It is five."]])
>>> with Runtime.open(tempfile.mkdtemp(), tools=[add], providers={"demo": model}) as runtime:
...     session = runtime.create_session(AgentSpec(role="helper", model="demo", tools=["add"]))
...     session.send("What is 2 + 3?").result(timeout=10).output
'It is five.'
"""

from runefold import _own

# First of all, or an intruder would be imported below under one of our names.
_own.check()

from actors.errors import Crashed, Dead, Overloaded, StartFailed, Unanswered
from actors.tool.adapters.command import CommandTool, Limits
from actors.tool.adapters.function import tool
from actors.tool.context import CallId, cancelled, progress, stop_if_cancelled
from actors.tool.outcome import Happened
from actors.tool.policy import Policy
from actors.tool.sandbox.isolation import Isolation
from actors.tool.secrets import Secret
from actors.tool.spec import ToolSpec
from runefold.agents import AgentTool, HandOver
from runefold.observe.session_list import Approval
from runefold.runtime import Runtime
from runefold.sessions import Session
from runefold.spec import AgentSpec, Budget
from runefold.turns import Turn, TurnResult
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
    OldManifest,
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
    "AgentSpec",
    "AgentTool",
    "Appended",
    "Approval",
    "BadId",
    "BadStream",
    "BrokenLaw",
    "Budget",
    "Busy",
    "ByField",
    "CallId",
    "Change",
    "Closed",
    "Codec",
    "Cold",
    "CommandTool",
    "Conversation",
    "Corrupt",
    "Crashed",
    "Dead",
    "Envelope",
    "Fault",
    "Fenced",
    "Forked",
    "Gap",
    "Gone",
    "HandOver",
    "Happened",
    "Held",
    "IllegalTransition",
    "Isolation",
    "Lifecycle",
    "Limits",
    "LogFailed",
    "LogFull",
    "MemoryLog",
    "NewerFormat",
    "NotALog",
    "OldManifest",
    "Overloaded",
    "Policy",
    "ReadOnly",
    "Refused",
    "Rune",
    "RunefoldError",
    "Runelog",
    "Runtime",
    "Secret",
    "Session",
    "StartFailed",
    "Table",
    "Timeout",
    "Tombstone",
    "TooLarge",
    "ToolSpec",
    "Turn",
    "TurnResult",
    "Unanswered",
    "Unknown",
    "UnknownConversation",
    "Visibility",
    "Work",
    "WrongVersion",
    "__version__",
    "cancelled",
    "fold",
    "progress",
    "refusal",
    "replay",
    "step",
    "stop_if_cancelled",
    "tool",
]

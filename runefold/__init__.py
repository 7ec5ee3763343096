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

Errors are in `runefold.errors`, what models are made of in `runefold.providers`, the log and its
words in `runelog`.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from runefold import _own

# First of all, or an intruder would be imported below under one of our names.
_own.check()

if TYPE_CHECKING:
    from actors.tool.adapters.command import CommandTool, Limits
    from actors.tool.adapters.function import tool
    from actors.tool.context import CallId, Context, cancelled, progress, stop_if_cancelled
    from actors.tool.outcome import Happened
    from actors.tool.policy import Policy
    from actors.tool.sandbox.isolation import Isolation
    from actors.tool.secrets import Secret
    from actors.tool.spec import ToolSpec
    from runefold import errors as errors
    from runefold.agents import AgentTool, HandOver
    from runefold.async_runtime import AsyncRuntime
    from runefold.async_sessions import AsyncSession, AsyncTurn
    from runefold.observe.session_list import Approval, InDoubt
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runefold.spec import AgentSpec, Budget
    from runefold.turns import Turn, TurnResult
    from runelog.rune import Envelope, Gap, Visibility

__version__ = "0.1.0.dev0"

__all__ = [
    "AgentSpec",
    "AgentTool",
    "Approval",
    "AsyncRuntime",
    "AsyncSession",
    "AsyncTurn",
    "Budget",
    "CallId",
    "CommandTool",
    "Context",
    "Envelope",
    "Gap",
    "HandOver",
    "Happened",
    "InDoubt",
    "Isolation",
    "Limits",
    "Policy",
    "Runtime",
    "Secret",
    "Session",
    "ToolSpec",
    "Turn",
    "TurnResult",
    "Visibility",
    "__version__",
    "cancelled",
    "progress",
    "stop_if_cancelled",
    "tool",
]

_HOMES: Final = {
    "actors.tool.adapters.command": ("CommandTool", "Limits"),
    "actors.tool.adapters.function": ("tool",),
    "actors.tool.context": ("CallId", "Context", "cancelled", "progress", "stop_if_cancelled"),
    "actors.tool.outcome": ("Happened",),
    "actors.tool.policy": ("Policy",),
    "actors.tool.sandbox.isolation": ("Isolation",),
    "actors.tool.secrets": ("Secret",),
    "actors.tool.spec": ("ToolSpec",),
    "runefold.agents": ("AgentTool", "HandOver"),
    "runefold.async_runtime": ("AsyncRuntime",),
    "runefold.async_sessions": ("AsyncSession", "AsyncTurn"),
    "runefold.observe.session_list": ("Approval", "InDoubt"),
    "runefold.runtime": ("Runtime",),
    "runefold.sessions": ("Session",),
    "runefold.spec": ("AgentSpec", "Budget"),
    "runefold.turns": ("Turn", "TurnResult"),
    "runelog.rune": ("Envelope", "Gap", "Visibility"),
}
_MODULES: Final = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:
    # A type checker knows the names above; any other one is an error.

    def __getattr__(name: str) -> Any:  # noqa: ANN401 -- any name above
        """Import a name at its first use: to read a log takes few of the modules."""
        if name == "errors":
            return importlib.import_module("runefold.errors")
        if name not in _MODULES:
            msg = f"module 'runefold' has no attribute {name!r}"
            raise AttributeError(msg)
        found = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return found


def __dir__() -> list[str]:
    """Return the public names, those not imported yet as well."""
    return __all__

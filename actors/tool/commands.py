"""What may be asked of a tool call, and what it asks for.

`Cancel`, `Recover` and `TimeUp`, which it understands too, are common to several laws.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from actors.budget.runes import Exhausted
from actors.commands import Cancel, Recover, TimeUp

# -- commands ----------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True):
    """Go on with a call that is newborn or approved. Also an effect: it is due inward."""


class Go(msgspec.Struct, frozen=True):
    """Begin a call that was held until those before it were done."""

    now: int
    afford: Exhausted | None = None
    """What the budget says against it by now; None if it fits."""


class Approve(msgspec.Struct, frozen=True):
    """Let it run."""

    approval_id: str
    approver: str
    now: int
    afford: Exhausted | None = None
    """What the budget says against it by now; None if it fits."""
    process: str = ""
    """The other process through which it was said, if it was."""


class Deny(msgspec.Struct, frozen=True):
    """Have it not run; for a call in doubt, give up."""

    approval_id: str
    approver: str
    reason: str
    now: int
    process: str = ""
    """The other process through which it was said, if it was."""


class Answer(msgspec.Struct, frozen=True):
    """Say what is to become of a call in doubt."""

    approval_id: str
    approver: str
    verdict: Literal["rerun", "happened", "give_up"]
    now: int
    output: Any = None
    """What came out of it, if it happened."""
    process: str = ""
    """The other process through which it was said, if it was."""


class Report(msgspec.Struct, frozen=True):
    """Pass on what the tool said on the way."""

    stream: str
    chunk: str


class Finish(msgspec.Struct, frozen=True):
    """Say what came out of it."""

    output: Any = None
    truncated: int = 0


class Fail(msgspec.Struct, frozen=True):
    """Say what went wrong."""

    error: str
    status: Literal["error", "timeout", "cancelled"] = "error"
    """Its adapter may have given it up before its deadline was noticed here."""
    output: Any = None
    """What it had to say until then."""
    truncated: int = 0
    attempt: int | None = None
    """The run that failed; None for whichever is under way."""
    stopped: Cancel | None = None
    """Why it was stopped, and who wanted it, if somebody did."""


class Abandon(msgspec.Struct, frozen=True):
    """Say that nothing here can run or probe it: its tool is not registered any more."""

    reason: str


class Probed(msgspec.Struct, frozen=True):
    """Say what the probe found out about a run."""

    attempt: int
    happened: bool | None
    """None if it cannot say."""
    now: int
    output: Any = None
    """What came out of it, if it happened."""


HumanWord: TypeAlias = Approve | Deny | Answer
"""What a human may say about a call that waits for one."""
Command: TypeAlias = (
    Begin | Go | HumanWord | Report | Finish | Fail | Abandon | Probed | TimeUp | Cancel | Recover
)


# -- effects -----------------------------------------------------------------------------------


class RunTool(msgspec.Struct, frozen=True):
    """The adapter has to run the tool."""

    call_id: str
    attempt: int


class Probe(msgspec.Struct, frozen=True):
    """The tool's probe has to say what became of a run."""

    call_id: str
    attempt: int


Effect: TypeAlias = Begin | RunTool | Probe

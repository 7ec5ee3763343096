"""What happens to a call of a tool."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from actors.budget.runes import Amounts, Reserves, Settles
from actors.entity import Moved
from actors.units import SECOND
from runelog.rune import Rune

Ruling: TypeAlias = Literal["allow", "ask", "deny", "unknown_tool", "bad_arguments"]
"""What is to become of a call: the policy's three answers, and two that come before any policy."""
InDoubt: TypeAlias = Literal["rerun", "probe", "ask", "unknown"]
"""What to do about a call that began before a crash and whose outcome is not in the log."""
Status: TypeAlias = Literal["success", "error", "timeout", "cancelled", "denied", "unknown"]
"""How a call came out."""
IN_DOUBT = "in_doubt"
"""What leads to a step of a call that began before a crash and whose outcome is not in the log."""

SANDBOX = "sandbox"
"""The stream of progress on which a command tool says that it could not be kept in its bounds."""

TIMEOUT = 120 * SECOND
"""How long a tool may take unless it says otherwise."""
PREFIX: Final = "call"
"""What the ids of calls begin with."""
APPROVAL_TIMEOUT = 24 * 3600 * SECOND
"""How long a human has for an answer unless the tool says otherwise."""


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything a call's law knows of its tool, fixed when it is called."""

    verdict: Ruling
    reason: str = ""
    """Why; for a call that cannot be made, words the model can act on."""
    rules_hash: str = ""
    """The rules that gave the verdict, so that it can be judged again under others."""
    tools_hash: str = ""
    """The tool list under which it was called."""
    in_doubt: InDoubt = "unknown"
    idempotent: bool = False
    """Whether a second run under the same call id does no more than the first.

    So it is of whatever has no side effects. Nothing else is run again without being asked about.
    """
    timeout: int = TIMEOUT
    approval_timeout: int = APPROVAL_TIMEOUT
    grace: int = 0
    """How long it takes at the most to stop it, once its time is up; 0 if it cannot be stopped."""
    sub_call: bool = False
    """Whether it asks another agent, which is counted as well."""
    network: bool = True
    """Whether it may use the network; if not, it is kept from it, or says that it was not."""
    side_effects: bool = True
    requires_approval: bool = False
    """These two as the tool declared them, so that the call can be judged again."""
    frames: tuple[str, ...] = ()
    """Where the app's policy failed in its own code, if it did."""

    @property
    def cost(self) -> Amounts:
        """What is set aside for a call, and is used once it was begun, however often it is run.

        What an agent that is asked spends then is counted by itself.
        """
        return _SUB_CALL if self.sub_call else _ONE_CALL


_ONE_CALL = Amounts(tool_calls=1)
_SUB_CALL = Amounts(tool_calls=1, sub_calls=1)


class Called(Rune, frozen=True, tag="tool.call"):
    """A caller asks for a tool: the birth of the call."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    caller: str
    """The entity that calls: a turn, or any machine."""
    rule: Rule
    at: int
    """When, in nanoseconds: a call that begins at once counts its deadline from here."""
    agent_id: str = ""
    """Whose turn it is; empty if the caller is no turn."""
    hold: bool = False
    """Whether it waits until those before it are done."""
    raw: str = ""
    """The arguments as the model wrote them, where they could not be read."""
    account: str = ""
    """The account that it is charged to."""


class ApprovalRequested(Moved, frozen=True, tag="tool.approval_requested"):
    """A human has to say how it goes on."""

    call_id: str
    policy_reason: str
    deadline: int
    approval_id: str


class Approved(Moved, frozen=True, tag="tool.approved"):
    """A human let it go on; `trigger` says which of the possible answers was given.

    If `actor` is `timeout`, no human said in time what became of a call in doubt: the table leads
    from that question to an unknown outcome only through this rune.
    """

    call_id: str
    approver: str
    at: int = 0
    """When, in nanoseconds: its deadline counts from here."""
    process: str = ""
    """The other process through which the human said so; empty if the app itself passed it on."""


class Denied(Moved, frozen=True, tag="tool.denied"):
    """It may not run; its result follows in the same append."""

    call_id: str
    reason: str
    approver: str = ""
    """The human who said so; empty if the policy did."""
    process: str = ""
    """The other process through which the human said so; empty if the app itself passed it on."""


class Started(Reserves, Moved, frozen=True, tag="tool.started"):
    """It is handed to its adapter; from here on, without a result, it is in doubt."""

    call_id: str
    deadline: int
    account: str = ""
    """The account that it is charged to."""
    reserved: Amounts = Amounts()

    @property
    def key(self) -> str:
        """The id of the call."""
        return self.call_id


class Progress(Rune, frozen=True, tag="tool.progress"):
    """It said something on the way."""

    call_id: str
    stream: str
    chunk: str


class Doubted(Moved, frozen=True, tag="tool.doubted"):
    """It was found started and without a result, and its probe is asked what happened."""

    call_id: str
    deadline: int


class Retried(Moved, frozen=True, tag="tool.retried"):
    """It is run once more under the same id, which its service takes as idempotency key."""

    call_id: str
    reason: str
    attempt: int
    deadline: int


class Result(Settles, Moved, frozen=True, tag="tool.result"):
    """How it came out: exactly one for every call."""

    call_id: str
    status: Status
    output: Any = None
    error: str = ""
    truncated: int = 0
    """How many bytes of the output were cut out."""
    charged: Amounts = Amounts()
    """What it is charged with: nothing, if it never began."""
    estimated: bool = False
    frames: tuple[str, ...] = ()
    """Where an error went through the app's own code, the innermost at the end."""

    @property
    def key(self) -> str:
        """The id of the call."""
        return self.call_id


class Acknowledged(Rune, frozen=True, tag="tool.acknowledged"):
    """A human has seen to a call whose outcome is not known. Its result stays what it is."""

    call_id: str
    by: str
    note: str = ""
    """What was found."""
    process: str = ""
    """The other process through which the human said so; empty if the app itself passed it on."""

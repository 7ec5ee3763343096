"""What happens to an approval.

Every rune names its approval: an entity that observes several must be able to tell them apart.
"""

from __future__ import annotations

from typing import Final

from actors.entity import Moved

PREFIX: Final = "apr"
"""What the ids of approvals begin with."""


class Requested(Moved, frozen=True, tag="approval.requested"):
    """A human has to be asked before the asker goes on: the birth of an approval."""

    approval_id: str
    asker: str
    """The entity that asks: a tool call, or any machine."""
    tools_hash: str
    """The tool list under which it was asked."""
    reason: str
    deadline: int
    """When the question lapses, in nanoseconds."""
    agent_id: str = ""
    """Whose model asked for the call."""
    observed: bool = False
    """Whether the asker observes the answer; a tool call decides it along with its own runes."""


class Awaiting(Moved, frozen=True, tag="approval.awaiting"):
    """It is saved as pending; a human may answer from now on."""

    approval_id: str


class Approved(Moved, frozen=True, tag="approval.approved"):
    """A human said yes."""

    approval_id: str
    approver: str
    process: str = ""
    """The other process through which the human said so; empty if the app itself passed it on."""


class Rejected(Moved, frozen=True, tag="approval.rejected"):
    """A human said no."""

    approval_id: str
    approver: str
    reason: str = ""
    process: str = ""
    """The other process through which the human said so; empty if the app itself passed it on."""


class Executed(Moved, frozen=True, tag="approval.executed"):
    """What was approved has begun."""

    approval_id: str


class Aborted(Moved, frozen=True, tag="approval.aborted"):
    """It will not happen: rejected, lapsed, withdrawn, or no longer wanted."""

    approval_id: str
    reason: str = ""

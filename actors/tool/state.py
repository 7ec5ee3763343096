"""What a tool call can be, and what its runes add up to; `lifecycle` has the picture."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from actors.budget.runes import Exhausted
from actors.tool.runes import (
    ApprovalRequested,
    Approved,
    Called,
    Denied,
    Progress,
    Result,
    Retried,
    Rule,
    Started,
    Status,
)
from runelog.lifecycle import ByField, Table


class Phase(StrEnum):
    """What a call can be."""

    PENDING_CALL = "pending_call"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    COMPLETED_RESULT = "completed_result"
    ERROR_RESULT = "error_result"
    TIMEOUT_RESULT = "timeout_result"
    CANCELLED_RESULT = "cancelled_result"
    DENIED = "denied"
    UNKNOWN_RESULT = "unknown_result"


TABLE: Final[Table[Phase]] = {
    Phase.PENDING_CALL: {
        ApprovalRequested: Phase.AWAITING_APPROVAL,
        Started: Phase.EXECUTING,
        Denied: Phase.DENIED,
        Result: ByField(
            "status", {"cancelled": Phase.CANCELLED_RESULT, "error": Phase.ERROR_RESULT}
        ),
    },
    Phase.AWAITING_APPROVAL: {
        Approved: Phase.EXECUTING,
        Denied: Phase.DENIED,
        Result: ByField(
            "status", {"timeout": Phase.TIMEOUT_RESULT, "cancelled": Phase.CANCELLED_RESULT}
        ),
    },
    Phase.EXECUTING: {
        Started: Phase.EXECUTING,
        Progress: Phase.EXECUTING,
        Retried: Phase.EXECUTING,
        ApprovalRequested: Phase.AWAITING_APPROVAL,
        Result: ByField(
            "status",
            {
                "success": Phase.COMPLETED_RESULT,
                "error": Phase.ERROR_RESULT,
                "timeout": Phase.TIMEOUT_RESULT,
                "cancelled": Phase.CANCELLED_RESULT,
                "unknown": Phase.UNKNOWN_RESULT,
            },
        ),
    },
    Phase.COMPLETED_RESULT: {},
    Phase.ERROR_RESULT: {},
    Phase.TIMEOUT_RESULT: {},
    Phase.CANCELLED_RESULT: {},
    Phase.DENIED: {},
    Phase.UNKNOWN_RESULT: {},
}


_UNBORN: Final = Called(
    call_id="",
    tool_name="",
    arguments={},
    turn_id="",
    agent_id="",
    rule=Rule(verdict="deny"),
    at=0,
    # Nothing is due before there is a call.
    hold=True,
)


class Answered(msgspec.Struct, frozen=True):
    """The last word of a human about this call."""

    approval_id: str
    approver: str
    word: str


class State(msgspec.Struct, frozen=True):
    """What a call's runes add up to."""

    phase: Phase = Phase.PENDING_CALL
    call: Called = _UNBORN
    at: int = 0
    """When it was called or approved, whichever was last."""
    afford: Exhausted | None = None
    """What the budget said against it then."""
    approval_id: str = ""
    """The last question that was put to a human."""
    asked: int = 0
    answered: Answered | None = None
    started: bool = False
    attempt: int = 0
    doubted: bool = False
    """Whether its probe is being asked what happened."""
    deadline: int | None = None
    status: Status | None = None
    """How it came out."""

"""Tool calls with a past, for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from actors.approval import runes as approval
from actors.budget import lifecycle as ledger
from actors.budget.runes import Amounts, Exhausted, Limits
from actors.tool.lifecycle import LIFECYCLE, Answer, Command, Effect, Phase, State, Verdict
from actors.tool.runes import (
    ApprovalRequested,
    Approved,
    Called,
    Denied,
    Doubted,
    InDoubt,
    Result,
    Retried,
    Rule,
    Ruling,
    Started,
    Status,
)
from runefold.testing.spec import Given

if TYPE_CHECKING:
    from runelog.rune import Rune

ID = "call_00112233445566aa"
APR = "apr_00112233445566aa"
APR_2 = "apr_00112233445566aa-2"
AGENT = "agt_1"
NOW = 1_000
TIMEOUT = 50
PATIENCE = 500
"""How long a human has."""

ROOM = ledger.State(scopes=(ledger.Scope("session"), ledger.Scope(AGENT, "session")))
"""A budget without limits."""
EMPTY = ledger.State(
    scopes=(
        ledger.Scope("session", limits=Limits(tool_calls=3), used=Amounts(tool_calls=3)),
        ledger.Scope(AGENT, "session"),
    )
)
"""One that says `SPENT`."""


def approve(approval_id: str, approver: str, now: int) -> Answer:
    """Return a human's yes."""
    return Answer(approval_id, "approve", approver, now)


def deny(approval_id: str, approver: str, reason: str, now: int) -> Answer:
    """Return a human's no."""
    return Answer(approval_id, "deny", approver, now, reason)


def answer(
    approval_id: str,
    approver: str,
    verdict: Verdict,
    now: int,
    output: Any = None,  # noqa: ANN401 -- whatever a tool returns
) -> Answer:
    """Return what a human says of a call in doubt."""
    return Answer(approval_id, verdict, approver, now, output=output)


ONE = Amounts(tool_calls=1)
SPENT = Exhausted(scope="session", what="tool_calls", used=3, limit=3, key=ID)


def called(
    verdict: Ruling = "allow",
    in_doubt: InDoubt = "unknown",
    *,
    idempotent: bool = False,
    hold: bool = False,
) -> Called:
    """Return the birth of a call."""
    rule = Rule(
        verdict=verdict,
        reason="because",
        rules_hash="r",
        tools_hash="t",
        in_doubt=in_doubt,
        idempotent=idempotent,
        timeout=TIMEOUT,
        approval_timeout=PATIENCE,
    )
    return Called(
        call_id=ID,
        tool_name="send_mail",
        arguments={"to": "ada"},
        caller="turn_1",
        agent_id=AGENT,
        account=AGENT,
        rule=rule,
        at=NOW,
        hold=hold,
    )


def started(at: int = NOW) -> Started:
    """Return the start of a call, for which one call is set aside."""
    return Started(call_id=ID, deadline=at + TIMEOUT, account=AGENT, reserved=ONE)


def paid(status: Status, **more: Any) -> Result:  # noqa: ANN401 -- fields of a result
    """Return the result of a call that was started: it is charged, as a guess if in doubt."""
    return Result(call_id=ID, status=status, charged=ONE, estimated=status == "unknown", **more)


STARTED = started()
RETRIED = Retried(call_id=ID, reason="", attempt=1, deadline=NOW + TIMEOUT)
DOUBTED = Doubted(call_id=ID, deadline=NOW + TIMEOUT)
APPROVED = Approved(call_id=ID, approver="ada", at=NOW + 1, trigger="approve", actor="user")
DENIED = Denied(call_id=ID, reason="no")
HELD = (called(hold=True),)
RUNNING = (called(), STARTED)


def asked(approval_id: str = APR, at: int = NOW) -> ApprovalRequested:
    """Return the question that a call asks."""
    return ApprovalRequested(
        call_id=ID,
        policy_reason="because",
        deadline=at + PATIENCE,
        approval_id=approval_id,
        trigger="policy",
    )


AWAITING = (called("ask"), asked())
RUNNING_APPROVED = (*AWAITING, APPROVED, STARTED)
ASKED_IN_DOUBT = (called("allow", "ask"), STARTED, asked())

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.PENDING_CALL: HELD,
    Phase.AWAITING_APPROVAL: AWAITING,
    Phase.EXECUTING: RUNNING,
    Phase.COMPLETED_RESULT: (*RUNNING, Result(call_id=ID, status="success")),
    Phase.ERROR_RESULT: (*RUNNING, Result(call_id=ID, status="error")),
    Phase.TIMEOUT_RESULT: (*AWAITING, Result(call_id=ID, status="timeout")),
    Phase.CANCELLED_RESULT: (*HELD, Result(call_id=ID, status="cancelled")),
    Phase.DENIED: (*AWAITING, DENIED, Result(call_id=ID, status="denied")),
    Phase.UNKNOWN_RESULT: (*RUNNING, Result(call_id=ID, status="unknown")),
}
"""One way into each phase."""


def given_call(*past: Rune) -> Given[Phase, State, Command, Effect]:
    """Return a call with that past."""
    return Given(LIFECYCLE, *past)


def bare(runes: list[Rune]) -> list[Rune]:
    """Return runes without the words that go with them, and without who caused them."""
    words = ("reason", "policy_reason", "error", "trigger", "actor")
    return [
        msgspec.structs.replace(
            rune,
            **{
                each: "system" if each == "actor" else ""
                for each in words
                if each in rune.__struct_fields__
            },
        )
        for rune in runes
    ]


def question(approval_id: str, at: int) -> list[Rune]:
    """Return the runes of a question that was put at that time, without its words."""
    return bare(
        [
            asked(approval_id, at),
            approval.Requested(
                approval_id=approval_id,
                asker=ID,
                tools_hash="t",
                reason="",
                deadline=at + PATIENCE,
                agent_id=AGENT,
            ),
            approval.Awaiting(approval_id=approval_id),
        ]
    )

"""Rules about a tool call's table, and about what its shell must know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from actors.approval import runes as approval
from actors.entity import ROOT, Routing
from actors.tool.kind import KIND
from actors.tool.lifecycle import (
    LIFECYCLE,
    Begin,
    Phase,
    Probe,
    RunTool,
    State,
)
from actors.tool.runes import Called, Progress, Result, Status
from runelog.lifecycle import describe, fold
from tests.actors.tool.calls import (
    AGENT,
    APPROVED,
    APR,
    AWAITING,
    DENIED,
    DOUBTED,
    ID,
    PAST,
    RETRIED,
    RUNNING,
    SPENT,
    STARTED,
    asked,
    called,
    given_call,
)

if TYPE_CHECKING:
    from runelog.rune import Rune

ROWS = {
    ("pending_call", "awaiting_approval", "tool.approval_requested"),
    ("pending_call", "executing", "tool.started"),
    ("awaiting_approval", "executing", "tool.approved"),
    ("awaiting_approval", "denied", "tool.denied"),
    ("awaiting_approval", "timeout_result", "tool.result"),
    ("executing", "executing", "tool.progress"),
    ("executing", "completed_result", "tool.result"),
    ("executing", "error_result", "tool.result"),
    ("executing", "timeout_result", "tool.result"),
    ("executing", "cancelled_result", "tool.result"),
    ("pending_call", "cancelled_result", "tool.result"),
    ("pending_call", "error_result", "tool.result"),
    ("pending_call", "denied", "tool.denied"),
    ("awaiting_approval", "cancelled_result", "tool.result"),
    ("executing", "executing", "tool.started"),
    ("executing", "executing", "tool.retried"),
    ("executing", "awaiting_approval", "tool.approval_requested"),
    ("executing", "unknown_result", "tool.result"),
}
"""The table, written down a second time and by hand."""

LEADS: dict[Status, Phase] = {
    "success": Phase.COMPLETED_RESULT,
    "error": Phase.ERROR_RESULT,
    "timeout": Phase.TIMEOUT_RESULT,
    "cancelled": Phase.CANCELLED_RESULT,
    "denied": Phase.DENIED,
    "unknown": Phase.UNKNOWN_RESULT,
}

SAMPLES: tuple[Rune, ...] = (
    asked(),
    APPROVED,
    DENIED,
    STARTED,
    Progress(call_id=ID, stream="stdout", chunk="…"),
    RETRIED,
    *(Result(call_id=ID, status=status) for status in LEADS),
)


def test_the_printed_table_is_the_one_asked_for() -> None:
    """Row for row, each of them once; a denial is printed by the rune that moves the phase."""
    printed = describe(LIFECYCLE)
    rows = [(row.origin, row.to, row.on) for row in printed.transitions]

    assert sorted(rows) == sorted(ROWS)
    assert printed.name == "tool"
    assert printed.initial == "pending_call"
    assert set(printed.terminal) == set(LEADS.values())
    assert {(each.state, each.seconds, each.to) for each in printed.timeouts} == {
        ("awaiting_approval", 86_400.0, "timeout_result"),
        ("executing", 120.0, "timeout_result"),
    }


@pytest.mark.parametrize("status", LEADS)
def test_a_denial_takes_one_result_and_only_its_own(status: Status) -> None:
    """Between the denial and its result nothing else fits, and after it nothing at all."""
    denied = fold(LIFECYCLE, [*AWAITING, DENIED])
    rune = Result(call_id=ID, status=status)

    assert denied.phase is Phase.DENIED
    assert denied.status is None
    assert LIFECYCLE.allows(denied, rune) == (status == "denied")
    assert not LIFECYCLE.allows(fold(LIFECYCLE, PAST[Phase.DENIED]), rune)
    assert fold(LIFECYCLE, PAST[Phase.DENIED]).status == "denied"


# -- what the shell must know ------------------------------------------------------------------


def test_every_rune_has_its_place() -> None:
    """The turn observes calls, questions and results, the budget what is reserved and charged."""
    state = given_call(*RUNNING).state

    def place(rune: Rune) -> Routing:
        return KIND.route(state, rune)

    assert KIND.route(State(), called()) == Routing(ID, ("turn_1",))
    assert place(Result(call_id=ID, status="success")) == Routing(ID, ("turn_1", "budget"))
    assert place(Result(call_id=ID, status="unknown")) == Routing(ID, ("turn_1", "budget", ROOT))
    assert place(STARTED) == Routing(ID, ("budget",))
    assert place(SPENT) == Routing("budget", (ROOT, "session"))
    assert place(msgspec.structs.replace(SPENT, scope=AGENT)) == Routing("budget", (ROOT, AGENT))
    assert place(approval.Awaiting(approval_id=APR)) == Routing(APR, (ROOT,))
    assert place(asked()) == place(APPROVED) == Routing(ID, ("turn_1",))
    for rune in (DENIED, DOUBTED, RETRIED, SAMPLES[4]):
        assert place(rune) == Routing(ID)


def test_the_shell_is_told_what_it_must_know() -> None:
    """Beginning is decided at once, or when it is taken over; a human keeps the call open."""
    assert KIND.births == (Called,)
    assert KIND.context(given_call(*RUNNING).state) == (AGENT, "turn_1")
    assert KIND.context(State()) == (None, None)
    assert KIND.internal == {Begin}
    assert KIND.external == {RunTool, Probe, Begin}
    assert KIND.name == "tool"
    assert [phase for phase in Phase if KIND.is_open(given_call(*PAST[phase]).state)] == [
        Phase.AWAITING_APPROVAL
    ]

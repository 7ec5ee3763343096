"""Rules about approvals."""

from __future__ import annotations

import pytest

from actors.approval.lifecycle import ENTITY, LIFECYCLE, Phase, State, decide
from actors.approval.runes import Aborted, Approved, Awaiting, Executed, Rejected, Requested
from actors.entity import Routing
from actors.tool.runes import Progress
from runefold.testing.spec import Given
from runelog.errors import Refused
from runelog.lifecycle import describe
from runelog.rune import Rune, kind_of

ID = "apr_00112233445566aa"
REQUESTED = (
    Requested(approval_id=ID, call_id="call_1", tools_hash="t", reason="it writes", deadline=9),
)
AWAITING = (*REQUESTED, Awaiting(approval_id=ID))
APPROVED = (*AWAITING, Approved(approval_id=ID, approver="ada"))
REJECTED = (*AWAITING, Rejected(approval_id=ID, approver="ada", reason="not on a Friday"))

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.REQUESTED: REQUESTED,
    Phase.AWAITING_HUMAN: AWAITING,
    Phase.APPROVED: APPROVED,
    Phase.REJECTED: REJECTED,
    Phase.EXECUTED: (*APPROVED, Executed(approval_id=ID)),
    Phase.ABORTED: (*AWAITING, Aborted(approval_id=ID, reason="lapsed")),
}
"""One way into each phase."""

SAMPLES: tuple[Rune, ...] = (
    Awaiting(approval_id=ID),
    Approved(approval_id=ID, approver="ada"),
    Rejected(approval_id=ID, approver="ada"),
    Executed(approval_id=ID),
    Aborted(approval_id=ID),
)

ROWS = {
    ("requested", "awaiting_human", "approval.awaiting"),
    ("awaiting_human", "approved", "approval.approved"),
    ("awaiting_human", "rejected", "approval.rejected"),
    ("approved", "executed", "approval.executed"),
    ("rejected", "aborted", "approval.aborted"),
    ("awaiting_human", "aborted", "approval.aborted"),
    ("approved", "aborted", "approval.aborted"),
}
"""The table, written down a second time and by hand."""


def test_the_printed_table_is_the_one_asked_for() -> None:
    """Row for row, each of them once; an approval begins as requested and ends in two ways."""
    printed = describe(LIFECYCLE)
    rows = [(row.origin, row.to, row.on) for row in printed.transitions]

    assert sorted(rows) == sorted(ROWS)
    assert printed.name == "approval"
    assert printed.initial == "requested"
    assert set(printed.terminal) == {"executed", "aborted"}


def test_what_was_asked_and_answered_can_be_seen() -> None:
    """The state holds all that is shown to a human, and who said what."""
    asked = Given(LIFECYCLE, *AWAITING).state
    rejected = Given(LIFECYCLE, *REJECTED, Aborted(approval_id=ID, reason="dropped")).state

    assert asked == State(
        phase=Phase.AWAITING_HUMAN,
        approval_id=ID,
        call_id="call_1",
        tools_hash="t",
        reason="it writes",
        deadline=9,
    )
    assert rejected.approver == "ada"
    assert rejected.outcome == "not on a Friday"
    assert rejected.deadline is None
    assert Given(LIFECYCLE, *PAST[Phase.ABORTED]).state.outcome == "lapsed"
    assert Given(LIFECYCLE, *APPROVED).state.deadline is None
    assert Given(LIFECYCLE, *APPROVED).state.approver == "ada"


@pytest.mark.parametrize("phase", Phase)
def test_an_approval_does_nothing_by_itself(phase: Phase) -> None:
    """Its call decides for it: nothing is due, nothing understood, and no restart looks for it."""
    state = Given(LIFECYCLE, *PAST[phase]).state

    assert LIFECYCLE.due(state) == []
    assert not ENTITY.is_open(state)
    assert ENTITY.deadline(state) is None
    with pytest.raises(Refused, match=f"^approval is {phase}: it cannot take str now$"):
        decide(state, "please")  # type: ignore[arg-type]  # there is no command to send


@pytest.mark.parametrize("rune", [*REQUESTED, *SAMPLES], ids=kind_of)
def test_the_session_hears_of_every_approval(rune: Rune) -> None:
    """A rune belongs to the approval that it names; the session lists what waits for a human."""
    assert ENTITY.route(State(), rune) == Routing(ID, ("session",))
    assert ENTITY.births == (Requested,)


def test_what_is_no_rune_of_an_approval_has_no_place_there() -> None:
    """To be asked for the place of another's rune is a bug."""
    with pytest.raises(AssertionError, match="Progress"):
        ENTITY.route(State(), Progress(call_id="c", stream="stdout", chunk=""))

"""Rules about approvals."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.approval import runes as approvals
from actors.approval.kind import KIND
from actors.approval.lifecycle import LIFECYCLE, Answer, Phase, State
from actors.approval.runes import Aborted, Approved, Awaiting, Executed, Rejected, Requested
from actors.entity import ROOT, Routing
from actors.questions import Conclude
from actors.tool.runes import Progress
from runefold.testing.spec import Given
from runelog.errors import Refused
from runelog.lifecycle import describe
from runelog.rune import Rune, kind_of

ID = "apr_00112233445566aa"
REQUESTED = (
    Requested(approval_id=ID, asker="call_1", tools_hash="t", reason="it writes", deadline=9),
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
        asked=Requested(
            approval_id=ID, asker="call_1", tools_hash="t", reason="it writes", deadline=9
        ),
    )
    assert rejected.approver == "ada"
    assert rejected.outcome == "not on a Friday"
    assert Given(LIFECYCLE, *PAST[Phase.ABORTED]).state.outcome == "lapsed"
    assert Given(LIFECYCLE, *APPROVED).state.approver == "ada"


@pytest.mark.parametrize("phase", Phase)
def test_an_approval_does_nothing_by_itself(phase: Phase) -> None:
    """Its asker sees to it: nothing is due, and no restart looks for it."""
    state = Given(LIFECYCLE, *PAST[phase]).state

    assert LIFECYCLE.due(state) == []
    assert not KIND.is_open(state)


ASKED = approvals.Requested(
    approval_id=ID, asker="order_1", tools_hash="", reason="look", deadline=100, observed=True
)
WAITS: tuple[Rune, ...] = (ASKED, approvals.Awaiting(approval_id=ID))


@pytest.mark.parametrize(
    ("verdict", "rune", "phase"),
    [
        ("approve", approvals.Approved(ID, "ada", actor="user"), Phase.APPROVED),
        ("deny", approvals.Rejected(ID, "ada", "no", actor="user"), Phase.REJECTED),
    ],
)
def test_a_human_answers_once(
    verdict: Literal["approve", "deny"], rune: Rune, phase: Phase
) -> None:
    """The same answer again is no second one; another answer, or another human, is refused."""
    approval = Given(LIFECYCLE, *WAITS)
    reason = "no" if verdict == "deny" else ""
    answered = Given(LIFECYCLE, *WAITS, rune)
    other: Literal["approve", "deny"] = "deny" if verdict == "approve" else "approve"

    assert approval.when(Answer(verdict, "ada", 99, reason)) == [rune]
    assert answered.state.phase is phase
    assert answered.when(Answer(verdict, "ada", 99, reason)) == []
    with pytest.raises(Refused, match=f"ada has answered approval {ID} already"):
        answered.when(Answer(other, "ada", 99))
    with pytest.raises(Refused, match=f"ada has answered approval {ID} already"):
        answered.when(Answer(verdict, "bob", 99))


def test_an_answer_after_the_deadline_is_refused() -> None:
    """The asker has gone on by then, or is about to."""
    with pytest.raises(Refused, match="has lapsed; order_1 takes no answer"):
        Given(LIFECYCLE, *WAITS).when(Answer("approve", "ada", 100))


def test_an_answer_to_a_question_that_was_withdrawn_is_refused() -> None:
    """Nothing would come of it."""
    gone = Given(LIFECYCLE, *WAITS, approvals.Aborted(approval_id=ID, reason="no longer wanted"))

    with pytest.raises(Refused, match=f"is aborted: the answer to approval {ID} comes too late"):
        gone.when(Answer("approve", "ada", 50))


def test_the_asker_concludes_what_it_asked_for() -> None:
    """Withdrawn while it waits, executed once approved, aborted once rejected; then nothing."""
    yes = approvals.Approved(approval_id=ID, approver="ada")
    no = approvals.Rejected(approval_id=ID, approver="ada", reason="too dear")
    executed = approvals.Executed(approval_id=ID)
    gone = Conclude("gone")

    assert Given(LIFECYCLE, *WAITS).when(gone) == [approvals.Aborted(ID, "gone")]
    assert Given(LIFECYCLE, *WAITS, yes).when(gone) == [executed]
    assert Given(LIFECYCLE, *WAITS, no).when(gone) == [approvals.Aborted(ID, "too dear")]
    assert Given(LIFECYCLE, *WAITS, yes, executed).when(gone) == []


@pytest.mark.parametrize("rune", [ASKED, approvals.Awaiting(approval_id=ID)], ids=kind_of)
def test_its_asker_observes_it(rune: Rune) -> None:
    """A machine goes on by what became of its question; a tool call decides that itself."""
    state = Given(LIFECYCLE, *WAITS).state

    assert KIND.route(state, rune) == Routing(ID, ("order_1", ROOT))


@pytest.mark.parametrize("rune", [*REQUESTED, *SAMPLES], ids=kind_of)
def test_the_session_hears_of_every_approval(rune: Rune) -> None:
    """A rune belongs to the approval that it names; the session lists what waits for a human."""
    assert KIND.route(State(), rune) == Routing(ID, (ROOT,))
    assert KIND.births == (Requested,)


def test_what_is_no_rune_of_an_approval_has_no_place_there() -> None:
    """To be asked for the place of another's rune is a bug."""
    with pytest.raises(AssertionError, match="Progress"):
        KIND.route(State(), Progress(call_id="c", stream="stdout", chunk=""))

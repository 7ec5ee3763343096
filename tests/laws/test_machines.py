"""Rules about what the machinery does for machines of apps: humans, policies, deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from order import ORDER
from order_runes import Cancelled

from actors.approval.runes import Approved, Executed
from actors.kind import ERRORS
from actors.tool.runes import ApprovalRequested
from runelog.lifecycle import fold
from tests.laws.logs import streams_of
from tests.laws.orders import DESK, orders
from tests.laws.states import each_kind

if TYPE_CHECKING:
    from actors.kind import Kind
    from runelog.log import Log

NO_FAILURE: Final = {
    "session": {"archived"},
    "agent": {"terminated"},
    "turn": {"completed", "interrupted"},
    "model": {"completed", "cancelled"},
    "tool": {"completed_result", "cancelled_result", "denied"},
    "approval": {"executed", "aborted"},
    "request": {"answered"},
    "errand": {"back"},
    "order": {"paid", "cancelled"},
    "chore": {"back"},
    "purchase": {"over"},
    "trip": {"home"},
    "leg": {"there"},
    "postcard": {"delivered"},
    "egg": {"eaten"},
}
"""The ends of each kind that are no failure: `on_close` of its children holds there, and not
`on_fail`. A new kind is named here, or says in `failures` which of its ends are one."""


def phases(log: Log) -> dict[str, str]:
    """Return what each order came to."""
    return {
        each.entity: fold(ORDER.lifecycle, each.runes).phase.value
        for each in streams_of(log)
        if each.kind.name == ORDER.name
    }


@each_kind
def test_every_end_of_a_kind_is_a_failure_or_none(kind: Kind) -> None:
    """Whoever adds an end says which: children of one that is forgotten would not hear of it."""
    law = kind.lifecycle
    ends = {phase.value for phase in law.terminal}
    good = NO_FAILURE.get(kind.name, set())

    assert good | (ends & kind.failures) == ends, f"{kind.name}: name it in failures or here"
    assert not good & kind.failures
    if kind.failures is not ERRORS:
        assert kind.failures <= {phase.value for phase in law.table}, "there is no such phase"


def test_a_human_is_asked_and_a_time_out_is_enforced() -> None:
    """An order goes on when a human says so; without an answer it is cancelled by its deadline."""
    log = orders()
    lapsed = [
        each.payload
        for each in log.stream(DESK, "order_lapsed")
        if isinstance(each.payload, Cancelled)
    ]

    assert phases(log) == {
        "order_cheap": "paid",
        "order_bribe": "cancelled",
        "order_dear": "paid",
        "order_denied": "cancelled",
        "order_lapsed": "cancelled",
        "order_withdrawn": "cancelled",
    }
    assert [rune.actor for rune in lapsed] == ["timeout"]


@pytest.mark.parametrize("cut_at", range(1, 24))
def test_orders_come_to_the_same_wherever_they_are_cut_off(cut_at: int) -> None:
    """Answers, deadlines and calls go on from where they were; what was approved is concluded."""
    log = orders(cut_at=cut_at)
    found = [type(each.payload) for each in log.read(DESK)]

    assert phases(log) == phases(orders())
    assert found.count(Approved) == found.count(Executed) == 1


def test_a_policy_of_the_app_judges_the_calls_of_a_machine() -> None:
    """Its verdict comes back as a message, and the call then waits for a human."""
    found = [type(each.payload) for each in orders(by_hand=True).read(DESK)]

    assert found.count(ApprovalRequested) == 3

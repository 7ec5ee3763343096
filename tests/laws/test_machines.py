"""Rules about what the machinery does for machines of apps: humans, policies, deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from order import ORDER
from order_runes import Cancelled

from actors.approval.runes import Approved, Executed
from actors.tool.runes import ApprovalRequested
from runelog.lifecycle import fold
from tests.laws.logs import streams_of
from tests.laws.orders import DESK, orders

if TYPE_CHECKING:
    from runelog.log import Log


def phases(log: Log) -> dict[str, str]:
    """Return what each order came to."""
    return {
        each.entity: fold(ORDER.lifecycle, each.runes).phase.value
        for each in streams_of(log)
        if each.kind.name == ORDER.name
    }


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

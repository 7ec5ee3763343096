"""Opened again and again: what gets nowhere is suspended, what waits or gets further is not."""

from __future__ import annotations

import contextlib
from typing import Final

import pytest

from actors.session.fold import Phase
from tests.crash.core.cuts import CUT_OFF, Cut, Rig
from tests.scenarios.plays import ALL, NAME, PATIENCE, App, folded, until
from tests.scenarios.world import MANY

OPENS: Final = 5
"""More than a session that gets nowhere is given."""


def test_waiting_for_a_human_outlives_any_number_of_processes() -> None:
    """Opened often while nothing but an approval is missing, a session is as it was."""
    rig = Rig(None)
    App(rig.runtime, rig.till).send("refund", "m1")
    until(rig.runtime, lambda: bool(folded(rig.log).approvals))
    for _ in range(OPENS):
        rig.crash()
        rig.again(None)
        rig.advance(1)
        rig.log.flush()
    session = rig.runtime.session(NAME)
    for approval in session.approvals():
        session.approve(approval.call_id, approver="ada")
    result = session.send("refund", message_id="m1").result(PATIENCE)

    assert result.output == "Done: charged"
    assert len(rig.till.entries()) == 1


def test_what_is_queued_behind_a_human_outlives_them_too() -> None:
    """A message that waits behind the approval is no work under way: both are answered."""
    rig = Rig(None)
    app = App(rig.runtime, rig.till)
    app.send("refund", "m1")
    app.send("hello", "m2")
    until(rig.runtime, lambda: bool(folded(rig.log).approvals))
    for _ in range(OPENS):
        rig.crash()
        rig.again(None)
        rig.advance(1)
        rig.log.flush()
    state = folded(rig.log)
    session = rig.runtime.session(NAME)
    for approval in session.approvals():
        session.approve(approval.call_id, approver="ada")
    answers = [
        session.send(text, message_id=name).result(PATIENCE).status
        for text, name in (("refund", "m1"), ("hello", "m2"))
    ]

    assert (state.phase, state.unclean) == (Phase.ACTIVE, 0)
    assert answers == ["completed", "completed"]
    assert len(rig.till.entries()) == 1


def test_a_turn_that_gets_further_each_time_is_not_given_up() -> None:
    """Cut off in each of the charges of one round, a turn makes them all, each once."""
    rig = Rig(None)
    for _ in range(MANY):
        with pytest.raises(CUT_OFF):
            _charge_all(rig, Cut(1, after=True, where="tool"))
    _charge_all(rig, None)

    assert folded(rig.log).phase is Phase.ACTIVE
    assert len(set(rig.till.entries())) == len(rig.till.entries()) == MANY


def _charge_all(rig: Rig, cut: Cut | None) -> None:
    app = App(rig.again(cut), rig.till)
    app.wait(app.send("charge all", "m1"))


def test_a_turn_that_gets_nowhere_is_given_up() -> None:
    """Cut off each time before anything came of it, a session waits for somebody to look."""
    rig = Rig(None)
    with contextlib.suppress(*CUT_OFF):
        ALL["plain"].play(rig.again(Cut(5)), rig.till)
    for _ in range(OPENS):
        with contextlib.suppress(*CUT_OFF):
            rig.again(Cut(1, after=True))
            rig.advance(1)
    rig.again(None)
    rig.run()
    rig.log.flush()
    state = folded(rig.log)

    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "error_threshold")
    assert [each.message_id for each in state.running] == ["m1"]

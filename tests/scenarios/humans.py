"""Plays in which a human is asked: may it be done, or was it done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.scenarios.app import App, Scenario, folded, is_done, until

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from tests.scenarios.world import Till


def _approval(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    turn = app.send("refund", "m1")
    log = runtime.log
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m1"))
    for each in folded(log).approvals:
        session.approve(each.call_id, approver="ada")
    app.wait(turn)


def _denied(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    turn = app.send("refund", "m1")
    log = runtime.log
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m1"))
    for each in folded(log).approvals:
        session.deny(each.call_id, reason="no money", approver="ada")
    app.wait(turn)


def _withdrawn(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    turn = app.send("refund", "m1")
    log = runtime.log
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m1"))
    if not is_done(log, "m1"):
        session.interrupt()
    app.wait(turn)
    app.wait(app.send("charge", "m2"))


def _by_hand(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    log = runtime.log
    for message in ("m1", "m2"):
        turn = app.send("charge by hand", message)

        def is_over(of: str = message) -> bool:
            return bool(folded(log).approvals) or is_done(log, of)

        until(runtime, is_over)
        for each in folded(log).approvals:
            if each.call_id in till.entries():
                session.answer(each.call_id, "happened", approver="ada", output="charged")
            else:
                session.answer(each.call_id, "rerun", approver="ada")
        app.wait(turn)


def _seen_to(runtime: Runtime, till: Till) -> None:
    """Charge blindly; a human looks after what a crash has left in doubt."""
    app = App(runtime, till)
    app.wait(app.send("charge blindly", "m1"))
    for call_id in folded(runtime.log).in_doubt:
        app.session.acknowledge(call_id, by="ada", note="seen at the bank")
    app.wait(app.send("hello", "m2"))
    assert folded(runtime.log).in_doubt == ()


HUMANS: Final = (
    Scenario("approval", _approval),
    Scenario("denied", _denied),
    Scenario("withdrawn", _withdrawn),
    Scenario("charges by hand", _by_hand),
    Scenario("seen to", _seen_to, blind=True),
)
"""Those in which somebody approves, denies, or says what happened."""

"""Plays in which a session rests: paused, asleep, closed, put away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.session.lifecycle import Phase
from runefold.spec import AgentSpec
from tests.scenarios.app import (
    EVERYTHING,
    NAME,
    App,
    Scenario,
    fall_asleep,
    folded,
    is_done,
    is_there,
    speaks,
    until,
)

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from tests.scenarios.world import Till


def _closed(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    log = runtime.log
    if folded(log).phase not in {Phase.CLOSING, Phase.CLOSED}:
        app.wait(app.send("charge", "m1"))
        app.send("think", "m2")
        app.send("hello", "m3")
        until(runtime, lambda: speaks(log, "m2") or is_done(log, "m2"))
    if folded(log).phase is not Phase.CLOSED:
        session.close()


def _paused(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    first = app.send("charge", "m1")
    log = runtime.log
    if folded(log).phase is Phase.ACTIVE and not is_there(log, "m2"):
        session.pause("lunch")
    second = app.send("charge", "m2")
    if session.state.phase is Phase.PAUSED:
        session.resume()
    app.wait(first, second)


def _held(runtime: Runtime, till: Till) -> None:
    """Pause in the middle of an answer, with messages in the queue and others to come."""
    app = App(runtime, till)
    log = runtime.log
    first, second = app.send("think", "m1"), app.send("charge", "m2")
    until(runtime, lambda: speaks(log, "m1") or is_done(log, "m1"))
    if folded(log).phase is Phase.ACTIVE and not is_there(log, "m3"):
        app.session.pause("lunch", finish=False)
    third = app.send("look and charge", "m3")
    if app.session.state.phase is Phase.PAUSED:
        app.session.resume()
    app.wait(first, second, third)


def _asleep(runtime: Runtime, till: Till) -> None:
    """Fall asleep while a human is asked and a message waits, and wake: of three things in turn.

    Of a message; of a deadline, as nobody answers; and of an answer.
    """
    app = App(runtime, till, tools=(*EVERYTHING, "refund_soon"))
    log = runtime.log
    spec = AgentSpec(role="helper", model="clerk", tools=("charge",), retries=5)
    helper = app.helper(spec)
    first, second = app.send("refund soon", "m1"), app.send("hello", "m2")
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m1"))
    fall_asleep(runtime)
    app.wait(app.send("charge", "m3", to=helper))
    fall_asleep(runtime)
    until(runtime, lambda: is_done(log, "m2"))
    app.wait(first, second)
    fourth = app.send("refund", "m4")
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m4"))
    fall_asleep(runtime)
    for each in folded(log).approvals:
        app.session.approve(each.call_id, approver="ada")
    app.wait(fourth)


def _archived(runtime: Runtime, till: Till) -> None:
    _closed(runtime, till)
    runtime.session(NAME).archive()


RESTS: Final = (
    Scenario("closed", _closed),
    Scenario("archived", _archived),
    Scenario("paused", _paused),
    Scenario("held", _held),
    Scenario("asleep", _asleep, hurried=True, idle_after=20),
)
"""Those in which nothing happens for a while, or for good."""

"""Plays in which somebody stops what is going on: asks for something else, or for an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.scenarios.app import App, Scenario, is_done, speaks, until
from tests.scenarios.labour import STEER

if TYPE_CHECKING:
    from collections.abc import Callable

    from runefold.runtime import Runtime
    from tests.scenarios.world import Till


def _steer(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    log = runtime.log
    first = app.send("think", "m1")
    until(runtime, lambda: speaks(log, "m1") or is_done(log, "m1"))
    second = app.send("hello", "m2", mode="steer")
    app.wait(first, second)


def _interrupt(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    log = runtime.log
    first = app.send("think", "m1")
    until(runtime, lambda: speaks(log, "m1") or is_done(log, "m1"))
    if not is_done(log, "m1"):
        session.interrupt()
    app.wait(first)
    app.wait(app.send("hello", "m2"))


def _taken_over(tool: str) -> Callable[[Runtime, Till], None]:
    """Return a play in which somebody who passes by sends something else while a tool runs."""

    def play(runtime: Runtime, till: Till) -> None:
        app = App(runtime, till, tools=(tool,))
        app.wait(app.send(f"{tool} until steered", "m1"))
        app.wait(app.send("hello", STEER, mode="steer"))

    return play


def _stopped(tool: str) -> Callable[[Runtime, Till], None]:
    """Return a play in which somebody who passes by stops a tool; what waits comes after it."""

    def play(runtime: Runtime, till: Till) -> None:
        app = App(runtime, till, tools=(tool,))
        first = app.send(f"{tool} until interrupted", "m1")
        app.wait(first, app.send("hello", "m2"))

    return play


STOPS: Final = (
    Scenario("steer", _steer),
    Scenario("interrupt", _interrupt),
    Scenario("steer in a tool", _taken_over("dig")),
    Scenario("steer in a program", _taken_over("churn")),
    Scenario("interrupt in a tool", _stopped("dig")),
    Scenario("interrupt in a program", _stopped("churn")),
)
"""Those in which a turn is interrupted or taken over."""

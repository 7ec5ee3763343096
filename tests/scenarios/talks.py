"""Plays in which an app sends and waits, and nobody else has a word in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.session.lifecycle import Phase
from runefold.spec import Budget
from tests.scenarios.app import BESIDE, EVERYTHING, App, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from runefold.runtime import Runtime
    from tests.scenarios.world import Till


def _plain(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    app.wait(app.send("hello", "m1"))


def _parallel(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    app.wait(app.send("look and charge", "m1"))


def _queue(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    words = ("hello", "charge", "look and charge", "hello")
    app.wait(*[app.send(word, f"m{n}") for n, word in enumerate(words)])


def _fault(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    app.wait(app.send("stumble", "m1"))
    app.wait(app.send("charge", "m2"))


def _budget(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till, Budget(tool_calls=2))
    session = app.session
    for number in (1, 2, 3):
        app.wait(app.send("charge", f"m{number}"))
    last = app.send("hello", "m4")
    if session.state.phase is Phase.SUSPENDED:
        session.replenish(agent=session.state.root, tool_calls=5)
    app.wait(last)
    app.wait(app.send("charge", "m5"))


def _timed(runtime: Runtime, till: Till) -> None:
    # Each power cut may cost a twentieth of it; and no turn takes that long, on any machine.
    app = App(runtime, till, Budget(wall_seconds=20_000))
    for number, word in enumerate(("think", "charge", "think")):
        app.wait(app.send(word, f"m{number}"))


def _beside(runtime: Runtime, till: Till) -> None:
    here, there = App(runtime, till), App(runtime, till, name=BESIDE)
    sent = [
        app.send("charge", f"{mark}{number}")
        for number in (1, 2)
        for mark, app in (("m", here), ("b", there))
    ]
    here.wait(*sent)


def _three(word: str) -> Callable[[Runtime, Till], None]:
    def play(runtime: Runtime, till: Till) -> None:
        app = App(runtime, till)
        for number in (1, 2, 3):
            app.wait(app.send(word, f"m{number}"))

    return play


def _labour(*words: str) -> Callable[[Runtime, Till], None]:
    def play(runtime: Runtime, till: Till) -> None:
        app = App(runtime, till, tools=(*EVERYTHING, "haul", "write"))
        app.wait(*[app.send(word, f"m{number}") for number, word in enumerate(words, 1)])

    return play


TALKS: Final = (
    Scenario("plain", _plain),
    Scenario("parallel", _parallel),
    Scenario("budget", _budget),
    Scenario("timed", _timed, hurried=True),
    Scenario("queue", _queue),
    Scenario("beside", _beside, mixed=True),
    Scenario("fault", _fault),
    Scenario("charges by key", _three("charge by key")),
    Scenario("charges", _three("charge")),
    Scenario("blind charges", _three("charge blindly"), blind=True),
    Scenario("progress", _labour("haul", "haul")),
    Scenario("program", _labour("write", "charge")),
)
"""Those in which nobody is asked and nothing is stopped."""

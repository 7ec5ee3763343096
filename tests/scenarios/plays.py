"""The conversations themselves, as an app would write them: send, wait, answer.

Each may be cut off anywhere and is then played again from the top on what is left. It never asks
what was done already, except where an app has to know: whether its conversation is there, whether
its second agent is, whether there is still something to interrupt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from actors.errors import Unanswered
from actors.hand import HandScheduler
from actors.model import runes as models
from actors.session.actor import ended
from actors.session.fold import Phase
from actors.session.lifecycle import LIFECYCLE, message_entity
from actors.turn import runes as turns
from runefold.spec import AgentSpec, Budget
from runelog.errors import UnknownConversation
from runelog.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.session.fold import State
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runefold.turns import Turn
    from runelog.log import Log
    from tests.scenarios.world import Till

NAME: Final = "conv_scene"
PATIENCE: Final = 120.0
"""Seconds until a play is given up; nothing that works waits for it."""
STEPS: Final = 100_000
EVERYTHING: Final = (
    "charge",
    "charge_blindly",
    "charge_by_key",
    "charge_by_hand",
    "refund",
    "look_up",
)


@dataclass(frozen=True)
class Scenario:
    """A conversation, played by an app."""

    name: str
    play: Callable[[Runtime, Till], None]
    blind: bool = False
    """Whether nobody can tell of a tool in doubt if it took effect."""


def opened(runtime: Runtime, *, budget: Budget | None = None) -> Session:
    """Return the conversation; begin it if it is not there."""
    try:
        return runtime.session(NAME)
    except UnknownConversation:
        spec = AgentSpec(
            role="clerk", model="clerk", tools=EVERYTHING, budget=budget or Budget(), retries=5
        )
        return runtime.create_session(spec, conversation_id=NAME)


class App:
    """Sends and waits for an app, and notes what it is told."""

    def __init__(self, runtime: Runtime, till: Till, budget: Budget | None = None) -> None:
        """Open the conversation."""
        self._till = till
        self.session = opened(runtime, budget=budget)

    def send(self, word: str, message_id: str, **options: Any) -> Turn:  # noqa: ANN401 -- those of send
        """Send a message: once that returns, it is never lost."""
        turn = self.session.send(word, message_id=message_id, **options)
        self._till.promise(f"accepted {message_id}")
        return turn

    def wait(self, *turns: Turn) -> None:
        """Wait for some turns: once one has ended, that is how it ended."""
        for turn in turns:
            status = turn.result(PATIENCE).status
            self._till.promise(f"{status} {turn.message_id}")


def folded(log: Log) -> State:
    """Return the session's state as the log has it."""
    state, _, _ = replay(log, NAME, LIFECYCLE, entity="session")
    return state


def until(runtime: Runtime, done: Callable[[], bool]) -> None:
    """Go on until `done`, which is asked of the log; time passes only if nothing else happens."""
    if not isinstance(scheduler := runtime.scheduler, HandScheduler):
        for _ in runtime.log.follow(NAME, wait=PATIENCE):
            if done():
                return
        raise Unanswered("it never came to that")  # noqa: EM101 -- once
    for _ in range(STEPS):
        if done():
            return
        if scheduler.step():
            continue
        # What nobody waits for gets to disk by itself sooner or later.
        runtime.log.flush()
        when = scheduler.clock.next_alarm
        if done():
            return
        if when is None:
            break
        scheduler.clock.move_to(when)
    raise Unanswered("it never came to that")  # noqa: EM101 -- as above


def speaks(log: Log, message_id: str) -> bool:
    """Tell whether the model has said something to a message that still counts."""
    turn, call, said = "", "", False
    for envelope in log.read(NAME):
        match envelope.payload:
            case turns.Started(turn_id=name, message_id=of) if of == message_id:
                turn = name
            case models.Called(model_call_id=name, turn_id=of) if of == turn:
                call, said = name, False
            case models.AssistantDelta() if envelope.owner == call:
                said = True
            case models.Failed(model_call_id=name) if name == call:
                said = False
            case _:
                pass
    return said


def _plain(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    app.wait(app.send("hello", "m1"))


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


def _parallel(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    app.wait(app.send("look and charge", "m1"))


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


def _paused(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    first = app.send("charge", "m1")
    log = runtime.log
    if folded(log).phase is Phase.ACTIVE and not any(log.stream(NAME, message_entity("m2"))):
        session.pause("lunch")
    second = app.send("charge", "m2")
    if session.state.phase is Phase.PAUSED:
        session.resume()
    app.wait(first, second)


def _dismissed(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    log = runtime.log
    app.wait(app.send("hello", "m1"))
    born = [e.owner for e in log.read(NAME, kinds={"agent.spawning"})]
    spec = AgentSpec(role="helper", model="clerk", retries=5)
    helper = born[1] if len(born) > 1 else session.spawn(spec, parent=born[0])
    if any(each.agent_id == helper for each in folded(log).members):
        app.send("think", "m2", to=helper)
        until(runtime, lambda: speaks(log, "m2") or is_done(log, "m2"))
        session.kill(helper, force=True)
    until(runtime, lambda: is_done(log, "m2"))
    app.wait(app.send("hello", "m3"))


def is_done(log: Log, message_id: str) -> bool:
    """Tell whether the turn of a message has ended."""
    return ended(log, NAME, message_id) is not None


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


def _team(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    state = session.state
    helpers = [each.agent_id for each in state.members if each.agent_id != state.root]
    spec = AgentSpec(role="helper", model="clerk", tools=EVERYTHING, retries=5)
    helper = helpers[0] if helpers else session.spawn(spec, parent=state.root)
    app.wait(
        app.send("charge", "m1"),
        app.send("look and charge", "m2", to=helper),
        app.send("charge", "m3", to=helper),
    )


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
    # Each power cut may cost a twentieth of it.
    app = App(runtime, till, Budget(wall_seconds=2_000))
    for number, word in enumerate(("think", "charge", "think")):
        app.wait(app.send(word, f"m{number}"))


def _queue(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    words = ("hello", "charge", "look and charge", "hello")
    app.wait(*[app.send(word, f"m{n}") for n, word in enumerate(words)])


def _fault(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    app.wait(app.send("stumble", "m1"))
    app.wait(app.send("charge", "m2"))


def _three(word: str) -> Callable[[Runtime, Till], None]:
    def play(runtime: Runtime, till: Till) -> None:
        app = App(runtime, till)
        for number in (1, 2, 3):
            app.wait(app.send(word, f"m{number}"))

    return play


ALL: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("plain", _plain),
        Scenario("parallel", _parallel),
        Scenario("approval", _approval),
        Scenario("steer", _steer),
        Scenario("interrupt", _interrupt),
        Scenario("team", _team),
        Scenario("budget", _budget),
        Scenario("timed", _timed),
        Scenario("queue", _queue),
        Scenario("fault", _fault),
        Scenario("closed", _closed),
        Scenario("denied", _denied),
        Scenario("withdrawn", _withdrawn),
        Scenario("paused", _paused),
        Scenario("dismissed", _dismissed),
        Scenario("charges by key", _three("charge by key")),
        Scenario("charges by hand", _by_hand),
        Scenario("charges", _three("charge")),
        Scenario("blind charges", _three("charge blindly"), blind=True),
    )
}
"""Every scenario, by name."""

"""The conversations themselves, as an app would write them: send, wait, answer.

Each may be cut off anywhere and is then played again from the top on what is left. It never asks
what was done already, except where an app has to know: whether its conversation is there, whether
its second agent is, whether there is still something to interrupt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.errors import Unanswered
from actors.hand import HandScheduler
from actors.model import runes as models
from actors.session.actor import ended
from actors.session.lifecycle import LIFECYCLE
from actors.turn import runes as turns
from runefold.spec import AgentSpec, Budget
from runelog.errors import UnknownConversation
from runelog.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.session.fold import State
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runelog.log import Log

NAME: Final = "conv_scene"
PATIENCE: Final = 60.0
"""Seconds until a play is given up; nothing that works waits for it."""
STEPS: Final = 100_000
EVERYTHING: Final = ("charge", "charge_blindly", "refund", "look_up")


@dataclass(frozen=True)
class Scenario:
    """A conversation, played by an app."""

    name: str
    play: Callable[[Runtime], None]
    blind: bool = False
    """Whether nobody can tell of a tool in doubt if it took effect."""
    has_end: bool = False
    """Whether its session is closed in the end."""


def opened(runtime: Runtime, *, budget: Budget | None = None) -> Session:
    """Return the conversation; begin it if it is not there."""
    try:
        return runtime.session(NAME)
    except UnknownConversation:
        spec = AgentSpec(
            role="clerk", model="clerk", tools=EVERYTHING, budget=budget or Budget(), retries=5
        )
        return runtime.create_session(spec, conversation_id=NAME)


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


def _plain(runtime: Runtime) -> None:
    opened(runtime).send("hello", message_id="m1").result(PATIENCE)


def _closed(runtime: Runtime) -> None:
    session = opened(runtime)
    if folded(runtime.log).phase.value not in {"closing", "closed"}:
        session.send("charge", message_id="m1").result(PATIENCE)
        session.close()
    elif folded(runtime.log).phase.value == "closing":
        session.close()


def _parallel(runtime: Runtime) -> None:
    opened(runtime).send("look and charge", message_id="m1").result(PATIENCE)


def _approval(runtime: Runtime) -> None:
    session = opened(runtime)
    turn = session.send("refund", message_id="m1")
    log = runtime.log
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m1"))
    for each in folded(log).approvals:
        session.approve(each.call_id, approver="ada")
    turn.result(PATIENCE)


def is_done(log: Log, message_id: str) -> bool:
    """Tell whether the turn of a message has ended."""
    return ended(log, NAME, message_id) is not None


def _steer(runtime: Runtime) -> None:
    session = opened(runtime)
    log = runtime.log
    first = session.send("think", message_id="m1")
    until(runtime, lambda: speaks(log, "m1") or is_done(log, "m1"))
    second = session.send("hello", mode="steer", message_id="m2")
    first.result(PATIENCE)
    second.result(PATIENCE)


def _interrupt(runtime: Runtime) -> None:
    session = opened(runtime)
    log = runtime.log
    first = session.send("think", message_id="m1")
    until(runtime, lambda: speaks(log, "m1") or is_done(log, "m1"))
    if not is_done(log, "m1"):
        session.interrupt()
    first.result(PATIENCE)
    session.send("hello", message_id="m2").result(PATIENCE)


def _team(runtime: Runtime) -> None:
    session = opened(runtime)
    state = session.state
    helpers = [each.agent_id for each in state.members if each.agent_id != state.root]
    spec = AgentSpec(role="helper", model="clerk", tools=EVERYTHING, retries=5)
    helper = helpers[0] if helpers else session.spawn(spec, parent=state.root)
    sent = [
        session.send("charge", message_id="m1"),
        session.send("look and charge", to=helper, message_id="m2"),
        session.send("charge", to=helper, message_id="m3"),
    ]
    for turn in sent:
        turn.result(PATIENCE)


def _budget(runtime: Runtime) -> None:
    session = opened(runtime, budget=Budget(tool_calls=2))
    for number in (1, 2, 3):
        session.send("charge", message_id=f"m{number}").result(PATIENCE)
    last = session.send("hello", message_id="m4")
    if session.state.phase.value == "suspended":
        session.replenish(agent=session.state.root, tool_calls=5)
    last.result(PATIENCE)
    session.send("charge", message_id="m5").result(PATIENCE)


def _queue(runtime: Runtime) -> None:
    session = opened(runtime)
    words = ("hello", "charge", "look and charge", "hello")
    sent = [session.send(word, message_id=f"m{n}") for n, word in enumerate(words)]
    for turn in sent:
        turn.result(PATIENCE)


def _fault(runtime: Runtime) -> None:
    session = opened(runtime)
    session.send("stumble", message_id="m1").result(PATIENCE)
    session.send("charge", message_id="m2").result(PATIENCE)


def _three(word: str) -> Callable[[Runtime], None]:
    def play(runtime: Runtime) -> None:
        session = opened(runtime)
        for number in (1, 2, 3):
            session.send(word, message_id=f"m{number}").result(PATIENCE)

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
        Scenario("queue", _queue),
        Scenario("fault", _fault),
        Scenario("closed", _closed, has_end=True),
        Scenario("charges", _three("charge")),
        Scenario("blind charges", _three("charge blindly"), blind=True),
    )
}
"""Every scenario, by name."""

"""What all plays have in common: an app that sends and waits, and looks at the log."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from actors.errors import Unanswered
from actors.model import runes as models
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.session.lifecycle import LIFECYCLE
from actors.session.messages import ended
from actors.session.queue import message_entity
from actors.turn import runes as turns
from runefold.spec import AgentSpec, Budget
from runelog.errors import UnknownConversation
from runelog.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.session.lifecycle import State
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runefold.turns import Turn
    from runelog.log import Log
    from tests.scenarios.world import Till

NAME: Final = "conv_scene"
BESIDE: Final = "conv_beside"
"""A second conversation, in a scenario that has one."""
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
    hurried: bool = False
    """Whether minutes pass in it."""
    idle_after: float = 60.0
    """Seconds after which it falls asleep."""
    mixed: bool = False
    """Whether conversations go on beside each other, so that no two runs have the same order."""


def opened(
    runtime: Runtime,
    name: str = NAME,
    *,
    budget: Budget | None = None,
    tools: tuple[str, ...] = EVERYTHING,
) -> Session:
    """Return the conversation; begin it if it is not there."""
    try:
        return runtime.session(name)
    except UnknownConversation:
        spec = AgentSpec(
            role="clerk", model="clerk", tools=tools, budget=budget or Budget(), retries=5
        )
        return runtime.create_session(spec, conversation_id=name)


class App:
    """Sends and waits for an app, and notes what it is told."""

    def __init__(
        self,
        runtime: Runtime,
        till: Till,
        budget: Budget | None = None,
        tools: tuple[str, ...] = EVERYTHING,
        name: str = NAME,
    ) -> None:
        """Open the conversation."""
        self._till = till
        self.session = opened(runtime, name, budget=budget, tools=tools)

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

    def helper(self, spec: AgentSpec) -> str:
        """Return the agent that this one works with; have it join if it is not there."""
        state = self.session.state
        others = [each.agent_id for each in state.members if each.agent_id != state.root]
        return others[0] if others else self.session.spawn(spec, parent=state.root)


def folded(log: Log) -> State:
    """Return the session's state as the log has it."""
    state, _, _ = replay(log, NAME, LIFECYCLE, entity="session")
    return state


def until(runtime: Runtime, done: Callable[[], bool]) -> None:
    """Go on until `done`, which is asked of the log; time passes only if nothing else happens."""
    if not isinstance(scheduler := runtime.scheduler, ManualScheduler):
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


class Sooner:
    """Something that comes about by itself and that nobody is told of, to wait for."""

    LOOK: Final = 0.005
    """Seconds between two looks."""

    def __init__(self, is_there: Callable[[], bool]) -> None:
        """Wait for what `is_there` tells."""
        self.is_there = is_there

    def wait(self, timeout: float | None) -> bool:
        """Look again and again, on a thread; tell whether it came."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_there():
            if end is not None and time.monotonic() > end:
                return False
            threading.Event().wait(self.LOOK)
        return True


def fall_asleep(runtime: Runtime) -> None:
    """Do nothing until the conversation sleeps: none of its actors is left."""
    asleep = Sooner(lambda: NAME not in runtime._core.tree.awake())
    if not runtime.scheduler.wait(asleep, PATIENCE):
        raise Unanswered("it never fell asleep")  # noqa: EM101 -- once


def speaks(log: Log, message_id: str) -> bool:
    """Tell whether the model has said something to a message that still counts."""
    turn, call, said = "", "", False
    for envelope in log.read(NAME):
        match envelope.payload:
            case turns.Started(turn_id=name, message_id=of) if of == message_id:
                turn = name
            case models.Called(model_call_id=name, caller=of) if of == turn:
                call, said = name, False
            case models.AssistantDelta() if envelope.owner == call:
                said = True
            case models.Failed(model_call_id=name) if name == call:
                said = False
            case _:
                pass
    return said


def is_done(log: Log, message_id: str) -> bool:
    """Tell whether the turn of a message has ended."""
    return ended(log, NAME, message_id) is not None


def is_there(log: Log, message_id: str) -> bool:
    """Tell whether a message was accepted."""
    return any(log.stream(NAME, message_entity(message_id)))

"""Rules about who stopped a turn: the log names a user, the clock or the system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from actors.entity import Moved
from actors.model.providers.scripted import call, fail, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from runefold.spec import AgentSpec, Budget
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

KINDS: Final = {"model.cancelled", "tool.result", "turn.interrupted", "turn.error"}


@tool(requires_approval=True)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


def slow(request: Request) -> Reply:
    """Pay or fail if one is told to, or else take one's time."""
    match request.messages[-1].text:
        case "pay":
            return [call("pay")]
        case "fail":
            return [fail("overloaded", retryable=True)]
        case _:
            return ["so ", pause(30), "so"]


def interrupt(there: Talk, _child: str) -> None:
    """Have a user want it to end."""
    there.session.interrupt("enough")


def steer(there: Talk, child: str) -> None:
    """Have a user want something else now."""
    there.session.send("stop", to=child, mode="steer")


def kill(there: Talk, child: str) -> None:
    """Let the agent die: its turn cannot go on without it."""
    there.session.terminate(child, force=True)


def orphan(there: Talk, _child: str) -> None:
    """Let the agent go that it belongs to, and takes it along."""
    root = there.session.state.root
    parent = next(each for each in there.session.state.members if each.agent_id != root)
    there.session.terminate(parent.agent_id)


def shut_down(there: Talk, _child: str) -> None:
    """End the runtime, which waits no longer."""
    there.stage.runtime.close(drain=True, timeout=1)
    # What is on disk is there, whoever has closed it.
    there.stage.log._closed = False


def wait(there: Talk, _child: str) -> None:
    """Let it take longer than it may."""
    there.stage.advance(100)


STOPS: Final[list[tuple[str, Callable[[Talk, str], None], str, str]]] = [
    ("go", interrupt, "enough", "user"),
    ("pay", interrupt, "enough", "user"),
    ("go", steer, "steer", "user"),
    ("pay", steer, "steer", "user"),
    ("go", kill, "agent_terminated", "system"),
    ("pay", kill, "agent_terminated", "system"),
    ("fail", kill, "agent_terminated", "system"),
    ("go", orphan, "parent_closed", "system"),
    ("pay", orphan, "parent_closed", "system"),
    ("go", shut_down, "shutdown", "system"),
    ("go", wait, "timeout", "timeout"),
    ("dear", wait, "budget_exhausted", "system"),
]
"""What it is told, how it is stopped then, and what the log says: why, and who.

One that fails is between two attempts, and has nothing under way; a dear one has little time.
"""


@pytest.mark.parametrize(("word", "how", "reason", "actor"), STOPS)
def test_whoever_stopped_a_turn_is_named(
    word: str, how: Callable[[Talk, str], None], reason: str, actor: str
) -> None:
    """With what was under way in it, and all of them say why."""
    there = talk(slow, pay)
    budget = Budget(wall_seconds=5 if word == "dear" else None)
    spec = AgentSpec(
        role="kid", model="demo", tools=["pay"], retries=9, turn_timeout=10, budget=budget
    )
    child = there.session.spawn(spec, parent=there.session.spawn(spec))
    there.session.send(word, to=child)
    there.stage.advance(1)
    how(there, child)
    if how is not shut_down:
        there.stage.advance(1)
    found = [rune for rune in there.runes() if isinstance(rune, Moved)]
    stopped = [rune for rune in found if type(rune).__struct_config__.tag in KINDS]

    told = [(rune.trigger, rune.actor) for rune in stopped[:2]]

    assert told == [(reason, actor)] * (1 if word == "fail" else 2)


@pytest.mark.parametrize("word", ["go", "pay", "fail"])
@pytest.mark.parametrize("reason", ["timeout", "budget_exhausted", "crash", "steer"])
def test_what_a_user_calls_the_reason_does_not_change_how_a_turn_ends(
    word: str, reason: str
) -> None:
    """Whoever interrupts is told that it was interrupted, also in a word of the system's own."""
    there = talk(slow, pay, retries=9)
    turn = there.session.send(word)
    there.stage.advance(1)
    there.session.interrupt(reason)
    result = turn.result(10)
    [end] = there.runes("turn.interrupted", "turn.error")

    assert (result.status, result.reason) == ("interrupted", reason)
    assert isinstance(end, Moved)
    assert (end.trigger, end.actor) == (reason, "user")


@pytest.mark.parametrize("reason", ["budget_exhausted", "error_threshold", "root_agent_failed"])
def test_what_a_user_calls_the_reason_does_not_end_a_suspension(reason: str) -> None:
    """It lasts until somebody says so, also in a word of the system's own."""
    there = talk(slow, pay)
    there.session.suspend(reason)
    there.stage.advance(1)
    state = there.session.state

    assert (state.phase, state.suspension) == (Phase.SUSPENDED, reason)

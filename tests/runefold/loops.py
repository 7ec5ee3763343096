"""Conversations that are waited for in an event loop, and ways to wait there."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from actors.model.provider import Done, Text
from actors.model.providers.scripted import call
from actors.tool.adapters.function import tool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from tests.runefold.talks import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Event, Request
    from runefold.sessions import Session
    from runefold.turns import Turn

LONG = 30.0
"""Seconds after which a test is lost; nothing that works waits for them."""
MANY = 50
"""More than an event loop has threads of its own."""
SPEC = AgentSpec(role="helper", model="demo", tools=["pay"])
QUICK = AgentSpec(role="helper", model="quick")


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Held:
    """A model that says a word, and the rest when it is let go on."""

    def __init__(self) -> None:
        """Begin held."""
        self.go_on = threading.Event()

    def stream(self, request: Request) -> Iterator[Event]:
        """Say the one and then the other."""
        del request
        yield Text("One, ")
        assert self.go_on.wait(LONG)
        yield Text("two.")
        yield Done()


def asking(request: Request) -> Iterator[Event]:
    """Ask to pay, and say so once that is done."""
    if request.messages[-1].role == "tool":
        yield Text("Done.")
    else:
        yield call("pay", amount=1)
    yield Done()


def opened(directory: Path, **options: Any) -> Runtime:  # noqa: ANN401 -- those of Runtime
    """Open a runtime with a model that asks to pay, and one that answers at once."""
    providers = {"demo": Raw(asking), "quick": Raw(lambda _: iter((Text("Hi."), Done())))}
    return Runtime.open(
        directory, tools=[pay], providers=options.pop("providers", providers), **options
    )


def waiting_for_a_human(runtime: Runtime) -> tuple[Session, Turn]:
    """Begin a session whose turn waits for somebody to approve a call."""
    session = runtime.create_session(SPEC)
    turn = session.send("Pay.")
    next(session.follow(kinds={"approval.awaiting"}, wait=LONG))
    return session, turn


def approve(session: Session) -> None:
    """Let the call run that waits."""
    session.approve(session.approvals()[0].call_id, approver="ada")


async def in_time(awaited: Any) -> Any:  # noqa: ANN401 -- whatever is awaited
    """Wait for something, but not for ever."""
    return await asyncio.wait_for(awaited, LONG)


def watching() -> set[threading.Thread]:
    """Return the threads that wait on behalf of event loops."""
    return {each for each in threading.enumerate() if each.name.startswith(("runefold-w", "async"))}


async def result_of(turn: Turn) -> Any:  # noqa: ANN401 -- how it ended
    """Wait for a turn to end."""
    return await turn


async def all_of(follower: Any) -> list[Any]:  # noqa: ANN401 -- whatever is followed
    """Read to the end."""
    return [each async for each in follower]

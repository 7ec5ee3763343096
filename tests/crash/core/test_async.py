"""A scenario in an event loop is killed everywhere: its tasks are told nothing that is lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from actors.tool.runes import Result
from runefold.async_runtime import AsyncRuntime
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import Refused, UnknownConversation

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.async_sessions import AsyncSession
    from runefold.testing import Effects
    from runefold.testing.crash.fixture import Sweeper

NAME = "conv_desk"
PATIENCE = 20.0
SPEC = AgentSpec(role="clerk", model="demo", tools=["pay"])


@tool(requires_approval=True, idempotent=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def build(directory: Path) -> Runtime:
    """Open a runtime whose model asks to pay."""
    models = {"demo": Scripted([["Shall I? ", call("pay")], ["Done."]])}
    return Runtime.open(directory, tools=[pay], providers=models)


async def scenario(opened: Runtime) -> None:
    """Have a turn, with a task that approves its call."""
    runtime = AsyncRuntime(opened)
    try:
        session = await runtime.session(NAME)
    except UnknownConversation:
        session = await runtime.create_session(SPEC, conversation_id=NAME)
    turn = await session.send("Pay.", message_id="m1")
    approving = asyncio.ensure_future(_approve(session))
    try:
        result = await turn.result(PATIENCE)
    finally:
        approving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await approving
    assert result.output == "Done."


async def _approve(session: AsyncSession) -> None:
    while True:
        async for _ in session.follow(kinds={"approval.awaiting"}, wait=PATIENCE):
            for each in await session.approvals():
                with contextlib.suppress(Refused):  # it was approved before the kill
                    await session.approve(each.call_id, approver="ada")


def check(runtime: Runtime, effects: Effects) -> None:
    """Hold that it was paid once."""
    del effects
    [result] = [each.payload for each in runtime.log.read(NAME, kinds={"tool.result"})]

    assert isinstance(result, Result)
    assert result.status == "success"


@pytest.mark.parametrize("mode", ["every", "actor"])
def test_a_scenario_in_an_event_loop_survives_every_kill(crash_sweep: Sweeper, mode: str) -> None:
    """Its tasks wait for actors that are killed under them, and ask again at the next open."""
    report = crash_sweep(build, scenario, check, mode=mode, in_process=True, seed=7)

    assert {each.status for each in report.results} == {"survived"}

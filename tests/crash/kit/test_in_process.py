"""Rules about sweeps in one process: what an app does there is what it does elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from runefold.runtime import Runtime
from runefold.testing import CrashApp
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from actors.model.provider import Event, Request
    from runefold.testing import Effects


def build(directory: Path) -> Runtime:
    """Open a bot whose tool is async, and asked about first."""

    @tool(side_effects=False, requires_approval=True)
    async def pay(cents: int) -> str:
        """Pay somebody, in words only."""
        await asyncio.sleep(0)
        return f"{cents} paid"

    def bot(request: Request) -> Sequence[str | Event]:
        last = request.messages[-1]
        return [call("pay", cents=5)] if last.role == "user" else [f"{last.status}: {last.text}"]

    return Runtime.open(directory, tools=[pay], providers={"bot": Scripted(bot)})


def scenario_for(runtime: Runtime) -> None:
    """Follow a turn with `for`, and say yes when it asks."""
    session = bots.talk(runtime)
    turn = session.send("pay", message_id="m1")
    for rune in turn.runes():
        if rune.kind == "approval.requested":
            for each in session.approvals():
                session.approve(each.call_id, approver="ada")
    turn.result(bots.PATIENCE)


async def scenario_loop(runtime: Runtime) -> None:
    """Do the same within an event loop."""
    scenario_for(runtime)
    await bots.talk(runtime).send("pay", message_id="m1")


async def scenario_async_for(runtime: Runtime) -> None:
    """Follow a turn with `async for`, and say yes when it asks."""
    session = bots.talk(runtime)
    turn = session.send("pay", message_id="m1")
    async for rune in turn.runes():
        if rune.kind == "approval.requested":
            for each in session.approvals():
                session.approve(each.call_id, approver="ada")
    await turn


async def scenario_async_in_vain(runtime: Runtime) -> None:
    """Wait in an event loop for something that never comes."""
    session = bots.talk(runtime)
    session.send("pay", message_id="m1")
    async for _ in session.follow(kinds={"session.closed"}):
        pass


def scenario_in_vain(runtime: Runtime) -> None:
    """Wait for something that never comes."""
    session = bots.talk(runtime)
    session.send("pay", message_id="m1")
    for _ in session.follow(kinds={"session.closed"}):
        pass


def scenario_for_a_while(runtime: Runtime) -> None:
    """Wait for it, but not for ever."""
    session = bots.talk(runtime)
    scenario_for(runtime)
    assert list(session.follow(kinds={"session.closed"}, wait=1)) == []


def check(runtime: Runtime, effects: Effects) -> None:
    """Hold the bot to what its tool says."""
    turn = runtime.session(bots.NAME).send("pay", message_id="m1")
    assert effects.fault or turn.result(bots.PATIENCE).output == "success: 5 paid"


def test_who_follows_with_for_has_the_others_go_on() -> None:
    """An app that answers what its calls are asked about is swept as any other."""
    app = CrashApp(build, scenario_for, check, "for")
    report = swept(app, in_process=True, mode="all", sample=60)

    assert report.ok, told(report)
    assert not report.missed


def test_a_follower_is_told_that_the_log_has_failed() -> None:
    """It does not wait until time has run out, which would change what comes after."""
    app = CrashApp(build, scenario_for, check, "for")
    last = len(swept(app, in_process=True, point="1:before-commit").boundaries)
    reports = [
        swept(app, in_process=True, point=f"{number}:sync-lost") for number in range(2, last + 1)
    ]

    assert all(report.ok for report in reports), "\n".join(map(told, reports))


def test_an_async_tool_runs_where_an_event_loop_waits_for_it() -> None:
    """Not only without a loop: it is the tool that is tested, and not an error in its place."""
    report = swept(CrashApp(build, scenario_loop, check, "loop"), in_process=True)

    assert report.ok, told(report)


def test_an_app_may_follow_in_an_event_loop() -> None:
    """Actors go on while it waits, as they do on threads, and it is told of every rune."""
    report = swept(CrashApp(build, scenario_async_for, check, "async for"), in_process=True)

    assert report.ok, told(report)


@pytest.mark.parametrize("scenario", [scenario_in_vain, scenario_async_in_vain])
def test_who_follows_in_vain_is_told_at_once(scenario: Any) -> None:  # noqa: ANN401 -- a scenario
    """Nothing more happens, and no time limit is given: that is an error, and not a hang."""
    report = swept(CrashApp(build, scenario, name="in vain"), in_process=True)

    assert not report.ok
    assert "waits in vain: nothing more happens by itself" in told(report)


def test_who_follows_for_a_while_goes_on_after_that() -> None:
    """Time passes by the clock of the stage: nobody waits for it."""
    report = swept(CrashApp(build, scenario_for_a_while, check, "while"), in_process=True, sample=5)

    assert report.ok, told(report)

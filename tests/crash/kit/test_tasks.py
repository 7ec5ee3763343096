"""Rules about apps of several tasks in one process: whoever awaits a turn holds nobody up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from runefold.testing import CrashApp
from tests.crash.kit import bots
from tests.crash.kit.test_in_process import build
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runefold.testing import Effects
    from runefold.turns import Turn


async def passes(seconds: float) -> None:
    """Wait by the loop's own clock, which is moved by hand here: nobody really does."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(seconds, over.set_result, None)
    await over


async def approve(session: Session, seconds: float) -> None:
    """Say yes to whatever is asked, looking again and again."""
    while True:
        for each in session.approvals():
            session.approve(each.call_id, approver="ada")
        await passes(seconds)


async def beside(runtime: Runtime, seconds: float) -> None:
    """Have one task wait for a turn and another one approve what it asks."""
    session = bots.talk(runtime)
    turn = session.send("pay", message_id="m1")
    approver = asyncio.create_task(approve(session, seconds))
    await turn
    approver.cancel()


async def scenario_often(runtime: Runtime) -> None:
    """Look for approvals all the time."""
    await beside(runtime, 0.02)


async def scenario_rarely(runtime: Runtime) -> None:
    """Look for approvals twice a minute."""
    await passes(30)
    await beside(runtime, 30)


async def result_of(turn: Turn) -> None:
    """Wait for a turn in a task of its own."""
    await turn


async def scenario_patient(runtime: Runtime) -> None:
    """Approve whenever a turn has not ended in time."""
    session = bots.talk(runtime)
    waiting = asyncio.ensure_future(result_of(session.send("pay", message_id="m1")))
    while not waiting.done():
        try:
            await asyncio.wait_for(asyncio.shield(waiting), 0.1)
        except TimeoutError:
            for each in session.approvals():
                session.approve(each.call_id, approver="ada")


async def scenario_both(runtime: Runtime) -> None:
    """Wait for two turns at once."""
    session = bots.talk(runtime)
    approver = asyncio.create_task(approve(session, 0.02))
    turns = [session.send("pay", message_id=name) for name in ("m1", "m2")]
    await asyncio.gather(*map(result_of, turns))
    approver.cancel()


async def scenario_in_vain(runtime: Runtime) -> None:
    """Wait an hour for somebody who never says anything."""
    await scenario_often(runtime)
    await asyncio.wait_for(asyncio.Event().wait(), 3600)


def check(runtime: Runtime, effects: Effects) -> None:
    """Hold the bot to this: what was approved was done."""
    turn = runtime.session(bots.NAME).send("pay", message_id="m1")
    assert effects.fault or turn.result(bots.PATIENCE).output == "success: 5 paid"
    assert effects.fault or effects.count("pay")


@pytest.mark.parametrize(
    "scenario", [scenario_often, scenario_rarely, scenario_patient, scenario_both]
)
def test_a_task_beside_one_that_awaits_a_turn_does_its_part(scenario: object) -> None:
    """Who approves gets to do so before the deadline, though nobody really waits for them."""
    app = CrashApp(build, scenario, check, "tasks")  # type: ignore[arg-type]  # one of the above
    report = swept(app, in_process=True, mode="all", sample=12)

    assert report.ok, told(report)
    assert not report.missed
    assert not report.varies


def test_a_time_out_of_the_app_goes_by_the_clock_of_the_stage() -> None:
    """An hour passes at once: it is the app that gives up, and it is not taken for a hang."""
    report = swept(CrashApp(build, scenario_in_vain, name="in vain"), in_process=True)

    assert "finished: TimeoutError" in told(report)
    assert "hang:" not in told(report)

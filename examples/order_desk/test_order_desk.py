"""The law by itself, a desk on a stage, and a desk that is killed at every boundary."""

import json

import pytest
from app import DESK, WISHES, build, desk, scenario
from bank import Bank
from order import ORDER, Place, Settle, Withdraw
from order_runes import Accepted, Checking, Placed

from runefold import Runtime, tool
from runefold.errors import Refused
from runefold.machines import AskHuman
from runefold.providers import Scripted
from runefold.testing.spec import Given
from runefold.testing.stage import Stage

PIANO = Given(ORDER.lifecycle, Placed("piano", 900_00))


def test_an_order_over_the_limit_waits_for_a_human() -> None:
    """What is due follows from the runes alone: first the law itself, then a human."""
    checking = PIANO.having(Checking())

    assert PIANO.when(Settle()) == [Checking()]
    assert checking.due == [AskHuman("check", "piano for 900.00")]
    with pytest.raises(Refused, match="order is paying: it cannot take Withdraw now"):
        checking.having(Accepted()).when(Withdraw())


def test_an_order_that_is_not_checked_in_time_is_cancelled(tmp_path) -> None:
    """An hour passes at once on the stage, also while the power is off."""

    @tool
    def pay(item: str, cents: int) -> str:
        """Take no money: there is no need to."""
        raise AssertionError(item, cents)

    demo = {"demo": Scripted(["Hi"])}
    stage = Stage(seed=7, kinds=[ORDER], tools=[pay], providers=demo, views=tmp_path)
    desk(stage.runtime).do(Place("piano", 900_00), "order_piano")
    stage.advance(3000)
    stage.crash()
    session = desk(stage.reopen())
    stage.advance(1000)

    assert session.history("order_piano").phase == "cancelled"
    assert session.history("order_piano").moves[-1].actor == "timeout"


def check(runtime, effects) -> None:
    """Hold that what was approved is paid, once, and nothing else."""
    session = runtime.session(DESK)
    phases = [session.history(order).phase for order in WISHES]
    paid = [each["item"] for each in Bank(effects.directory / "bank.jsonl").payments()]

    assert phases == ["paid", "paid", "cancelled"]
    assert sorted(paid) == ["pen", "piano"]
    runtime.views.catch_up()
    compare(runtime, effects.directory)


def compare(runtime, directory) -> None:
    """Hold that the file of each order shows what its runes add up to."""
    for order in WISHES if runtime.log.position else ():
        runes = [*runtime.log.stream(DESK, order)]
        if runes:
            state = Given(ORDER.lifecycle, *(each.payload for each in runes)).state
            found = json.loads((directory / "views" / "orders" / f"{order}.json").read_text())
            wanted = {"item": state.item, "cents": state.cents, "phase": state.phase}

            assert found == {**wanted, "event": runes[-1].event_id}


def compared(directory) -> Runtime:
    """Open the runtime, and compare its files with the log before anything else happens."""
    runtime = build(directory)
    compare(runtime, directory)
    return runtime


def test_every_boundary_in_process(crash_sweep) -> None:
    """The log raises where a kill would fall; the files are right after each open, too."""
    crash_sweep(compared, scenario, check, in_process=True)


@pytest.mark.crash
def test_every_boundary_by_a_kill(crash_sweep) -> None:
    """SIGKILL at each of them."""
    crash_sweep(build, scenario, check, warm="fork")

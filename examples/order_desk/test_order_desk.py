"""Killed at any boundary, the desk takes each payment once, and its files say what the log says."""

import json

import pytest
from app import DESK, WISHES, build, scenario
from bank import Bank
from order import ORDER

from runefold import Runtime
from runefold.testing.spec import Given


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

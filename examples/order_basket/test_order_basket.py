"""A basket that is killed at every boundary, and one whose session closes."""

import pytest
from app import DESK, desk, until
from basket import KINDS, Emptied, Fill
from order_runes import Placed

from runefold import Runtime, tool
from runefold.providers import Scripted
from runefold.testing.stage import Stage

DEMO = {"demo": Scripted(["Hi"])}


@tool(idempotent=True)
def pay(item: str, cents: int) -> str:
    """Take the money."""
    return f"{item}: {cents}"


def build(directory) -> Runtime:
    """Open the runtime with both machines."""
    return Runtime.open(directory, kinds=KINDS, tools=[pay], providers=DEMO)


def scenario(runtime: Runtime) -> None:
    """Order two things at once."""
    session = desk(runtime)
    session.do(Fill("pen,ink", 2_50), "basket_1")
    until(session, "basket_1", "basket.emptied")


def check(runtime, effects) -> None:
    """Hold that each order was born once, and has told the basket of its end."""
    del effects
    found = [each.payload for each in runtime.log.read(DESK)]

    assert [rune.paid for rune in found if isinstance(rune, Emptied)] == [2]
    assert [type(rune) for rune in found].count(Placed) == 2


def test_every_boundary_in_process(crash_sweep) -> None:
    """The log raises where a kill would fall, also between a child and its parent."""
    crash_sweep(build, scenario, check, in_process=True)


@pytest.mark.crash
def test_every_boundary_by_a_kill(crash_sweep) -> None:
    """SIGKILL at each of them."""
    crash_sweep(build, scenario, check, warm="fork")


def test_a_session_that_closes_cancels_what_is_in_it(tmp_path) -> None:
    """The basket ends, and its orders, which wait for a human, are told to cancel."""
    stage = Stage(seed=7, kinds=KINDS, tools=[pay], providers=DEMO, views=tmp_path)
    desk(stage.runtime).do(Fill("pen,ink", 900_00), "basket_1")
    stage.advance(60)
    session = stage.runtime.session(DESK)
    orders = [each.child for each in session.state.children if each.kind == "order"]
    session.close()

    assert [session.history(order).phase for order in orders] == ["cancelled", "cancelled"]
    assert session.state.phase == "closed"

"""A basket on a stage: its orders come to their ends, also if the power fails meanwhile."""

import pytest
from app import DESK, desk
from basket import KINDS, Emptied, Fill
from order_runes import Placed

from runefold import tool
from runefold.providers import Scripted
from runefold.testing.stage import Stage


def filled(tmp_path, cents: int) -> Stage:
    """Fill a basket with two things of one price."""

    @tool(idempotent=True)
    def pay(item: str, cents: int) -> str:
        """Take the money."""
        return f"{item}: {cents}"

    demo = {"demo": Scripted(["Hi"])}
    stage = Stage(seed=7, kinds=KINDS, tools=[pay], providers=demo, views=tmp_path)
    desk(stage.runtime).do(Fill("pen,ink", cents), "basket_1")
    return stage


@pytest.mark.parametrize("crash", [False, True])
def test_a_basket_is_empty_once_its_orders_have_ended(tmp_path, *, crash: bool) -> None:
    """Each order is born once, whenever the power fails, and tells the basket of its end."""
    stage = filled(tmp_path, 2_50)
    if crash:
        stage.crash()
        stage.reopen()
    stage.advance(60)
    found = [each.payload for each in stage.log.read(DESK)]

    assert [rune.paid for rune in found if isinstance(rune, Emptied)] == [2]
    assert [type(rune) for rune in found].count(Placed) == 2


def test_a_session_that_closes_cancels_what_is_in_it(tmp_path) -> None:
    """The basket ends, and its orders, which wait for a human, are told to cancel."""
    stage = filled(tmp_path, 900_00)
    stage.advance(60)
    session = stage.runtime.session(DESK)
    orders = [each.child for each in session.state.children if each.kind == "order"]
    session.close()

    assert [session.history(order).phase for order in orders] == ["cancelled", "cancelled"]
    assert session.state.phase == "closed"

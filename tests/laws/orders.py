"""The order of `examples/order_desk`, played on one thread: time-outs, humans, a policy.

Its law is enforced by the machinery, it asks a human, and a policy of the app judges its calls.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING, Final, Literal

from order import ORDER, Place, Withdraw

from actors.errors import Dead, Unanswered
from actors.model.providers.scripted import Scripted
from actors.tool.adapters.function import tool
from actors.tool.policy import Policy
from runefold.spec import AgentSpec
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Refused, UnknownConversation

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from runefold.testing.stage import FragileLog

DESK: Final = "conv_desk"
CHEAP, DEAR = 5_00, 900_00
HOUR: Final = 3_600


@tool(idempotent=True)
def pay(item: str, cents: int) -> str:
    """Pay, unless it is a bribe."""
    if item == "bribe":
        raise ValueError(item)
    return f"paid {cents}"


def _judged(*_: object) -> Literal["ask"]:
    """Have a human asked about every payment, as a policy of the app's might."""
    return "ask"


def place(runtime: Runtime) -> None:
    """Place orders that a human approves, denies, does not look at, and that are withdrawn."""
    try:
        session = runtime.session(DESK)
    except UnknownConversation:
        spec = AgentSpec(role="clerk", model="demo")
        session = runtime.create_session(spec, conversation_id=DESK)
    for name, item, cents in (
        ("order_cheap", "pen", CHEAP),
        ("order_bribe", "bribe", CHEAP),
        ("order_dear", "car", DEAR),
        ("order_denied", "boat", DEAR),
        ("order_lapsed", "house", DEAR),
        ("order_withdrawn", "plane", DEAR),
    ):
        runtime.do(DESK, Place(item, cents), name)
    asked = {each.call_id for each in session.approvals()}
    if "order_dear" in asked:
        session.approve("order_dear", approver="ada")
    if "order_denied" in asked:
        session.deny("order_denied", reason="too dear", approver="ada")
    for name in ("order_withdrawn", "order_cheap"):
        with contextlib.suppress(Refused):
            runtime.do(DESK, Withdraw("changed my mind"), name)


def orders(*, cut_at: int | None = None, by_hand: bool = False, goes_on: bool = True) -> FragileLog:
    """Play the orders, cut off after an append if one is named; return the log.

    With `by_hand` a function of the app's judges each call. Unless it `goes_on`, what was cut off
    stays so.
    """
    with tempfile.TemporaryDirectory() as views:
        stage = _opened(views, by_hand=by_hand)
        stage.log.cut_at, stage.log.cut_after = cut_at, True
        for again in (False, True):
            with contextlib.suppress(PowerCut, Dead, Unanswered):
                place(stage.runtime)
                stage.run()
                if not stage.log.is_cut:
                    stage.advance(HOUR + 1)
            if not stage.log.is_cut:
                break
            if not goes_on:
                stage.log.mend()
                break
            assert not again, "it is cut off once"
            stage.reopen()
        stage.log.flush()
        return stage.log


def _opened(views: str, *, by_hand: bool) -> Stage:
    policy = Policy(function=_judged) if by_hand else Policy(mode="full_access")
    model = Scripted(["Hi."])
    return Stage(kinds=[ORDER], tools=[pay], policy=policy, providers={"demo": model}, views=views)

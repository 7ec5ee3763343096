"""Apps with machines of their own, to be crashed: an order in a session, an errand outside one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from order import ORDER, Place

from runefold import AgentSpec, CallId, Runtime, tool
from runefold.errors import UnknownConversation
from runefold.providers import Scripted
from runefold.testing import CrashApp
from runelog.rune import SYSTEM
from tests.laws import purchases
from tests.laws.errands import ADVISER, ERRAND, advise, fetch, send

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.testing import Effects
    from runelog.log import Log

DESK: Final = "conv_desk"
CHEAP, DEAR = 5_00, 900_00
"""Prices below and above what a human must look at, in cents."""


def build_desk(directory: Path) -> Runtime:
    """Open a runtime with the kind of an order and the tool that its payment calls."""

    @tool(idempotent=True)
    def pay(item: str, cents: int, key: CallId) -> str:
        """Pay."""
        with (directory / "paid").open("a") as file:
            file.write(f"{key} {item} {cents}\n")
        return f"paid {cents}"

    return Runtime.open(
        directory / "log", kinds=[ORDER], tools=[pay], providers={"demo": Scripted(["Hi."])}
    )


def order_two(runtime: Runtime) -> None:
    """Place two orders, and approve the one that waits; nothing waits for their payments."""
    try:
        session = runtime.session(DESK)
    except UnknownConversation:
        spec = AgentSpec(role="clerk", model="demo")
        session = runtime.create_session(spec, conversation_id=DESK)
    runtime.do(DESK, Place("pen", CHEAP), "order_1")
    runtime.do(DESK, Place("car", DEAR), "order_2")
    runtime.wait_for(DESK, "approval.awaiting", 10)
    if any(each.call_id == "order_2" for each in session.approvals()):
        session.approve("order_2", approver="ada")


def check_orders(runtime: Runtime, effects: Effects) -> None:
    """Each order is paid."""
    del effects
    session = runtime.session(DESK)
    assert [session.history(f"order_{n}").phase for n in (1, 2)] == ["paid", "paid"]


def build_errands(directory: Path) -> Runtime:
    """Open a runtime with a machine that lives outside of sessions."""
    providers = {ADVISER: Scripted(advise)}
    return Runtime.open(directory / "log", kinds=[ERRAND], tools=[fetch], providers=providers)


class Back:
    """The ends of two errands, to wait for."""

    def __init__(self, log: Log) -> None:
        """Look into this log."""
        self._log = log

    def is_there(self) -> bool:
        """Return True if both are on disk."""
        return len([*self._log.read(SYSTEM, kinds={"errand.done"})]) == 2

    def wait(self, timeout: float | None) -> bool:
        """Wait until both are there; return True if they are."""
        found = self._log.follow(SYSTEM, kinds={"errand.done"}, wait=timeout)
        return len([*islice(found, 2)]) == 2


def send_two(runtime: Runtime) -> None:
    """Send two errands, and wait until they are back."""
    send(runtime, "errand_1", "bread")
    send(runtime, "errand_2", "milk")
    runtime.scheduler.wait(Back(runtime.log), 10)


def check_errands(runtime: Runtime, effects: Effects) -> None:
    """Each errand came back."""
    del effects
    found = {
        envelope.owner: envelope.kind
        for envelope in runtime.log.read(SYSTEM, kinds={"errand.done"})
    }
    assert sorted(found) == ["errand_1", "errand_2"]


def build_purchases(directory: Path) -> Runtime:
    """Open a runtime in which a session asks the system's conversation for something."""
    return Runtime.open(
        directory / "log",
        kinds=purchases.KINDS,
        tools=[purchases.fetch],
        providers={"demo": Scripted(["Hi."])},
    )


def purchase(runtime: Runtime) -> None:
    """Have something bought, and wait until it is there."""
    try:
        runtime.session(purchases.BUYER)
    except UnknownConversation:
        spec = AgentSpec(role="buyer", model="demo")
        runtime.create_session(spec, conversation_id=purchases.BUYER)
    runtime.do(purchases.BUYER, purchases.Buy("bread"), "purchase_1")
    runtime.wait_for(purchases.BUYER, "purchase.over", 10)


def check_purchases(runtime: Runtime, effects: Effects) -> None:
    """Check that the chore began once in the other conversation, and its end came back once."""
    del effects
    begun = [*runtime.log.read(SYSTEM, kinds={"chore.begun"})]
    answered = [*runtime.log.read(purchases.BUYER, kinds={"request.answered"})]
    assert (len(begun), len(answered)) == (1, 1)


ORDERS: Final = CrashApp(build_desk, order_two, check_orders, "orders")
ERRANDS: Final = CrashApp(build_errands, send_two, check_errands, "errands")
PURCHASES: Final = CrashApp(build_purchases, purchase, check_purchases, "purchases")
APPS: Final = {app.name: app for app in (ORDERS, ERRANDS, PURCHASES)}
"""By name."""

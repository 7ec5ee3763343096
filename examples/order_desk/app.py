"""The order desk: opens the runtime with the machine and its tool, and sells a few things."""

from pathlib import Path

from bank import Bank
from order import ORDER, Place

from runefold import AgentSpec, CallId, Runtime, Session, tool
from runefold.errors import UnknownConversation
from runefold.providers import Scripted

DESK = "conv_desk"
WISHES = {"order_pen": 2_50, "order_piano": 900_00, "order_yacht": 90_000_00}


def build(directory: Path) -> Runtime:
    """Open the runtime with the machine and the tool that it calls."""
    bank = Bank(directory / "bank.jsonl")

    @tool(on_doubt="probe", probe=bank.find)
    def pay(item: str, cents: int, key: CallId) -> str:
        """Take the money for an order."""
        return bank.pay(item, cents, key)

    return Runtime.open(directory, kinds=[ORDER], tools=[pay], providers={"demo": Scripted(["Hi"])})


def desk(runtime: Runtime) -> Session:
    """Return the session that has the orders, new or as it was left."""
    try:
        return runtime.session(DESK)
    except UnknownConversation:
        return runtime.create_session(AgentSpec(role="clerk", model="demo"), conversation_id=DESK)


def until(session: Session, order: str, *happened: str) -> None:
    """Wait until one of these runes is in an order's stream."""
    next(iter(session.follow(kinds=happened, entities={order}, wait=30)))


def scenario(runtime: Runtime) -> None:
    """Place three orders. Two are over the limit: Ada approves the piano and not the yacht."""
    session = desk(runtime)
    for order, cents in WISHES.items():
        session.do(Place(order.removeprefix("order_"), cents), order)
    until(session, "order_piano", "approval.awaiting")
    until(session, "order_yacht", "approval.awaiting")
    for asked in session.approvals():
        say = session.approve if asked.call_id == "order_piano" else session.deny
        say(asked.call_id, approver="Ada")
    for order in WISHES:
        until(session, order, "order.paid", "order.cancelled")


if __name__ == "__main__":
    with build(Path("desk")) as runtime:
        scenario(runtime)
        for order in WISHES:
            phases = [move.to for move in desk(runtime).history(order).moves]
            print(f"{order}:", " -> ".join(["new", *phases]))

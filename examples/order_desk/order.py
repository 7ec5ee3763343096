"""The law of an order, and the kind that brings it into a runtime.

    new ──> checking ──> paying ──> paid

An order within the limit is not checked. Each of the first three may end in cancelled.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from order_runes import RUNES, Accepted, Cancelled, Checking, Paid, Placed

from runefold import machines as rf

LIMIT = 100_00  # an order that costs more cents than this is checked by a human


class Phase(StrEnum):
    """What an order can be."""

    NEW = "new"
    CHECKING = "checking"
    PAYING = "paying"
    PAID = "paid"
    CANCELLED = "cancelled"


TABLE: rf.Table[Phase] = {
    Phase.NEW: {Checking: Phase.CHECKING, Accepted: Phase.PAYING, Cancelled: Phase.CANCELLED},
    Phase.CHECKING: {Accepted: Phase.PAYING, Cancelled: Phase.CANCELLED},
    Phase.PAYING: {Paid: Phase.PAID, Cancelled: Phase.CANCELLED},
    Phase.PAID: {},
    Phase.CANCELLED: {},
}


class State(msgspec.Struct, frozen=True):
    """What an order's runes add up to."""

    phase: Phase = Phase.NEW
    deadline: int | None = None
    item: str = ""
    cents: int = 0
    answer: str = ""  # of the human: `yes`, or why not
    payment: rf.tools.Result | None = None


class Place(rf.Command, frozen=True):
    """Place an order. One over 100.00 is checked by a human first."""

    begins = True
    done = "placed"
    item: Annotated[str, rf.about("What is ordered.", metavar="ITEM")]
    cents: Annotated[int, rf.about("What it costs, in cents.", metavar="CENTS")]


class Withdraw(rf.Command, frozen=True):
    """Withdraw an order. Refused once its payment has begun."""

    done = "withdrawn"
    reason: Annotated[str, rf.about("Why; it is recorded.", metavar="TEXT")] = "withdrawn"


class Settle(msgspec.Struct, frozen=True):
    """Go on: the price, the human's answer or the outcome of the payment is known."""


def decide(state: State, command: object) -> list[rf.Rune]:  # noqa: PLR0911 -- a line a case
    """Answer a command with the runes it leads to, or refuse it."""
    match state.phase, command:
        case Phase.NEW, Place(item, cents):
            return [Placed(item, cents)]
        case Phase.NEW, Settle():
            return [Checking() if state.cents > LIMIT else Accepted()]
        case Phase.CHECKING, Settle():
            return [Accepted() if state.answer == "yes" else Cancelled(state.answer)]
        case Phase.CHECKING, rf.TimeUp():
            return [Cancelled("not checked in time", actor="timeout")]
        case Phase.PAYING, Settle() if state.payment is not None:
            if state.payment.status == "success":
                return [Paid(str(state.payment.output))]
            return [Cancelled(f"the payment ended in {state.payment.status}")]
        case ((Phase.NEW | Phase.CHECKING), (Withdraw(reason) | rf.Cancel(reason))):
            return [Cancelled(reason, actor="user")]
        case ((Phase.PAYING | Phase.PAID | Phase.CANCELLED), rf.Cancel()):
            return []
        case ((Phase.NEW | Phase.CHECKING | Phase.PAYING), rf.Abandon(reason)):
            return [Cancelled(reason)]
        case _:
            raise rf.refusal(ORDER.name, state.phase, command)


def evolve(state: State, rune: rf.Rune) -> State:
    """Take a rune's data into the state; the table moves the phase."""
    match rune:
        case Placed(item, cents):
            return replace(state, item=item, cents=cents)
        case rf.approvals.Approved():
            return replace(state, answer="yes")
        case rf.approvals.Rejected(_, approver, reason):
            return replace(state, answer=f"{approver} says no: {reason}")
        case rf.tools.Result():
            return replace(state, payment=rune)
        case _:
            return state


def due(state: State) -> list[Any]:
    """Return what has to be done while the state is this one, however it was reached."""
    match state.phase:
        case Phase.CHECKING if not state.answer:
            return [rf.AskHuman("check", f"{state.item} for {state.cents / 100:.2f}")]
        case Phase.PAYING if state.payment is None:
            return [rf.CallTool("pay", "pay", {"item": state.item, "cents": state.cents})]
        case Phase.NEW | Phase.CHECKING | Phase.PAYING if state.item:
            return [Settle()]
        case _:
            return []


def shown(step: rf.Step) -> dict[str, Any]:
    """Return what the file of an order shows."""
    state = step.state
    return {"item": state.item, "cents": state.cents, "phase": state.phase, "event": step.event_id}


ORDER = rf.Kind(
    lifecycle=rf.Lifecycle(
        name="order",
        table=TABLE,
        initial=State(),
        decide=decide,
        evolve=evolve,
        due=due,
        timeouts=(rf.Timeout(Phase.CHECKING, 3600, Phase.CANCELLED),),
        enforced=True,
        version=1,
    ),
    prefix="order",
    parents=("session",),
    runes=RUNES,
    internal=frozenset({Settle}),
    actor=rf.Machine,
    commands=(Place, Withdraw),
    waits_for_human=lambda state, _: state.phase is Phase.CHECKING,
    summary=lambda state: f"{state.item}, {state.cents / 100:.2f}: {state.phase}",
    outcome=lambda state: {"phase": state.phase, "item": state.item, "cents": state.cents},
    views=(rf.StateFile(path="orders/{entity}.json", render=shown),),
)

"""The law of an order, and the kind that puts it into the runtime.

    new ──┬── checking ──> checking ──┬── accepted ──┐
          │                           │              v
          └── accepted ───────────────│──────────> paying ──┬── paid ──> paid
                                      │                     │
                                      └── cancelled ────────┴──> cancelled

An order over the limit waits for a human, who has an hour. Its payment is a call of the tool `pay`,
which is never made twice: killed at any moment, the order goes on from where it was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from order_runes import RUNES, Accepted, Cancelled, Checking, Paid, Placed, Unwanted

from runefold.machines import (
    Abandon,
    AskHuman,
    CallTool,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Rune,
    StopCall,
    Table,
    Timeout,
    TimeUp,
    about,
    approvals,
    refusal,
    tools,
)

NAME = "order"
LIMIT = 100_00
"""Orders above so many cents are checked by a human."""


class Phase(StrEnum):
    """What an order can be."""

    NEW = "new"
    CHECKING = "checking"
    PAYING = "paying"
    PAID = "paid"
    CANCELLED = "cancelled"


TABLE: Table[Phase] = {
    Phase.NEW: {Checking: Phase.CHECKING, Accepted: Phase.PAYING},
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
    answer: str = ""
    """The human's: `yes`, or why not."""
    unwanted: str = ""
    """Why it was withdrawn while its payment was under way."""
    payment: tools.Result | None = None
    receipt: str = ""


class Place(Command, frozen=True):
    """Place an order. One over 100.00 is checked by a human first."""

    begins = True
    done = "placed"

    item: Annotated[str, about("What is ordered.", metavar="ITEM")]
    cents: Annotated[int, about("What it costs, in cents.", metavar="CENTS")]


class Withdraw(Command, frozen=True):
    """Withdraw an order. Refused once it is paid."""

    done = "withdrawn"

    reason: Annotated[str, about("Why; it is recorded.", metavar="TEXT")] = "withdrawn"


class Settle(msgspec.Struct, frozen=True):
    """Go on as soon as it is known how: by the price, the human's answer or the payment."""


def decide(state: State, command: object) -> list[Rune]:  # noqa: PLR0911 -- a line for each case
    """Answer a command with the runes it leads to, or refuse it."""
    match state.phase, command:
        case Phase.NEW, Place(item, cents):
            return [Placed(item, cents)]
        case Phase.NEW, Settle():
            return [Checking() if state.cents > LIMIT else Accepted()]
        case Phase.CHECKING, Settle():
            return [Accepted() if state.answer == "yes" else Cancelled(state.answer)]
        case Phase.CHECKING, TimeUp():
            return [Cancelled("nobody looked at it in time", actor="timeout")]
        case Phase.PAYING, Settle() if state.payment is not None:
            result = state.payment
            if result.status == "success":
                return [Paid(str(result.output))]
            return [Cancelled(state.unwanted or f"the payment ended in {result.status}")]
        case Phase.PAYING, Withdraw(reason) | Cancel(reason):
            return [] if state.unwanted else [Unwanted(reason, actor="user")]
        case ((Phase.NEW | Phase.CHECKING), Withdraw(reason) | Cancel(reason)):
            return [Cancelled(reason, actor="user")]
        case ((Phase.PAID | Phase.CANCELLED), Cancel() | Abandon() | TimeUp()):
            return []
        case Phase.CANCELLED, Withdraw():
            return []
        case _, Abandon(reason):
            return [Cancelled(reason)]
        case _:
            raise refusal(NAME, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state; the table moves the phase."""
    match rune:
        case Placed(item, cents):
            return replace(state, item=item, cents=cents)
        case approvals.Approved():
            return replace(state, answer="yes")
        case approvals.Rejected(_, approver, reason):
            return replace(state, answer=f"{approver} says no: {reason}")
        case tools.Result():
            return replace(state, payment=rune)
        case Unwanted(reason):
            return replace(state, unwanted=reason)
        case Paid(receipt):
            return replace(state, receipt=receipt)
        case _:
            return state


def due(state: State) -> list[Any]:
    """Say what has to be done while the state is this one, however it was reached."""
    match state.phase:
        case Phase.NEW if state.item:
            return [Settle()]
        case Phase.CHECKING if state.answer:
            return [Settle()]
        case Phase.CHECKING:
            return [AskHuman("check", f"{state.item} for {state.cents / 100:.2f}")]
        case Phase.PAYING if state.payment is not None:
            return [Settle()]
        case Phase.PAYING:
            pay = CallTool("pay", "pay", {"item": state.item, "cents": state.cents})
            return [pay, StopCall("pay", state.unwanted)] if state.unwanted else [pay]
        case _:
            return []


def outcome(state: State) -> tuple[str, str, bool]:
    """Return what must be the same after any crash."""
    return state.phase.value, state.item, bool(state.receipt)


ORDER = Kind(
    lifecycle=Lifecycle(
        name=NAME,
        table=TABLE,
        initial=State(),
        decide=decide,
        evolve=evolve,
        due=due,
        timeouts=(Timeout(Phase.CHECKING, 3600, Phase.CANCELLED),),
        enforced=True,
    ),
    prefix=NAME,
    parents=("session",),
    runes=RUNES,
    internal=frozenset({Settle}),
    actor=Machine,
    commands=(Place, Withdraw),
    waits_for_human=lambda state, _: state.phase is Phase.CHECKING,
    summary=lambda state: f"{state.item}, {state.cents / 100:.2f}: {state.phase.value}",
    outcome=outcome,
)

"""The law of a parcel: one small, whole lifecycle that the machinery is proven on.

ordered ── packed ──> packed ── handed_over ──> under_way ── delivered ──┬──> received
   │                    │                        │   ^                   ├──> returned
   │ payment.failed     │ cancelled              └───┘ scanned           └──> lost
   │ cancelled          v
   └──────────────> cancelled
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias, assert_never

import msgspec

from runelog.lifecycle import ByField, Lifecycle, Table, Timeout, refusal
from runelog.rune import Rune

NAME = "parcel"
FORTNIGHT = 14 * 24 * 3600

Outcome: TypeAlias = Literal["received", "refused", "undeliverable", "lost"]


class Phase(StrEnum):
    """What a parcel can be."""

    ORDERED = "ordered"
    PACKED = "packed"
    UNDER_WAY = "under_way"
    RECEIVED = "received"
    RETURNED = "returned"
    LOST = "lost"
    CANCELLED = "cancelled"


# -- what happened -----------------------------------------------------------------------------


class Ordered(Rune, frozen=True, tag="parcel.ordered"):
    """The shop made this parcel: its birth."""

    address: str


class Packed(Rune, frozen=True, tag="parcel.packed"):
    """It is closed and weighed."""

    request: str
    grams: int


class HandedOver(Rune, frozen=True, tag="parcel.handed_over"):
    """The carrier has it, and has until the deadline."""

    request: str
    deadline: int


class Scanned(Rune, frozen=True, tag="parcel.scanned"):
    """The carrier saw it somewhere."""

    request: str
    place: str


class Delivered(Rune, frozen=True, tag="parcel.delivered"):
    """The journey is over, one way or another."""

    request: str
    outcome: Outcome


class Cancelled(Rune, frozen=True, tag="parcel.cancelled"):
    """Nobody wants it any more."""

    request: str


class PaymentSettled(Rune, frozen=True, tag="payment.settled"):
    """A rune of the payment, which the parcel observes."""

    cents: int


class PaymentFailed(Rune, frozen=True, tag="payment.failed"):
    """A rune of the payment, which the parcel observes."""


TABLE: Table[Phase] = {
    Phase.ORDERED: {
        Packed: Phase.PACKED,
        Cancelled: Phase.CANCELLED,
        PaymentFailed: Phase.CANCELLED,
    },
    Phase.PACKED: {HandedOver: Phase.UNDER_WAY, Cancelled: Phase.CANCELLED},
    Phase.UNDER_WAY: {
        Scanned: Phase.UNDER_WAY,
        Delivered: ByField(
            "outcome",
            {
                "received": Phase.RECEIVED,
                "refused": Phase.RETURNED,
                "undeliverable": Phase.RETURNED,
                "lost": Phase.LOST,
            },
        ),
    },
    Phase.RECEIVED: {},
    Phase.RETURNED: {},
    Phase.LOST: {},
    Phase.CANCELLED: {},
}


class State(msgspec.Struct, frozen=True):
    """What a parcel's runes add up to."""

    phase: Phase = Phase.ORDERED
    address: str = ""
    paid: int = 0
    payment_failed: bool = False
    grams: int = 0
    deadline: int | None = None
    scans: int = 0
    place: str = ""
    last_scan: str = ""
    answered: frozenset[str] = frozenset()
    """Requests that were carried out: asked again, they lead to nothing more."""


# -- commands ----------------------------------------------------------------------------------


class Pack(msgspec.Struct, frozen=True):
    """Close it and weigh it."""

    request: str
    grams: int


class HandOver(msgspec.Struct, frozen=True):
    """Give it to the carrier."""

    request: str
    deadline: int


class Scan(msgspec.Struct, frozen=True):
    """Note where it was seen."""

    request: str
    place: str


class Deliver(msgspec.Struct, frozen=True):
    """End its journey."""

    request: str
    outcome: Outcome


class Expire(msgspec.Struct, frozen=True):
    """Say what time it is."""

    request: str
    now: int


class Cancel(msgspec.Struct, frozen=True):
    """Call it off."""

    request: str


Command: TypeAlias = Pack | HandOver | Scan | Deliver | Expire | Cancel


# -- effects -----------------------------------------------------------------------------------


class AskToPack(msgspec.Struct, frozen=True):
    """The warehouse has to pack it."""


class CallCarrier(msgspec.Struct, frozen=True):
    """The carrier has to fetch it."""


class WakeAt(msgspec.Struct, frozen=True):
    """The clock has to be looked at then."""

    deadline: int


Effect: TypeAlias = AskToPack | CallCarrier | WakeAt


# -- the law -----------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    if command.request in state.answered or command.request == state.last_scan:
        return []
    match state.phase, command:
        case Phase.ORDERED, Pack(request, grams):
            return [Packed(request=request, grams=grams)]
        case Phase.PACKED, HandOver(request, deadline):
            return [HandedOver(request=request, deadline=deadline)]
        case Phase.UNDER_WAY, Scan(request, place):
            return [Scanned(request=request, place=place)]
        case Phase.UNDER_WAY, Deliver(request, outcome):
            return [Delivered(request=request, outcome=outcome)]
        case Phase.UNDER_WAY, Expire(request, now):
            assert state.deadline is not None
            if now < state.deadline:
                return []
            return [Delivered(request=request, outcome="lost")]
        case ((Phase.ORDERED | Phase.PACKED), Cancel(request)):
            return [Cancelled(request=request)]
        case _:
            raise refusal(NAME, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    replace = msgspec.structs.replace
    match rune:
        case Ordered(address):
            return replace(state, address=address)
        case PaymentSettled(cents):
            return replace(state, paid=state.paid + cents)
        case PaymentFailed():
            return replace(state, payment_failed=True)
        case Packed(request, grams):
            return replace(state, grams=grams, answered=state.answered | {request})
        case HandedOver(request, deadline):
            return replace(state, deadline=deadline, answered=state.answered | {request})
        case Scanned(request, place):
            # Only the last one is kept: a set of them all would make the fold quadratic.
            return replace(state, scans=state.scans + 1, place=place, last_scan=request)
        case Delivered(request) | Cancelled(request):
            return replace(state, deadline=None, answered=state.answered | {request})
        case _:
            return state


def due(state: State) -> list[Effect]:
    """Say what has to be done while the state is this one."""
    match state.phase:
        case Phase.ORDERED:
            return [AskToPack()] if state.paid else []
        case Phase.PACKED:
            return [CallCarrier()]
        case Phase.UNDER_WAY:
            return [WakeAt(state.deadline)] if state.deadline is not None else []
        case Phase.RECEIVED | Phase.RETURNED | Phase.LOST | Phase.CANCELLED:
            return []
        case _:
            assert_never(state.phase)


LIFECYCLE = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    observed=frozenset({PaymentFailed}),
    timeouts=(Timeout(Phase.UNDER_WAY, FORTNIGHT, Phase.LOST),),
)

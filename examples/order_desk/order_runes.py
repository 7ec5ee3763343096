"""What happens to an order. Runes are kept for ever: a field that is added later has a default."""

from __future__ import annotations

from runefold.machines import Moved, Rune, Timed


class Placed(Rune, frozen=True, tag="order.placed"):
    """A customer ordered something: the order begins."""

    item: str
    cents: int


class Checking(Timed, frozen=True, tag="order.checking"):
    """It costs more than the limit: a human has to look at it."""


class Accepted(Moved, frozen=True, tag="order.accepted"):
    """It may be paid."""


class Paid(Moved, frozen=True, tag="order.paid"):
    """The bank has taken the money."""

    receipt: str


class Cancelled(Moved, frozen=True, tag="order.cancelled"):
    """It ended without a payment."""

    reason: str


RUNES = (Placed, Checking, Accepted, Paid, Cancelled)

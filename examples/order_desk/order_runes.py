"""What happens to an order. Runes are kept for ever: a field that is added later has a default."""

from __future__ import annotations

from runefold.machines import Moved, Rune, Timed


class Placed(Rune, frozen=True, tag="order.placed"):
    """A customer ordered something: the order's birth."""

    item: str
    cents: int


class Checking(Timed, frozen=True, tag="order.checking"):
    """It costs more than the limit: a human looks at it."""


class Accepted(Moved, frozen=True, tag="order.accepted"):
    """It may be paid."""


class Unwanted(Moved, frozen=True, tag="order.unwanted"):
    """It was withdrawn while its payment was under way: that is stopped if it still can be."""

    reason: str


class Paid(Moved, frozen=True, tag="order.paid"):
    """The money is there."""

    receipt: str


class Cancelled(Moved, frozen=True, tag="order.cancelled"):
    """Nothing will come of it."""

    reason: str


RUNES = (Placed, Checking, Accepted, Unwanted, Paid, Cancelled)

"""Units in which runes and laws count. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from decimal import Decimal

SECOND: Final = 1_000_000_000
"""So many nanoseconds: times in runes are whole numbers of those."""
COST: Final = 1_000_000
"""In so many parts a unit of cost is counted."""


def counted(cost: float | Decimal) -> int:
    """Return a cost as runes count it, in whole parts; of one there may be a part, which is one.

    >>> counted(0.01), counted(0.1 + 0.2), counted(0.000_000_1)
    (10000, 300000, 1)
    """
    # What binary fractions are off by is no part of one.
    return math.ceil(round(float(cost) * COST, 3))

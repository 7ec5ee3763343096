"""Units in which runes and laws count. Pure."""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000_000_000
"""So many nanoseconds: times in runes are whole numbers of those."""
COST: Final = 1_000_000
"""In so many parts a unit of cost is counted."""

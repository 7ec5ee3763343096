"""Time as something that is spent: it passes by itself, so it is set aside a stretch at a time.

A stretch is a small part of the tightest limit. So a crash, after which nobody knows how much of a
stretch had passed, costs no more than that part; others who work under the same limit are not kept
waiting for what one of them will not need; and a limit is never passed, only reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.budget.lifecycle import lineage, spoken_for

if TYPE_CHECKING:
    from actors.budget.lifecycle import State

PARTS: Final = 20
"""Into so many stretches a limit is divided."""
SHORTEST: Final = 1_000_000_000
"""No stretch need be shorter, in nanoseconds, unless less is left."""


def stretch(state: State, scope: str) -> int:
    """Return how much time may be set aside next; 0 if none is left, or if nobody limits it.

    >>> from actors.budget.lifecycle import Scope, State
    >>> from actors.budget.runes import Amounts, Limits
    >>> stretch(State(scopes=(Scope("agt_1", limits=Limits(wall=60 * SHORTEST)),)), "agt_1")
    3000000000
    """
    found: int | None = None
    for account in lineage(state, scope):
        limit = account.limits.wall
        if limit is not None:
            part = min(max(limit // PARTS, SHORTEST), limit - spoken_for(account, "wall"))
            found = part if found is None else min(found, part)
    return max(found or 0, 0)

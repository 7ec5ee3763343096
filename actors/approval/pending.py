"""The approvals that wait for a human, as the root of their conversation lists them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.approval.runes import Aborted, Approved, Rejected, Requested
from actors.tool.runes import IN_DOUBT

if TYPE_CHECKING:
    from runelog.rune import Rune


class Pending(msgspec.Struct, frozen=True):
    """An approval that waits for a human."""

    approval_id: str
    call_id: str
    """The entity that asks: a call, or another machine."""
    reason: str
    deadline: int
    in_doubt: bool = False
    """Whether it is about a call whose outcome is not known."""


def evolve(pending: tuple[Pending, ...], rune: Rune) -> tuple[Pending, ...]:
    """Return the list after a rune of an approval."""
    match rune:
        case Requested(approval_id, call_id, _, reason, deadline, trigger=trigger):
            new = Pending(approval_id, call_id, reason, deadline, trigger == IN_DOUBT)
            return (*pending, new)
        case Approved(approval_id) | Rejected(approval_id) | Aborted(approval_id):
            return tuple(each for each in pending if each.approval_id != approval_id)
        case _:
            return pending

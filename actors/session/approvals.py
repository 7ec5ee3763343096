"""What a session knows of the calls in it: which wait for a human, and which are in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from actors.tool import runes as tools

if TYPE_CHECKING:
    from actors.approval import runes as approvals
    from actors.session.lifecycle import State
    from actors.turn import runes as turns

DOUBTS: Final = 100
"""So many calls whose outcome is not known are listed, the newest."""


class Pending(msgspec.Struct, frozen=True):
    """An approval that waits for a human."""

    approval_id: str
    call_id: str
    reason: str
    deadline: int
    in_doubt: bool = False
    """Whether it is about a call whose outcome is not known."""


def in_doubt(state: State) -> tuple[str, ...]:
    """Return the calls whose outcome is not known: those that ended so, and those asked about."""
    return *state.in_doubt, *(each.call_id for each in state.approvals if each.in_doubt)


def asked(state: State, rune: approvals.Requested) -> State:
    """Take in that a human is asked."""
    new = Pending(
        approval_id=rune.approval_id,
        call_id=rune.call_id,
        reason=rune.reason,
        deadline=rune.deadline,
        in_doubt=rune.trigger == tools.IN_DOUBT,
    )
    return replace(state, approvals=(*state.approvals, new))


def answered(state: State, approval_id: str) -> State:
    """Take in that a human is not asked any more."""
    left = tuple(each for each in state.approvals if each.approval_id != approval_id)
    return replace(state, approvals=left)


def worked(state: State, rune: turns.ToolsFinished | tools.Result) -> State:
    """Take in an outcome: whatever made the session fail before, it has come further now."""
    if isinstance(rune, tools.Result) and rune.status == "unknown":
        state = replace(state, in_doubt=(*state.in_doubt, rune.call_id)[-DOUBTS:])
    return replace(state, unclean=0) if state.unclean else state

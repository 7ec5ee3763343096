"""What a session knows of the calls in it: which wait for a human, and which are in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from actors.tool import runes as tools

if TYPE_CHECKING:
    from actors.session.lifecycle import State
    from actors.turn import runes as turns

DOUBTS: Final = 100
"""So many calls whose outcome is not known are listed, the newest."""


def in_doubt(state: State) -> tuple[str, ...]:
    """Return the calls whose outcome is not known: those that ended so, and those asked about."""
    return *state.in_doubt, *(each.call_id for each in state.approvals if each.in_doubt)


def seen_to(state: State, rune: tools.Acknowledged) -> State:
    """Take a call off the list that a human has seen to: its outcome stays unknown."""
    left = tuple(each for each in state.in_doubt if each != rune.call_id)
    return replace(state, in_doubt=left)


def worked(state: State, rune: turns.ToolsFinished | tools.Result) -> State:
    """Take in an outcome: whatever made the session fail before, it has come further now."""
    if isinstance(rune, tools.Result) and rune.status == "unknown":
        state = replace(state, in_doubt=(*state.in_doubt, rune.call_id)[-DOUBTS:])
    return replace(state, unclean=0) if state.unclean else state

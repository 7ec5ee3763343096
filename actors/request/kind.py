"""A request to another conversation, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.kind import Kind, in_a_line
from actors.request import lifecycle as law
from actors.request import runes
from actors.request.actor import RequestActor

if TYPE_CHECKING:
    from actors.kind import Waits
    from actors.request.lifecycle import State


def waits_for_others(_state: State, _waits: Waits) -> bool:
    """Return True: what it waits for is at work in another conversation, and counted there."""
    return True


def summary(state: State) -> str:
    """Return what is asked of which conversation, and the phase."""
    sent = state.sent
    return in_a_line("" if sent is None else f"{sent.machine} in {sent.to}", state.phase.value)


def outcome(state: State) -> dict[str, Any] | None:
    """Return what was asked for and how it came out."""
    sent = state.sent
    if sent is None:
        return None
    return {"machine": sent.machine, "phase": state.phase.value, "status": state.status}


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    prefix=runes.PREFIX,
    runes=(runes.Sent, runes.Withdrawn, runes.Answered),
    route=law.route,
    is_open=law.is_open,
    in_table=False,  # its caller has it due
    actor=RequestActor,
    waits_for_human=waits_for_others,
    summary=summary,
    outcome=outcome,
)

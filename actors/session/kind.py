"""A session, as the rest of the house knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors import children
from actors.kind import Kind
from actors.session import runes
from actors.session.actor import SessionActor
from actors.session.audits import Supervision
from actors.session.lifecycle import ENTITY, is_at_work
from actors.session.requests import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from actors.kind import Waits
    from actors.session.lifecycle import State


def waits_for_human(state: State, _waits: Waits) -> bool:
    """Return True if it has nothing to do by itself; its turns are asked on their own."""
    return not is_at_work(state)


def answers(state: State) -> Mapping[str, str]:
    """Return which turn answers a message, or has to end before another one does."""
    found = {each.message_id: each.turn_id for each in state.running}
    busy = {each.agent_id: each.turn_id for each in state.running}
    waiting = {each.message_id: busy[each.to] for each in state.waiting if each.to in busy}
    return waiting | found


def audience(_phase: StrEnum) -> str:
    """Tell users of every phase of their session."""
    return "user"


KIND: Final = Kind.of(
    ENTITY,
    prefix="session",
    single=True,
    streams=("msg",),
    runes=(
        runes.Created,
        runes.Activated,
        runes.InputAccepted,
        runes.InputRefused,
        runes.Paused,
        runes.Resumed,
        runes.Suspended,
        runes.Unsuspended,
        runes.Closing,
        runes.Closed,
        runes.Archived,
        runes.Rested,
        runes.Reopened,
        runes.ChildRestarted,
        runes.HandedOver,
        children.Started,
        children.Ended,
    ),
    actor=SessionActor,
    commands=COMMANDS,
    waits_for_human=waits_for_human,
    answers=answers,
    sealed_by=frozenset({runes.Closed}),
    invariants=(Supervision,),
    audience=audience,
    stuck={"suspended": 0.0, "closing": 300.0},
)

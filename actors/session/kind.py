"""A session, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from actors import children
from actors.agent import runes as agents
from actors.budget import runes as budgets
from actors.entity import Origin, begins, begins_by_user
from actors.kind import Kind, in_a_line
from actors.session import lifecycle as law
from actors.session import runes
from actors.session.actor import SessionActor
from actors.session.audits import Supervision
from actors.session.lifecycle import is_at_work
from actors.session.public_commands import COMMANDS
from actors.session.queue import message_entity
from actors.turn import runes as turns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from actors.entity import LedBy
    from actors.kind import Waits
    from actors.session.lifecycle import State
    from actors.session.members import Member
    from runelog.rune import Rune


def waits_for_human(state: State, _waits: Waits) -> bool:
    """Return True if it has nothing to do by itself; its turns are asked on their own."""
    return not is_at_work(state)


def stands_for(state: State) -> Mapping[str, str]:
    """Return which turn answers a message, or has to end before another one does."""
    found = {each.message_id: each.turn_id for each in state.running}
    busy = {each.agent_id: each.turn_id for each in state.running}
    waiting = {each.message_id: busy[each.to] for each in state.waiting if each.to in busy}
    return waiting | found


def questions(state: State) -> Mapping[str, str]:
    """Return which entity asks for each approval that waits."""
    return {each.approval_id: each.call_id for each in state.approvals}


def limits(state: State) -> Mapping[str, float]:
    """Return the time-outs that the session was created with."""
    return state.config.timeouts


def origin(state: State) -> Origin:
    """Return the labels and the client that the session was created with."""
    return Origin(state.config.labels, state.config.client_id)


def audience(_phase: StrEnum) -> str:
    """Tell users of every phase of their session."""
    return "user"


def summary(state: State) -> str:
    """Return the phase, how many turns there were, and how many messages wait."""
    why = f"{state.phase.value}: {state.suspension}" if state.suspension else state.phase.value
    turns = f"{state.stats.turns} turn" if state.stats.turns == 1 else f"{state.stats.turns} turns"
    return in_a_line(why, turns, f"{len(state.waiting)} waiting" if state.waiting else "")


def outcome(state: State) -> dict[str, Any]:
    """Return what it came to, without what only a recovery writes and what turns used.

    Which calls are in doubt and how often it was opened or restarted depends on the kill.
    """
    stats = state.stats
    return {
        "phase": state.phase.value,
        "config": state.config,
        "members": [_member(each) for each in sorted(state.members, key=_as_one)],
        "waiting": len(state.waiting),
        "running": len(state.running),
        # Behind the colon are ids of entities that crashed.
        "suspension": state.suspension.partition(":")[0],
        "exhausted": None if state.exhausted is None else state.exhausted.what,
        "failures": state.failures,
        "approvals": len(state.approvals),
        "stats": {
            name: getattr(stats, name)
            for name in (
                *("turns", "messages", "refused", "agents"),
                *("completed", "interrupted", "failed"),
            )
        },
    }


def _member(member: Member) -> dict[str, Any]:
    is_root, model, ready, spent = _as_one(member)
    return {"is_root": is_root, "model": model, "ready": ready, "spent": spent}


def _as_one(member: Member) -> tuple[bool, str, bool, bool]:
    return member.parent_id is None, member.model, member.ready, member.spent


def by_message(rune: runes.InputRefused | turns.Started) -> str:
    """Return the message that a turn answers, or that becomes none."""
    return message_entity(rune.message_id)


def by_closing(rune: agents.Terminated) -> str | None:
    """Return the session, if an agent ends with it or at the word of a user."""
    if rune.actor == "user":
        return ""
    return runes.NAME if rune.reason == law.SESSION_CLOSED else None


LED_BY: Final[Mapping[type[Rune], LedBy]] = {
    # A question of another agent is named after the call by which that asks.
    runes.InputAccepted: lambda rune: rune.message_id if rune.asked_in else "",
    runes.InputRefused: by_message,
    turns.Started: by_message,
    runes.Paused: begins,
    runes.Resumed: begins,
    runes.Suspended: begins_by_user,
    runes.Unsuspended: begins_by_user,
    runes.Closing: begins,
    runes.Archived: begins,
    runes.Rested: begins,
    runes.Reopened: begins,
    runes.ChildRestarted: begins,
    runes.HandedOver: lambda rune: rune.call_id,
    agents.Spawning: begins,
    agents.Terminated: by_closing,
    budgets.Replenished: begins_by_user,
    children.Started: lambda rune: None if rune.parent else "",
    children.Reported: lambda rune: rune.child,
}
"""What leads to the runes of a conversation that follow from no other of their entity."""


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    led_by=LED_BY,
    is_open=law.is_open,
    internal=frozenset(get_args(law.Internal)),
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
        children.Reported,
    ),
    actor=SessionActor,
    commands=COMMANDS,
    waits_for_human=waits_for_human,
    stands_for=stands_for,
    questions=questions,
    limits=limits,
    origin=origin,
    pauses=frozenset({law.Phase.PAUSED}),
    sealed_by=frozenset({runes.Closed}),
    invariants=(Supervision,),
    audience=audience,
    summary=summary,
    outcome=outcome,
    stuck={"closing": 300.0},
)

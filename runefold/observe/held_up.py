"""What a message waits for that only a human gives: an answer, or that its session goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from actors.session.kind import KIND as SESSION
from actors.session.lifecycle import Phase
from actors.session.suspension import is_stuck
from actors.shell.snapshot_policy import replayed
from actors.tool.runes import Called
from runefold.observe.session_list import asked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.approval.pending import Pending
    from actors.session.lifecycle import State
    from actors.session.queue import Running
    from runefold.observe.session_list import Approval
    from runelog.log import Log

NEWS: Final = frozenset({"approval.requested", "session.paused", "session.suspended"})
"""The kinds of runes by which a turn comes to wait for a human."""


class HeldUp(NamedTuple):
    """A message that goes on only if a human does something."""

    how: Literal["waiting", "paused", "suspended"]
    turn_id: str
    """Its turn, if it has one."""
    reason: str
    way_out: str
    """What to call."""
    approvals: tuple[Approval, ...] = ()
    """The calls that wait, of its turn, of those that this one asks, or of the one before it."""


def held_up(log: Log, conversation: str, message_id: str) -> HeldUp | None:
    """Return what a message waits for, as the log has it; None if it goes on by itself."""
    state: State = replayed(log, conversation, SESSION, SESSION.name).state
    mine = next((each for each in state.running if each.message_id == message_id), None)
    waiting = next((each for each in state.waiting if each.message_id == message_id), None)
    turn_id = "" if mine is None else mine.turn_id
    if waiting is not None or (mine is not None and is_stuck(state)):
        if state.phase is Phase.PAUSED:
            return HeldUp("paused", turn_id, "the session is paused", "session.resume()")
        if state.phase is Phase.SUSPENDED:
            more = "session.replenish(...) or " if state.out_of_budget else ""
            why = f"the session is suspended: {state.suspension}"
            return HeldUp("suspended", turn_id, why, f"{more}session.unsuspend()")
    if waiting is not None:
        mine = next((each for each in state.running if each.agent_id == waiting.to), None)
    if mine is None or not state.approvals:
        return None
    calls = {*_asked_for(state, mine)}
    pending = [each for each in state.approvals if _caller(log, conversation, each) in calls]
    if not pending:
        return None
    known = tuple(asked(log, conversation, each) for each in pending)
    why = ", ".join(f"{each.tool_name} ({each.call_id})" for each in known)
    return HeldUp("waiting", turn_id, f"a human has to answer {why}", _way_out(pending[0]), known)


def _asked_for(state: State, turn: Running) -> Iterator[str]:
    """Yield a turn, and those of other agents that it asks."""
    yield turn.turn_id
    for each in state.running:
        if each.asked_in == turn.turn_id:
            yield from _asked_for(state, each)


def _caller(log: Log, conversation: str, pending: Pending) -> str:
    first = next(iter(log.stream(conversation, pending.call_id)), None)
    return first.payload.caller if first and isinstance(first.payload, Called) else ""


def _way_out(pending: Pending) -> str:
    name = repr(pending.call_id)
    if pending.in_doubt:
        return f"session.answer({name}, 'rerun' or 'happened' or 'give_up', approver=...)"
    return f"session.approve({name}, approver=...) or session.deny({name}, approver=...)"

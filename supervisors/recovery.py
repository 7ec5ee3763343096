"""What an open settles: whatever was under way goes on, and what cannot be kept alive is suspended.

The index says which conversations have work left; only those are woken. Each wakes as it would for
a message: its actors replay, settle what is in doubt, and do what is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.report import log as operator
from actors.session import lifecycle as ask
from actors.session.lifecycle import ENTITY, is_at_work
from actors.session.runes import Reopened
from actors.tool.runes import Result
from actors.turn.lifecycle import LIFECYCLE as TURN
from actors.turn.lifecycle import works
from runelog.errors import RunefoldError
from runelog.replay import replay
from runelog.rune import Change, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.hall import Offices
    from actors.session.lifecycle import State
    from actors.turn.lifecycle import Call
    from actors.turn.lifecycle import State as TurnState
    from runelog.log import Log
    from runelog.replay import Replayed
    from supervisors.tree import Tree

SESSION = "session"
REOPENED = kind_of(Reopened)
RESULT = kind_of(Result)


class Recovery:
    """Wakes what has work left, and lays to rest what cannot be kept alive."""

    def __init__(self, log: Log, offices: Offices) -> None:
        """Begin before the log was looked at."""
        self._log = log
        self._offices = offices

    def recover(self, tree: Tree) -> list[str]:
        """Wake every conversation that has work left; return which."""
        found: dict[str, set[str]] = {}
        for work in self._log.open_work():
            found.setdefault(work.conversation, set()).add(work.entity)
        # Tells this open from others: each counts once.
        epoch = self._offices.clock.now()
        names = sorted(found)
        for name in names:
            try:
                # Counted before anything goes on: the third open in vain must not try once more.
                tree.wake(name, self._letter(name, found[name], epoch))
            except RunefoldError as error:
                # One that cannot be woken must not keep the others asleep.
                operator.error("session_not_woken", conversation=name, reason=str(error))
                self.suspend(name, error)
        return names

    def _letter(self, conversation: str, entities: set[str], epoch: int) -> ask.Reopen | None:
        """Return what a session is told of this open: nothing if only humans are waited for.

        Such a wait may take days and outlive any number of processes, and so may what is queued
        behind it; nobody failed in it.
        """
        turns = {entity for entity in entities if entity.startswith("turn_")}
        # A call is in the index only while a human is asked about it.
        asked = {entity for entity in entities if entity.startswith("call_")}
        if not entities - asked - turns - {SESSION}:
            state = self._session(conversation).state
            if not is_at_work(state) and not working(self._log, conversation, state):
                return None
        return ask.Reopen(epoch, self._has_outcome(conversation, turns))

    def _session(self, conversation: str) -> Replayed[State]:
        snapshots = self._log.snapshots
        law = ENTITY.lifecycle
        return replay(self._log, conversation, law, entity=SESSION, snapshots=snapshots)

    def _has_outcome(self, conversation: str, turns: set[str]) -> bool:
        """Tell whether a tool of a running turn came back since the last such open."""
        last = 0
        for envelope in self._log.stream(conversation, SESSION):
            if envelope.kind == REOPENED:
                last = envelope.event_id
        return any(
            envelope.event_id > last and envelope.kind == RESULT
            for turn in turns
            for envelope in self._log.stream(conversation, turn)
        )

    def suspend(self, conversation: str, error: BaseException | None) -> None:
        """Record that a session cannot be kept alive, without an actor of its own."""
        try:
            state, _, version = self._session(conversation)
            # Cut last: half of a secret would not be known for one.
            told = self._offices.redactor.text(repr(error))
            suspend = ask.Suspend(f"error_threshold: {told}"[:500])
            runes = self._offices.decided(ENTITY.lifecycle, state, suspend)
            if runes:
                change = Change(SESSION, version, runes, open=False)
                self._log.append(conversation, [change])
        except Exception as worse:  # noqa: BLE001 -- nothing is left that could be done about it
            operator.error("session_not_suspended", conversation=conversation, reason=repr(worse))


# -- who waits -----------------------------------------------------------------------------------


def working(log: Log, conversation: str, state: State) -> list[str]:
    """Name the turns of a session that do something, rather than wait for a human."""
    turns: dict[str, TurnState] = {
        each.turn_id: replay(log, conversation, TURN, entity=each.turn_id).state
        for each in state.running
    }
    answers = _answers(state)
    return [turn for turn in turns if not _waits(turn, turns, answers)]


def _answers(state: State) -> dict[str, str]:
    """Return which turn answers a message, or has to end before another one does."""
    found = {each.message_id: each.turn_id for each in state.running}
    busy = {each.agent_id: each.turn_id for each in state.running}
    waiting = {each.message_id: busy[each.to] for each in state.waiting if each.to in busy}
    return waiting | found


def _waits(
    turn: str,
    turns: Mapping[str, TurnState],
    answers: Mapping[str, str],
    above: tuple[str, ...] = (),
) -> bool:
    """Tell whether a turn waits for a human, or for another turn that does."""
    state, above = turns[turn], (*above, turn)
    if not works(state):
        return True

    def is_asked_about(call: Call) -> bool:
        asked = answers.get(call.call_id)
        if call.asked or asked is None:
            return call.asked
        # Two that wait for each other wait for nobody.
        return asked not in above and _waits(asked, turns, answers, above)

    left = [call for call in state.calls if call.status is None]
    asked = [call for call in left if is_asked_about(call)]
    # One on hold waits for those before it: if no human is asked about any of them, for nobody.
    return bool(asked) and all(call.hold or call in asked for call in left)

"""What an open settles: whatever was under way goes on, and what cannot be kept alive is suspended.

The index says which conversations have work left; only those are woken. Each wakes as it would for
a message: its actors replay, settle what is in doubt, and do what is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.clock import SECOND
from actors.errors import Unanswered
from actors.report import log as operator
from actors.session import commands as ask
from actors.session.actor import Await, Interrupt, Look
from actors.session.lifecycle import ENTITY
from actors.session.runes import Reopened
from actors.tool.runes import Result
from actors.turn.lifecycle import LIFECYCLE as TURN
from runelog.errors import RunefoldError
from runelog.replay import replay
from runelog.rune import Change, kind_of

if TYPE_CHECKING:
    from actors.hall import Offices
    from actors.turn.state import State
    from runelog.log import Log
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

        Such a wait may take days and outlive any number of processes; nobody failed in it.
        """
        turns = [entity for entity in entities if entity.startswith("turn_")]
        states = [replay(self._log, conversation, TURN, entity=turn).state for turn in turns]
        # A call is in the index only while a human is asked about it.
        asked = {entity for entity in entities if entity.startswith("call_")}
        others = entities - asked - set(turns)
        if not others and all(_waits(state, asked) for state in states):
            return None
        return ask.Reopen(epoch, self._has_outcome(conversation, turns))

    def _has_outcome(self, conversation: str, turns: list[str]) -> bool:
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
            state, _, version = replay(self._log, conversation, ENTITY.lifecycle, entity=SESSION)
            told = self._offices.redactor.text(repr(error))
            reason = f"error_threshold: {told}"[:500]
            runes = ENTITY.lifecycle.decide(state, ask.Suspend(reason))
            if runes:
                change = Change(SESSION, version, runes, open=False)
                self._log.append(conversation, [change])
        except Exception as worse:  # noqa: BLE001 -- nothing is left that could be done about it
            operator.error("session_not_suspended", conversation=conversation, reason=repr(worse))

    def drain(self, tree: Tree, timeout: float) -> None:
        """Wait until the turns that run now have ended; interrupt those that take too long."""
        end = self._offices.clock.now() + round(timeout * SECOND)
        for name in tree.awake():
            try:
                if not self._have_ended(tree, name, end):
                    for message_id in tree.ask(name, Interrupt("shutdown")):
                        tree.ask(name, Await(message_id))
            except RunefoldError as error:
                operator.warning("not_drained", conversation=name, reason=str(error))

    def _have_ended(self, tree: Tree, name: str, end: int) -> bool:
        """Wait for the turns of a conversation that run now; tell whether all ended in time."""
        for turn in tree.ask(name, Look()).running:
            left = max(0.0, (end - self._offices.clock.now()) / SECOND)
            try:
                tree.ask(name, Await(turn.message_id), left)
            except Unanswered:
                return False
        return True


def _waits(turn: State, asked: set[str]) -> bool:
    """Tell whether a turn waits for humans alone; calls on hold do not begin before those."""
    left = [call for call in turn.calls if call.status is None]
    return any(call.call_id in asked for call in left) and all(
        call.call_id in asked or call.hold for call in left
    )

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
from runelog.errors import RunefoldError
from runelog.replay import replay
from runelog.rune import Change

if TYPE_CHECKING:
    from actors.hall import Offices
    from runelog.log import Log
    from supervisors.tree import Tree

SESSION = "session"


class Recovery:
    """Wakes what has work left, and lays to rest what cannot be kept alive."""

    def __init__(self, log: Log, offices: Offices) -> None:
        """Begin before the log was looked at."""
        self._log = log
        self._offices = offices

    def recover(self, tree: Tree) -> list[str]:
        """Wake every conversation that has work left; return which."""
        names = sorted({work.conversation for work in self._log.open_work()})
        # Tells this open from others: each counts once.
        epoch = self._offices.clock.now()
        for name in names:
            try:
                # Counted before anything goes on: the third open in vain must not try once more.
                tree.wake(name, ask.Reopen(epoch))
            except RunefoldError as error:
                # One that cannot be woken must not keep the others asleep.
                operator.error("session_not_woken", conversation=name, reason=str(error))
                self.suspend(name, error)
        return names

    def suspend(self, conversation: str, error: BaseException | None) -> None:
        """Record that a session cannot be kept alive, without an actor of its own."""
        try:
            state, _, version = replay(self._log, conversation, ENTITY.lifecycle, entity=SESSION)
            reason = f"error_threshold: {error!r}"[:500]
            runes = ENTITY.lifecycle.decide(state, ask.Suspend(reason))
            if runes:
                change = Change(SESSION, version, runes, open=False)
                self._log.append(conversation, [change])
        except Exception as worse:  # noqa: BLE001 -- nothing is left that could be done about it
            operator.error("session_not_suspended", conversation=conversation, reason=repr(worse))

    def drain(self, tree: Tree, timeout: float) -> None:
        """Begin no more turns, and wait until those that run have ended; interrupt the rest."""
        clock = self._offices.clock
        end = clock.now() + round(timeout * SECOND)
        for name in tree.awake():
            try:
                state = tree.ask(name, Look())
                for turn in state.running:
                    left = max(0.0, (end - clock.now()) / SECOND)
                    tree.ask(name, Await(turn.message_id), left)
            except Unanswered:
                tree.ask(name, Interrupt("shutdown"))
            except RunefoldError as error:
                operator.warning("not_drained", conversation=name, reason=str(error))

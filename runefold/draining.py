"""Draining: running turns may end, what waits stays where it is, and nothing begins.

A turn that only waits for a human is neither waited for nor interrupted, nor is the turn that asked
it: they are found waiting at the next open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors import children
from actors.operator_log import log as operator
from actors.session.messages import Await, Interrupt, Look
from actors.units import SECOND
from runelog.errors import RunefoldError
from runelog.rune import kind_of
from supervisors.recovery import at_work

if TYPE_CHECKING:
    from actors.session.lifecycle import State
    from supervisors.tree import Tree

REASON: Final = "shutdown"


def drain(tree: Tree, timeout: float) -> None:
    """Wait until no turn works any more; interrupt those that take longer than `timeout` seconds.

    Nothing new must begin meanwhile.
    """
    clock = tree.services.clock
    end = clock.now() + round(timeout * SECOND)
    for name in tree.awake():
        if tree.kinds.root(name).conversation:
            continue  # a reserved one is no session: it has no turns
        try:
            ended = TurnsEnded(tree, name)
            left = max(0.0, (end - clock.now()) / SECOND)
            if not tree.services.scheduler.wait(ended, left):
                _interrupt(tree, name, ended.working())
        except RunefoldError as error:
            operator.warning("not_drained", conversation=name, reason=str(error))


def _interrupt(tree: Tree, name: str, turns: list[str]) -> None:
    if turns:
        halt = Interrupt(REASON, tuple(turns), "system")
        for message_id in tree.ask(name, halt):
            tree.ask(name, Await(message_id, halt))


def rest(tree: Tree) -> None:
    """Let conversations with work left record that the process ended in order.

    Passivated ones only wait for a human: that is no work, however the process ends.
    """
    left = {work.conversation for work in tree.log.open_work()}
    for name in tree.awake():
        if name in left:
            try:
                tree.ask(name, children.Rest())
            except RunefoldError as error:
                operator.warning("not_rested", conversation=name, reason=str(error))


class TurnsEnded:
    """A condition to wait for: no turn of a conversation does anything."""

    def __init__(self, tree: Tree, conversation: str) -> None:
        """Wait for the turns of this conversation."""
        self._tree = tree
        self._log = tree.log
        self._conversation = conversation
        self._telling = frozenset(
            kind_of(rune) for kind in tree.kinds for rune in kind.runes if rune not in kind.pieces
        )
        """Runes that may leave a turn with nothing to do: all but fragments."""

    def working(self) -> list[str]:
        """Return the turns that do more than wait for a human."""
        state: State = self._tree.ask(self._conversation, Look())
        running = [each.turn_id for each in state.running]
        return at_work(self._log, self._conversation, running, self._tree.kinds)

    def is_there(self) -> bool:
        """Return True if none does."""
        return not self.working()

    def wait(self, timeout: float | None) -> bool:
        """Wait until none does; return True if that came in time."""
        clock = self._tree.services.clock
        end = None if timeout is None else clock.now() + round(timeout * SECOND)
        while True:
            head = self._log.conversation(self._conversation).head
            if self.is_there():
                return True
            left = None if end is None else max(0.0, (end - clock.now()) / SECOND)
            if left == 0 or not self._stirs(head, left):
                return self.is_there()

    def _stirs(self, after: int, seconds: float | None) -> bool:
        """Wait for a rune that may leave a turn with nothing to do; return True if one came."""
        found = self._log.follow(self._conversation, after, kinds=self._telling, wait=seconds)
        return next(iter(found), None) is not None

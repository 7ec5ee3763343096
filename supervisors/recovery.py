"""Recovery when a log is opened: work that was under way goes on, or its session is suspended.

The index says which conversations have work left; only those are woken. Each wakes as it would for
a message: its actors replay, settle what is in doubt, and do what is due.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from actors import children
from actors.common_commands import Abandon
from actors.operator_log import log as operator
from actors.session.runes import Reopened
from actors.shell.snapshot_policy import replayed
from actors.shell.unattended import Unattended, unattended
from runelog.errors import RunefoldError
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.kind import Kinds
    from actors.shell.conversation import Services
    from runelog.log import Log
    from runelog.rune import Envelope
    from supervisors.tree import Tree

REOPENED = kind_of(Reopened)
MAX_REASON = 480
"""Characters of an error that are recorded."""


class Recovery:
    """Wakes conversations with work left, and suspends those whose actors keep crashing."""

    def __init__(self, log: Log, services: Services, kinds: Kinds) -> None:
        """Begin before the log was read."""
        self._log = log
        self._services = services
        self._kinds = kinds
        self._progress = frozenset(map(kind_of, kinds.progress))

    def recover(self, tree: Tree) -> list[str]:
        """Wake every conversation that has work left; return which.

        Entities of kinds that this code does not know are left alone: they wait for an app that
        knows them.
        """
        found: dict[str, set[str]] = {}
        for work in self._log.open_work():
            if self._kinds.of(work.entity) is not None:
                found.setdefault(work.conversation, set()).add(work.entity)
        # Tells this open from others: each counts once.
        epoch = self._services.clock.now()
        names = sorted(found)
        for name in names:
            try:
                # Counted before anything goes on: the third open in vain must not try once more.
                tree.wake(name, self._first_message(name, found[name], epoch))
            except RunefoldError as error:
                # A conversation that cannot be woken must not prevent the others.
                operator.error("session_not_woken", conversation=name, reason=str(error))
                self.suspend(name, error)
        return names

    def _first_message(
        self, conversation: str, entities: set[str], epoch: int
    ) -> children.Reopen | None:
        """Return the message that counts this open; None if the session only waits for humans.

        Such a wait may take days and outlive any number of processes, and so may what is queued
        behind it; nothing failed in it.
        """
        if not at_work(self._log, conversation, entities, self._kinds):
            return None
        return children.Reopen(epoch, self._has_outcome(conversation, entities))

    def _has_outcome(self, conversation: str, entities: Collection[str]) -> bool:
        """Return True if something came of the work under way since the last such open."""
        root = self._kinds.root(conversation)
        state = replayed(self._log, conversation, root, root.prefix).state
        if not getattr(state, "unclean", 0):
            # None is counted, so that none need be forgiven.
            return False
        # Nothing ended since the last open, so that it is not far behind.
        own = newest_first(self._log, conversation, root.prefix)
        last = next((each.event_id for each in own if each.kind == REOPENED), 0)
        return any(
            self._came_further(conversation, entity, last)
            for entity in entities
            if entity != root.prefix
        )

    def _came_further(self, conversation: str, entity: str, since: int) -> bool:
        for envelope in newest_first(self._log, conversation, entity):
            if envelope.event_id <= since:
                return False
            if envelope.kind in self._progress:
                return True
        return False

    def suspend(self, conversation: str, error: BaseException | None) -> None:
        """Record that a conversation cannot be kept alive, without an actor of its own."""
        try:
            ctx = unattended(conversation, self._log, self._services, self._kinds)
            # Cut last: half of a secret would not be known for one.
            told = self._services.redactor.text(repr(error))
            kind = self._kinds.root(conversation)
            Unattended(ctx, kind, kind.prefix).record(Abandon(told[:MAX_REASON]))
        except Exception as worse:  # noqa: BLE001 -- nothing is left that could be done about it
            operator.error("session_not_suspended", conversation=conversation, reason=repr(worse))


def newest_first(log: Log, conversation: str, entity: str) -> Iterator[Envelope]:
    """Yield a stream from its end on, in pieces: what is looked for is mostly among the last."""
    end, size = log.version(conversation, entity), 16
    while end:
        begin = max(end - size, 0)
        yield from reversed([*islice(log.stream(conversation, entity, begin), end - begin)])
        end, size = begin, size * 2


def at_work(log: Log, conversation: str, entities: Collection[str], kinds: Kinds) -> list[str]:
    """Return the entities with work left that are at work, rather than waiting for a human.

    An entity that waits for another one which waits for a human waits for a human too. So does one
    that is paused with its session.
    """
    states: dict[str, Any] = {}
    roots = [
        kind.prefix for kind in kinds if kind.is_root and log.version(conversation, kind.prefix)
    ]
    for entity in {*entities, *roots}:
        kind = kinds.of(entity)
        if kind is not None:
            states[entity] = replayed(log, conversation, kind, entity).state
    answers = {
        about: entity
        for name, state in states.items()
        if (kind := kinds.of(name)) is not None
        for about, entity in kind.stands_for(state).items()
    }

    def waits(entity: str, above: tuple[str, ...]) -> bool:
        kind = kinds.of(entity)
        assert kind is not None, entity

        def waits_too(about: str) -> bool | None:
            other = about if about in states else answers.get(about)
            # Two entities that wait for each other do not wait for a human.
            if other is None or other not in states or other in above:
                return None
            return waits(other, (*above, other))

        return kind.waits_for_human(states[entity], waits_too)

    halted = {
        child
        for name in roots
        if (kind := kinds.of(name)) is not None and states[name].phase in kind.pauses
        for child in children.halted(states[name].children)
    }
    return [
        name
        for name in entities
        if name in states and name not in halted and not waits(name, (name,))
    ]

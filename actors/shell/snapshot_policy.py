"""When snapshots of a conversation are taken, so that waking it reads few runes however old it is.

Every so many runes, the states of its entities are saved beside the log. They are a cache: one that
is missing, damaged or of another history is not used, and the runes are read instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.operator_log import log as operator
from runelog.errors import Closed
from runelog.replay import remember, replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.kind import Kind
    from runelog.log import Log
    from runelog.replay import Replayed

SNAPSHOT_EVERY: Final = 1_000
"""How many runes of a conversation are between two snapshots, unless an app sets it."""
FEW: Final = 10
"""A stream with no more runes than this is as quickly read as a snapshot of it."""


class EntityState(NamedTuple):
    """The present state of an entity."""

    kind: Kind
    name: str
    state: Any
    version: int
    """How many runes of its stream are in the state."""


def replayed(
    log: Log, conversation: str, kind: Kind, name: str, every: int | None = None
) -> Replayed[Any]:
    """Return an entity's state as the log has it, from the newest snapshot on.

    With `every`, a new snapshot is kept each so many runes on the way.
    """
    return replay(
        log,
        conversation,
        kind.lifecycle,
        entity=name,
        snapshots=log.snapshots,
        save_every=every,
    )


class SnapshotPolicy:
    """Takes and reads the snapshots of one conversation; none if the log has no place for them."""

    def __init__(self, log: Log, conversation: str, head: int, every: int) -> None:
        """Take one every `every` runes, the first when that many have come after `head`."""
        self._log = log
        self._conversation = conversation
        self._every = every
        self._next = head + every

    def replayed(self, kind: Kind, name: str) -> Replayed[Any]:
        """Return an entity's state as the log has it, from the newest snapshot on."""
        return replayed(self._log, self._conversation, kind, name, self._every)

    def is_due(self, head: int) -> bool:
        """Return True if enough runes have come since the last snapshot."""
        return head >= self._next and self._log.snapshots is not None

    def begun(self, head: int) -> None:
        """Take note that a snapshot of everything up to `head` is being taken."""
        self._next = head + self._every

    def keep(self, entities: Sequence[EntityState]) -> Iterator[None]:
        """Save the states of entities, one a step; all runes that led to them must be on disk."""
        snapshots = self._log.snapshots
        for kind, name, state, version in entities:
            if version <= FEW or snapshots is None:
                continue
            yield None
            try:
                latest = next(self._log.stream(self._conversation, name, version - 1), None)
                if latest is not None:
                    remember(snapshots, kind.lifecycle, latest, version, state, entity=name)
            except Closed:
                return
            except Exception as error:  # noqa: BLE001 -- a cache: without it, more runes are read
                operator.warning("no_snapshot", conversation=self._conversation, reason=str(error))
                return

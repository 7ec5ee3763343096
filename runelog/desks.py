"""What the writer keeps in mind of the conversations it appends to."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from runelog.errors import Cold, Gone, WrongVersion
from runelog.inscribe import Desk, Past
from runelog.rune import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.index import Head
    from runelog.rune import Change

MAX_DESKS: Final = 2_048
"""How many conversations are kept in mind; the index is asked again for others."""
MAX_STREAMS: Final = 32_768
"""How many streams of all of them together; a stream takes some 600 bytes."""
_LIVE: Final = State.LIVE


class Index(Past, Protocol):
    """What is committed."""

    def head(self, conversation: str) -> Head | None:
        """Return what is known of a conversation."""
        ...


def check_live(head: Head | None) -> None:
    """Refuse a conversation that cannot be appended to; one that is not there yet can."""
    if head is not None and head.state is State.ERASED:
        msg = f"{head.id} was erased: only its tombstone is left"
        raise Gone(msg)
    if head is not None and head.state is State.ARCHIVED:
        msg = f"{head.id} is archived: restore it before appending to it"
        raise Cold(msg)


class Desks:
    """One desk for each conversation that was appended to lately. The writer's lock guards them."""

    def __init__(self, index: Index) -> None:
        """Look up in `index` what is not in mind."""
        self._index = index
        self._desks: OrderedDict[str, Desk] = OrderedDict()
        self._streams = 0
        """How many streams are kept in mind, at the most: those that were dropped since count."""

    def take(self, conversation: str) -> Desk:
        """Return the desk of a conversation that can be appended to."""
        if conversation in self._desks:
            desk = self._desks[conversation]
            self._desks.move_to_end(conversation)
            if desk.rests:
                desk.resume(self._index.head(conversation))
        else:
            record = self._index.head(conversation)
            desk = self._desks[conversation] = Desk(conversation, record)
            self._clear()
        if desk.record is not None and desk.record.state is not _LIVE:
            check_live(desk.record)
        return desk

    def _clear(self) -> None:
        while len(self._desks) > MAX_DESKS:
            conversation, desk = next(iter(self._desks.items()))
            if desk.pending:
                return
            del self._desks[conversation]

    def check_versions(self, desk: Desk, changes: Sequence[Change]) -> None:
        """Have the version of every entity that changes in mind, all of them as expected."""
        versions = desk.versions
        for change in changes:
            entity, expected = change.entity, change.expected_version
            if entity not in versions:
                versions[entity] = self._version(desk, entity)
            if expected is not None and expected != versions[entity]:
                raise WrongVersion(desk.id, entity, expected, versions[entity])
            for observer in change.observers:
                if observer not in versions:
                    versions[observer] = self._version(desk, observer)

    def _version(self, desk: Desk, entity: str) -> int:
        self._streams += 1
        if self._streams > MAX_STREAMS:
            self._forget_oldest(desk)
        return 0 if desk.is_new(entity) else self._index.version(desk.id, entity)

    def _forget_oldest(self, in_use: Desk) -> None:
        """Keep half as many streams in mind, those of the conversations appended to last."""
        kept = 0
        for desk in [*reversed(self._desks.values())]:
            idle = desk is not in_use and not desk.pending
            if idle and kept + len(desk.versions) > MAX_STREAMS // 2:
                del self._desks[desk.id]
            else:
                kept += len(desk.versions)
        self._streams = kept

    def rest(self, conversation: str) -> None:
        """Keep little in mind of a conversation that is not appended to for a while."""
        desk = self._desks.get(conversation)
        if desk is not None and not desk.pending:
            desk.rest()

    def forget_segment(self) -> None:
        """Drop what is known of the active segment: another one has begun."""
        for desk in self._desks.values():
            desk.forget()

    def forget(self, conversation: str) -> None:
        """Look a conversation up anew at its next append."""
        self._desks.pop(conversation, None)

    def forget_all(self) -> None:
        """Look every conversation up anew at its next append."""
        self._desks.clear()

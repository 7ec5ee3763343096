"""What must hold of everything that actors wrote, checked over the runes alone.

Each check has its own small book-keeping and asks no law how things ought to be; that the laws
themselves still agree with what was written is one check of its own. So a law that is wrong in the
same way when it writes and when it reads is found out all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.audit import Found
from actors.audits.causes import Causes
from actors.audits.laws import Laws
from actors.audits.orphans import Orphans
from actors.audits.privacy import Privacy
from actors.catalogue import KINDS
from runelog.repair.verify import Problem
from runelog.rune import Tombstone, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.audit import Audit
    from actors.kind import Kinds
    from runelog.rune import Envelope


def held(kinds: Kinds = KINDS) -> set[str]:
    """Name the invariants that are checked here: those of every kind, and those of each."""
    own = (make() for kind in kinds for make in kind.invariants)
    audits = (Causes(kinds), Privacy(), Orphans(), *own)
    return {"INV-EVENTID-MONOTONIC", *Laws.holds}.union(*(each.holds for each in audits))


def violations(
    envelopes: Iterable[Envelope],
    *,
    at_rest: bool = False,
    kinds: Kinds = KINDS,
) -> Iterator[Problem]:
    """Yield everything that is wrong with the runes of a log, or of some of its conversations.

    Each conversation is given from its beginning and in order; several may be mixed. What has to
    come to an end must have done so where the session is closed; with `at_rest`, everywhere.
    """
    auditor = Auditor(kinds)
    for envelope in envelopes:
        yield from auditor.take(envelope)
    yield from auditor.end(at_rest=at_rest)


class Auditor:
    """Looks for everything that `violations` does, a rune at a time, as a log is written."""

    def __init__(self, kinds: Kinds = KINDS) -> None:
        """Begin before the first rune of every conversation."""
        self._kinds = kinds
        self._books: dict[str, _Book] = {}

    def take(self, envelope: Envelope) -> Iterator[Problem]:
        """Yield what is wrong with one more rune, after all that came before it."""
        name = envelope.conversation
        book = self._books.get(name)
        if book is None:
            book = self._books[name] = _Book(self._kinds)
        for found in book.take(envelope):
            yield problem(name, found)

    def end(self, *, at_rest: bool = False) -> Iterator[Problem]:
        """Yield what is wrong if nothing follows, where a session is closed or all is at rest."""
        for name, book in self._books.items():
            for found in book.end(at_rest=at_rest):
                yield problem(name, found)


def problem(conversation: str, found: Found) -> Problem:
    """Return what an audit found, as it is told."""
    where = f"{conversation} event {found.event_id}"
    return Problem(found.invariant, found.severity, where, found.message)


class _Book:
    """All checks of one conversation: those that hold for every kind, and those of each."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._laws = Laws(kinds)
        own = (make() for kind in kinds for make in kind.invariants)
        self._audits: tuple[Audit, ...] = (Causes(kinds), Privacy(), Orphans(), *own)
        self._last = 0
        self._closed = False

    def take(self, envelope: Envelope) -> Iterator[Found]:
        at, rune = envelope.event_id, envelope.payload
        if at != self._last + 1:
            message = f"it follows on event {self._last}"
            yield Found("INV-EVENTID-MONOTONIC", at, message, "fatal")
        self._last = at
        if isinstance(rune, Unknown | Tombstone):
            for audit in self._audits:
                audit.skipped(envelope)
            return
        for audit in self._audits:
            yield from audit.take(envelope)
        self._closed = self._closed or type(rune) in self._kinds.sealing
        if type(rune) in self._kinds.endings:
            for audit in self._audits:
                yield from audit.ended(at, envelope.owner)
        yield from self._laws.take(envelope)

    def end(self, *, at_rest: bool) -> Iterator[Found]:
        yield from self._laws.end(self._last)
        if at_rest or self._closed:
            for audit in self._audits:
                yield from audit.rest(self._last)

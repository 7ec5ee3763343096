"""What must hold of everything that actors wrote, checked over the runes alone.

Each check has its own small book-keeping and asks no law how things ought to be; that the laws
themselves still agree with what was written is one check of its own. So a law that is wrong in the
same way when it writes and when it reads is found out all the same.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from actors.audits.bonds import Privacy, Supervision
from actors.audits.found import Found
from actors.audits.laws import Laws
from actors.audits.money import Money
from actors.audits.tools import Tools
from actors.audits.turns import Turns
from actors.catalogue import BIRTHS
from actors.session import runes as session
from actors.turn import runes as turn
from runelog.repair.verify import Problem
from runelog.rune import SYSTEM, Rune, Tombstone, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.entity import Entity
    from runelog.repair.verify import Severity
    from runelog.rune import Envelope

SEVERITIES: Final[Mapping[str, Severity]] = {
    "INV-EVENTID-MONOTONIC": "fatal",
    "INV-TURN-SEQUENTIAL": "error",
    "INV-TURN-TERMINAL": "error",
    "INV-TURN-ORDER": "error",
    "INV-TOOL-TERMINAL": "error",
    "INV-TOOL-CALL-BEFORE-RESULT": "error",
    "INV-TOOL-APPROVAL-BEFORE-EXEC": "error",
    "INV-TOOL-SANDBOX": "error",
    "INV-AGENT-SUPERVISED": "error",
    "INV-AGENT-BUDGET": "warn",
    "INV-RESUME-NO-DUPLICATES": "error",
    "INV-RESUME-NO-GAPS": "error",
    "INV-REPLAY-DETERMINISTIC": "error",
    "INV-REPLAY-IDEMPOTENT": "error",
    "INV-MEMORY-PRIVACY": "error",
}
"""What is checked of runes and their order, and how bad it is where it does not hold.

`runelog.repair.verify` checks that runes, segments and snapshots are what they were when they were
written. What is said of channels, runs, tasks, workers and hypotheses is checked where those are.
"""

TURN_ENDS: Final = (turn.Completed, turn.Interrupted, turn.Error)


def violations(
    envelopes: Iterable[Envelope],
    *,
    at_rest: bool = False,
    births: Mapping[type[Rune], Entity] = BIRTHS,
) -> Iterator[Problem]:
    """Yield everything that is wrong with the runes of a log, or of some of its conversations.

    Each conversation is given from its beginning and in order; several may be mixed. What has to
    come to an end must have done so where the session is closed; with `at_rest`, everywhere.
    """
    auditor = Auditor(births)
    for envelope in envelopes:
        yield from auditor.take(envelope)
    yield from auditor.end(at_rest=at_rest)


class Auditor:
    """Looks for everything that `violations` does, a rune at a time, as a log is written."""

    def __init__(self, births: Mapping[type[Rune], Entity] = BIRTHS) -> None:
        """Begin before the first rune of every conversation."""
        self._births = births
        self._books: dict[str, _Book] = {}

    def take(self, envelope: Envelope) -> Iterator[Problem]:
        """Yield what is wrong with one more rune, after all that came before it."""
        name = envelope.conversation
        if name == SYSTEM:
            return
        book = self._books.get(name)
        if book is None:
            book = self._books[name] = _Book(self._births)
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
    return Problem(found.invariant, SEVERITIES[found.invariant], where, found.message)


class _Book:
    """All checks of one conversation."""

    def __init__(self, births: Mapping[type[Rune], Entity]) -> None:
        self._turns = Turns()
        self._tools = Tools()
        self._money = Money()
        self._bonds = Supervision()
        self._privacy = Privacy()
        self._laws = Laws(births)
        self._last = 0
        self._closed = False

    def take(self, envelope: Envelope) -> Iterator[Found]:
        at, owner = envelope.event_id, envelope.owner
        if at != self._last + 1:
            yield Found("INV-EVENTID-MONOTONIC", at, f"it follows on event {self._last}")
        self._last = at
        rune = envelope.payload
        if isinstance(rune, Unknown | Tombstone):
            return
        self._closed = self._closed or isinstance(rune, session.Closed)
        yield from self._turns.take(at, rune, owner)
        yield from self._tools.take(at, rune)
        yield from self._money.take(at, rune)
        yield from self._bonds.take(at, rune, owner)
        yield from self._privacy.take(envelope)
        if isinstance(rune, TURN_ENDS):
            yield from self._tools.turn_ended(at, owner)
            yield from self._money.turn_ended(at, owner)
        yield from self._laws.take(envelope)

    def end(self, *, at_rest: bool) -> Iterator[Found]:
        yield from self._laws.end(self._last)
        if at_rest or self._closed:
            parts = (self._turns, self._tools, self._money)
            yield from chain.from_iterable(part.rest(self._last) for part in parts)

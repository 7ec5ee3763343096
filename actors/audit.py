"""What an audit is: a check of one conversation over its runes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.repair.verify import Severity
    from runelog.rune import Envelope


class Found(NamedTuple):
    """Something that does not hold, at which event, and how bad that is."""

    invariant: str
    event_id: int
    message: str
    severity: Severity = "error"


class Audit:
    """One rule, or a few that share their book-keeping. It asks no law how things ought to be."""

    holds: ClassVar[tuple[str, ...]] = ()
    """The invariants that it checks."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong with one more rune, given all that came before it."""
        del envelope
        yield from ()

    def skipped(self, envelope: Envelope) -> None:
        """Take notice of a rune of a kind that this code does not know."""

    def ended(self, at: int, entity: str) -> Iterator[Found]:
        """Yield what is wrong now that an entity has come to its end, at that event."""
        del at, entity
        yield from ()

    def rest(self, at: int) -> Iterator[Found]:
        """Yield what is wrong if nothing follows."""
        del at
        yield from ()

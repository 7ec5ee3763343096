"""Causes: from any rune, following `cause` leads to what began it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from actors.audit import Audit, Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.kind import Kinds
    from runelog.rune import Envelope

ROOTED: Final = "INV-CAUSE-ROOTED"
_FIRST: Final = 2
"""The first event that follows from another: earlier versions wrote that it follows from none."""


class Causes(Audit):
    """Every rune follows from an earlier one, or is of a sort that begins something.

    What answers a message leads to that message, and to no other. Conversations that an earlier
    version began did not keep this, and are left alone.
    """

    holds = (ROOTED,)

    def __init__(self, kinds: Kinds) -> None:
        """Begin before the first rune, knowing which runes may begin something."""
        self._led_by = kinds.led_by
        self._kinds = kinds
        self._held = False
        """Whether the conversation was begun since causes lead home."""
        self._roots = array("q", [0])
        """The event in which each event's chain of causes begins, by event id."""
        self._messages: dict[str, int] = {}
        """The first event of each stream that is no entity's, as a message's is."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong with the cause of one more rune."""
        at, cause, rune = envelope.event_id, envelope.cause, envelope.payload
        if at <= _FIRST:
            births = self._kinds.root(envelope.conversation).births
            self._held = cause == 1 if at == _FIRST else type(rune) in births
        if not self._held:
            return
        for name in envelope.observers:
            if name not in self._messages and self._kinds.of(name) is None:
                self._messages[name] = at
        by = self._led_by.get(type(rune))
        led = None if by is None else by(rune)
        if not 0 <= cause < at:
            yield Found(
                ROOTED, at, f"{envelope.kind} follows from event {cause}, which comes later"
            )
        elif not cause and led != "":
            yield Found(ROOTED, at, f"{envelope.kind} follows from nothing, and begins nothing")
        elif (
            led and (began := self._messages.get(led)) and (self._root(cause) != self._root(began))
        ):
            message = f"{envelope.kind} follows from event {cause}, and not from event {began}"
            yield Found(ROOTED, at, message)
        self._keep(at, cause)

    def skipped(self, envelope: Envelope) -> None:
        """Follow the causes of runes that cannot be read, too."""
        if self._held:
            self._keep(envelope.event_id, envelope.cause)

    def _root(self, event_id: int) -> int:
        return self._roots[event_id] if event_id < len(self._roots) else 0

    def _keep(self, at: int, cause: int) -> None:
        # A log with a gap is told of elsewhere.
        self._roots.extend([0] * (at - len(self._roots)))
        if at == len(self._roots):
            self._roots.append(self._root(cause) or at)

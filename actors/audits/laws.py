"""Laws: every entity's stream can be folded, always to the same state, in one go or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.audit import Found
from runelog.decoders import from_msgpack
from runelog.lifecycle import state_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.kind import Kind, Kinds
    from runelog.rune import Envelope


PUT_AWAY: Final = 16
"""After so many runes, a state is put away and taken up again, as a snapshot would be."""


class _Fold:
    """One entity, folded from runes that were read as often as it is folded."""

    __slots__ = ("again", "broken", "count", "kind", "one", "two")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.one: Any = kind.lifecycle.initial
        self.two: Any = kind.lifecycle.initial
        self.again: Any = kind.lifecycle.initial
        """The state as it comes out if folding it was broken off now and then."""
        self.count = 0
        self.broken = False

    def take(self, envelope: Envelope) -> None:
        apply = self.kind.lifecycle.apply
        self.one = apply(self.one, envelope.payload)
        self.two = apply(self.two, envelope.payload)
        self.again = apply(self.again, envelope.payload)
        self.count += 1
        if self.count % PUT_AWAY == 1:
            stored = msgspec.msgpack.encode(self.again)
            self.again = from_msgpack(type(self.again))(stored)


class Laws:
    """Every entity's stream can be folded, and always to the same state."""

    holds = ("INV-REPLAY-DETERMINISTIC", "INV-REPLAY-IDEMPOTENT")

    def __init__(self, kinds: Kinds) -> None:
        """Know kinds of entities by the runes that begin them."""
        self._kinds = kinds
        self._folds: dict[str, _Fold] = {}

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Check that the owner and the observers of one more rune can fold it."""
        at, owner = envelope.event_id, envelope.owner
        if owner not in self._folds:
            kind = self._kinds.births.get(type(envelope.payload))
            if kind is None:
                message = f"{owner} has {envelope.kind} and was never born"
                yield Found("INV-REPLAY-DETERMINISTIC", at, message)
                return
            self._folds[owner] = _Fold(kind)
        for name in dict.fromkeys((owner, *envelope.observers)):
            fold = self._folds.get(name)
            if fold is None or fold.broken:
                continue
            try:
                fold.take(envelope)
            except Exception as error:  # noqa: BLE001 -- whatever a law makes of a rune
                fold.broken = True
                message = f"{name} cannot fold {envelope.kind}: {error}"
                yield Found("INV-REPLAY-DETERMINISTIC", at, message)

    def end(self, at: int) -> Iterator[Found]:
        """Find what folds to another state each time, or when it is broken off."""
        for name, fold in self._folds.items():
            if fold.broken:
                continue
            found = state_hash(fold.one)
            if found != state_hash(fold.two):
                message = f"{name} folds to another state each time"
                yield Found("INV-REPLAY-DETERMINISTIC", at, message)
            elif found != state_hash(fold.again):
                message = f"{name} folds to another state if that is broken off and gone on with"
                yield Found("INV-REPLAY-IDEMPOTENT", at, message)

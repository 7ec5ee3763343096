"""What became of entities, as the log has it: their moves, how long they stayed, and where.

Only tables are needed for that, no state: a rune moves an entity from one phase to another or it
does not. It reads, and wakes no session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.catalogue import KINDS
from actors.units import SECOND
from actors.view import Move
from runelog.errors import IllegalTransition, Refused
from runelog.rune import Gap, Tombstone, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

    from actors.kind import Kind, Kinds
    from runelog.log import Log
    from runelog.rune import Envelope

_SKIPPED: Final = (Tombstone, Unknown)


class Invalid(msgspec.Struct, frozen=True):
    """Where an entity's runes stop making sense."""

    event_id: int
    reason: str
    led: tuple[tuple[int, str], ...] = ()
    """The runes that led there, each as its event and its kind, that one included."""


@dataclass
class Path:
    """Where one entity stands."""

    kind: Kind
    name: str
    phase: StrEnum
    began: int
    since: int
    """When it came into the phase it is in, in nanoseconds, as the log has it."""
    event_id: int
    """The event that brought it there."""
    invalid: Invalid | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end."""
        return not self.kind.lifecycle.table[self.phase]

    def take(self, envelope: Envelope) -> Move | None:
        """Go on by a rune of its stream; return the move if it is one."""
        rune, origin = envelope.payload, self.phase
        if self.invalid is not None:
            return None
        try:
            to = self.kind.moved(origin, rune)
        except IllegalTransition as error:
            self.invalid = Invalid(envelope.event_id, str(error))
            return None
        if to is None:
            return None
        self.phase = to
        if to is not origin:
            self.since, self.event_id = envelope.time, envelope.event_id
        return Move(
            envelope.event_id,
            envelope.time / SECOND,
            self.name,
            self.kind.name,
            origin.value,
            to.value,
            envelope.kind,
            getattr(rune, "trigger", "") or envelope.kind,
            getattr(rune, "actor", "system"),
            getattr(rune, "approver", ""),
        )


def born(envelope: Envelope, kinds: Kinds = KINDS) -> Path | None:
    """Return where an entity begins, if this rune gives birth to it."""
    kind = kinds.births.get(type(envelope.payload))
    if kind is None:
        return None
    time, event_id = envelope.time, envelope.event_id
    phase: Any = kind.lifecycle.initial.phase
    return Path(kind, envelope.owner, phase, time, time, event_id)


@dataclass(frozen=True)
class History:
    """What became of one entity, from its birth on."""

    entity: str
    lifecycle: str
    phase: str
    """The one it is in; the last valid one if its runes stop making sense."""
    began: float
    """Seconds since 1970, UTC."""
    seen: float
    """When it was looked at, likewise."""
    is_over: bool
    moves: tuple[Move, ...] = field(repr=False)
    invalid: Invalid | None = None

    @property
    def seconds(self) -> dict[str, float]:
        """How long it was in each phase, until it was looked at or had come to its end."""
        found: dict[str, float] = {}
        since, phase = self.began, self.moves[0].origin if self.moves else self.phase
        for move in self.moves:
            if move.to != move.origin:
                found[phase] = found.get(phase, 0.0) + (move.time - since)
                since, phase = move.time, move.to
        if not self.is_over:
            found[phase] = found.get(phase, 0.0) + max(self.seen - since, 0.0)
        return {phase: round(seconds, 6) for phase, seconds in found.items()}


def history(log: Log, conversation: str, entity: str, now: int, kinds: Kinds = KINDS) -> History:
    """Return what became of an entity until now, or refuse one that is not there."""
    path: Path | None = None
    moves: list[Move] = []
    led: list[tuple[int, str]] = []
    for envelope in log.stream(conversation, entity):
        if isinstance(envelope.payload, _SKIPPED):
            continue
        if path is None:
            path = born(envelope, kinds) if envelope.owner == entity else None
            if path is None:
                break
        led.append((envelope.event_id, envelope.kind))
        move = path.take(envelope)
        if move is not None:
            moves.append(move)
        if path.invalid is not None:
            break
    if path is None:
        if log.version(conversation, entity) and (why := kinds.unknown(entity)):
            raise Refused(why)
        msg = f"{conversation} has no entity {entity}: `runefold log show` shows those it has"
        raise Refused(msg)
    invalid = path.invalid and msgspec.structs.replace(path.invalid, led=tuple(led))
    return History(
        entity=entity,
        lifecycle=path.kind.name,
        phase=path.phase.value,
        began=path.began / SECOND,
        seen=now / SECOND,
        is_over=path.is_over,
        moves=tuple(moves),
        invalid=invalid,
    )


def moves(log: Log, conversation: str, entity: str, kinds: Kinds = KINDS) -> Iterator[Move]:
    """Yield the moves of an entity, those there were and those to come, until it is over."""
    path: Path | None = None
    for item in log.follow(conversation):
        if isinstance(item, Gap) or isinstance(item.payload, _SKIPPED):
            continue
        if path is None and item.owner == entity:
            path = born(item, kinds)
        if path is None or entity not in {item.owner, *item.observers}:
            continue
        move = path.take(item)
        if move is not None:
            yield move
        if path.is_over or path.invalid is not None:
            return

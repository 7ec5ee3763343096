"""Sees every append of a log and every effect, and strikes when the moment has come."""

from __future__ import annotations

import threading
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from actors.catalogue import KINDS
from actors.entity import nameless
from runefold.testing.crash.instrumentation.journal import (
    Committed,
    Handled,
    Hit,
    Opened,
    Synced,
    Wrong,
)
from runefold.testing.crash.instrumentation.stable_names import Names
from runefold.testing.crash.plan.faults import OF_DISKS, ActorKilled, MadeToFail
from runefold.testing.crash.plan.points import (
    AFTER,
    BEFORE,
    BY_MESSAGE,
    EFFECT,
    OF_EFFECTS,
    REST,
    SYNC,
)
from runefold.testing.stage import PowerCut
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.kind import Kinds
    from runefold.testing.crash.instrumentation.journal import Journal
    from runefold.testing.crash.plan.points import Aim, Effect
    from runelog.log import Log
    from runelog.rune import Appended, Change

_EARLY = frozenset({BEFORE, "disk-full", "sync-lost"})
_LATE = frozenset({AFTER, "sync-eio", "clock-forward", "clock-back"})
_ON_PURPOSE: Final = tuple(each.__name__ for each in (ActorKilled, MadeToFail, PowerCut))
_TRACED: Final = 12
"""So many lines of where an error came from are kept."""


class Injection(Protocol):
    """What happens to the process at the moment that is aimed at: a kill or another fault."""

    def __call__(self, kind: str, log: Log) -> None:
        """Inject the fault; it may not return."""
        ...


@dataclass(frozen=True)
class PendingCommit:
    """A commit on its way."""

    number: int
    marks: tuple[tuple[str, int], ...]
    """Of each rune what it is told by, and the how manieth of those it is."""
    conversation: str
    kinds: tuple[str, ...]
    sums: tuple[int, ...]
    effects: tuple[Effect, ...]


def _quiet(kind: str, log: Log) -> None:
    """Let it pass."""


class Watch:
    """What is seen of one life of an app."""

    def __init__(
        self,
        life: int,
        journal: Journal,
        aim: Aim | None = None,
        strike: Injection = _quiet,
        stops: Sequence[Aim] = (),
        *,
        messages: bool = False,
    ) -> None:
        """Note everything in `journal`; at the aim, or at each of the `stops`, strike.

        With `messages`, those that actors handle are noted too.
        """
        self.life = life
        self.journal = journal
        self.aim = aim
        self._strike = strike
        self._stops = dict(enumerate(stops))
        self._messages = messages
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._count = 0
        self._seen: dict[str, int] = {}
        self._names = Names(KINDS)
        self._actors = Names(KINDS)
        """Of actors: they begin before their births are handed to the log."""
        self._begun: dict[tuple[str, str], tuple[PendingCommit, int]] = {}
        self._last: dict[str, int] = {}
        self._pending: dict[str, list[PendingCommit]] = {}
        """The commits of each conversation for which no caller has waited yet."""
        self._acknowledged: dict[str, int] = {}
        self.log: Log
        self.was_hit = False

    def opened(self, log: Log, kinds: Kinds) -> None:
        """Take note of what a log of these kinds held when it was opened."""
        self.log = log
        self._names = Names(kinds)
        heads = {each.id: each.head for each in log.conversations()}
        place = getattr(log, "directory", "")
        self.journal.note(Opened(self.life, heads, str(place)))

    def _at(self) -> float:
        return round(time.monotonic() - self._start, 6)

    # -- commits ------------------------------------------------------------------------------

    def before(
        self, log: Log, conversation: str, changes: Sequence[Change], *, durable: bool
    ) -> PendingCommit:
        """See an append come; strike if it must not get through."""
        if durable:
            # It takes with it what was appended before and is not on disk yet.
            self._strike_pending([conversation], log)
        runes = [rune for change in changes for rune in change.runes]
        with self._lock:
            self._count += 1
            names = self._names
            marks = [(mark, self._occurs(mark)) for mark in names.marks(conversation, changes)]
            marks += [(mark, REST) for mark in names.over(conversation, changes)]
            passing = PendingCommit(
                self._count,
                tuple(marks),
                conversation,
                tuple(map(kind_of, runes)),
                tuple(zlib.crc32(msgspec.msgpack.encode(rune)) for rune in runes),
                tuple(self._names.effects(conversation, runes)),
            )
            for which, effect in enumerate(passing.effects, 1):
                self._begun[conversation, effect.entity] = (passing, which)
        # What others append without waiting may be appended and waited for at once in this run.
        self._strike_at(_EARLY | {SYNC} if durable else _EARLY, passing, 1, log)
        return passing

    def _occurs(self, mark: str) -> int:
        occurrence = self._seen[mark] = self._seen.get(mark, 0) + 1
        return occurrence

    def after(self, log: Log, passing: PendingCommit, appended: Appended, *, durable: bool) -> None:
        """See an append made; strike if nothing must follow from it."""
        with self._lock:
            last = self._last.get(passing.conversation, 0)
            self._last[passing.conversation] = max(last, appended.last)
            if not durable:
                self._pending.setdefault(passing.conversation, []).append(passing)
            self.journal.note(
                Committed(
                    self.life,
                    passing.number,
                    *passing.marks[0],
                    passing.conversation,
                    passing.kinds,
                    appended.first,
                    passing.sums,
                    self._at(),
                    passing.effects,
                )
            )
        if durable:
            self.acknowledged({passing.conversation: appended.last}, waited=False)
        self._strike_at(_LATE, passing, 1, log)

    def syncing(self, log: Log, conversation: str | None) -> dict[str, int]:
        """See a sync come for which a caller waits; strike if it must not get through.

        Returns up to which event each conversation concerned was appended to so far.
        """
        with self._lock:
            names = [*self._last] if conversation is None else [conversation]
            upto = {name: self._last[name] for name in names if name in self._last}
        self._strike_pending(names, log)
        return upto

    def _strike_pending(self, names: Sequence[str], log: Log) -> None:
        """Strike if unsynced commits must not get to disk."""
        with self._lock:
            passing = [each for name in names for each in self._pending.get(name, [])]
        for each in passing:
            self._strike_at({SYNC}, each, 1, log)

    def acknowledged(self, upto: dict[str, int], *, waited: bool = True) -> None:
        """Take note that everything up to there is durable: from now on it may not be lost.

        Whether a caller waited for that, or it was part of an append.
        """
        with self._lock:
            for name, at in upto.items():
                pending = self._pending.pop(name, None)
                if at > self._acknowledged.get(name, 0):
                    self._acknowledged[name] = at
                    number = pending[-1].number if pending and waited else 0
                    self.journal.note(Synced(self.life, name, at, number))

    # -- messages -----------------------------------------------------------------------------

    def leave_off(self) -> None:
        """Note no more messages: from here on they are those of the judge."""
        self._messages = False

    def receives(self, actor: str, kind: str, message: object) -> str:
        """See an actor about to handle a message; return how it is to die of that, if it is."""
        conversation, _, entity = actor.partition("/")
        with self._lock:
            talk = self._names.talk(conversation)
            name = entity
            if nameless(entity) != entity:
                name = self._actors.numbered(entity, kind, talk)
            mark = f"{talk} {name} {type(message).__name__}"
            occurrence = self._occurs(mark)
            if self._messages:
                self.journal.note(Handled(self.life, mark, occurrence, self._at()))
        aim = self.aim
        if aim is None or aim.kind not in BY_MESSAGE or self.was_hit:
            return ""
        if not aim.is_at([(mark, occurrence)], 0):
            return ""
        self.was_hit = True
        self.journal.note(Hit(self.life, 0, self._at(), aim.kind))
        return aim.kind

    # -- effects ------------------------------------------------------------------------------

    def fault_of(self, conversation: str, entity: str, kinds: Sequence[str]) -> str:
        """Return which of some faults befalls an effect that is about to begin; none as a rule."""
        begun = self._begun.get((conversation, entity))
        if begun is None or self.aim is None or self.aim.kind not in kinds or self.was_hit:
            return ""
        passing, which = begun
        if not self._is_aim(passing, which):
            return ""
        self._hit(passing, conversation, entity)
        return self.aim.kind

    def effect_done(self, conversation: str, entity: str) -> None:
        """See an effect done; strike if its outcome must not be reported."""
        begun = self._begun.get((conversation, entity))
        if begun is not None:
            self._strike_at({EFFECT}, *begun, self.log)

    # -- errors -------------------------------------------------------------------------------

    def failed(self, what: str, details: str) -> None:
        """See that only operators are told of an error: it counts against the app.

        Not if it is what was done on purpose, nor on a disk that was made to fail.
        """
        on_disk = self.was_hit and self.aim is not None and self.aim.kind in OF_DISKS
        if on_disk or any(name in details for name in _ON_PURPOSE):
            return
        lines = details.splitlines()
        told = f"{what}: {lines[-1] if lines else 'nobody knows why'}"
        self.journal.note(Wrong(self.life, "actor", "\n".join([told, *lines[-_TRACED:-1]])))

    # -- striking -----------------------------------------------------------------------------

    def _is_aim(self, passing: PendingCommit, which: int) -> bool:
        return self.aim is not None and self._is_at(self.aim, passing, which)

    @staticmethod
    def _is_at(aim: Aim, passing: PendingCommit, which: int) -> bool:
        if aim.kind in OF_EFFECTS and aim.mark:
            return passing.effects[which - 1].mark == aim.mark
        return aim.which == which and aim.is_at(passing.marks, passing.number)

    def _strike_at(
        self, kinds: set[str] | frozenset[str], passing: PendingCommit, which: int, log: Log
    ) -> None:
        if self.aim is not None:
            if self.aim.kind in kinds and not self.was_hit and self._is_aim(passing, which):
                self._hit(passing)
                self._strike(self.aim.kind, log)
            return
        for number, stop in [*self._stops.items()]:
            if stop.kind in kinds and self._is_at(stop, passing, which):
                # Once each: a kill would have ended it the first time.
                del self._stops[number]
                at = self._at()
                self.journal.note(Hit(self.life, passing.number, at, stop.kind, which, number))
                self._strike(stop.kind, log)

    def _hit(self, passing: PendingCommit, conversation: str = "", entity: str = "") -> None:
        aim = self.aim
        assert aim is not None
        self.was_hit = True
        at, number = self._at(), passing.number
        self.journal.note(Hit(self.life, number, at, aim.kind, aim.which, 0, conversation, entity))

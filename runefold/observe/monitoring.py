"""Monitoring: how many entities are in which phase, how often, and what needs attention.

A monitor reads the log from its beginning, and from then on only what is new. Of entities that have
come to their end it keeps sums alone: it grows with the sessions that there are, and not with what
happens in them. What was archived before it looked is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from actors.approval import runes as approvals
from actors.budget import runes as budgets
from actors.catalogue import KINDS
from actors.session import runes as sessions
from actors.session.kind import KIND as SESSION
from actors.shell.shell import NEAR
from actors.tool import runes as tools
from actors.turn.kind import KIND as TURN
from actors.units import SECOND
from runefold import checks
from runefold.observe.history import Path, born
from runelog.errors import Refused
from runelog.rune import Gap, State, Tombstone, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.kind import Kinds
    from runelog.log import Log
    from runelog.rune import Envelope, Rune


@dataclass(frozen=True)
class Rules:
    """What needs attention. Phases are named `lifecycle.phase`.

    >>> Rules(stuck={"tool.executing": 30, "session.suspended": None}, failing=5).failing
    5
    >>> Rules(stuck={"tool.running": 30}).limits(KINDS)
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: there is no phase tool.running: `runefold lifecycles` lists them
    """

    stuck: Mapping[str, float | None] = field(default_factory=dict)
    """Seconds that may be spent in a phase, where they are to differ; None for without end."""
    failing: int = 3
    """So many turns of a session that fail in a row, or restarts without a turn that completes."""
    budget: bool = True
    """Whether a budget that has refused a call counts."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not isinstance(self.stuck, Mapping):
            msg = f"stuck is {checks.shown(self.stuck)}: give seconds by phase, in a dict"
            raise Refused(msg)
        for name, seconds in self.stuck.items():
            if seconds is not None:
                checks.number(seconds, f"the seconds of {name}", zero=True)
        checks.count(self.failing, "failing", least=1)

    def limits(self, kinds: Kinds) -> dict[str, float]:
        """Return how many seconds may be spent in which phase; `Refused` if there is no such."""
        known = {f"{kind.name}.{phase.value}" for kind in kinds for phase in kind.lifecycle.table}
        for name in self.stuck:
            if name not in known:
                msg = f"there is no phase {name}: `runefold lifecycles` lists them"
                raise Refused(msg)
        found: dict[str, float | None] = {
            f"{kind.name}.{phase}": at for kind in kinds for phase, at in kind.stuck.items()
        }
        return {name: at for name, at in {**found, **self.stuck}.items() if at is not None}


class Alert(msgspec.Struct, frozen=True):
    """Something that needs attention."""

    rule: str
    """`stuck`, `failing`, `over_budget`, `suspended`, `in_doubt`, `approval`, `invalid`, or `view`
    for a view that fails."""
    conversation: str
    entity: str
    message: str
    since: float
    """Seconds since 1970, UTC."""
    event_id: int
    """Where to look."""


class PhaseCount(msgspec.Struct, frozen=True):
    """Figures of one phase of one kind of entity."""

    lifecycle: str
    phase: str
    here: int
    """How many are in it now."""
    entered: int
    """How often it was entered."""
    per_hour: float
    """How often in an hour, of the time that was looked at."""
    seconds: float
    """Spent in it, by all of them together; none after an end."""


@dataclass
class _Sum:
    entered: int = 0
    spent: int = 0


@dataclass
class _Watched:
    """What is kept of one conversation."""

    paths: dict[str, Path] = field(default_factory=dict)
    failures: list[tuple[int, int]] = field(default_factory=list)
    """Turns in a row that failed: when, and where."""
    restarts: list[tuple[int, int]] = field(default_factory=list)
    exhausted: dict[str, tuple[int, int, budgets.Exhausted]] = field(default_factory=dict)
    suspended: tuple[int, int, str] | None = None
    """Since when it is suspended, where, and why."""
    doubts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The calls whose outcome is not known, of which no human has said what became of them."""
    asked: dict[str, tuple[int, int, approvals.Requested]] = field(default_factory=dict)
    """The approvals that wait for a human."""


class Monitor:
    """Looks at everything in a log, and at what is new each time it is asked."""

    def __init__(
        self,
        log: Log,
        rules: Rules | None = None,
        *,
        conversation: str = "",
        now: Callable[[], int] = time.time_ns,
        kinds: Kinds = KINDS,
        beside: Callable[[], Iterable[Alert]] = tuple,
    ) -> None:
        """Begin before the first rune; of one conversation only, if it is named.

        `beside` gives alerts that cannot be found in the log.
        """
        self._beside = beside
        self._log = log
        self._now = now
        self._kinds = kinds
        self._rules = rules or Rules()
        self._limits = self._rules.limits(kinds)
        self._only = conversation
        self._after = 0
        self._watched: dict[str, _Watched] = {}
        self._sums: dict[tuple[str, str], _Sum] = {}
        self._first = 0

    def catch_up(self) -> None:
        """Take in what was written since."""
        if self._only:
            for envelope in self._log.read(self._only, self._after):
                self.take(envelope)
                self._after = envelope.event_id
            return
        for item in self._log.read_all(self._after):
            if isinstance(item, Gap):
                self._after = item.last
                self._forget_cold()
            else:
                self.take(item)
                self._after = item.position

    def _forget_cold(self) -> None:
        """Forget conversations that were archived or erased."""
        live = {each.id for each in self._log.conversations() if each.state is State.LIVE}
        self._watched = {name: watched for name, watched in self._watched.items() if name in live}

    def take(self, envelope: Envelope) -> None:
        """Take in one rune, in order."""
        rune = envelope.payload
        if isinstance(rune, Tombstone | Unknown):
            return
        self._first = self._first or envelope.time
        watched = self._watched.setdefault(envelope.conversation, _Watched())
        if envelope.owner not in watched.paths:
            path = born(envelope, self._kinds)
            if path is not None:
                watched.paths[envelope.owner] = path
                self._sum(path).entered += 1
        for name in (envelope.owner, *envelope.observers):
            path = watched.paths.get(name)
            if path is not None:
                self._move(watched, path, envelope)
        self._note(watched, envelope, rune)

    def _sum(self, path: Path) -> _Sum:
        return self._sums.setdefault((path.kind.name, path.phase.value), _Sum())

    def _move(self, watched: _Watched, path: Path, envelope: Envelope) -> None:
        before, since = self._sum(path), path.since
        move = path.take(envelope)
        if move is None or move.to == move.origin:
            return
        before.spent += max(envelope.time - since, 0)
        self._sum(path).entered += 1
        if path.kind is TURN and path.is_over:
            failed = [*watched.failures, (envelope.time, envelope.event_id)]
            watched.failures = failed if move.to == "error" else []
            if move.to == "completed":
                watched.restarts.clear()
        if path.is_over:
            del watched.paths[path.name]
        if path.kind is SESSION and move.to == "closed":
            watched.failures, watched.exhausted, watched.restarts = [], {}, []
            watched.doubts.clear()

    def _note(self, watched: _Watched, envelope: Envelope, rune: Rune) -> None:
        at = envelope.time, envelope.event_id
        match rune:
            case budgets.Exhausted(scope):
                watched.exhausted[scope] = (*at, rune)
            case budgets.Replenished(scope) | budgets.Limited(scope) | budgets.Closed(scope):
                watched.exhausted.pop(scope, None)
            case sessions.ChildRestarted():
                watched.restarts.append(at)
            case sessions.Suspended(reason=reason):
                watched.suspended = (*at, reason)
            case sessions.Unsuspended():
                watched.failures, watched.restarts, watched.suspended = [], [], None
            case sessions.Closing():
                watched.suspended = None
            case tools.Result(call_id, "unknown"):
                watched.doubts[call_id] = at
            case tools.Acknowledged(call_id):
                watched.doubts.pop(call_id, None)
            case approvals.Requested(approval_id):
                watched.asked[approval_id] = (*at, rune)
            case approvals.Approved(name) | approvals.Rejected(name) | approvals.Aborted(name):
                watched.asked.pop(name, None)
            case _:
                pass

    # -- what there is to tell ------------------------------------------------------------------

    def phases(self) -> list[PhaseCount]:
        """Return the figures of each phase that an entity was in."""
        self.catch_up()
        now = self._now()
        here: dict[tuple[str, str], list[int]] = {}
        for watched in self._watched.values():
            for path in watched.paths.values():
                here.setdefault((path.kind.name, path.phase.value), []).append(path.since)
        hours = max(now - self._first, SECOND) / (3_600 * SECOND)
        order = [(each.name, phase.value) for each in self._kinds for phase in each.lifecycle.table]
        found = []
        for key in order:
            if key in self._sums:
                spent = self._sums[key].spent + sum(max(now - at, 0) for at in here.get(key, ()))
                entered = self._sums[key].entered
                ended = self._ended(key)
                found.append(
                    PhaseCount(
                        *key,
                        here=entered if ended else len(here.get(key, ())),
                        entered=entered,
                        per_hour=entered / hours,
                        seconds=spent / SECOND,
                    )
                )
        return found

    def _ended(self, key: tuple[str, str]) -> bool:
        """Return True if a phase has no way out."""
        kind = self._kinds[key[0]]
        return any(phase.value == key[1] and not row for phase, row in kind.lifecycle.table.items())

    def alerts(self) -> list[Alert]:
        """Return what needs attention now, the oldest first."""
        self.catch_up()
        now = self._now()
        found = [
            alert
            for name, watched in self._watched.items()
            for alert in (
                *self._of_paths(name, watched, now),
                *self._of_course(name, watched),
                *self._of_humans(name, watched, now),
            )
        ]
        return sorted(
            [*found, *self._beside()],
            key=lambda each: (each.since, each.conversation, each.event_id),
        )

    def _of_paths(self, conversation: str, watched: _Watched, now: int) -> Iterator[Alert]:
        limits = self._limits
        for path in watched.paths.values():
            name, since, at = path.name, path.since, path.event_id
            if path.invalid is not None:
                reason, at = path.invalid.reason, path.invalid.event_id
                yield Alert("invalid", conversation, name, reason, since / SECOND, at)
                continue
            limit = limits.get(f"{path.kind.name}.{path.phase.value}")
            if limit is not None and now - since >= limit * SECOND:
                seconds = max(now - since, 0) / SECOND
                message = f"{path.kind.name} {path.phase.value} for {seconds:,.0f} s"
                yield Alert("stuck", conversation, name, message, since / SECOND, at)

    def _of_humans(self, conversation: str, watched: _Watched, now: int) -> Iterator[Alert]:
        """Yield what only a human can settle."""
        if watched.suspended is not None:
            since, at, reason = watched.suspended
            message = f"suspended: {reason}"
            yield Alert("suspended", conversation, SESSION.name, message, since / SECOND, at)
        for call, (since, at) in watched.doubts.items():
            message = "it is not known whether it happened: look, then acknowledge it"
            yield Alert("in_doubt", conversation, call, message, since / SECOND, at)
        for since, at, rune in watched.asked.values():
            if rune.trigger == tools.IN_DOUBT:
                message = "it is not known whether it happened: answer what became of it"
                yield Alert("in_doubt", conversation, rune.asker, message, since / SECOND, at)
            if now >= rune.deadline - (rune.deadline - since) // NEAR:
                left = max(rune.deadline - now, 0) / SECOND
                message = f"it waits for approval, and lapses in {left:,.0f} s"
                yield Alert("approval", conversation, rune.asker, message, since / SECOND, at)

    def _of_course(self, conversation: str, watched: _Watched) -> Iterator[Alert]:
        many = self._rules.failing
        for what, found in (("turns failed", watched.failures), ("restarts", watched.restarts)):
            if len(found) >= many:
                since, at = found[-1]
                message = f"{len(found)} {what} in a row"
                yield Alert("failing", conversation, SESSION.name, message, since / SECOND, at)
        if self._rules.budget:
            for scope, (since, at, rune) in watched.exhausted.items():
                used = budgets.in_units(rune.what, rune.used)
                limit = budgets.in_units(rune.what, rune.limit)
                message = f"{rune.what}: {used} of {limit} are spoken for"
                yield Alert("over_budget", conversation, scope, message, since / SECOND, at)

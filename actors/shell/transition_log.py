"""Logs each transition for operators: which entity, from which phase to which, why, by whom.

A transition is a rune for which a table has a row. The entity itself may have decided it, or its
parent, or a child that it observes. It is logged where it is folded, so each is logged once. What
an actor reads from the log when it starts is logged then, if no actor of this process did before.
A warning that time runs short is logged here too; it is no transition.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from actors.operator_log import is_info_enabled, log
from actors.shell.shared_caches import SharedCache
from runelog.lifecycle import step
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

    from actors.kind import Kind
    from actors.shell.conversation import ConversationContext
    from runelog.rune import Rune


LOGGED: Final = SharedCache[int]()
"""The last event that was logged, by entity."""


INTERNAL: Final = "internal"


class PhaseTracker:
    """Follows one entity through the phases of its table, and logs each transition."""

    def __init__(self, ctx: ConversationContext, entity: Kind, me: str, phase: StrEnum) -> None:
        """Begin in a phase."""
        self._ctx = ctx
        self._entity = entity
        self._me = me
        self.phase = phase

    def take(self, rune: Rune, agent: str | None, *, silently: bool = False) -> None:
        """Move to the next phase and log it, if the table has a row for the rune."""
        origin, table = self.phase, self._entity.lifecycle.table
        if type(rune) not in table[origin] or type(rune) in self._entity.pieces:
            return
        self.phase = to = step(table, origin, rune, of=self._entity.name)
        if is_info_enabled() and not silently:
            now = self._ctx.services.clock.now()
            log.info(
                "transition",
                time=_moment(now),
                conversation=self._ctx.conversation,
                entity=self._me,
                lifecycle=self._entity.name,
                agent=agent,
                rune=kind_of(rune),
                trigger=getattr(rune, "trigger", "") or kind_of(rune),
                actor=getattr(rune, "actor", "system"),
                to=to.value,
                audience=self._entity.audience(to),
                **{"from": origin.value},
            )


class TransitionLog:
    """Logs the transitions of one entity."""

    def __init__(self, ctx: ConversationContext, entity: Kind, me: str) -> None:
        """Begin before the entity's first transition."""
        self._ctx = ctx
        self._entity = entity
        self._me = me

    def log_runes(
        self, phase: StrEnum, runes: Iterable[Rune], agent: str | None, event: int
    ) -> None:
        """Log runes that were just folded, the first in `phase`, up to `event`.

        Callers check `is_info_enabled` first.
        """
        tracker = PhaseTracker(self._ctx, self._entity, self._me, phase)
        for rune in runes:
            tracker.take(rune, agent)
        self._ctx.caches[LOGGED][self._me] = event

    def log_missed(self, agent: str | None, event: int) -> None:
        """Log what was folded from the log and has not been logged before."""
        logged = self._ctx.caches[LOGGED].get(self._me, self._ctx.head_at_start)
        if event > logged and is_info_enabled():
            tracker = PhaseTracker(
                self._ctx, self._entity, self._me, self._entity.lifecycle.initial.phase
            )
            for envelope in self._ctx.log.stream(self._ctx.conversation, self._me):
                tracker.take(envelope.payload, agent, silently=envelope.event_id <= logged)
            self._ctx.caches[LOGGED][self._me] = event


def forget_logged(ctx: ConversationContext, name: str) -> None:
    """Forget up to where an entity was logged, once it is over."""
    ctx.caches[LOGGED].pop(name, None)


def warn_time_short(
    ctx: ConversationContext,
    entity: Kind,
    name: str,
    state: Any,  # noqa: ANN401 -- of whichever law
    by: int,
    of: str = "",
) -> None:
    """Warn that most of a time limit has passed; `of` names it, if it is not the phase's."""
    log.warning(
        "time_runs_short",
        time=_moment(ctx.services.clock.now()),
        conversation=ctx.conversation,
        entity=name,
        lifecycle=entity.name,
        agent=entity.context(state)[0],
        phase=state.phase.value,
        of=of or state.phase.value,
        by=_moment(by),
        audience=INTERNAL,
    )


def _moment(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()


def log_birth(ctx: ConversationContext, name: str) -> None:
    """Log an entity that was born here and came to its end without an actor."""
    born = ctx.take_unstarted(name)
    if born is not None and is_info_enabled():
        entity = ctx.kinds.births[type(born.runes[0])]
        tracker = PhaseTracker(ctx, entity, name, entity.lifecycle.initial.phase)
        for rune in born.runes:
            tracker.take(rune, entity.context(born.state)[0])

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
from runelog.errors import IllegalTransition
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


def log_runes(
    ctx: ConversationContext,
    kind: Kind,
    name: str,
    phase: StrEnum,
    runes: Iterable[Rune],
    agent: str | None,
    event: int,
) -> None:
    """Log runes that an entity just folded, the first in `phase`, up to `event`.

    Callers check `is_info_enabled` first.
    """
    for rune in runes:
        to = kind.moved(phase, rune)
        if to is not None:
            _log_transition(ctx, kind, name, agent, rune, phase, to)
            phase = to
    ctx.caches[LOGGED][name] = event


def log_replayed(
    ctx: ConversationContext, kind: Kind, name: str, agent: str | None, event: int
) -> None:
    """Log what an entity's actor read from the log and has not been logged before."""
    logged = ctx.caches[LOGGED].get(name, ctx.head_at_start)
    if event <= logged or not is_info_enabled():
        return
    phase: StrEnum = kind.lifecycle.initial.phase
    for envelope in ctx.log.stream(ctx.conversation, name):
        try:
            to = kind.moved(phase, envelope.payload)
        except IllegalTransition:
            # An older law allowed it; the state came from a snapshot.
            continue
        if to is not None:
            if envelope.event_id > logged:
                _log_transition(ctx, kind, name, agent, envelope.payload, phase, to)
            phase = to
    ctx.caches[LOGGED][name] = event


def _log_transition(
    ctx: ConversationContext,
    kind: Kind,
    name: str,
    agent: str | None,
    rune: Rune,
    origin: StrEnum,
    to: StrEnum,
) -> None:
    log.info(
        "transition",
        time=_moment(ctx.services.clock.now()),
        conversation=ctx.conversation,
        entity=name,
        lifecycle=kind.name,
        agent=agent,
        rune=kind_of(rune),
        trigger=getattr(rune, "trigger", "") or kind_of(rune),
        actor=getattr(rune, "actor", "system"),
        to=to.value,
        audience=kind.audience(to),
        **{"from": origin.value},
    )


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
        kind = ctx.kinds.births[type(born.runes[0])]
        phase, agent = kind.lifecycle.initial.phase, kind.context(born.state)[0]
        log_runes(ctx, kind, name, phase, born.runes, agent, born.event_id)
        forget_logged(ctx, name)

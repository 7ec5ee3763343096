"""What an operator is told of each transition: who moved from where to where, why, by whom.

A transition is a rune for which a table has a row, whoever decided it: a parent that gave birth, a
child that was observed, or the entity itself. It is told where it is folded, so that each is told
once. What an actor reads from the log when it comes, it tells of if nobody in its conversation was
there to do so before. Time that runs short is told of as well, and it is no transition.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from actors.report import log, talkative
from actors.tray import Tray
from runelog.lifecycle import step
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

    from actors.hall import Hall
    from actors.kind import Kind
    from runelog.rune import Rune


TOLD: Final = Tray[int]()
"""The last event that was told of, by entity."""


INTERNAL: Final = "internal"


class Course:
    """Where one entity stands, as far as its table tells, and what is told when it moves."""

    def __init__(self, hall: Hall, entity: Kind, me: str, phase: StrEnum) -> None:
        """Begin in a phase."""
        self._hall = hall
        self._entity = entity
        self._me = me
        self.phase = phase

    def take(self, rune: Rune, agent: str | None, *, silently: bool = False) -> None:
        """Move on if the table has a row for the rune, and say so."""
        origin, table = self.phase, self._entity.lifecycle.table
        if type(rune) not in table[origin] or type(rune) in self._entity.pieces:
            return
        self.phase = to = step(table, origin, rune, of=self._entity.name)
        if talkative() and not silently:
            now = self._hall.offices.clock.now()
            log.info(
                "transition",
                time=_moment(now),
                conversation=self._hall.conversation,
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


class Telling:
    """Tells operators how the entity of one actor gets on."""

    def __init__(self, hall: Hall, entity: Kind, me: str) -> None:
        """Begin before the entity has done anything."""
        self._hall = hall
        self._entity = entity
        self._me = me

    def of(self, phase: StrEnum, runes: Iterable[Rune], agent: str | None, event: int) -> None:
        """Tell of runes folded here and now, the first in `phase`, up to `event`.

        For whoever has asked whether anybody listens.
        """
        course = Course(self._hall, self._entity, self._me, phase)
        for rune in runes:
            course.take(rune, agent)
        self._hall.trays[TOLD][self._me] = event

    def of_the_past(self, agent: str | None, event: int) -> None:
        """Tell of what was folded from the log, and came after what was told before."""
        told = self._hall.trays[TOLD].get(self._me, self._hall.found)
        if event > told and talkative():
            course = Course(
                self._hall, self._entity, self._me, self._entity.lifecycle.initial.phase
            )
            for envelope in self._hall.log.stream(self._hall.conversation, self._me):
                course.take(envelope.payload, agent, silently=envelope.event_id <= told)
            self._hall.trays[TOLD][self._me] = event


def tell_no_more(hall: Hall, name: str) -> None:
    """Forget what was told of an entity that is over."""
    hall.trays[TOLD].pop(name, None)


def tell_of_haste(
    hall: Hall,
    entity: Kind,
    name: str,
    state: Any,  # noqa: ANN401 -- of whichever law
    by: int,
    of: str = "",
) -> None:
    """Warn that most of the time has passed that somebody has; `of` says which, if not its own."""
    log.warning(
        "time_runs_short",
        time=_moment(hall.offices.clock.now()),
        conversation=hall.conversation,
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


def tell_of_birth(hall: Hall, name: str) -> None:
    """Tell of an entity that was born here and has come to its end without an actor."""
    born = hall.newborn(name)
    if born is not None and talkative():
        entity = hall.kinds.births[type(born.runes[0])]
        course = Course(hall, entity, name, entity.lifecycle.initial.phase)
        for rune in born.runes:
            course.take(rune, entity.context(born.state)[0])

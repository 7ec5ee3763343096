"""What an operator is told of each transition: who moved from where to where, why, by whom.

A transition is a rune for which a table has a row, whoever decided it: a parent that gave birth, a
child that was observed, or the entity itself. It is told where it is folded, so that each is told
once. What an actor reads from the log when it comes, it tells of if nobody in its conversation was
there to do so before.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from actors.approval import lifecycle as approval
from actors.approval import runes as approvals
from actors.model.runes import AssistantDelta
from actors.report import log, talkative
from actors.shell import Shell
from actors.tool.runes import Progress
from runelog.errors import UnknownConversation
from runelog.lifecycle import step
from runelog.rune import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from enum import StrEnum

    from actors.entity import Entity
    from actors.hall import Hall
    from runelog.rune import Rune


PIECES: Final = (AssistantDelta, Progress)
"""What comes in streams and moves nobody: it is followed, not told of one by one."""


class Course:
    """Where one entity stands, as far as its table tells, and what is told when it moves."""

    def __init__(self, hall: Hall, entity: Entity, me: str, phase: StrEnum) -> None:
        """Begin in a phase."""
        self._hall = hall
        self._entity = entity
        self._me = me
        self.phase = phase

    def take(self, rune: Rune, agent: str | None, *, silently: bool = False) -> None:
        """Move on if the table has a row for the rune, and say so."""
        origin, table = self.phase, self._entity.lifecycle.table
        if type(rune) not in table[origin] or isinstance(rune, PIECES):
            return
        self.phase = to = step(table, origin, rune, of=self._entity.name)
        if talkative() and not silently:
            now = self._hall.offices.clock.now()
            log.info(
                "transition",
                time=datetime.fromtimestamp(now / 1e9, UTC).isoformat(),
                conversation=self._hall.conversation,
                entity=self._me,
                lifecycle=self._entity.name,
                agent=agent,
                rune=kind_of(rune),
                trigger=getattr(rune, "trigger", "") or kind_of(rune),
                actor=getattr(rune, "actor", "system"),
                to=to.value,
                **{"from": origin.value},
            )


class Approvals:
    """The courses of approvals: they have no actors, and their session hears of all they do."""

    def __init__(self, hall: Hall, waiting: Iterable[str] = ()) -> None:
        """Begin with those that wait for a human."""
        self._hall = hall
        self._courses: dict[str, tuple[Course, str | None]] = {
            name: (Course(hall, approval.ENTITY, name, approval.Phase.AWAITING_HUMAN), None)
            for name in waiting
        }

    def take(self, rune: Rune) -> None:
        """Tell of a rune that moves an approval; others are nobody's concern here."""
        match rune:
            case approvals.Requested(approval_id=name, agent_id=agent):
                course = Course(self._hall, approval.ENTITY, name, approval.Phase.REQUESTED)
                self._courses[name] = (course, agent or None)
            case (
                approvals.Awaiting(approval_id=name)
                | approvals.Approved(approval_id=name)
                | approvals.Rejected(approval_id=name)
                | approvals.Executed(approval_id=name)
                | approvals.Aborted(approval_id=name)
            ):
                self._move(name, rune)
            case _:
                pass

    def _move(self, name: str, rune: Rune) -> None:
        known = self._courses.get(name)
        if known is None:
            # It does not wait and is not over: it was approved before we came.
            course = Course(self._hall, approval.ENTITY, name, approval.Phase.APPROVED)
            known = self._courses[name] = (course, None)
        course, agent = known
        course.take(rune, agent)
        if not approval.TABLE[approval.Phase(course.phase)]:
            del self._courses[name]


class TellingShell(Shell):
    """A shell that tells operators how its entity gets on."""

    def __init__(self, hall: Hall, me: str) -> None:
        """Begin before replay."""
        super().__init__(hall, me)
        self._course: Course | None = None

    def on_start(self) -> None:
        """Take over, and tell of what happened while nobody was there who could."""
        initial = self.entity.lifecycle.initial.phase
        self._course = Course(self.hall, self.entity, self.me, initial)
        if ("told", "") not in self.hall.at_hand:
            self.hall.at_hand["told", ""] = _head(self.hall)
        super().on_start()
        # Of one that is over, its last actor has told.
        if self.replayed and talkative() and not self.entity.lifecycle.is_over(self.state):
            self._tell_of_the_past(self._course)
        self._course.phase = self.state.phase

    def _tell_of_the_past(self, course: Course) -> None:
        """Tell of what was folded from the log, and came after what was told before."""
        told = self.hall.at_hand.get(("told", self.me), self.hall.at_hand["told", ""])
        agent = self.entity.context(self.state)[0]
        if not self.version:
            return
        for envelope in self.hall.log.stream(self.hall.conversation, self.me):
            course.take(envelope.payload, agent, silently=envelope.event_id <= told)

    def believed(self, rune: Rune) -> None:
        """Tell of a rune that moves the entity."""
        if self._course is not None:
            self._course.take(rune, self.entity.context(self.state)[0])
            if talkative():
                self.hall.at_hand["told", self.me] = self.event

    def on_stop(self) -> None:
        """Leave; of one that is over nothing more will be told."""
        if self.entity.lifecycle.is_over(self.state):
            self.hall.at_hand.pop(("told", self.me), None)
        super().on_stop()

    def _refold(self) -> None:
        super()._refold()
        if self._course is not None:
            self._course.phase = self.state.phase

    def _tell_operator(self, state: Any, runes: Sequence[Rune]) -> None:  # noqa: ANN401 -- any law's
        """Leave it to `believed`, which hears of what others decided as well."""


def tell_of_birth(hall: Hall, entity: Entity, name: str) -> None:
    """Tell of an entity that was born here and has come to its end without an actor."""
    born = hall.newborn(name)
    if born is not None:
        course = Course(hall, entity, name, entity.lifecycle.initial.phase)
        for rune in born.runes:
            course.take(rune, entity.context(born.state)[0])


def _head(hall: Hall) -> int:
    """Return the last event there was before anybody was here."""
    try:
        return hall.log.conversation(hall.conversation).head
    except UnknownConversation:
        return 0

"""How approvals get on, for operators: they have no actors of their own that could tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.approval import lifecycle as approval
from actors.approval import runes as approvals
from actors.telling import Course

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.hall import Hall
    from runelog.rune import Rune


_KINDS: Final = frozenset(cls for row in approval.TABLE.values() for cls in row) | {
    approvals.Requested
}


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
        if type(rune) not in _KINDS:
            return
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

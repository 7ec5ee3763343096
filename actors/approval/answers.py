"""Whether a human's answer counts, whichever law takes it. Pure.

An answer that is given twice counts once. One that comes late, second or for another question does
not count, and its human is told why.
"""

from __future__ import annotations

import msgspec


class Answered(msgspec.Struct, frozen=True):
    """An answer of a human."""

    approval_id: str
    approver: str
    verdict: str


class Question(msgspec.Struct, frozen=True):
    """What an entity wants to know from a human, as far as it has come."""

    approval_id: str
    """The last question that it asked; empty if it asked none."""
    waits: bool
    """Whether it still waits for the answer."""
    deadline: int | None
    last: Answered | None
    """The last answer that it took, to this question or to an earlier one."""

    def has_lapsed(self, now: int) -> bool:
        """Return True if the answer is waited for, and its time is up."""
        return self.waits and self.deadline is not None and now >= self.deadline


def judge(question: Question, given: Answered, now: int) -> str | None:
    """Return why an answer does not count: nothing if it does, None if it was taken before."""
    asked, last = given.approval_id, question.last
    if last == given:
        return None
    if not asked and not question.approval_id:
        return "it asked for no approval"
    if last is not None and last.approval_id == asked:
        return f"{last.approver} has answered approval {asked} already ({last.verdict})"
    if asked != question.approval_id:
        return f"it did not ask for approval {asked}"
    if not question.waits:
        return f"the answer to approval {asked} comes too late"
    return f"approval {asked} has lapsed" if question.has_lapsed(now) else ""

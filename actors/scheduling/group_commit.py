"""One commit for all conversations that have appended something since the last one.

What follows from a message at once is appended by its conversation, and goes to disk with what all
others appended in the same round: one sync for all. What must not begin before that, effects in the
outside world and answers to callers, is begun by each conversation behind the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Member(Protocol):
    """What has something to commit: a conversation."""

    def hand_over(self) -> None:
        """Append to the log what is buffered, without waiting until it is on disk."""
        ...

    def committed(self) -> None:
        """See that all of it is on disk, and begin what waited for that.

        The first member of a group to ask has the log sync everything; the others find it done.
        """
        ...


class GroupCommit:
    """The members of the next commit. It is used on the thread that runs the lanes."""

    def __init__(self) -> None:
        """Begin with nothing to commit."""
        self._members: dict[Member, None] = {}

    def join(self, member: Member) -> None:
        """Have a member take part in the next commit."""
        self._members[member] = None

    @property
    def is_due(self) -> bool:
        """Whether anything is to be committed."""
        return bool(self._members)

    def commit(self) -> None:
        """Commit what all members have appended; one that fails does not concern the others.

        The first error of all is raised behind them.
        """
        members, self._members = self._members, {}
        failure: BaseException | None = None
        for step in (_hand_over, _committed):
            for member in members:
                found = _failure_of(step, member)
                failure = failure or found
        if failure is not None:
            raise failure


def _hand_over(member: Member) -> None:
    member.hand_over()


def _committed(member: Member) -> None:
    member.committed()


def _failure_of(step: Callable[[Member], None], member: Member) -> BaseException | None:
    """Return what a member raised, which none should."""
    try:
        step(member)
    except BaseException as error:  # noqa: BLE001 -- raised once all have had their turn
        return error
    return None

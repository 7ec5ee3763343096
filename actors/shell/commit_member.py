"""What of one conversation waits for the next commit: answers, and actors with an effect due."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from actors.operator_log import log as operator
from runelog.errors import LogFull

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.ports import Clock, Scheduler
    from actors.shell.write_buffer import WriteBuffer


class Waiting(Protocol):
    """An actor with an effect that must not begin before everything it knows is on disk."""

    def wake(self) -> None:
        """Make it check what is due."""
        ...


class CommitMember:
    """A conversation as a member of group commits. `conversation` is its id."""

    def __init__(
        self, conversation: str, buffer: WriteBuffer, clock: Clock, scheduler: Scheduler
    ) -> None:
        """Begin with nothing to commit."""
        self.conversation = conversation
        self.buffer = buffer
        self._clock = clock
        self._scheduler = scheduler
        self.active_at = clock.now()
        """When something was last decided or answered."""
        self._answers: list[tuple[int, Callable[[], None], Callable[[Exception], None]]] = []
        """Each waiting answer: the last event it depends on, how to give it, how to fail it."""
        self._waiting: dict[Waiting, None] = {}
        """The actors that have an effect due which must not begin before the next commit."""
        self._commits_soon = False

    @property
    def broken(self) -> Exception | None:
        """The error that lost an append, so that states in memory differ from the log; or None."""
        return self.buffer.failed

    def answer(self, give: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Give an answer behind the next commit.

        So a message and what follows from it at once share one sync.
        """
        self._answers.append((self.buffer.last, give, fail))
        self.commit_soon()

    def is_on_disk(self, event_id: int) -> bool:
        """Return True if everything up to an event is on disk."""
        return self.buffer.is_on_disk(event_id)

    def wake_behind_commit(self, member: Waiting) -> None:
        """Wake an actor behind the next commit: what is due then may begin."""
        self._waiting[member] = None
        self.commit_soon()

    def commit_soon(self) -> None:
        """Take part in the next commit."""
        if not self._commits_soon:
            self._commits_soon = True
            self.active_at = self._clock.now()
            self._scheduler.commit_soon(self)

    def hand_over(self) -> None:
        """Append what is buffered to the log: it is on disk with the commit under way."""
        # Those who wait for it are told behind the commit if it was lost.
        with contextlib.suppress(Exception):
            self.buffer.flush()

    def committed(self) -> None:
        """See that everything is on disk; give the answers and begin the effects that waited."""
        self._commits_soon = False
        answers, self._answers = self._answers, []
        waiting, self._waiting = self._waiting, {}
        self._settle(answers)
        for member in waiting:
            member.wake()

    def _settle(
        self, answers: Sequence[tuple[int, Callable[[], None], Callable[[Exception], None]]]
    ) -> None:
        """Give the answers to what is on disk, and the error to all others."""
        try:
            self.buffer.sync()
            self._look_after_log()
        except Exception as error:  # noqa: BLE001 -- whatever it was, no caller is told that it was done
            operator.warning("not_kept", conversation=self.conversation, reason=str(error))
            kept = self._kept(error) if answers else 0
            # The first error is the cause: if the disk was full, later ones only follow from it.
            why = self.broken or error
            for last, give, fail in answers:
                if last <= kept:
                    give()
                else:
                    fail(why)
            return
        for _, give, _ in answers:
            give()

    def _kept(self, error: Exception) -> int:
        """Return the last event that is on disk although there was no room for what followed it.

        Commands up to it succeeded: a caller who was told otherwise would send them again.
        """
        if self.broken is not None:
            return self.buffer.kept
        # Another writer may have appended: the same event ids may be of other runes.
        return self.buffer.on_disk() if isinstance(error, LogFull) else 0

    def _look_after_log(self) -> None:
        """Store the states of entities, and begin the next segment, if it is time for that.

        Everything is on disk.
        """
        raise NotImplementedError

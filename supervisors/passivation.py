"""Passivation: the actors of an idle conversation stop, and are started when it is needed again.

A conversation that waits for a human is idle. Deadlines are in the log's index, so a passivated
conversation is woken in time; and once before that, when most of a human's time to answer has
passed, so that operators are warned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.operator_log import log as operator
from actors.shell.snapshot_policy import replayed
from actors.units import SECOND
from runelog.errors import RunefoldError, UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.kind import Kinds
    from actors.ports import Timer
    from actors.shell.conversation import Services
    from runelog.log import Log
    from runelog.rune import Work
    from supervisors.conversation_supervisor import ConversationSupervisor

IDLE_AFTER: Final = 60.0
"""After how many seconds without activity a conversation is passivated."""


class Passivator:
    """Stops idle conversations, and wakes them at their deadlines."""

    def __init__(
        self,
        log: Log,
        services: Services,
        kinds: Kinds,
        idle_after: float,
        wake: Callable[[str], None],
    ) -> None:
        """Begin; `wake` is called for a conversation whose deadline has come."""
        self._log = log
        self._kinds = kinds
        self._clock = services.clock
        self._idle_after = round(idle_after * SECOND)
        self._wake = wake
        self._woken_for: dict[str, int] = {}
        """The deadline for which a conversation was woken last."""
        self._alarms: dict[str, Timer] = {}
        """The timer of a passivated conversation, replaced when it is passivated again."""

    def woken(self, running: ConversationSupervisor) -> None:
        """Schedule the first idle check of a conversation that was just started."""
        self._look_at(running, self._clock.now() + self._idle_after)

    def _look_at(self, running: ConversationSupervisor, when: int) -> None:
        running.idle_check = self._clock.at(
            when, lambda: running.ctx.lane.run(lambda: self._look(running))
        )

    def _look(self, running: ConversationSupervisor) -> None:
        """Stop a conversation that has been idle for long enough. Runs on its lane."""
        if running.stopping or not running.supervisor.is_alive():
            return
        due = running.ctx.active_at + self._idle_after
        now = self._clock.now()
        if now < due:
            self._look_at(running, due)
        elif not running.ctx.is_idle():
            self._look_at(running, now + self._idle_after)
        else:
            operator.debug("session_sleeps", conversation=running.ctx.conversation)
            running.stop()

    def asleep(self, conversation: str) -> None:
        """Set a timer for the next deadline of a conversation that was passivated."""
        if (last := self._alarms.pop(conversation, None)) is not None:
            last.cancel()
        try:
            left = list(self._log.open_work(conversation))
        except UnknownConversation:
            # The log does not know it: its first append failed.
            return
        seen = self._woken_for.pop(conversation, None)
        deadlines = [work.deadline for work in left if work.deadline is not None]
        # One that was suspended does nothing about a deadline: that is no reason to wake it again.
        ahead = [when for when in deadlines if seen is None or when > seen]
        now = self._clock.now()
        # A warning that was missed is given when the conversation is next awake.
        ahead += [when for each in left if (when := self._near(each)) is not None and when > now]
        if ahead:
            when = min(ahead)
            alarm = self._clock.at(when, lambda: self._on_alarm(conversation, when))
            self._alarms[conversation] = alarm
        elif deadlines and seen is not None:
            self._woken_for[conversation] = seen

    def _near(self, work: Work) -> int | None:
        """Return when most of the time has passed for a human's answer, if one is waited for."""
        kind = self._kinds.of(work.entity)
        if work.deadline is None or kind is None:
            return None
        try:
            return kind.near(replayed(self._log, work.conversation, kind, work.entity).state)
        except RunefoldError:
            # An entity that cannot be read must not prevent the timer for the others.
            return None

    def _on_alarm(self, conversation: str, when: int) -> None:
        self._woken_for[conversation] = when
        self._wake(conversation)

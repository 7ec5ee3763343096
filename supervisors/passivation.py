"""Conversations that sleep: their actors stop when nothing happens, and come back when it does.

Waiting for a human is nothing happening. Whatever has a deadline has it in the log's index too, so
that a conversation that sleeps is woken in time; and once before that, when most of the time has
passed that a human has, so that operators are warned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.clock import SECOND
from actors.operator_log import log as operator
from runelog.errors import RunefoldError, UnknownConversation
from runelog.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.conversation import Services
    from actors.kind import Kinds
    from actors.ports import Timer
    from runelog.log import Log
    from runelog.rune import Work
    from supervisors.conversation_supervisor import ConversationSupervisor

IDLE_AFTER: Final = 60.0
"""How many seconds nothing happens before a conversation goes to sleep."""


class Passivator:
    """Sends conversations to sleep, and sets their alarms."""

    def __init__(
        self,
        log: Log,
        services: Services,
        kinds: Kinds,
        idle_after: float,
        wake: Callable[[str], None],
    ) -> None:
        """Have `wake` called for a conversation whose deadline has come."""
        self._log = log
        self._kinds = kinds
        self._clock = services.clock
        self._idle_after = round(idle_after * SECOND)
        self._wake = wake
        self._woken_for: dict[str, int] = {}
        """For which deadline a conversation was woken last."""
        self._alarms: dict[str, Timer] = {}
        """The alarm of a conversation, until it sleeps again: what was due then may not be now."""

    def woken(self, running: ConversationSupervisor) -> None:
        """Look after a conversation that was just started."""
        self._look_at(running, self._clock.now() + self._idle_after)

    def _look_at(self, running: ConversationSupervisor, when: int) -> None:
        running.idle_check = self._clock.at(
            when, lambda: running.ctx.lane.run(lambda: self._look(running))
        )

    def _look(self, running: ConversationSupervisor) -> None:
        """Send a conversation to sleep if nothing happened for long enough. Runs on its lane."""
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
        """Set the alarm of a conversation that has gone to sleep, if it has a deadline."""
        if (last := self._alarms.pop(conversation, None)) is not None:
            last.cancel()
        try:
            left = list(self._log.open_work(conversation))
        except UnknownConversation:
            # The log never got to know of it: its first append failed.
            return
        seen = self._woken_for.pop(conversation, None)
        deadlines = [work.deadline for work in left if work.deadline is not None]
        # One that was suspended does nothing about a deadline: that is no reason to wake it again.
        ahead = [when for when in deadlines if seen is None or when > seen]
        now = self._clock.now()
        # What has passed unseen is told by whoever is awake next.
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
            law = kind.lifecycle
            return kind.near(replay(self._log, work.conversation, law, entity=work.entity).state)
        except RunefoldError:
            # One that cannot be read must not keep the alarm of the others from being set.
            return None

    def _on_alarm(self, conversation: str, when: int) -> None:
        self._woken_for[conversation] = when
        self._wake(conversation)

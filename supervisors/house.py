"""Who keeps the actors of one conversation alive.

    house ─┬─ session
           ├─ agt_1 ─┬─ agt_1
           │         ├─ turn_1
           │         ├─ turn_1-r0-a0      the model call of its first round
           │         └─ call_1
           └─ agt_2 ─── …

Each agent has a supervisor of its own, so that what crashes again and again under one costs that
agent and nobody else. A house whose session cannot be kept alive falls, and says so.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.process import Down, Process, Reason
from actors.report import log as operator
from actors.session.lifecycle import AgentGone, NoteRestart
from supervisors.child_spec import Backoff, ChildSpec, Flags, Kind
from supervisors.messages import StartChild, StartDynamic
from supervisors.strategy import AutoShutdown, Restart, Strategy
from supervisors.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.hall import Hall
    from actors.ports import Scheduler, Timer
    from actors.process import Exit, Ref
    from actors.shell import Shell
    from supervisors.registry import Registry

SESSION = "session"
_LOOKS = 100
_PAUSE = 0.02


class House:
    """The supervisors of one conversation. All of it runs on the conversation's lane."""

    def __init__(
        self, hall: Hall, shells: Mapping[str, type[Shell]], registry: Registry | None = None
    ) -> None:
        """Begin with nobody at home."""
        self.hall = hall
        hall.children = self
        hall.close = self._fall
        self._shells = shells
        self._registry = registry
        self._agents: dict[str, Ref] = {}
        self._waiting: dict[str, list[StartDynamic]] = {}
        self._homes: dict[str, str] = {}
        """Under which agent an entity's actor lives."""
        self.left = False
        """Whether it was told to end; otherwise its end is a fall."""
        self._last = 0
        """The last event there was when it was told so."""
        self._noted = 0
        """When an actor was last started again."""
        self.session: Ref
        """The session's actor: the last one there was."""
        self.supervisor: Ref
        self.gone: Gone
        self.look: Timer | None = None
        """When it is next looked at whether it can go to sleep."""

    def supervise(self) -> Supervisor:
        """Make the supervisor, for the caller to start.

        The house itself only has a reference, which lets go of it when it ends: the two would hold
        each other, with all that is in the hall, until the garbage collector looks for that.
        """
        offices = self.hall.offices
        supervisor = Supervisor(
            self.hall.conversation,
            self.hall.lane,
            offices.clock,
            [ChildSpec(SESSION, self._session, restart=Restart.TRANSIENT, significant=True)],
            Flags(auto_shutdown=AutoShutdown.ANY_SIGNIFICANT),
            chance=offices.chance,
            on_restart=self._restarted,
        )
        self.supervisor, self.gone = supervisor.ref, Gone(supervisor)
        return supervisor

    def leave(self) -> None:
        """Have everybody stop, in order."""
        self.left = True
        self._last = self.hall.page.last
        self.supervisor.stop()

    def _fall(self) -> None:
        """End at once: whoever was started again here would believe in no more than the last."""
        self.supervisor.stop()

    def ended(self, down: Down) -> None:
        """Let go of what was shared here, now that the supervisor has ended."""
        if self.look is not None:
            self.look.cancel()
        # Of one that was killed, an actor may still be in the middle of a message.
        if down.exit.reason is not Reason.KILLED:
            self.hall.let_go()

    @property
    def stirred(self) -> bool:
        """Whether something was decided here after everybody was told to stop."""
        return self.left and self.hall.page.last > self._last

    # -- children -----------------------------------------------------------------------------

    def replaced(self, old: Ref, scheduler: Scheduler) -> None:
        """Wait until a session that just ended has been replaced, or the house is gone."""
        for _ in range(_LOOKS):
            if self.session is not old or not self.supervisor.is_alive():
                return
            scheduler.wait(self.gone, _PAUSE)

    def _session(self) -> Process:
        shell = self._shells[SESSION](self.hall, SESSION)
        self.session = shell.ref
        return self._watched(shell, SESSION)

    def ensure(self, kind: str, entity: str, agent: str) -> None:
        """Have an actor run for an entity of an agent, if none does; it may take a moment."""
        if entity in self.hall or entity in self.hall.awaited or self.left:
            return
        self.hall.awaited.add(entity)
        self._homes[entity] = agent
        request = StartDynamic(entity, (kind,))
        supervisor = self._agents.get(agent)
        if supervisor is not None and supervisor.is_alive():
            supervisor.notify(request)
            return
        waiting = self._waiting.setdefault(agent, [])
        waiting.append(request)
        if len(waiting) == 1:
            spec = ChildSpec(
                agent,
                lambda: self._agent(agent),
                restart=Restart.TEMPORARY,
                type=Kind.SUPERVISOR,
            )
            self.supervisor.notify(StartChild(spec))

    def _agent(self, agent: str) -> Process:
        """Make the supervisor of an agent, with what it is to start waiting in its mailbox."""
        offices = self.hall.offices
        supervisor = Supervisor(
            f"{self.hall.conversation}/{agent}/",
            self.hall.lane,
            offices.clock,
            [
                ChildSpec(
                    "entity", self._entity, restart=Restart.TRANSIENT, backoff=Backoff(first=0.05)
                )
            ],
            Flags(strategy=Strategy.SIMPLE_ONE_FOR_ONE),
            chance=offices.chance,
            on_restart=self._restarted,
        )
        self._agents[agent] = supervisor.ref
        supervisor.watch(lambda down: self._given_up(agent, down))
        for request in self._waiting.pop(agent, ()):
            supervisor.ref.notify(request)
        return supervisor

    def _entity(self, entity: str, kind: str) -> Process:
        return self._watched(self._shells[kind](self.hall, entity), entity)

    def _watched(self, shell: Shell, entity: str) -> Process:
        def ended(down: Down) -> None:
            if entity == SESSION and down.exit.reason is Reason.NORMAL:
                # It came to its end, and with it the house.
                self.left = True
            if down.exit.reason not in {Reason.CRASH, Reason.KILLED}:
                agent = self._homes.pop(entity, "")
                if agent and agent not in self._homes:
                    self._retire(agent)
            elif self.hall.leave(entity, shell) and shell.has_started:
                # What it is told from now on is for its successor.
                self.hall.awaited.add(entity)
                return
            # One that could not even start will not be joined by anybody.
            self.hall.awaited.discard(entity)

        shell.watch(ended)
        return shell

    def _retire(self, agent: str) -> None:
        """Let go of what was kept for an agent that has ended, once none of its actors is left."""
        if self.left or agent in self._homes.values():
            return
        self.hall.trays.drop(agent)
        supervisor = self._agents.pop(agent, None)
        if supervisor is not None:
            supervisor.stop()

    # -- mishaps ------------------------------------------------------------------------------

    def _restarted(self, child: str, how: Exit, count: int) -> None:
        """Have the session record what was done, so that a crash loop is seen across restarts."""
        operator.warning(
            "child_restarted",
            conversation=self.hall.conversation,
            child=child,
            reason=str(how),
            restarts=count,
        )
        # No two at once, so that each is told from the others.
        self._noted = max(self.hall.offices.clock.now(), self._noted + 1)
        # The session's own is for its successor to write.
        self.hall.awaited.add(child)
        note = NoteRestart(child, str(how)[:MAX_REASON], count, self._noted)
        self.hall.tell(SESSION, note)

    def _given_up(self, agent: str, down: Down) -> None:
        """Tell the session that an agent could not be kept alive; one that ended was retired."""
        if agent not in self._agents and agent not in self._waiting:
            return
        if self._agents.get(agent) is down.ref:
            del self._agents[agent]
        for entity in [entity for entity, home in self._homes.items() if home == agent]:
            del self._homes[entity]
            self.hall.give_up(entity)
        if not self.left:
            why = f"its actors kept crashing ({down.exit})"[:MAX_REASON]
            self.hall.tell(SESSION, AgentGone(agent, why))


MAX_REASON = 500
"""Characters of an error that are recorded."""


class Gone:
    """The end of an actor, to wait for."""

    def __init__(self, process: Process) -> None:
        """Wait for this one."""
        self._event = threading.Event()
        process.watch(lambda _: self._event.set())

    def is_there(self) -> bool:
        """Tell whether it has come."""
        return self._event.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Wait until it has come; tell whether it has."""
        return self._event.wait(timeout)

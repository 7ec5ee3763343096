"""Supervises the actors of one conversation.

    conv_1 ─┬─ session
            ├─ agt_1 ─┬─ agt_1
            │         ├─ turn_1
            │         └─ call_1
            └─ agt_2 ─── …

Each agent has a supervisor of its own, so that actors that keep crashing under one agent cost that
agent and no other. A conversation whose session keeps crashing is stopped, and the tree is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.children import ChildGone, NoteRestart
from actors.operator_log import log as operator
from actors.process.process import Answer, Down, Process, Reason
from supervisors.child_spec import Backoff, ChildSpec, ChildType, Flags
from supervisors.messages import StartChild, StartDynamic
from supervisors.strategy import AutoShutdown, Restart, Strategy
from supervisors.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Edge, Timer
    from actors.process.process import Exit, Ref
    from actors.shell.conversation import ConversationContext
    from actors.shell.shell import Shell

_LOOKS = 100
_PAUSE = 0.02


class ConversationSupervisor:
    """The supervisors of one conversation. All of it runs on the conversation's lane."""

    def __init__(self, ctx: ConversationContext) -> None:
        """Begin without any actor."""
        self.ctx = ctx
        self.root = ctx.root.prefix
        """The entity that the conversation begins with: its session, as a rule."""
        ctx.children = self
        ctx.close = self._stop_at_once
        self._agents: dict[str, Ref] = {}
        self._waiting: dict[str, list[StartDynamic]] = {}
        self._agent_of: dict[str, str] = {}
        """Under which agent an entity's actor lives."""
        self.stopping = False
        """Whether it was told to stop; if it ends otherwise, it failed."""
        self._last = 0
        """The last event when it was told to stop."""
        self._last_restart = 0
        """When an actor was last started again."""
        self.session: Ref
        """The session's actor, or the last one if it is being restarted."""
        self.supervisor: Ref
        self.gone: Answer
        """Answered when all actors have ended."""
        self.idle_check: Timer | None = None
        """The timer of the next check whether the conversation can be passivated."""

    def supervise(self) -> Supervisor:
        """Make the supervisor, for the caller to start.

        Only its `Ref` is kept here, which forgets the actor when that ends. Otherwise the two would
        refer to each other, and stay in memory until the garbage collector runs.
        """
        services = self.ctx.services
        supervisor = Supervisor(
            self.ctx.conversation,
            self.ctx.lane,
            services.clock,
            [ChildSpec(self.root, self._session, restart=Restart.TRANSIENT, significant=True)],
            Flags(auto_shutdown=AutoShutdown.ANY_SIGNIFICANT),
            chance=services.chance,
            on_restart=self._restarted,
        )
        self.supervisor, self.gone = supervisor.ref, end_of(supervisor)
        return supervisor

    def stop(self) -> None:
        """Stop all actors of the conversation, in order."""
        self.stopping = True
        self._last = self.ctx.buffer.last
        self.supervisor.stop()

    def _stop_at_once(self) -> None:
        """Stop after a lost append: actors that are restarted in this context would fail again."""
        self.supervisor.stop()

    def ended(self, down: Down) -> None:
        """Drop what the actors shared, now that the supervisor has ended."""
        if self.idle_check is not None:
            self.idle_check.cancel()
        # If it was killed, one of its actors may still be in the middle of a message.
        if down.exit.reason is not Reason.KILLED:
            self.ctx.clear()

    @property
    def wrote_after_stop(self) -> bool:
        """Whether something was decided after the actors were told to stop."""
        return self.stopping and self.ctx.buffer.last > self._last

    # -- children -----------------------------------------------------------------------------

    async def replaced(self, old: Ref, edge: Edge) -> None:
        """Wait until a session's actor that ended has been replaced, or all actors have ended."""
        for _ in range(_LOOKS):
            if self.session is not old or not self.supervisor.is_alive():
                return
            await edge.wait(self.gone, _PAUSE)

    def _session(self) -> Process:
        shell = self._shell(self.ctx.root.name, self.root)
        self.session = shell.ref
        return self._watched(shell, self.root)

    def ensure(self, kind: str, entity: str, agent: str) -> None:
        """Start an actor for an entity of an agent, if none runs; it may start later."""
        if entity in self.ctx or entity in self.ctx.awaited or self.stopping:
            return
        self.ctx.awaited.add(entity)
        agent = self._agent_of.get(agent, agent)
        self._agent_of[entity] = agent
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
                type=ChildType.SUPERVISOR,
            )
            self.supervisor.notify(StartChild(spec))

    def _agent(self, agent: str) -> Process:
        """Make the supervisor of an agent, with what it is to start waiting in its mailbox."""
        services = self.ctx.services
        supervisor = Supervisor(
            f"{self.ctx.conversation}/{agent}/",
            self.ctx.lane,
            services.clock,
            [
                ChildSpec(
                    "entity", self._entity, restart=Restart.TRANSIENT, backoff=Backoff(first=0.05)
                )
            ],
            Flags(strategy=Strategy.SIMPLE_ONE_FOR_ONE),
            chance=services.chance,
            on_restart=self._restarted,
        )
        self._agents[agent] = supervisor.ref
        supervisor.watch(self._on_lane(lambda down: self._given_up(agent, down)))
        for request in self._waiting.pop(agent, ()):
            supervisor.ref.notify(request)
        return supervisor

    def _entity(self, entity: str, kind: str) -> Process:
        return self._watched(self._shell(kind, entity), entity)

    def _shell(self, kind: str, entity: str) -> Shell:
        actor = self.ctx.kinds[kind].actor
        assert actor is not None, f"{kind} has no actor"
        return actor(self.ctx, entity)

    def _watched(self, shell: Shell, entity: str) -> Process:
        def ended(down: Down) -> None:
            if entity == self.root and down.exit.reason is Reason.NORMAL:
                # The session came to its end, and with it the conversation.
                self.stopping = True
            if down.exit.reason not in {Reason.CRASH, Reason.KILLED}:
                agent = self._agent_of.pop(entity, "")
                if agent and agent not in self._agent_of:
                    self._retire(agent)
            elif self.ctx.leave(entity, shell) and shell.has_started:
                # Messages that arrive from now on wait for the actor that replaces it.
                self.ctx.awaited.add(entity)
                return
            # No other actor replaces one that could not even start.
            self.ctx.awaited.discard(entity)

        shell.watch(self._on_lane(ended))
        return shell

    def _on_lane(self, ended: Callable[[Down], None]) -> Callable[[Down], None]:
        """Have the end of an actor seen to on the lane, also if another thread killed it."""

        def told(down: Down) -> None:
            if down.exit.reason is Reason.KILLED:
                self.ctx.lane.run(lambda: ended(down))
            else:
                ended(down)

        return told

    def _retire(self, agent: str) -> None:
        """Stop the supervisor of an agent that has ended, once none of its actors is left."""
        if self.stopping or agent in self._agent_of.values():
            return
        self.ctx.caches.drop(agent)
        supervisor = self._agents.pop(agent, None)
        if supervisor is not None:
            supervisor.stop()

    # -- crashes ------------------------------------------------------------------------------

    def _restarted(self, child: str, how: Exit, count: int) -> None:
        """Tell the session of a restart, so that a crash loop is seen across processes."""
        operator.warning(
            "child_restarted",
            conversation=self.ctx.conversation,
            child=child,
            reason=str(how),
            restarts=count,
        )
        # No two have the same time: that is what identifies a restart.
        self._last_restart = max(self.ctx.services.clock.now(), self._last_restart + 1)
        # A restart of the session itself is recorded by the actor that replaces it.
        self.ctx.awaited.add(child)
        note = NoteRestart(child, str(how)[:MAX_REASON], count, self._last_restart)
        self.ctx.tell(self.root, note)

    def _given_up(self, agent: str, down: Down) -> None:
        """Tell the session that an agent's actors kept crashing; not if the agent just ended."""
        if agent not in self._agents and agent not in self._waiting:
            return
        if self._agents.get(agent) is down.ref:
            del self._agents[agent]
        for entity in [entity for entity, home in self._agent_of.items() if home == agent]:
            del self._agent_of[entity]
            self.ctx.give_up(entity)
        if not self.stopping:
            why = f"its actors kept crashing ({down.exit})"[:MAX_REASON]
            self.ctx.tell(self.root, ChildGone(agent, why))


MAX_REASON = 500
"""Characters of an error that are recorded."""


def end_of(process: Process) -> Answer:
    """Return what is answered when an actor has ended."""
    end = Answer()
    process.watch(lambda _down: end.set())
    return end

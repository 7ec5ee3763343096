"""What a runtime shares with its sessions, turns and commands. Apps use those, and not this.

Sessions and turns are the same whichever process they are used in, and however their callers wait:
all that differs is behind `Core`.

- `LocalCore` is in the process that has the log open; `control.remote_core` is that of the others.
- What is asked is written once, as coroutines that wait by the core's edge: with the thread of the
  caller (`Runtime`, `Session`, `Turn`), or as a task of an event loop (`AsyncRuntime`,
  `AsyncSession`, `AsyncTurn`). Nothing in them may block but what is given to `read`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from actors.errors import Unanswered
from actors.process.process import ASK_TIMEOUT
from actors.public_command import CommandTarget
from actors.scheduling.edge import BlockingEdge
from actors.session.lifecycle import Create, Phase
from actors.session.members import Update, member, named
from actors.session.messages import Look
from runefold import checks
from runefold.agents import AgentTool
from runefold.handles import Commander
from runefold.observe.async_notify import AsyncEdge, Watch
from runefold.observe.chats import chat, turn_of, turns_of
from runefold.observe.filters import wanted
from runefold.observe.history import history
from runefold.observe.session_list import asked, check_ended, doubts, such_sessions
from runefold.observe.sought import Sought
from runefold.observe.spending import spending
from runefold.spec import Budget, check_agent, check_client, check_room, check_team, config_of
from runelog.errors import Refused, UnknownConversation
from runelog.rune import SYSTEM, check_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, Self, Unpack

    from actors.agent.public_commands import Terminate
    from actors.approval.pending import Pending
    from actors.model.provider import Message
    from actors.ports import Chance, Edge
    from actors.process.process import Answer
    from actors.public_command import Command
    from actors.session.lifecycle import State
    from actors.session.public_commands import Send
    from runefold.observe.history import History
    from runefold.observe.session_list import Approval, InDoubt
    from runefold.observe.spending import Spending
    from runefold.runtime import Runtime
    from runefold.spec import AgentSpec, SessionOptions
    from runelog.forks import Home
    from runelog.rune import Envelope, Visibility
    from supervisors.tree import Tree

T = TypeVar("T")


class Core(Commander):
    """The inside of a runtime, in any process. It is the `CommandRuntime` of public commands.

    It asks the actors of a session, and reads the log.
    """

    look_every: float | None = None
    """After how many seconds without a rune it is to be asked what `watch_owner` gives."""

    def __init__(self, runtime: Runtime, home: Home, chance: Chance) -> None:
        """Belong to a runtime."""
        self.runtime = runtime
        """The runtime that callers who wait with their threads have."""
        self._chance = chance
        self.home = home
        """The process that it is used in: a forked child can do nothing with it but close it."""
        self.watch = Watch(runtime.log, runtime.scheduler)
        """Wakes what waits for news in an event loop."""
        self.log = runtime.log
        self.kinds = runtime.kinds
        self.commands = runtime.commands
        self.redactor = runtime.redactor
        self.scheduler = runtime.scheduler
        self.clock = runtime.clock
        self.edge: Edge = BlockingEdge(self.scheduler)
        """How callers wait."""
        self._awaiting: Self | None = None

    @property
    def awaiting(self) -> Self:
        """The same inside for tasks of an event loop."""
        if isinstance(self.edge, AsyncEdge):
            return self
        if self._awaiting is None:
            self._awaiting = self.on(AsyncEdge(self.scheduler, self.watch))
        return self._awaiting

    def on(self, edge: Edge) -> Self:
        """Return the same inside with another edge."""
        found = copy.copy(self)
        found.edge, found._awaiting = edge, None  # noqa: SLF001 -- its own
        return found

    def new_id(self, prefix: str) -> str:
        """Return a new id."""
        self.home.check()
        return self._chance.id(prefix)

    async def read(self, call: Callable[[], T]) -> T:
        """Read from the log, which may take a while; return what `call` returns."""
        self.home.check()
        return await self.edge.read(call)

    async def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask a session, awake or not, unless `before` gives the answer or it is `promised`."""
        raise NotImplementedError

    def watch_owner(self) -> Callable[[], bool]:
        """Return what says, each time that none came for a while, whether more runes will come.

        It raises once that is not to be waited for any longer.
        """
        return lambda: False

    # -- commands -----------------------------------------------------------------------------

    def target(
        self,
        conversation: str,
        command: Command,
        entity: str = "",
        process: str = "",
        timeout: float | None = ASK_TIMEOUT,
    ) -> CommandTarget:
        """Return the entity that a command goes to, after checking both."""
        self.home.check()
        patience = checks.seconds(timeout, "timeout")
        kind, entity = self.commands.address(command, entity)
        checks.text(process, "a process")
        if command.begins and not entity:
            entity = self.new_id(kind.prefix)
        return CommandTarget(self, kind, conversation, entity, process, patience)

    async def do(
        self,
        conversation: str,
        command: Command,
        entity: str = "",
        process: str = "",
        timeout: float | None = ASK_TIMEOUT,
    ) -> Any:  # noqa: ANN401 -- the command's answer
        """Give a command to an entity of a conversation, the session itself if none is named."""
        return await command.execute(self.target(conversation, command, entity, process, timeout))

    async def send(self, conversation: str, command: Send) -> tuple[str, int, Answer | None]:
        """Send a message.

        Return its id, the event that its runes come behind, and the promised answer to how its turn
        ends, if there is one.
        """
        target = self.target(conversation, command)
        message = command.message(target)
        sent = await target.ask(message)
        return message.message_id, sent.before, sent.end

    # -- sessions -----------------------------------------------------------------------------

    async def create(
        self,
        spec: AgentSpec,
        *,
        team: Sequence[AgentSpec],
        conversation_id: str | None,
        **options: Unpack[SessionOptions],
    ) -> str:
        """Begin a conversation with its root agent; return its id once it is on disk."""
        self.home.check()
        if conversation_id is None:
            name = self.new_id("conv")
        else:
            name = check_id(self.redactor.value(conversation_id), "conversation id")
            await self._check_new(name)
        begin = self._begin(name, spec, team, options)
        await self.ask(name, begin)
        if conversation_id is not None and not await self.read(
            lambda: self.log.version(name, begin.root.agent_id)
        ):
            # Another process was first: the same session, asked for again, is no mistake.
            raise Refused(_there_already(name))
        return name

    async def find_or_create(
        self,
        conversation: str,
        create: AgentSpec | None,
        team: Sequence[AgentSpec],
        agents: Literal["keep", "update"],
        options: SessionOptions,
    ) -> None:
        """Have a session there: it is found, or begun, and its agents are updated if asked for."""
        checks.choice(agents, "agents", ("keep", "update"))
        if create is None:
            if team or options or agents == "update":
                msg = f"{conversation}: these options are for a session that may begin: say create"
                raise Refused(msg)
            await self.find(conversation)
            return
        self.home.check()
        name = check_id(self.redactor.value(conversation), "conversation id")
        begin = self._begin(name, create, team, options)
        try:
            await self.find(name)
        except UnknownConversation:
            await self.ask(name, begin)
            agents = "keep"
        if begin.config.client_id or agents == "update":
            state = await self.state(name)
            check_client(name, state.config.client_id, begin.config.client_id)
            if agents == "update":
                root = member(state.members, state.root)
                first = begin.root if root is None else replace(begin.root, name=root.name)
                await self.ask(name, Update((first, *begin.team), joins=True))

    def _begin(
        self, name: str, spec: AgentSpec, team: Sequence[AgentSpec], options: SessionOptions
    ) -> Create:
        """Return the command that begins a session, or refuse what makes no sense."""
        if name == SYSTEM:
            msg = f"{name} is kept for what belongs to no session: use another id"
            raise Refused(msg)
        members = [spec, *checks.several(team, "team", "agents")]
        config = config_of(self.kinds, self.redactor, **options)
        for each in members:
            self.check(each)
            check_room(options.get("budget") or Budget(), each, "the session's")
        check_team(members)
        root, *others = [each.spawn(self.new_id("agt")) for each in members]
        return Create(name, root, config, tuple(others))

    async def _check_new(self, name: str) -> None:
        with contextlib.suppress(UnknownConversation):
            await self.read(lambda: self.log.conversation(name))
            raise Refused(_there_already(name))

    def check(self, spec: AgentSpec) -> None:
        """Refuse what is no agent. Its model and tools are known where the log is open."""
        self.home.check()
        check_agent(spec)

    async def find(self, conversation: str) -> None:
        """Raise `UnknownConversation` unless a session is there."""
        self.home.check()
        check_id(conversation, "conversation id")
        await self.read(lambda: self.log.conversation(conversation))
        if conversation == SYSTEM:
            msg = f"{conversation} is no session: runtime.sessions() gives those there are"
            raise Refused(msg)

    def sessions(self, labels: Mapping[str, str] | None, phase: str) -> Iterator[str]:
        """Yield the ids of all sessions, or of those with these labels and in this phase."""
        self.home.check()
        wanted = checks.labels(labels)
        checks.choice(phase, "phase", ("", *(each.value for each in Phase)))
        return such_sessions(self.log, wanted, phase)

    async def state(self, conversation: str) -> State:
        """Return a session's state."""
        return cast("State", await self.ask(conversation, Look()))

    async def spawn(
        self, conversation: str, spec: AgentSpec, parent: str | None, agent_id: str | None
    ) -> str:
        """Add an agent to a session; return its id."""
        self.check(spec)
        agent = self.new_id("agt") if agent_id is None else check_id(agent_id, "agent id")
        await self.ask(conversation, spec.spawn(agent, parent, only=agent_id is not None))
        return agent

    async def update_agent(self, conversation: str, name: str, spec: AgentSpec) -> None:
        """Give an agent of a session other settings."""
        self.check(spec)
        await self.ask(conversation, Update((replace(spec.spawn(""), name=name),)))

    async def terminate(self, conversation: str, agent: str, command: Terminate) -> None:
        """Terminate an agent, named by its name or id."""
        members = (await self.state(conversation)).members
        await self.do(conversation, command, named(members, agent).agent_id)

    async def approvals(self, conversation: str) -> list[Approval]:
        """Return the calls of a session that wait for a human."""
        pending = (await self.state(conversation)).approvals
        return await self.read(lambda: [self._approval(conversation, each) for each in pending])

    def _approval(self, conversation: str, pending: Pending) -> Approval:
        known = asked(self.log, conversation, pending)
        if not known.tool_name:
            # What a session knows may be on its way to the disk yet.
            self.log.flush(conversation)
            known = asked(self.log, conversation, pending)
        return known

    async def in_doubt(self, conversation: str) -> list[InDoubt]:
        """Return the calls of a session whose outcome is not known."""
        state = await self.state(conversation)
        return await self.read(lambda: doubts(self.log, conversation, state))

    async def turn(self, conversation: str, name: str) -> tuple[str, int]:
        """Return the message that a turn is of, by the id of either, and the event before it."""
        return await self.read(lambda: turn_of(self.log, conversation, name))

    async def turns(self, conversation: str, *, running: bool) -> list[tuple[str, int]]:
        """Return the same of all messages, or of those whose turns have not ended."""
        state = await self.state(conversation)
        return await self.read(lambda: turns_of(self.log, conversation, state, running=running))

    async def messages(self, conversation: str, agent: str, at: int | None) -> list[Message]:
        """Return the chat as an agent's model is shown it."""
        until = None if at is None else checks.cursor(at)
        state = await self.state(conversation)
        return await self.read(lambda: chat(self.log, conversation, state, agent, until))

    async def history(self, conversation: str, entity: str) -> History:
        """Return the phases that an entity of a session went through."""
        check_id(entity, "entity id")
        now = self.clock.now()
        return await self.read(lambda: history(self.log, conversation, entity, now, self.kinds))

    def runes(
        self,
        conversation: str,
        after: int,
        kinds: Collection[str] | None,
        entities: Collection[str] | None,
        visibility: Visibility | None,
    ) -> Iterator[Envelope]:
        """Yield the runes of a session after a cursor, up to now."""
        asked_for = wanted(kinds, entities, visibility)
        found = self.log.read(conversation, checks.cursor(after), kinds=kinds)
        return filter(asked_for.takes, found) if asked_for.is_narrow else found

    async def spending(self, conversation: str) -> Spending:
        """Return what a session and its agents have spent."""
        return await self.read(lambda: spending(self.log, conversation))

    # -- waiting and archiving ----------------------------------------------------------------

    async def wait_for(self, conversation: str, kind: str, timeout: float | None) -> None:
        """Wait until the log has a rune of this kind in a conversation."""
        patience = checks.seconds(timeout, "timeout")

        def look() -> object:
            return next(self.log.read(conversation, kinds={kind}), None)

        if await self.wait_until(conversation, {kind}, look, patience) is None:
            msg = f"{conversation} had no {kind} within {timeout} s"
            raise Unanswered(msg)

    async def wait_until(
        self,
        conversation: str,
        kinds: Collection[str],
        look: Callable[[], T | None],
        timeout: float | None,
    ) -> T | None:
        """Look into the log at news of these kinds until there is something; None if it is late."""
        self.home.check()
        if not isinstance(self.edge, AsyncEdge):
            return cast("T | None", self.found(conversation, kinds, look, timeout))
        goes_on = self.watch_owner()
        with self.watch.waiter(conversation, kinds) as waiter, contextlib.suppress(TimeoutError):
            # The waiter is there before the first look, so a rune that comes later wakes it.
            async with asyncio.timeout(timeout):
                while (found := await self.read(look)) is None:
                    if not await waiter.news(self.look_every):
                        goes_on()
                return found
        return None

    def found(
        self,
        conversation: str,
        kinds: Collection[str],
        look: Callable[[], object],
        timeout: float | None,
    ) -> object:
        """Do as `wait_until`, with the thread of the caller."""
        raise NotImplementedError

    async def archive(self, conversation: str) -> None:
        """Move a conversation that has ended to cold storage, its actors stopped."""
        raise NotImplementedError


class LocalCore(Core):
    """The inside of the runtime that has the log open: it runs the actors."""

    def __init__(self, runtime: Runtime, home: Home, tree: Tree, chance: Chance) -> None:
        """Belong to a runtime."""
        super().__init__(runtime, home, chance)
        self.tree = tree
        """All conversations whose actors run."""

    async def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask a session, awake or not, unless `before` gives the answer or it is `promised`."""
        self.home.check()
        found = None if before is None else await self.edge.read(before)
        if found is not None:
            return found
        if not self.scheduler.goes_on:
            self.runtime.views.wake()
        return await self.tree.asked(self.edge, conversation, message, timeout, before, promised)

    def check(self, spec: AgentSpec) -> None:
        """Refuse an agent whose model or tools are not registered here."""
        super().check(spec)
        self.check_known(spec.model, spec.tools)

    def check_known(self, model: str, tools: Iterable[str]) -> None:
        """Refuse a model, or tools, that are not registered here."""
        seen, ahead = set[str](), [(model, tools, "")]
        while ahead:
            model, tools, through = ahead.pop()
            self._check_known(model, tools, through)
            # Two agents that can ask each other are looked at once.
            for name in {*tools} - seen:
                seen.add(name)
                if isinstance(tool := self.tree.services.tools.get(name), AgentTool):
                    agent = tool.agent
                    ahead.append((agent.model, agent.tools, f"{name} asks {agent.role}, and "))

    def _check_known(self, model: str, tools: Iterable[str], through: str) -> None:
        services = self.tree.services
        if model not in services.models:
            known = ", ".join(sorted(services.models)) or "none"
            msg = (
                f"{through}there is no model {model!r}: pass "
                f"providers={{{model!r}: ...}} to Runtime.open; registered: {known}"
            )
            raise Refused(msg)
        for name in tools:
            if name not in services.tools:
                known = ", ".join(tool.spec.name for tool in services.tools) or "none"
                msg = (
                    f"{through}there is no tool {name!r}: pass it in tools=[...] to Runtime.open; "
                    f"registered: {known}"
                )
                raise Refused(msg)

    def found(
        self,
        conversation: str,
        kinds: Collection[str],
        look: Callable[[], object],
        timeout: float | None,
    ) -> object:
        """Do as `wait_until`, with the thread of the caller."""
        self.scheduler.check_may_block("await turn")
        self.scheduler.wait(sought := Sought(self.log, conversation, kinds, look), timeout)
        return sought.found

    async def archive(self, conversation: str) -> None:
        """Move a conversation that has ended to cold storage, its actors stopped."""
        how = f"`runtime.session({conversation!r}).close()`"
        await self.read(lambda: check_ended(self.log, conversation, how))
        await self.tree.sleep(self.edge, conversation)
        await self.read(lambda: self.log.archive(conversation))


def _there_already(name: str) -> str:
    return f"{name} is there already: runtime.session({name!r}) gives it"


def core_of(runtime: Runtime) -> LocalCore:
    """Return the inside of a runtime."""
    return runtime._core  # noqa: SLF001 -- for the front door's own modules

"""The runtime: opens a directory, resumes the work in it, and takes messages."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from actors.operator_log import add_redactor
from actors.operator_log import log as operator
from actors.process.process import ASK_TIMEOUT
from actors.scheduling.clock import SystemClock
from actors.scheduling.edge import run
from actors.scheduling.loop import Loop
from actors.session.runes import SessionConfig
from actors.shell.conversation import Services
from actors.shell.snapshot_policy import SNAPSHOT_EVERY
from actors.tool.running_calls import RunningCalls
from runefold import checks, draining, open_hook
from runefold.agents import Bound
from runefold.chance import SystemChance
from runefold.control.server import Control, carrier, open_beside
from runefold.core import LocalCore
from runefold.handles import Commander
from runefold.observe.following import Following
from runefold.observe.monitoring import Monitor
from runefold.sessions import Session
from runefold.views import Views
from runelog.files import path_of
from runelog.forks import Home
from runelog.store import Durability, Runelog
from supervisors.recovery import Recovery
from supervisors.tree import Tree
from supervisors.tree_view import Node, view_tree

if TYPE_CHECKING:
    import asyncio
    import os
    import re
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Self, Unpack

    from actors.kind import Kind
    from actors.model.provider import AsyncProvider, Provider
    from actors.ports import Chance, Clock, Scheduler
    from actors.public_command import Command
    from actors.tool.policy import Policy
    from actors.tool.spec import Tool
    from runefold.observe.monitoring import Rules
    from runefold.spec import AgentSpec, Budget, SessionOptions
    from runelog.log import Log
    from runelog.rune import Visibility

_DEFAULTS = SessionConfig()

_FORKED: Final = (
    "this runtime was opened before a fork, and its threads stayed in the parent: use it from the "
    "child with Runtime.connect(directory)"
)


class Runtime(Commander):
    """Agents that survive.

    >>> import tempfile
    >>> from runefold import AgentSpec, Runtime
    >>> from runefold.providers import Scripted
    >>> with Runtime.open(tempfile.mkdtemp(), providers={"demo": Scripted(["Hello!"])}) as runtime:
    ...     session = runtime.create_session(AgentSpec(role="helper", model="demo"))
    ...     session.send("Hi").result(timeout=10).output
    'Hello!'
    """

    _core_type: ClassVar[type[LocalCore]] = LocalCore
    """The class of its inside; test kits have their own."""

    def __init__(  # noqa: PLR0913 -- all by name, and most left as they are
        self,
        log: Log,
        *,
        tools: Iterable[Tool] = (),
        kinds: Iterable[Kind] = (),
        providers: Mapping[str, Provider | AsyncProvider] | None = None,
        policy: Policy | None = None,
        secret: Callable[[str], str] | None = None,
        app: object = None,
        redact: Iterable[str | re.Pattern[str]] = (),
        clock: Clock | None = None,
        chance: Chance | None = None,
        scheduler: Scheduler | None = None,
        idle_after: float = 60.0,
        snapshot_every: int = SNAPSHOT_EVERY,
        views: str | os.PathLike[str] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        r"""Run on a log that is open; `Runtime.open` opens one.

        `kinds` are machines of the app's own: see docs/your-own-machine.md. `app` is an object of
        yours, with your database for instance: tools, probes and policies get it in `Context`.

        Text that matches a pattern in `redact`, or looks like a key of a provider, is replaced
        before it is stored: such as `r"acct-\d{10}"`, or `re.escape(value)`.
        A session sleeps after `idle_after` seconds without work. Its states are stored every
        `snapshot_every` runes, so that a long session wakes quickly.
        The files of views are in the directory `views`, by default one in the log's directory.
        Async providers and tools run on `loop`, the app's own, or else on a thread of the runtime.
        """
        self._home = Home(_FORKED)
        self.log = log
        self.kinds = open_hook.known_kinds(kinds)
        """The machines that it runs: ours, and those of the app."""
        open_hook.check_codec(log, self.kinds)
        self.commands = self.kinds.commands
        self.redactor = open_hook.redactor(redact)
        """Keeps secrets out."""
        add_redactor(self.redactor)
        self.clock = clock or SystemClock()
        self.scheduler = scheduler or Loop(self.clock, event_loop=open_hook.event_loop(loop))
        chance = chance or SystemChance()
        directory = log.directory.absolute() if isinstance(log, Runelog) else None
        self._services = Services(
            clock=self.clock,
            chance=chance,
            scheduler=self.scheduler,
            models=open_hook.models(providers or {}),
            tools=(known := open_hook.toolbox(tools, directory)),
            policy=open_hook.policy(policy, known),
            running_calls=RunningCalls(),
            secret=open_hook.secrets(secret),
            app=app,
            redactor=self.redactor,
            hidden=() if directory is None else (str(directory),),
            snapshot_every=checks.count(snapshot_every, "snapshot_every", least=1),
        )
        self._closed = False
        self.views = Views(self.kinds, log, open_hook.views(views, directory), self._services)
        self._recovery = Recovery(log, self._services, self.kinds)
        idle = checks.number(idle_after, "idle_after")
        tree = Tree(log, self._services, self.kinds, self._recovery.suspend, idle)
        self._core = self._core_type(self, self._home, tree, chance)
        self._bind_tools()
        self._recovery.recover(tree)
        self.views.start()
        self._control: Control | None = None
        if isinstance(log, Runelog) and self.scheduler.goes_on:
            self._control = open_beside(log.directory, carrier(self), self.commands)

    def _bind_tools(self) -> None:
        for own in self._services.tools.beside:
            if isinstance(own, Bound):
                own.bind(self._core.tree)
        for tool in [*self._services.tools]:
            if isinstance(tool, Bound):
                tool.bind(self._core.tree)
                # The next runtime that has it too binds it anew: this one keeps its own.
                self._services.tools.replace(copy.copy(tool))

    @classmethod
    def open(
        cls,
        directory: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        durability: Durability = "commit",
        **options: Unpack[open_hook.Options],
    ) -> Self:
        """Open the runtime in a directory, made if it is not there; unfinished work resumes.

        - `durability`: "commit"; with "relaxed" a power cut may take the last moment back, but
          never corrupts.
        - `tools`: what models may call: functions with `@tool`, `CommandTool`, `AgentTool` and so
          on.
        - `providers`: the models, by the names that agents give.
        - `policy`: a `Policy` that says which calls pass; without one, all do.
        - `secret`: a function that gives the value of a secret by its name.
        - `app`: an object of yours that tools and policies find in their `Context`.
        - `redact`: patterns of text that is replaced before it is stored, beside what looks like a
          provider's key.
        - `kinds`: machines of your own: docs/your-own-machine.md.
        - `idle_after`: seconds without work after which a session sleeps (60).
        - `snapshot_every`: after how many runes the states of a session are stored (1,000).
        - `views`: where the files of views are; by default in the log's directory.
        - `loop`: the event loop that async providers and tools run on; by default the runtime's.
        - `clock`, `chance`, `scheduler`: time, random numbers and threads, for tests.
        """
        open_hook.check_names(cls, options)
        if (opener := open_hook.current()) is not None:
            return cast("Self", opener(cls, path_of(directory, "a log"), {**options}))
        codec = open_hook.known_kinds(options.get("kinds", ())).codec
        log = Runelog.open(directory, codec, durability=durability)
        for notice in log.notices:
            operator.warning("file set aside", directory=str(log.directory), notice=notice)
        try:
            return cls(log, **options)
        except BaseException:
            log.close()
            raise

    @classmethod
    def connect(
        cls,
        directory: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        wait: float | None = 0.0,
        kinds: Iterable[Kind] = (),
    ) -> Runtime:
        """Use the runtime that another process on this machine has open in a directory.

        Sessions and turns are used as there: commands go to that process, and the log is read here.
        Tools, providers and all other options are given where it is opened.

        If that process is not there, or goes away before it answers, `NoRuntime` or
        `runefold.errors.Broken` says so; with `wait`, a request is sent again for so many seconds,
        None for ever, until there is an answer. It counts once, however often it is sent.

        Machines of the app's own are known here if they are among the `kinds`.
        """
        from runefold.connected import ConnectedRuntime  # noqa: PLC0415 -- it is one of these

        return ConnectedRuntime(directory, wait=wait, kinds=kinds)

    # -- sessions -----------------------------------------------------------------------------

    def create_session(
        self,
        spec: AgentSpec,
        *,
        team: Sequence[AgentSpec] = (),
        conversation_id: str | None = None,
        budget: Budget | None = None,
        labels: Mapping[str, str] | None = None,
        client_id: str = "",
        failed_turns: int = _DEFAULTS.failed_turns,
        unclean_opens: int = _DEFAULTS.unclean_opens,
        timeouts: Mapping[str, float] | None = None,
    ) -> Session:
        """Begin a conversation with its root agent; return once it is on disk.

        Messages go to the root, unless they name another agent of its `team`; who may ask whom, and
        who may hand over to whom, is said in the specs. Each is called by its `name`. All of them
        join in one append.

        `labels` and `client_id`, an id of the user or customer it is for, stay with the session:
        tools and policies find them in their `Context`.

        It is suspended after `failed_turns` failed turns in a row, and after `unclean_opens` opens
        that each followed a crash, without a result in between. `timeouts` are seconds by
        `kind.phase`, such as `{"order.checking": 600}`, for machines of this session that are to
        have another time-out than their law's.
        """
        name = run(
            self._core.create(
                spec,
                team=team,
                conversation_id=conversation_id,
                budget=budget,
                labels=labels,
                client_id=client_id,
                failed_turns=failed_turns,
                unclean_opens=unclean_opens,
                timeouts=timeouts,
            )
        )
        return Session(self._core, name)

    def check(self, spec: AgentSpec) -> None:
        """Refuse an agent whose model or tools are not registered here.

        The agents behind its tools are checked too.
        """
        self._core.check(spec)

    def session(
        self,
        conversation: str,
        *,
        create: AgentSpec | None = None,
        team: Sequence[AgentSpec] = (),
        agents: Literal["keep", "update"] = "keep",
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Return a session that is there, or raise `UnknownConversation`.

        With `create`, one that is not there is begun, as `create_session` does. Of one that is,
        `agents="keep"` leaves the agents as they are; with `"update"` they are as these specs say
        from their next turns on: `create` is the root's, those of the `team` go by their names, new
        ones join. A `client_id` has to be the one that it was begun with. The other options count
        only for a session that is begun.
        """
        run(self._core.find_or_create(conversation, create, team, agents, options))
        return Session(self._core, conversation)

    def sessions(
        self, *, labels: Mapping[str, str] | None = None, phase: str = ""
    ) -> Iterator[Session]:
        """Yield every session, in order of id; or those with these labels, and in this phase.

        For that each session is read, and those that cannot be are left out.
        """
        return (Session(self._core, each) for each in self._core.sessions(labels, phase))

    def follow(
        self,
        after: int = 0,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> Following:
        """Return the runes of all conversations after a position of the log, and new ones live.

        Use `for` or `async for`. The filters are those of `Session.runes`; `entities` are looked
        for in every conversation.
        """
        self._home.check()
        return Following(
            self._core,
            None,
            after,
            kinds=kinds,
            entities=entities,
            visibility=visibility,
            max_behind=max_behind,
            wait=wait,
        )

    def monitor(self, rules: Rules | None = None) -> Monitor:
        """Return a monitor of all sessions: phase counts, and alerts by some rules.

        Each time it is asked it reads only what is new.
        """
        self._home.check()
        return Monitor(
            self.log,
            rules,
            now=self.clock.now,
            kinds=self.kinds,
            beside=self.views.alerts,
        )

    def tree(self) -> Node:
        """Return the running actors and their supervisors; actors that do not answer are silent."""
        self._home.check()
        return view_tree(self._core.tree.top.ref, self.scheduler, self.clock)

    def do(
        self,
        conversation: str,
        command: Command,
        entity: str = "",
        *,
        process: str = "",
        timeout: float | None = ASK_TIMEOUT,
    ) -> Any:  # noqa: ANN401 -- the command's answer
        """Give a command to an entity of a conversation, the session itself if none is named.

        `process` is the other process that passed it on; `timeout` is for what it waits for.
        """
        return run(self._core.do(conversation, command, entity, process, timeout))

    # -- waiting and archiving ----------------------------------------------------------------

    def wait_for(self, conversation: str, kind: str, timeout: float | None) -> None:
        """Wait until the log has a rune of this kind in a conversation."""
        run(self._core.wait_for(conversation, kind, timeout))

    def archive(self, conversation: str) -> None:
        """Move a conversation that has ended to cold storage, its actors stopped."""
        self._home.check()
        run(self._core.archive(conversation))

    # -- the end ------------------------------------------------------------------------------

    def close(self, *, drain: bool = False, timeout: float = 30.0) -> None:
        """Stop everything and close the log; the next open resumes.

        With `drain`, running turns may end first, and are interrupted after `timeout` seconds. No
        turn begins in the meantime; waiting messages and turns that wait for a human are kept.

        In a forked child nothing is stopped: only the child's copy is closed.
        """
        if self._closed:
            return
        if self._home.is_left:
            self._closed = True
            self.log.close()
            return
        # Before anything is stopped: what is refused leaves everything as it was.
        checks.number(timeout, "timeout", zero=True)
        self._closed = True
        if drain:
            self._services.gate.close()
            draining.drain(self._core.tree, timeout)
        draining.rest(self._core.tree)
        if self._control is not None:
            self._control.close()
        self._core.tree.close(timeout)
        self._services.running_calls.close()
        self.views.close()
        for part in (self.scheduler, self.clock):
            if hasattr(part, "close"):
                part.close()
        self._core.watch.finish()
        self.log.close()

    def __enter__(self) -> Self:
        """Return the runtime itself; leaving the block closes it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

"""The runtime for event loops: no method of it, its sessions and its turns holds the loop up.

It has the methods of `Runtime`, which say the same, and a test holds them equal. What those return
once it is known is awaited here; what those give to `for`, these give to `async for`.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from actors.process.process import ASK_TIMEOUT
from actors.session.runes import SessionConfig
from runefold import open_hook
from runefold.async_sessions import AsyncSession, portions
from runefold.core import core_of
from runefold.observe.following import Following
from runefold.runtime import Runtime

if TYPE_CHECKING:
    import os
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Generator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from typing import Self, Unpack

    from actors.kind import Kind
    from actors.public_command import Command
    from runefold.core import Core
    from runefold.handles import Handle
    from runefold.observe.monitoring import Alert, Monitor, PhaseCount, Rules
    from runefold.spec import AgentSpec, Budget, SessionOptions
    from runelog.rune import Envelope, Gap, Visibility
    from runelog.store import Durability
    from supervisors.tree_view import Node

_DEFAULTS = SessionConfig()
R = TypeVar("R", bound="AsyncRuntime")


class AsyncRuntime:
    """Agents that survive, for an event loop.

    >>> import asyncio, tempfile
    >>> from runefold import AgentSpec, AsyncRuntime
    >>> from runefold.providers import Scripted
    >>> async def main():
    ...     model = Scripted(["Hello!"])
    ...     async with AsyncRuntime.open(tempfile.mkdtemp(), providers={"demo": model}) as runtime:
    ...         session = await runtime.create_session(AgentSpec(role="helper", model="demo"))
    ...         return (await (await session.send("Hi"))).output
    >>> asyncio.run(main())
    'Hello!'
    """

    def __init__(self, runtime: Runtime) -> None:
        """Use a runtime that is open; `AsyncRuntime.open` opens one."""
        self.blocking = runtime
        """The same runtime for code that waits with its thread."""
        self._closing: asyncio.Future[None] | None = None

    @property
    def _core(self) -> Core:
        core: Core = core_of(self.blocking).awaiting
        return core

    @classmethod
    def open(
        cls,
        directory: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        durability: Durability = "commit",
        **options: Unpack[open_hook.Options],
    ) -> Opening[Self]:
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
        with contextlib.suppress(RuntimeError):  # no loop runs yet: then it is awaited in one
            options.setdefault("loop", asyncio.get_running_loop())
        return Opening(cls, partial(Runtime.open, directory, durability=durability, **options))

    @classmethod
    def connect(
        cls,
        directory: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        wait: float | None = 0.0,
        kinds: Iterable[Kind] = (),
    ) -> Opening[Self]:
        """Use the runtime that another process on this machine has open in a directory.

        Sessions and turns are used as there: commands go to that process, and the log is read here.
        Tools, providers and all other options are given where it is opened.

        If that process is not there, or goes away before it answers, `NoRuntime` or
        `runefold.errors.Broken` says so; with `wait`, a request is sent again for so many seconds,
        None for ever, until there is an answer. It counts once, however often it is sent.

        Machines of the app's own are known here if they are among the `kinds`.
        """
        return Opening(cls, partial(Runtime.connect, directory, wait=wait, kinds=kinds))

    def entity(self, kind: str, conversation: str, entity: str = "") -> Handle:
        """Return a handle of an entity, with the commands of its kind as methods."""
        return self._core.entity(kind, conversation, entity)

    # -- sessions -----------------------------------------------------------------------------

    async def create_session(
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
    ) -> AsyncSession:
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
        name = await self._core.create(
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
        return AsyncSession(self._core, name)

    async def check(self, spec: AgentSpec) -> None:
        """Refuse an agent whose model or tools are not registered here.

        The agents behind its tools are checked too.
        """
        self._core.check(spec)

    async def session(
        self,
        conversation: str,
        *,
        create: AgentSpec | None = None,
        team: Sequence[AgentSpec] = (),
        agents: Literal["keep", "update"] = "keep",
        **options: Unpack[SessionOptions],
    ) -> AsyncSession:
        """Return a session that is there, or raise `UnknownConversation`.

        With `create`, one that is not there is begun, as `create_session` does. Of one that is,
        `agents="keep"` leaves the agents as they are; with `"update"` they are as these specs say
        from their next turns on: `create` is the root's, those of the `team` go by their names, new
        ones join. A `client_id` has to be the one that it was begun with. The other options count
        only for a session that is begun.
        """
        await self._core.find_or_create(conversation, create, team, agents, options)
        return AsyncSession(self._core, conversation)

    def sessions(
        self, *, labels: Mapping[str, str] | None = None, phase: str = ""
    ) -> AsyncIterator[AsyncSession]:
        """Yield every session, in order of id; or those with these labels, and in this phase.

        For that each session is read, and those that cannot be are left out.
        """
        found = self._core.sessions(labels, phase)
        return self._sessions(self._core, found)

    async def _sessions(self, core: Core, found: Iterator[str]) -> AsyncIterator[AsyncSession]:
        async for each in portions(core, lambda: found):
            yield AsyncSession(core, each)

    def follow(
        self,
        after: int = 0,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> AsyncIterator[Envelope | Gap]:
        """Return the runes of all conversations after a position of the log, and new ones live.

        Use `async for`. The filters are those of `Session.runes`; `entities` are looked
        for in every conversation.
        """
        core = self._core
        core.home.check()
        return Following(
            core,
            None,
            after,
            kinds=kinds,
            entities=entities,
            visibility=visibility,
            max_behind=max_behind,
            wait=wait,
        )

    def monitor(self, rules: Rules | None = None) -> AsyncMonitor:
        """Return a monitor of all sessions: phase counts, and alerts by some rules.

        Each time it is asked it reads only what is new.
        """
        return AsyncMonitor(self._core, self.blocking.monitor(rules))

    async def tree(self) -> Node:
        """Return the running actors and their supervisors; actors that do not answer are silent."""
        return await self._core.read(self.blocking.tree)

    async def do(
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
        return await self._core.do(conversation, command, entity, process, timeout)

    async def wait_for(self, conversation: str, kind: str, timeout: float | None) -> None:
        """Wait until the log has a rune of this kind in a conversation."""
        await self._core.wait_for(conversation, kind, timeout)

    async def archive(self, conversation: str) -> None:
        """Move a conversation that has ended to cold storage, its actors stopped."""
        await self._core.archive(conversation)

    # -- the end ------------------------------------------------------------------------------

    async def close(self, *, drain: bool = False, timeout: float = 30.0) -> None:
        """Stop everything and close the log; the next open resumes.

        With `drain`, running turns may end first, and are interrupted after `timeout` seconds. No
        turn begins in the meantime; waiting messages and turns that wait for a human are kept.

        In a forked child nothing is stopped: only the child's copy is closed.
        """
        if not self.blocking.scheduler.goes_on:
            self.blocking.close(drain=drain, timeout=timeout)  # by hand there is one thread only
            return
        if self._closing is None:
            close = partial(self.blocking.close, drain=drain, timeout=timeout)
            self._closing = asyncio.ensure_future(asyncio.to_thread(close))
        # A task that is cancelled does not wait any longer; what is being stopped is stopped.
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        """Return the runtime itself; leaving the block closes it."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.close()


class Opening(Generic[R]):
    """A runtime to be opened: `await` gives it, and so does `async with`, which closes it."""

    def __init__(self, kind: type[R], begin: Callable[[], Runtime]) -> None:
        """Open nothing yet."""
        self._kind = kind
        self._begin = begin
        self._runtime: R | None = None

    def __await__(self) -> Generator[Any, None, R]:
        """Open it on another thread: to look through what a crash left may take a while."""
        return self._opened().__await__()

    async def _opened(self) -> R:
        if open_hook.current() is not None:
            return self._kind(self._begin())  # a test kit opens it, perhaps on one thread only
        opening = asyncio.ensure_future(asyncio.to_thread(self._begin))
        try:
            return self._kind(await asyncio.shield(opening))
        except asyncio.CancelledError:
            # It is opened all the same, and nobody would close it.
            with contextlib.suppress(Exception):
                runtime = await opening
                await asyncio.to_thread(runtime.close)
            raise

    async def __aenter__(self) -> R:
        """Open it; leaving the block closes it."""
        self._runtime = await self
        return self._runtime

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        if self._runtime is not None:
            await self._runtime.close()


class AsyncMonitor:
    """Looks at everything in a log, and at what is new each time it is asked, for an event loop."""

    def __init__(self, core: Core, monitor: Monitor) -> None:
        """Begin before the first rune."""
        self._core = core
        self._monitor = monitor

    async def catch_up(self) -> None:
        """Take in what was written since."""
        await self._core.read(self._monitor.catch_up)

    async def phases(self) -> list[PhaseCount]:
        """Return the figures of each phase that an entity was in."""
        return await self._core.read(self._monitor.phases)

    async def alerts(self) -> list[Alert]:
        """Return what needs attention now, the oldest first."""
        return await self._core.read(self._monitor.alerts)

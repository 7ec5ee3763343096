"""Sessions and turns as tasks of an event loop see them: no method holds the loop up.

They have the methods of `Session` and `Turn`, which say the same, and a test holds them equal. What
those return once it is known is awaited here; what those give to `for`, these give to `async for`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from actors.agent.public_commands import Terminate
from actors.process.process import ASK_TIMEOUT
from actors.session import public_commands as orders
from actors.session.members import named
from actors.session.public_commands import Interrupt, Replenish, Send, Suspend, Unsuspend
from actors.tool.public_commands import Acknowledge, Answer, Approve, Deny
from runefold import checks
from runefold.observe.agents import Agent, agents_of
from runefold.observe.following import Following
from runefold.sessions import SessionHandle
from runefold.turns import TurnHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator
    from typing import Self

    from actors.model.provider import Message
    from actors.public_command import Command
    from actors.session.lifecycle import State
    from runefold.core import Core
    from runefold.handles import Handle
    from runefold.observe.history import History
    from runefold.observe.session_list import Approval, InDoubt
    from runefold.observe.spending import Spending
    from runefold.spec import AgentSpec
    from runefold.turns import TurnResult, TurnRunes
    from runelog.rune import Envelope, Gap, Visibility

T = TypeVar("T")

PORTION: Final = 256
"""How many things are read at a time on another thread."""


async def portions(core: Core, read: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """Yield what is read from the log, some of it at a time on a thread of the runtime."""
    found = await core.read(read)
    while portion := await core.read(lambda: [*islice(found, PORTION)]):
        for each in portion:
            yield each


class AsyncSession(SessionHandle):
    """One conversation, in an event loop: its agents, its messages, its turns.

    >>> import asyncio, tempfile
    >>> from runefold import AgentSpec, AsyncRuntime
    >>> from runefold.providers import Scripted
    >>> async def main():
    ...     model = Scripted(["Hello!", "Still here."])
    ...     async with AsyncRuntime.open(tempfile.mkdtemp(), providers={"demo": model}) as runtime:
    ...         session = await runtime.create_session(AgentSpec(role="helper", model="demo"))
    ...         first = await (await session.send("Hi"))
    ...         await session.pause("lunch")
    ...         waits = await session.send("Are you there?")
    ...         await session.resume()
    ...         return first.output, (await waits).output, (await session.state).stats.turns
    >>> asyncio.run(main())
    ('Hello!', 'Still here.', 2)
    """

    async def do(
        self,
        command: Command,
        entity: str = "",
        *,
        process: str = "",
        timeout: float | None = ASK_TIMEOUT,
    ) -> Any:  # noqa: ANN401 -- the command's answer
        """Give a command to the session, or to an entity of it; docs/COMMANDS.md lists them all."""
        return await self._core.do(self.id, command, entity, process, timeout)

    def entity(self, kind: str, entity: str) -> Handle:
        """Return a handle of an entity of this session, with the commands of its kind."""
        return self._core.entity(kind, self.id, entity)

    # -- messages -----------------------------------------------------------------------------

    async def send(
        self,
        content: str,
        *,
        mode: Literal["queue", "steer"] = "queue",
        to: str = "",
        message_id: str | None = None,
    ) -> AsyncTurn:
        """Send a message; return once it is on disk. Its turn begins as soon as its agent is free.

        With `mode="steer"` it interrupts the running turn and takes its place. With a `message_id`
        of your own, sending it again is harmless: you get the same turn.
        """
        sent = await self._core.send(self.id, Send(content, mode, to, message_id))
        return AsyncTurn(self._core, self.id, *sent)

    async def turn(self, name: str) -> AsyncTurn:
        """Return a turn by its id, or by the id of its message: also after the log was reopened.

        Of a message that was handed over it is the turn that has it now, whichever id was given.
        """
        return AsyncTurn(self._core, self.id, *(await self._core.turn(self.id, name)))

    async def turns(self, *, running: bool = False) -> list[AsyncTurn]:
        """Return the turns of this session by the order of their messages, waiting ones included.

        With `running`, only those that have not ended: after a reopen, what is under way.
        """
        found = await self._core.turns(self.id, running=running)
        return [AsyncTurn(self._core, self.id, *each) for each in found]

    async def messages(self, agent: str = "", *, at: int | None = None) -> list[Message]:
        """Return the chat as an agent's model is shown it: now, or as of event `at`.

        Without a name it is that of the agent that messages go to which name none.
        """
        return await self._core.messages(self.id, agent, at)

    async def interrupt(
        self, reason: str = "interrupt", *, timeout: float | None = ASK_TIMEOUT
    ) -> int:
        """Stop the running turns, keep their output so far, and return how many were stopped."""
        stopped = await self.do(Interrupt(reason), timeout=timeout)
        return int(stopped["stopped"])

    @property
    async def state(self) -> State:
        """The session's state: the fold of its runes."""
        return await self._core.state(self.id)

    async def pause(self, reason: str = "", *, finish: bool = True) -> None:
        """Begin no more turns; running turns finish, or are interrupted if `finish` is false.

        To stop turns that a pause lets finish, use `interrupt`.
        """
        await self.do(orders.Pause(reason, finish))

    async def resume(self) -> None:
        """Go on after a pause."""
        await self.do(orders.Resume())

    async def suspend(self, reason: str) -> None:
        """Begin no more turns until a human calls `unsuspend`."""
        await self.do(Suspend(reason))

    async def unsuspend(self, reason: str = "") -> None:
        """Continue after the reason for the suspension was dealt with."""
        await self.do(Unsuspend(reason))

    async def replenish(
        self,
        *,
        agent: str | None = None,
        tokens: int = 0,
        tool_calls: int = 0,
        wall_seconds: float = 0,
        retries: int = 0,
        sub_calls: int = 0,
        cost: float | Decimal = 0,
    ) -> None:
        """Raise the limits of the session's budget, or of an agent's, by these amounts."""
        cost = float(cost) if isinstance(cost, Decimal) else cost
        more = Replenish(agent, tokens, tool_calls, wall_seconds, retries, sub_calls, cost)
        await self.do(more)

    async def close(self, reason: str = "", *, timeout: float | None = ASK_TIMEOUT) -> None:
        """Refuse new messages, stop what runs, and end every agent; return once that is done."""
        await self.do(orders.Close(reason), timeout=timeout)

    async def archive(self) -> None:
        """Move a closed conversation to cold storage: still listed and readable."""
        await self.do(orders.Archive())

    @property
    async def agents(self) -> list[Agent]:
        """The agents that live, in the order they came."""
        core, state = self._core, await self.state
        return await core.read(lambda: agents_of(core.log, self.id, state))

    async def spawn(
        self, spec: AgentSpec, *, parent: str | None = None, agent_id: str | None = None
    ) -> str:
        """Add an agent to the conversation; return its id.

        With an `agent_id` of your own, spawning it again is harmless: it is there once.
        """
        return await self._core.spawn(self.id, spec, parent, agent_id)

    async def update_agent(self, name: str, spec: AgentSpec) -> None:
        """Give an agent, by its name or id, another prompt, tools, model, budget or limits.

        That counts from its next turn on, a budget at once: in place of what it had, raises
        included. It keeps its id, its name and what was said. Done again, nothing changes.
        """
        await self._core.update_agent(self.id, name, spec)

    async def hand_over(
        self,
        to: str,
        *,
        last: int | None = None,
        tools: Literal["summary", "omit"] = "summary",
    ) -> None:
        """Let another agent, named by its name or id, take the messages that name none.

        It is shown what was said before, or the `last` so many messages of it, and is told of the
        calls in a line each, or not at all. A turn that runs is not stopped.
        """
        await self.do(orders.HandOver(to, last, tools))

    async def terminate(self, agent: str, *, force: bool = False, reason: str = "killed") -> None:
        """Terminate an agent: it takes no more work. While a turn of it runs only with `force`."""
        await self.do(Terminate(reason, force), named((await self.state).members, agent).agent_id)

    async def approvals(self) -> list[Approval]:
        """Return the calls that wait for a human."""
        return await self._core.approvals(self.id)

    async def approve(self, call_id: str, *, approver: str, process: str = "") -> None:
        """Approve a call that waits for a human; `process` is another process that asks for it."""
        await self.do(Approve(approver), call_id, process=process)

    async def deny(
        self, call_id: str, *, approver: str, reason: str = "", process: str = ""
    ) -> None:
        """Deny a call that waits for a human; `process` is another process that asks for it."""
        await self.do(Deny(approver, reason), call_id, process=process)

    async def answer(
        self,
        call_id: str,
        verdict: Literal["rerun", "happened", "give_up"],
        *,
        approver: str,
        output: object = None,
        process: str = "",
    ) -> None:
        """Resolve a call in doubt: run it again, record that it happened, or give it up."""
        await self.do(Answer(approver, verdict, output), call_id, process=process)

    async def acknowledge(
        self, call_id: str, *, by: str, note: str = "", process: str = ""
    ) -> None:
        """Take a call that ended as unknown off the list of those in doubt: `by` has seen to it.

        Its result stays what it is; the `note` says what was found, and both are in the log.
        """
        await self.do(Acknowledge(by, note), call_id, process=process)

    async def in_doubt(self) -> list[InDoubt]:
        """Return the calls that ended as unknown, and those in doubt that a human is asked about.

        An answer takes a call off the list, unless the answer is to give it up; so does
        `acknowledge`.
        """
        return await self._core.in_doubt(self.id)

    async def history(self, entity: str = "session") -> History:
        """Return the phases that the session, or an agent, turn or call in it, went through."""
        return await self._core.history(self.id, entity)

    async def spending(self) -> Spending:
        """Return what was spent, what is set aside and what is left, with the same per agent."""
        return await self._core.spending(self.id)

    # -- runes --------------------------------------------------------------------------------

    def runes(
        self,
        after: int = 0,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
    ) -> AsyncIterator[Envelope]:
        """Yield the runes of this conversation after a cursor, up to now.

        Filters: `kinds` of runes; `entities` that own or observe them; `visibility`, where `PUBLIC`
        is what any client may see.
        """
        core = self._core
        read = partial(core.runes, self.id, after, kinds, entities, visibility)
        return portions(core, read)

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
        """Return the runes of this conversation after a cursor, and new ones live.

        Use `async for`. The filters are those of `runes`. A reader that falls more than
        `max_behind` runes behind gets a `Gap` and goes on after it. It ends when the runtime is
        closed, or when no rune came for `wait` seconds.
        """
        return Following(
            self._core,
            self.id,
            after,
            kinds=kinds,
            entities=entities,
            visibility=visibility,
            max_behind=max_behind,
            wait=wait,
        )


class AsyncTurn(TurnHandle):
    """A message that was accepted, and the turn that it becomes, in an event loop.

    A task that waits for it may be cancelled: the turn goes on.

    >>> import asyncio, tempfile
    >>> from runefold import AgentSpec, AsyncRuntime
    >>> from runefold.providers import Scripted
    >>> async def main():
    ...     model = Scripted(["Hello!"])
    ...     async with AsyncRuntime.open(tempfile.mkdtemp(), providers={"demo": model}) as runtime:
    ...         session = await runtime.create_session(AgentSpec(role="helper", model="demo"))
    ...         turn = await session.send("Hi")
    ...         kinds = [rune.kind async for rune in turn.runes() if rune.owner == await turn.id]
    ...         return kinds, (await turn.result(timeout=10)).output
    >>> asyncio.run(main())
    (['turn.started', 'turn.completed'], 'Hello!')
    """

    @property
    async def id(self) -> str | None:
        """The turn's id, `turn_3`; None while the message waits for the turn before it.

        Of a message that is handed over it is the turn that has it now.
        """
        return await self._core.read(self._find)

    async def result(
        self, timeout: float | None = None, *, until: Literal["end", "human"] = "end"
    ) -> TurnResult:
        """Wait until the turn has ended, and return how; or until a human has to act.

        With `until="human"` a turn that waits for an approval or an answer, or that stands as its
        session is paused or suspended, is returned at once: `status` says which, `reason` why, and
        `message` what to call.

        Raises `Unanswered` if it takes longer than `timeout` seconds: the turn goes on, and you can
        ask again. Raises `Refused` if the message never became a turn.
        """
        checks.choice(until, "until", ("end", "human"))
        patience = checks.seconds(timeout, "timeout")
        if until == "human":
            held = await self._until_human(self._core.awaiting, patience)
            if held is not None:
                return held
        return await self._awaited(timeout)

    def runes(
        self,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
        children: bool = False,
    ) -> TurnRunes:
        """Return the runes of this turn, as they are committed, to iterate over until its end.

        Use `async for`. The filters are those of `Session.runes`. With `children`, those
        of the turns of agents that are asked in this one come as well; `name_of(rune)` of what is
        returned names the agent of each.
        """
        return self._runes(kinds, entities, visibility, children=children)

    @asynccontextmanager
    async def interrupted_on_cancel(self, reason: str = "cancelled") -> AsyncIterator[Self]:
        """Interrupt the turn if this task is cancelled within the block; its output so far is kept.

        A message that still waits for its turn is not taken back.
        """
        try:
            yield self
        except asyncio.CancelledError:
            # Another one may come meanwhile: the turn is stopped all the same.
            await asyncio.shield(self._interrupt(reason))
            raise

"""A session, as an app sees it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from actors.agent.public_commands import Terminate
from actors.process.process import ASK_TIMEOUT
from actors.scheduling.edge import run
from actors.session import public_commands as orders
from actors.session.members import named
from actors.session.public_commands import Interrupt, Replenish, Send, Suspend, Unsuspend
from actors.tool.public_commands import Acknowledge, Answer, Approve, Deny
from runefold.observe.agents import Agent, agents_of
from runefold.observe.following import Following
from runefold.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.model.provider import Message
    from actors.public_command import Command
    from actors.session.lifecycle import State
    from runefold.core import Core
    from runefold.handles import Handle
    from runefold.observe.history import History
    from runefold.observe.session_list import Approval, InDoubt
    from runefold.observe.spending import Spending
    from runefold.spec import AgentSpec
    from runelog.rune import Envelope, Visibility


class SessionHandle:
    """What a session is, however its callers wait."""

    def __init__(self, core: Core, conversation: str) -> None:
        """Refer to a conversation that is there."""
        self._inside = core
        self.id = conversation

    @property
    def _core(self) -> Core:
        """The inside of the runtime; `Forked` in a forked child, before anything is waited for."""
        self._inside.home.check()
        return self._inside

    def __repr__(self) -> str:
        """Show which one it is."""
        return f"<{type(self).__name__} {self.id}>"


class Session(SessionHandle):
    """One conversation: its agents, its messages, its turns. docs/REFERENCE.md shows all it can do.

    >>> import tempfile
    >>> from runefold import AgentSpec, Runtime
    >>> from runefold.providers import Scripted
    >>> model = Scripted(["Hello!", "Still here."])
    >>> with Runtime.open(tempfile.mkdtemp(), providers={"demo": model}) as runtime:
    ...     session = runtime.create_session(AgentSpec(role="helper", model="demo"))
    ...     first = session.send("Hi").result(timeout=10)
    ...     session.pause("lunch")
    ...     waits = session.send("Are you there?")
    ...     session.resume()
    ...     first.output, waits.result(timeout=10).output, session.state.stats.turns
    ('Hello!', 'Still here.', 2)
    """

    def do(
        self,
        command: Command,
        entity: str = "",
        *,
        process: str = "",
        timeout: float | None = ASK_TIMEOUT,
    ) -> Any:  # noqa: ANN401 -- the command's answer
        """Give a command to the session, or to an entity of it; docs/COMMANDS.md lists them all."""
        return run(self._core.do(self.id, command, entity, process, timeout))

    def entity(self, kind: str, entity: str) -> Handle:
        """Return a handle of an entity of this session, with the commands of its kind."""
        return self._core.runtime.entity(kind, self.id, entity)

    # -- messages -----------------------------------------------------------------------------

    def send(
        self,
        content: str,
        *,
        mode: Literal["queue", "steer"] = "queue",
        to: str = "",
        message_id: str | None = None,
    ) -> Turn:
        """Send a message; return once it is on disk. Its turn begins as soon as its agent is free.

        With `mode="steer"` it interrupts the running turn and takes its place. With a `message_id`
        of your own, sending it again is harmless: you get the same turn.
        """
        sent = run(self._core.send(self.id, Send(content, mode, to, message_id)))
        return Turn(self._core, self.id, *sent)

    def turn(self, name: str) -> Turn:
        """Return a turn by its id, or by the id of its message: also after the log was reopened.

        Of a message that was handed over it is the turn that has it now, whichever id was given.
        """
        return Turn(self._core, self.id, *run(self._core.turn(self.id, name)))

    def turns(self, *, running: bool = False) -> list[Turn]:
        """Return the turns of this session by the order of their messages, waiting ones included.

        With `running`, only those that have not ended: after a reopen, what is under way.
        """
        found = run(self._core.turns(self.id, running=running))
        return [Turn(self._core, self.id, *each) for each in found]

    def messages(self, agent: str = "", *, at: int | None = None) -> list[Message]:
        """Return the chat as an agent's model is shown it: now, or as of event `at`.

        Without a name it is that of the agent that messages go to which name none.
        """
        return run(self._core.messages(self.id, agent, at))

    def interrupt(self, reason: str = "interrupt", *, timeout: float | None = ASK_TIMEOUT) -> int:
        """Stop the running turns, keep their output so far, and return how many were stopped."""
        return int(self.do(Interrupt(reason), timeout=timeout)["stopped"])

    # -- its course ---------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The session's state: the fold of its runes."""
        return run(self._core.state(self.id))

    def pause(self, reason: str = "", *, finish: bool = True) -> None:
        """Begin no more turns; running turns finish, or are interrupted if `finish` is false.

        To stop turns that a pause lets finish, use `interrupt`.
        """
        self.do(orders.Pause(reason, finish))

    def resume(self) -> None:
        """Go on after a pause."""
        self.do(orders.Resume())

    def suspend(self, reason: str) -> None:
        """Begin no more turns until a human calls `unsuspend`."""
        self.do(Suspend(reason))

    def unsuspend(self, reason: str = "") -> None:
        """Continue after the reason for the suspension was dealt with."""
        self.do(Unsuspend(reason))

    def replenish(
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
        self.do(more)

    def close(self, reason: str = "", *, timeout: float | None = ASK_TIMEOUT) -> None:
        """Refuse new messages, stop what runs, and end every agent; return once that is done."""
        self.do(orders.Close(reason), timeout=timeout)

    def archive(self) -> None:
        """Move a closed conversation to cold storage: still listed and readable."""
        self.do(orders.Archive())

    # -- agents -------------------------------------------------------------------------------

    @property
    def agents(self) -> list[Agent]:
        """The agents that live, in the order they came."""
        core, state = self._core, self.state
        return run(core.read(lambda: agents_of(core.log, self.id, state)))

    def spawn(
        self, spec: AgentSpec, *, parent: str | None = None, agent_id: str | None = None
    ) -> str:
        """Add an agent to the conversation; return its id.

        With an `agent_id` of your own, spawning it again is harmless: it is there once.
        """
        return run(self._core.spawn(self.id, spec, parent, agent_id))

    def update_agent(self, name: str, spec: AgentSpec) -> None:
        """Give an agent, by its name or id, another prompt, tools, model, budget or limits.

        That counts from its next turn on, a budget at once: in place of what it had, raises
        included. It keeps its id, its name and what was said. Done again, nothing changes.
        """
        run(self._core.update_agent(self.id, name, spec))

    def hand_over(
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
        self.do(orders.HandOver(to, last, tools))

    def terminate(self, agent: str, *, force: bool = False, reason: str = "killed") -> None:
        """Terminate an agent: it takes no more work. While a turn of it runs only with `force`."""
        self.do(Terminate(reason, force), named(self.state.members, agent).agent_id)

    # -- approvals ----------------------------------------------------------------------------

    def approvals(self) -> list[Approval]:
        """Return the calls that wait for a human."""
        return run(self._core.approvals(self.id))

    def approve(self, call_id: str, *, approver: str, process: str = "") -> None:
        """Approve a call that waits for a human; `process` is another process that asks for it."""
        self.do(Approve(approver), call_id, process=process)

    def deny(self, call_id: str, *, approver: str, reason: str = "", process: str = "") -> None:
        """Deny a call that waits for a human; `process` is another process that asks for it."""
        self.do(Deny(approver, reason), call_id, process=process)

    def answer(
        self,
        call_id: str,
        verdict: Literal["rerun", "happened", "give_up"],
        *,
        approver: str,
        output: object = None,
        process: str = "",
    ) -> None:
        """Resolve a call in doubt: run it again, record that it happened, or give it up."""
        self.do(Answer(approver, verdict, output), call_id, process=process)

    def acknowledge(self, call_id: str, *, by: str, note: str = "", process: str = "") -> None:
        """Take a call that ended as unknown off the list of those in doubt: `by` has seen to it.

        Its result stays what it is; the `note` says what was found, and both are in the log.
        """
        self.do(Acknowledge(by, note), call_id, process=process)

    def in_doubt(self) -> list[InDoubt]:
        """Return the calls that ended as unknown, and those in doubt that a human is asked about.

        An answer takes a call off the list, unless the answer is to give it up; so does
        `acknowledge`.
        """
        return run(self._core.in_doubt(self.id))

    # -- runes --------------------------------------------------------------------------------

    def history(self, entity: str = "session") -> History:
        """Return the phases that the session, or an agent, turn or call in it, went through."""
        return run(self._core.history(self.id, entity))

    def spending(self) -> Spending:
        """Return what was spent, what is set aside and what is left, with the same per agent."""
        return run(self._core.spending(self.id))

    def runes(
        self,
        after: int = 0,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
    ) -> Iterator[Envelope]:
        """Yield the runes of this conversation after a cursor, up to now.

        Filters: `kinds` of runes; `entities` that own or observe them; `visibility`, where `PUBLIC`
        is what any client may see.
        """
        return self._core.runes(self.id, after, kinds, entities, visibility)

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
        """Return the runes of this conversation after a cursor, and new ones live.

        Use `for` or `async for`. The filters are those of `runes`. A reader that falls more than
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

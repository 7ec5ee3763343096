"""A session, as an app sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from actors.agent.lifecycle import Terminate
from actors.budget.runes import Amounts
from actors.clock import SECOND
from actors.errors import Unanswered
from actors.process import ASK_TIMEOUT
from actors.session import lifecycle as ask
from actors.session.actor import Await, Ended, Forward, Interrupt, Look, Send, ended
from actors.session.lifecycle import in_doubt
from actors.tool.actor import Word
from actors.turn.runes import Interrupted
from runefold import checks
from runefold.choosing import wanted
from runefold.following import Following
from runefold.insight import history
from runefold.listing import asked
from runefold.turns import Turn
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from actors.session.lifecycle import Pending, State
    from runefold.insight import History
    from runefold.runtime import Runtime
    from runefold.spec import AgentSpec
    from runelog.rune import Envelope, Visibility

MODES: Final = ("queue", "steer")


@dataclass(frozen=True)
class Approval:
    """A call that waits for a human.

    >>> Approval("call_1", reason="pay requires approval", deadline=1_800_000_000).reason
    'pay requires approval'
    """

    call_id: str
    reason: str
    deadline: float
    """Seconds since 1970, UTC."""
    tool_name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What it is to be called with."""


class Session:
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
    ...     first.output, waits.result(timeout=10).output, session.state.turns
    ('Hello!', 'Still here.', 2)
    """

    def __init__(self, runtime: Runtime, conversation: str) -> None:
        """Refer to a conversation that is there."""
        self._opened = runtime
        self.id = conversation

    @property
    def _runtime(self) -> Runtime:
        """The runtime; `Forked` in a forked child, before anything is waited for."""
        self._opened.home.check()
        return self._opened

    def __repr__(self) -> str:
        """Show which one it is."""
        return f"<Session {self.id}>"

    def _ask(self, message: object, timeout: float | None = ASK_TIMEOUT) -> Any:  # noqa: ANN401 -- the answer
        return self._runtime.ask(self.id, message, timeout)

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

        With `mode="steer"` it takes over from the turn that is running now. With a `message_id` of
        your own, sending it again is harmless: you get the same turn.
        """
        checks.text(content, "a message")
        checks.text(to, "the agent that a message is for")
        if mode not in MODES:
            msg = f"mode={mode!r}: use 'queue' to wait for the running turn, 'steer' to take over"
            raise Refused(msg)
        if message_id is None:
            name = self._runtime.new_id("msg")
        else:
            # Ids are kept as they are: one that looks like a secret is none.
            name = check_id(self._runtime.redactor.value(message_id), "message id")
        sent = self._ask(Send(name, content, mode, to, own_id=message_id is not None))
        return Turn(self._runtime, self.id, name, sent.before, sent.end)

    def interrupt(self, reason: str = "interrupt", *, timeout: float | None = ASK_TIMEOUT) -> int:
        """Stop what is running now and keep what there is; return how many turns were stopped."""
        checks.reason(reason)
        timeout = checks.seconds(timeout, "timeout")
        # By their names: asked again after a crash, it does not stop those that began since.
        now: State = self._ask(Look(), timeout)
        if not now.running:
            return 0
        halt = Interrupt(reason, tuple(each.turn_id for each in now.running))
        self._ask(halt, timeout)
        return sum(self._is_stopped(each.message_id, halt, timeout) for each in now.running)

    def _is_stopped(self, message_id: str, halt: Interrupt, timeout: float | None) -> bool:
        """Wait until a turn has ended that is to stop; tell whether it did not end by itself."""
        log = self._runtime.log
        try:
            how = self._runtime.ask(
                self.id, Await(message_id, halt), timeout, lambda: ended(log, self.id, message_id)
            )
        except Unanswered:
            msg = (
                f"{self.id}: the turn of {message_id} has not ended within {timeout} s; "
                "it was told to stop, and may still do so"
            )
            raise Unanswered(msg) from None
        return isinstance(how, Ended) and isinstance(how.rune, Interrupted)

    # -- its course ---------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What its runes add up to now."""
        state: State = self._ask(Look())
        return state

    def pause(self, reason: str = "", *, finish: bool = True) -> None:
        """Begin no more turns; running ones finish, or are interrupted if `finish` is false.

        To stop what a pause has let finish, `interrupt`.
        """
        self._ask(ask.Pause(checks.reason(reason), bool(finish)))

    def resume(self) -> None:
        """Go on after a pause."""
        self._ask(ask.Resume())

    def suspend(self, reason: str) -> None:
        """Begin no more turns until somebody has seen to the reason."""
        self._ask(ask.Suspend(checks.reason(reason), actor="user"))

    def unsuspend(self, reason: str = "") -> None:
        """Go on: somebody has seen to what it was suspended for."""
        self._ask(ask.Unsuspend(checks.reason(reason)))

    def replenish(
        self,
        *,
        agent: str | None = None,
        tokens: int = 0,
        tool_calls: int = 0,
        wall_seconds: float = 0,
        retries: int = 0,
        sub_calls: int = 0,
        cost: float = 0,
    ) -> None:
        """Raise the limits of the session's budget, or of an agent's, by so much."""
        amounts = Amounts(
            tokens=checks.count(tokens, "tokens"),
            tool_calls=checks.count(tool_calls, "tool_calls"),
            wall=round(checks.number(wall_seconds, "wall_seconds", zero=True) * SECOND),
            retries=checks.count(retries, "retries"),
            sub_calls=checks.count(sub_calls, "sub_calls"),
            cost=round(checks.number(cost, "cost", zero=True) * 1_000_000),
        )
        if amounts == Amounts():
            msg = "replenish() raises nothing: say by how much, such as tokens=10_000"
            raise Refused(msg)
        request = self._runtime.new_id("req")
        self._ask(ask.Replenish(request, agent or "session", amounts))

    def close(self, reason: str = "", *, timeout: float | None = ASK_TIMEOUT) -> None:
        """Accept nothing more, stop what runs, and bring everything to its end."""
        checks.reason(reason)
        timeout = checks.seconds(timeout, "timeout")
        self._ask(ask.Close(reason))
        self._runtime.wait_for(self.id, "session.closed", timeout)

    def archive(self) -> None:
        """Move a closed conversation to cold storage: still listed and readable."""
        self._ask(ask.Archive())
        self._runtime.archive(self.id)

    # -- agents -------------------------------------------------------------------------------

    def spawn(self, spec: AgentSpec, *, parent: str | None = None) -> str:
        """Bring one more agent into the conversation; return its id."""
        self._runtime.check(spec)
        agent = self._runtime.new_id("agt")
        self._ask(ask.Spawn(agent, spec.role, spec.model, parent, spec.config()))
        return agent

    def hand_over(self, to: str) -> None:
        """Let another agent take the messages that name none."""
        self._ask(ask.HandOver(check_id(to, "agent id")))

    def kill(self, agent: str, *, force: bool = False, reason: str = "killed") -> None:
        """Terminate an agent; one with a turn running only by `force`."""
        check_id(agent, "agent id")
        end = Terminate(checks.reason(reason), bool(force), "user")
        self._ask(Forward("agent", agent, agent, end))

    # -- approvals ----------------------------------------------------------------------------

    def approvals(self) -> list[Approval]:
        """Return the calls that wait for a human."""
        return [self._approval(each) for each in self.state.approvals]

    def _approval(self, pending: Pending) -> Approval:
        log = self._runtime.log
        known = asked(log, self.id, pending)
        if not known.tool_name:
            # What a session knows may be on its way to the disk yet.
            log.flush(self.id)
            known = asked(log, self.id, pending)
        deadline = known.deadline / SECOND
        return Approval(known.call_id, known.reason, deadline, known.tool_name, known.arguments)

    def approve(self, call_id: str, *, approver: str, process: str = "") -> None:
        """Let a call run that waits for a human; `process` is the other one that passed it on."""
        self._say(call_id, Word("approve", approver, process=process))

    def deny(self, call_id: str, *, reason: str, approver: str = "user", process: str = "") -> None:
        """Deny a call that waits for a human; `process` is the other one that passed it on."""
        self._say(call_id, Word("deny", approver, reason, process=process))

    def answer(
        self,
        call_id: str,
        verdict: Literal["rerun", "happened", "give_up"],
        *,
        approver: str,
        output: object = None,
        process: str = "",
    ) -> None:
        """Say of a call in doubt that it is to run again, that it happened, or to give it up."""
        self._say(call_id, Word(verdict, approver, output=output, process=process))

    def _say(self, call_id: str, word: Word) -> None:
        check_id(call_id, "call id")
        if not checks.text(word.approver, "an approver"):
            msg = "an approver has a name: say who answers, such as approver='ada'"
            raise Refused(msg)
        checks.reason(word.reason)
        checks.reason(word.process)
        self._ask(Forward("tool", call_id, "", word))

    def in_doubt(self) -> list[str]:
        """Return the calls whose outcome nobody knows, those included that a human is asked about.

        An answer takes a call off the list, unless it is to give it up.
        """
        return list(in_doubt(self.state))

    # -- runes --------------------------------------------------------------------------------

    def history(self, entity: str = "session") -> History:
        """Return what became of the session, or of an agent, a turn, a call in it, until now."""
        check_id(entity, "entity id")
        runtime = self._runtime
        return history(runtime.log, self.id, entity, runtime.clock.now())

    def runes(
        self,
        after: int = 0,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
    ) -> Iterator[Envelope]:
        """Yield what happened in this conversation, from a cursor on, to its end as of now.

        Only of some `kinds`, only what some `entities` own or observe, or only what may be seen
        with some `visibility`: `PUBLIC` is what any client may.
        """
        asked_for = wanted(kinds, entities, visibility)
        found = self._runtime.log.read(self.id, checks.cursor(after), kinds=kinds)
        return filter(asked_for.takes, found) if asked_for.is_narrow else found

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
        """Give what happened and what is yet to happen here, live, from a cursor on.

        To iterate over with `for`, or with `async for`. What is asked for is as in `runes`. A
        reader that falls more than `max_behind` runes back is given a `Gap` and goes on behind it.
        Ends when the runtime is closed, or when nothing came for `wait` seconds.
        """
        return Following(
            self._runtime,
            self.id,
            after,
            kinds=kinds,
            entities=entities,
            visibility=visibility,
            max_behind=max_behind,
            wait=wait,
        )

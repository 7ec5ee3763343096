"""Agents as tools: one agent asks another, or hands the conversation over to it.

What is asked becomes a message of the same conversation, under the id of the call. So asking again
after a crash is harmless: it finds the same turn, under way or ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from weakref import WeakKeyDictionary

from actors.agent.history import History
from actors.agent.runes import ASK, HAND_OVER, Failed, Terminated
from actors.budget.runes import BUDGET_EXHAUSTED
from actors.errors import Unanswered
from actors.session.hand_over import TakeOver
from actors.session.lifecycle import why_in_vain
from actors.session.members import Spawn, named
from actors.session.messages import Await, Ended, Look, Refusal, Send
from actors.session.queue import Withdraw, message_entity
from actors.session.runes import InputAccepted
from actors.tool.outcome import Outcome
from actors.tool.schema import Parameter, Parameters
from actors.tool.spec import BadTool, ToolSpec
from actors.turn import runes as turns
from runefold import checks
from runefold.spec import AgentSpec
from runelog.errors import LogFull, Refused, RunefoldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.model.provider import Message
    from actors.tool.context import Call, Cancellation
    from supervisors.tree import Tree

DAY = 24 * 3600.0
PAUSE = 5.0
"""Seconds until something is tried again for which there was no room on the disk."""


_TOO_LATE: Final = "the caller stopped waiting"


class Bound:
    """A tool that reaches into the runtime it is registered with."""

    spec: ToolSpec
    _parameters: Parameters

    def __init__(self) -> None:
        """Begin registered nowhere."""
        self._tree: Tree | None = None

    def bind(self, tree: Tree) -> None:
        """Belong to a runtime."""
        self._tree = tree

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are taken, or raise `Unfit`."""
        return self._parameters.fit(arguments)

    def _patiently(self, call: Call, work: Callable[[], Outcome]) -> Outcome:
        """Do the work; while the disk is full, try again, which is harmless.

        The asked turn continues by itself as soon as there is room, so nothing is lost.
        """
        while True:
            try:
                return work()
            except RunefoldError as error:
                if not _is_full(error) or self._is_told_in(PAUSE, call):
                    return Outcome("error", error=str(error))

    def _is_told_in(self, seconds: float, call: Call) -> bool:
        """Wait a while; return True if the call should stop."""
        return self._reached().services.scheduler.wait(_Told(call.cancellation), seconds)

    def _reached(self) -> Tree:
        if self._tree is None:
            msg = f"{self.spec.name} is not registered: pass it in tools=[...] to Runtime.open"
            raise Refused(msg)
        return self._tree


def _is_full(error: RunefoldError) -> bool:
    """Return True if the disk had no room, for this or for its cause."""
    return isinstance(error, LogFull) or isinstance(error.__cause__, LogFull)


class _Told:
    """That a call should stop, to wait for."""

    def __init__(self, cancellation: Cancellation) -> None:
        self.wait = cancellation.wait
        self._cancellation = cancellation

    def is_there(self) -> bool:
        """Return True if it should."""
        return self._cancellation.cancelled


class _Asking(Bound):
    """Asks an agent something, and waits for the answer."""

    def run(self, call: Call) -> Outcome:
        """Ask, and wait for the answer."""
        fit = self.fit(call.arguments)
        return self._patiently(call, lambda: self._ask(call, fit["question"]))

    def _named(self, call: Call) -> str:
        """Return what the agent that is asked is called, for people."""
        raise NotImplementedError

    def _agent(self, tree: Tree, call: Call) -> str:
        """Return the id of the agent that is asked, once it is in the conversation."""
        raise NotImplementedError

    def _ask(self, call: Call, question: str) -> Outcome:
        tree = self._reached()
        name = self._named(call)
        asked = _asked(tree, call)
        # Looked at before an agent joins for it.
        if not asked and (why := why_in_vain(tree.ask(call.conversation, Look()), call.caller)):
            return Outcome("error", error=f"{name} could not be asked: {why}")
        agent = asked or self._agent(tree, call)
        with waiting(tree).beginning(call.conversation, call.agent_id, agent):
            if not asked:
                sent = Send(call.call_id, question, to=agent, own_id=True, asked_in=call.caller)
                try:
                    tree.ask(call.conversation, sent)
                except Refused as refusal:
                    why = _why_it_failed(tree, call.conversation, agent) or str(refusal)
                    return Outcome("error", error=f"{name} could not be asked: {why}")
            try:
                # While the asked agent waits for a human the conversation may sleep.
                end = Await(call.call_id)
                found = tree.ask(call.conversation, end, call.timeout, wake=False)
            except Unanswered:
                # If no turn took the question up yet, none needs to any more.
                tree.ask(call.conversation, Withdraw(_TOO_LATE, message_id=call.call_id))
                return Outcome("timeout", error=f"{name} did not answer in time")
        match found:
            case Ended(rune=turns.Completed(final_output=text)):
                return Outcome("success", text)
            case Ended(rune=turns.Interrupted(reason=reason, partial_output=text)):
                return Outcome("error", text, f"{name} was interrupted: {reason}")
            case Ended(rune=turns.Error(message=message, partial_output=text)):
                return Outcome("error", text, f"{name} failed: {message}")
            case Refusal(reason=reason):
                return Outcome("error", error=f"{name} could not be asked: {reason}")
            case _:
                return Outcome("error", error=f"{name} gave no answer")


class AskMember(_Asking):
    """Lets an agent ask those of its team that it may ask.

    >>> AskMember().narrowed(["research"]).spec.parameters["properties"]["agent"]["enum"]
    ['research']
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Take the names of the agents that may be asked."""
        super().__init__()
        who = Literal[tuple(names)] if names else str
        self._parameters = Parameters(
            [Parameter("agent", who), Parameter("question", str)],
            {
                "agent": "The name of the agent to ask.",
                "question": "What to ask, with all that must be known to answer.",
            },
        )
        self.spec = ToolSpec(
            name=ASK,
            description="Ask another agent of this conversation, and get its answer.",
            parameters=self._parameters.schema,
            idempotent=True,
            parallel_safe=True,
            timeout=DAY,
            sub_call=True,
        )

    def narrowed(self, names: Sequence[str]) -> Self:
        """Return one that asks no other agents than these."""
        return type(self)(names)

    def _named(self, call: Call) -> str:
        return str(self.fit(call.arguments)["agent"])

    def _agent(self, tree: Tree, call: Call) -> str:
        name = self._named(call)
        members = tree.ask(call.conversation, Look()).members
        return named(members, name).agent_id


class AgentTool(_Asking):
    """An agent that other agents can ask.

    It joins the conversation when it is first asked, as a child of the agent that asks.

    >>> from runefold import AgentSpec
    >>> expert = AgentTool("ask_expert", AgentSpec(role="expert", model="demo"), "Ask an expert.")
    >>> expert.fit({"question": "Why?"})
    {'question': 'Why?'}
    """

    def __init__(
        self, name: str, agent: AgentSpec, description: str, *, timeout: float = DAY
    ) -> None:
        """Describe the agent, and what to ask it for."""
        super().__init__()
        if not isinstance(agent, AgentSpec):
            msg = f"tool {name}: an agent is described by an AgentSpec, not by a "
            raise BadTool(msg + type(agent).__name__)
        self.agent = agent
        self._parameters = Parameters(
            [Parameter("question", str)],
            {"question": "What to ask, with all that must be known to answer."},
        )
        self.spec = ToolSpec(
            name=name,
            description=description,
            parameters=self._parameters.schema,
            idempotent=True,
            parallel_safe=True,
            timeout=timeout,
            sub_call=True,
        )

    def _named(self, call: Call) -> str:
        del call
        return self.agent.role

    def _agent(self, tree: Tree, call: Call) -> str:
        """Have the agent in the conversation; return its id."""
        spec = self.agent
        config = spec.config()
        for number in itertools.count():
            agent = _id_of(call.conversation, self.spec.name, number)
            spawn = Spawn(agent, spec.role, spec.model, call.agent_id or None, config)
            try:
                tree.ask(call.conversation, spawn)
            except Refused:
                if not tree.log.version(call.conversation, agent):
                    raise
                if _is_spent(tree, call.conversation, agent):
                    # Another one would have all of its budget once more.
                    msg = f"{spec.role} has spent its budget, and answers no more"
                    raise Refused(msg) from None
                # One that was here and is gone does not come back: another takes its place.
            else:
                return agent
        raise AssertionError


def _is_spent(tree: Tree, conversation: str, agent: str) -> bool:
    """Return True if an agent was terminated because its budget was spent."""
    ends = [each.payload for each in tree.log.stream(conversation, agent)]
    return any(isinstance(end, Terminated) and end.reason == BUDGET_EXHAUSTED for end in ends)


def _asked(tree: Tree, call: Call) -> str:
    """Return the agent that this call has asked before a crash; empty if there is none."""
    entity = message_entity(call.call_id)
    if not tree.log.version(call.conversation, entity):
        return ""
    first = next(tree.log.stream(call.conversation, entity)).payload
    assert isinstance(first, InputAccepted)
    return first.to


def _why_it_failed(tree: Tree, conversation: str, agent: str) -> str:
    """Return why an agent never became ready; nothing if it did."""
    tree.log.flush(conversation)
    for envelope in tree.log.stream(conversation, agent):
        if isinstance(rune := envelope.payload, Failed):
            return rune.error
    return ""


class Waiting:
    """Which agents wait for which, in one runtime."""

    def __init__(self) -> None:
        """Begin with no agent waiting."""
        self._lock = threading.Lock()
        self._for: dict[tuple[str, str], list[str]] = {}

    @contextlib.contextmanager
    def beginning(self, conversation: str, asker: str, agent: str) -> Iterator[None]:
        """Have one agent wait for another; refuse it if that one could never answer."""
        with self._lock:
            if asker == agent or self._waits(conversation, agent, asker):
                msg = "that agent is waiting for you; answer without asking it"
                raise Refused(msg)
            self._for.setdefault((conversation, asker), []).append(agent)
        try:
            yield
        finally:
            with self._lock:
                left = self._for[conversation, asker]
                left.remove(agent)
                if not left:
                    del self._for[conversation, asker]

    def _waits(self, conversation: str, agent: str, other: str) -> bool:
        """Return True if an agent waits for another, directly or through others."""
        ahead = self._for.get((conversation, agent), [])
        return other in ahead or any(self._waits(conversation, each, other) for each in ahead)


_waiting: WeakKeyDictionary[Tree, Waiting] = WeakKeyDictionary()


def waiting(tree: Tree) -> Waiting:
    """Return which agents wait for which in a runtime."""
    return _waiting.setdefault(tree, Waiting())


Words: TypeAlias = "Callable[[Sequence[Message]], str | Sequence[str]]"
"""Given what was said, what the agent that takes over is told of it."""


class HandOver(Bound):
    """Lets an agent hand the conversation over: another one answers, from the message at hand on.

    That agent is shown what was said before: the messages of the user, and the words of the other
    agents under their names. `history` is "all" of it, the last so many messages, "none", or a
    function of yours that is given the messages and returns a text, or texts, to show instead. Of
    the calls it is told a line each, with `tools="omit"` nothing; never what is secret.

    >>> HandOver("hand_over", history=20, tools="omit").spec.name
    'hand_over'
    """

    def __init__(
        self,
        name: str = HAND_OVER,
        *,
        to: Sequence[str] = (),
        history: Literal["all", "none"] | int | Words = "all",
        tools: Literal["summary", "omit"] = "summary",
    ) -> None:
        """Name the tool; `to` are the agents that may take over, by default all."""
        super().__init__()
        self._last, self._words = _shown(history)
        checks.choice(tools, "tools of a hand-over", ("summary", "omit"))
        self._tools = tools
        self._history = history
        self._parameters = Parameters(
            [Parameter("to", Literal[tuple(to)] if to else str)],
            {"to": "The name of the agent who takes over."},
        )
        self.spec = ToolSpec(
            name=name,
            description="Let another agent of this conversation take over from here.",
            parameters=self._parameters.schema,
            idempotent=True,
        )

    def narrowed(self, names: Sequence[str]) -> Self:
        """Return one that hands over to no other agents than these.

        >>> HandOver().narrowed(["billing"]).spec.parameters["properties"]["to"]["enum"]
        ['billing']
        """
        return type(self)(self.spec.name, to=names, history=self._history, tools=self._tools)

    def run(self, call: Call) -> Outcome:
        """Hand over."""
        return self._patiently(call, lambda: self._hand_over(call))

    def _hand_over(self, call: Call) -> Outcome:
        tree, name = self._reached(), self.fit(call.arguments)["to"]
        conversation = call.conversation
        members = tree.ask(conversation, Look()).members
        to = named(members, name)
        if to.agent_id == call.agent_id:
            msg = f"{name} is you: answer, or hand over to another agent"
            raise Refused(msg)
        agent = to.agent_id
        briefing = None if self._words is None else self._briefing(tree, conversation, agent)
        wish = TakeOver(
            agent, call.caller, call.call_id, self._last, tools=self._tools, briefing=briefing
        )
        tree.ask(conversation, wish)
        return Outcome("success", f"{to.name} takes over")

    def _briefing(self, tree: Tree, conversation: str, agent: str) -> tuple[str, ...]:
        """Return what the app says of what was said."""
        assert self._words is not None
        tree.log.flush(conversation)
        upto = tree.log.conversation(conversation).head
        said = self._words(History.unseen(tree.log, conversation, agent, upto))
        return (said,) if isinstance(said, str) else tuple(said)


def _shown(history: object) -> tuple[int | None, Words | None]:
    """Return how many messages are shown, None for all, and what is asked instead."""
    if history in ("all", "none"):
        return (None if history == "all" else 0), None
    if callable(history):
        return None, history
    if isinstance(history, int) and not isinstance(history, bool) and history > 0:
        return history, None
    msg = (
        f"history={history!r:.80} says nothing: give 'all', 'none', how many messages, or a "
        "function of the messages"
    )
    raise BadTool(msg)


def _id_of(conversation: str, name: str, number: int) -> str:
    """Return the id of the agent behind a tool: one in each conversation, as long as it lives."""
    key = f"{conversation}/{name}" + (f"/{number}" if number else "")
    found = hashlib.blake2b(key.encode(), digest_size=8)
    return f"agt_{found.hexdigest()}"

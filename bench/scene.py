"""The turn that is measured, and ours as one of those that can make it.

A model that takes no time says twenty fragments, asks for a tool, and says twenty more.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Final, Protocol

from actors.model.providers.scripted import Scripted, call
from actors.model.runes import AssistantDelta
from actors.tool.adapters.function import tool
from bench.measure import rate
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from actors.ports import Clock, Scheduler
    from runefold.sessions import Session

QUESTION: Final = "What is 2 + 3?"
FRAGMENTS: Final = tuple(f"word{number:02} " for number in range(20))
ANSWER: Final = "".join(FRAGMENTS)
ARGUMENTS: Final = {"a": 2, "b": 3}
LONG: Final = "Tell me a long story."
SAY: Final = "Say so many words: "
LONG_FRAGMENTS: Final = FRAGMENTS * 100

NEVER: Final = 3600.0
"""Seconds after which a session would go to sleep: not while it is measured."""


class Teller(Protocol):
    """A way to make the turn."""

    name: str

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a conversation, or go on with it; return what makes a turn and gives its answer."""
        ...

    def settings(self) -> str:
        """Return what it was set to."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def read(fragments: tuple[str, ...]) -> str:
    """Take a stream in, fragment by fragment, as whoever calls a model has to."""
    said = []
    for fragment in fragments:
        said.append(fragment)  # noqa: PERF402 -- a stream comes one by one
    return "".join(said)


# -- ours ---------------------------------------------------------------------------------------


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def reply(request: Request) -> Reply:
    """Say what the model says."""
    last = request.messages[-1]
    if last.role != "user":
        return FRAGMENTS
    if last.text.startswith(SAY):
        return FRAGMENTS[:1] * int(last.text.removeprefix(SAY))
    return LONG_FRAGMENTS if last.text == LONG else (*FRAGMENTS, call("add", **ARGUMENTS))


SPEC: Final = AgentSpec(role="helper", model="demo", tools=["add"])


def open_runtime(
    path: Path,
    idle_after: float = NEVER,
    *,
    clock: Clock | None = None,
    scheduler: Scheduler | None = None,
) -> Runtime:
    """Open the runtime with the model and the tool of the scene."""
    return Runtime.open(
        path,
        tools=[add],
        providers={"demo": Scripted(reply, blocks=False)},
        idle_after=idle_after,
        clock=clock,
        scheduler=scheduler,
    )


def one_turn(session: Session) -> str:
    """Send the question and wait for the answer."""
    result = session.send(QUESTION).result(timeout=60)
    assert result, result
    return result.output


def heard_turn(session: Session, question: str = QUESTION, says: str = ANSWER * 2) -> str:
    """Send a question, hear the fragments as they come, and wait for the answer."""
    turn = session.send(question)
    heard = []
    for envelope in turn.runes(kinds={"turn.assistant_delta"}):
        rune = envelope.payload
        assert isinstance(rune, AssistantDelta)
        heard.append(rune.text)
    # The runtime gathers what a model says at once: all of the text is there, in fewer runes.
    assert "".join(heard) == says, f"{heard} came"
    result = turn.result(timeout=60)
    assert result, result
    return result.output


class Ours:
    """The runtime."""

    name = "runefold"

    def __init__(self, path: Path) -> None:
        """Open it."""
        self.runtime = open_runtime(path)

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a session, or go on with it."""
        session = self._session(conversation)
        return lambda: one_turn(session)

    def _session(self, conversation: str) -> Session:
        try:
            return self.runtime.session(conversation)
        except UnknownConversation:
            return self.runtime.create_session(SPEC, conversation_id=conversation)

    def settings(self) -> str:
        """Return what it was set to."""
        return "as it is opened by default; sessions do not go to sleep"

    def close(self) -> None:
        """Close it."""
        self.runtime.close()


class OursHeard(Ours):
    """The runtime, and whoever asks hears the fragments while the turn goes on."""

    name = "runefold, fragments heard"

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a session, or go on with it."""
        session = self._session(conversation)
        return lambda: heard_turn(session)

    def saying(self, conversation: str, fragments: int) -> Callable[[], str]:
        """Begin a session whose model says so many fragments in each turn, and asks for no tool."""
        session, says = self._session(conversation), FRAGMENTS[0] * fragments
        return lambda: heard_turn(session, f"{SAY}{fragments}", says)

    def settings(self) -> str:
        """Return what it was set to."""
        return f"{super().settings()}; turns are followed, fragments said at once come as one"


# -- measuring ----------------------------------------------------------------------------------


def at_once(teller: Teller, sessions: int, turns: int) -> float:
    """Return turns a second of new conversations that all go on at once, each on a thread."""
    return together([teller.begin(f"conv-{next(_numbers)}") for _ in range(sessions)], turns)


def together(talks: Sequence[Callable[[], str]], turns: int) -> float:
    """Return turns a second of conversations that all go on at once, each on a thread."""
    start = threading.Barrier(len(talks) + 1)
    answers: list[str] = []

    def work(talk: Callable[[], str]) -> None:
        start.wait()
        answers.extend(talk() for _ in range(turns))

    threads = [threading.Thread(target=work, args=(talk,)) for talk in talks]
    for thread in threads:
        thread.start()

    def run() -> None:
        start.wait()
        for thread in threads:
            thread.join()

    found = rate(len(talks) * turns, run)
    assert answers == [ANSWER] * (len(talks) * turns), "a turn is missing, or said something else"
    return found


def by_turns(teller: Teller, sessions: int, turns: int) -> float:
    """Return turns a second of new conversations, one turn of each after the other."""
    talks = [teller.begin(f"conv-{next(_numbers)}") for _ in range(sessions)]
    answers: list[str] = []

    def run() -> None:
        answers.extend(talk() for _ in range(turns) for talk in talks)

    found = rate(sessions * turns, run)
    assert answers == [ANSWER] * (sessions * turns), "a turn said something else"
    return found


_numbers = itertools.count()

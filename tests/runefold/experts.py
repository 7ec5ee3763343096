"""An agent that asks, and the expert it asks: the scene of what is told of agents as tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.agent import runes as agents
from actors.invariants import violations
from actors.model.providers.scripted import Scripted, call, fail, pause
from actors.tool.adapters.function import tool
from actors.turn import runes as turns
from runefold.agents import AgentTool
from runefold.spec import AgentSpec
from tests.runefold.talks import Strict, Talk, check, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.model.provider import Event, Request
    from actors.model.providers.scripted import Reply

LOOKED: Final[list[str]] = []


@tool(side_effects=False)
def look_up(word: str) -> str:
    """Look a word up."""
    LOOKED.append(word)
    return f"{word} is a word"


def boss(request: Request) -> Reply:
    """Ask the expert each question of a message, one after the other; then repeat the answers."""
    answers: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user":
            questions = message.text.split(", ")
            break
        if message.role == "tool":
            answers.insert(0, f"{message.status}: {message.text}")
    else:
        raise AssertionError
    if len(answers) < len(questions):
        return [call("ask_expert", question=questions[len(answers)])]
    return [" | ".join(answers)]


def expert(request: Request) -> Reply:
    """Look up what is asked for and say it; some questions are too hard."""
    last = request.messages[-1]
    if last.role == "tool":
        return ["I found: ", last.text]
    match last.text:
        case "why?":
            return ["Because ", fail("refused", "nobody knows")]
        case "when?":
            return ["Let me think. ", pause(30), "Now."]
        case word:
            return [call("look_up", word=word)]


class Expert(Scripted):
    """A model that notes what it was shown."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        super().__init__(expert)
        self.shown: list[list[str]] = []

    def stream(self, request: Request) -> Iterator[Event]:
        """Look at the history, then answer."""
        check(request.messages)
        self.shown.append([each.text for each in request.messages if each.role == "user"])
        yield from super().stream(request)


def team(timeout: float = 3_600.0, **stage: Any) -> tuple[Talk, Expert]:  # noqa: ANN401 -- those of Stage
    """Return a conversation with an agent that asks, and the model of the one that is asked."""
    wise = Expert()
    spec = AgentSpec(role="expert", model="expert", tools=["look_up"])
    asks = AgentTool("ask_expert", spec, "Ask an expert.", timeout=timeout)
    # The tools of the expert are no tools of the one who asks.
    models = {"expert": wise}
    there = talk(Strict(boss), asks, look_up, stage=stage, others=models, tools=["ask_expert"])
    LOOKED.clear()
    return there, wise


def begun(there: Talk) -> list[turns.Started]:
    """Return the turns that began."""
    return [each for each in there.runes("turn.started") if isinstance(each, turns.Started)]


def spawned(there: Talk) -> list[agents.Spawning]:
    """Return the agents that came."""
    return [each for each in there.runes("agent.spawning") if isinstance(each, agents.Spawning)]


def problems(there: Talk) -> list[str]:
    """Return what is wrong with the log."""
    there.stage.log.flush()
    return [each.message for each in violations(there.session.runes(), at_rest=True)]

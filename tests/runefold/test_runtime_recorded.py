"""Rules about a model that plays a conversation back: the same words lead to the same course."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.budget.runes import Amounts
from actors.model import runes as models
from actors.model.providers.recorded import Recorded
from actors.model.providers.scripted import Reply, call, fail, pause
from actors.tool import runes as tools
from actors.tool.adapters.function import tool
from tests.runefold.talks import NAME, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from tests.runefold.talks import Talk

WORDS = ("What is there?", "And then?", "Well?")


def script(request: Request) -> Reply:
    """Answer what is asked: retried, with calls, one of them of no tool; half way; and well."""
    last = request.messages[-1]
    if last.role == "tool":
        return ["Three ", "and four."]
    match WORDS.index(last.text), request.attempt:
        case 0, 0:
            return [fail("overloaded", "not now", retryable=True)]
        case 0, _:
            return ["Let me ", call("look", x=3), call("look", x=4), call("nothing", y=1)]
        case 1, _:
            return ["It is ", fail("refused", "no more")]
        case _:
            return ["Bye."]


@tool(side_effects=False)
def look(x: int) -> int:
    """Look."""
    return 10 * x


def course(there: Talk) -> list[object]:
    """Return what was said, called and answered, and how each turn ended; and nobody's ids."""
    found: list[object] = []
    for rune in there.runes():
        match rune:
            case models.Completed(calls=calls, stop_reason=reason):
                found.append((reason, [(each.tool_name, each.arguments) for each in calls]))
            case models.Failed(error_type=kind, message=message, retryable=False):
                found.append((kind, message))
            case tools.Result(status=status, output=output, error=error):
                found.append((status, output, error))
            case _:
                pass
    return found


def played(there: Talk) -> list[tuple[str, str]]:
    """Say the same to it; return how each turn ended, and what was said in it."""
    results = [there.session.send(word).result(3_600) for word in WORDS]
    return [(result.status, result.output) for result in results]


def test_a_conversation_is_played_back_as_it_was() -> None:
    """Texts, calls, results, failures: with an attempt that was retried left out."""
    first = talk(script, look)
    ended = played(first)
    second = talk(Recorded(first.stage.log, NAME), look)

    assert ended == [("completed", "Three and four."), ("error", "It is "), ("completed", "Bye.")]
    assert played(second) == ended
    assert course(second) == course(first)
    assert len(second.runes("model.called")) == len(first.runes("model.called")) - 1


def test_what_was_used_is_used_again() -> None:
    """The budget of who plays it back is charged what the model said that it took."""
    first = talk(["Hello."])
    first.session.send("Hi").result(10)
    second = talk(Recorded(first.stage.log, NAME))
    second.session.send("Hi").result(10)
    [said], [again] = (
        [rune for rune in there.runes() if isinstance(rune, models.Completed)]
        for there in (first, second)
    )

    assert said.usage == again.usage == Amounts(tokens=2)
    assert (again.charged, again.estimated) == (said.charged, False)


def test_a_turn_that_was_interrupted_is_so_again() -> None:
    """What it had said is said, and it ends without an answer."""
    first = talk([["One ", pause(60), "two"]])
    turn = first.session.send("Count.")
    first.until("turn.assistant_delta")
    first.session.interrupt("enough")
    assert turn.result(10).status == "interrupted"
    second = talk(Recorded(first.stage.log, NAME))
    again = second.session.send("Count.").result(10)

    assert (again.status, again.output) == ("error", "One ")


def test_a_conversation_that_takes_another_way_is_told_so() -> None:
    """It cannot know what the model would have said there."""
    first = talk(["Hello."])
    first.session.send("Hi").result(10)
    second = talk(Recorded(first.stage.log, NAME))
    second.session.send("Hi").result(10)
    lost = second.session.send("And now?").result(10)

    assert lost.status == "error"
    assert "the conversation has taken another way" in lost.message

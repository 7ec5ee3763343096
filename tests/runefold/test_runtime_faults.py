"""Rules about models that fail, hang or talk nonsense: every turn ends, and the session goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.errors import Unanswered
from actors.model import runes as models
from actors.model.provider import Done, Failure, Pause, Text, ToolCall
from actors.model.providers.scripted import call, fail, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from runelog.errors import Refused
from tests.runefold.talks import Raw, talk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from actors.model.provider import Request
    from actors.model.providers.scripted import Line, Reply

BUSY = fail("overloaded", "busy", retryable=True)


@tool(side_effects=False)
def look(x: int) -> int:
    """Look."""
    return x


# -- retries -----------------------------------------------------------------------------------


def test_a_fault_that_may_pass_is_retried_after_a_while() -> None:
    """Each attempt waits longer, what was said in vain does not count, and retries are charged."""

    def answer(request: Request) -> Reply:
        return ["in vain ", BUSY] if request.attempt < 2 else ["fine"]

    there = talk(answer)
    before = there.stage.clock.now()
    result = there.session.send("go").result(100)
    waited = (there.stage.clock.now() - before) / 1e9

    assert (result.status, result.output) == ("completed", "fine")
    assert [request.attempt for request in there.model.requests] == [0, 1, 2]
    assert 0.75 <= waited <= 1.5
    assert result.usage.retries == 2
    assert there.model.last == [("user", "go")]


@pytest.mark.parametrize("retries", [0, 3])
def test_a_fault_that_does_not_pass_ends_the_turn_with_what_was_said(retries: int) -> None:
    """After so many retries as the agent has it is an error, and the next turn knows the text."""
    there = talk([["half ", BUSY]], retries=retries)
    result = there.session.send("go").result(1000)
    asked = len(there.model.requests)
    there.session.send("on").result(1000)

    assert (result.status, result.reason, result.message) == ("error", "overloaded", "busy")
    assert result.output == "half "
    assert asked == retries + 1
    assert there.model.last == [("user", "go"), ("assistant", "half "), ("user", "on")]


def test_a_fault_that_is_not_retryable_ends_the_turn_at_once() -> None:
    """No time passes, and the model is not asked again."""
    there = talk([["half ", fail("bad_key", "no such key")]])
    before = there.stage.clock.now()
    result = there.session.send("go").result(1000)

    assert (result.status, result.reason, result.output) == ("error", "bad_key", "half ")
    assert len(there.model.requests) == 1
    assert there.stage.clock.now() == before


def test_five_turns_in_a_row_that_fail_suspend_the_session() -> None:
    """What fails again and again waits for somebody to look at it."""
    there = talk([[fail("bad_key")]])
    for _ in range(5):
        there.session.send("go").result(10)
    state = there.session.state

    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "error_threshold")


# -- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "limits", "said", "after"),
    [
        ([pause(500), "late"], {"first_byte_timeout": 10}, "", 10),
        (["so ", pause(500), "late"], {"silence_timeout": 20}, "so ", 20),
        (["so ", pause(30)] * 99, {"turn_timeout": 100, "silence_timeout": 60}, "so " * 4, 100),
    ],
    ids=["no first byte", "silence", "the whole turn"],
)
def test_a_model_that_takes_too_long_is_given_up(
    answer: Any,  # noqa: ANN401 -- a reply
    limits: dict[str, Any],
    said: str,
    after: float,
) -> None:
    """For its first byte, within its stream and as a whole it has a limit; what it said is kept."""
    there = talk([answer], retries=0, **limits)
    before = there.stage.clock.now()
    result = there.session.send("go").result(1000)

    assert (result.status, result.reason, result.output) == ("error", "timeout", said)
    assert (there.stage.clock.now() - before) / 1e9 == after


def test_a_model_that_asks_for_tools_and_says_nothing_is_not_silent() -> None:
    """Anything it sends counts as its first byte, not words alone."""

    def answer(request: Request) -> Reply:
        slowly: list[Line] = [call("look", x=1), pause(40), call("look", x=2), pause(40)]
        return ["done"] if request.round else slowly

    there = talk(answer, look)
    result = there.session.send("go").result(1000)

    assert (result.status, result.output) == ("completed", "done")


# -- nonsense ----------------------------------------------------------------------------------


def _raises(error: BaseException) -> Callable[[Request], Iterator[Any]]:
    def answer(_request: Request) -> Iterator[Any]:
        yield Text("so ")
        raise error

    return answer


def _gives(*events: Any) -> Callable[[Request], Iterator[Any]]:  # noqa: ANN401 -- anything
    return lambda _request: iter((Text("so "), *events))


class Mute(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (_raises(ValueError("no \ud800 way")), "ValueError"),
        (_raises(SystemExit(3)), "SystemExit"),
        (_raises(KeyboardInterrupt()), "KeyboardInterrupt"),
        (_raises(GeneratorExit()), "GeneratorExit"),
        (_raises(Unanswered("by the provider")), "Unanswered"),
        (_raises(Refused("by the provider")), "Refused"),
        (_raises(Mute()), "Mute"),
        (_gives(17), "bad_response"),
        (_gives(None), "bad_response"),
        (_gives(Text(17)), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(Text(None)), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(ToolCall(None, None)), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(ToolCall("look", {"x": 1})), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(Done(None)), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(Failure(None, None)), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(Pause("a while")), "bad_response"),  # type: ignore[arg-type]  # the point
        (_gives(Pause(float("nan"))), "bad_response"),
        (_gives(Pause(float("inf"))), "bad_response"),
        (_gives(), "cut_off"),
    ],
    ids=lambda value: value if isinstance(value, str) else "answer",
)
def test_whatever_a_provider_does_the_turn_ends_in_error(
    answer: Callable[[Request], Any], reason: str
) -> None:
    """It raises, breaks off, or gives what is no event: an error with the partial text, no hang."""
    there = talk(Raw(answer), look, retries=0)
    result = there.session.send("go").result(1000)

    assert (result.status, result.reason, result.output) == ("error", reason, "so ")
    assert there.session.state.phase is Phase.ACTIVE
    assert not there.stage.scheduler.failures


def test_a_provider_that_has_no_stream_to_give_ends_the_turn_in_error() -> None:
    """What cannot even be begun is an error like any other."""
    none, raising = Raw(lambda _: None), Raw(lambda _: 1 / 0)
    results = [talk(model).session.send("go").result(10) for model in (none, raising)]

    assert [result.reason for result in results] == ["TypeError", "ZeroDivisionError"]


def test_a_provider_for_event_loops_is_told_what_is_wanted() -> None:
    """One that does not say that it is async: the turn says how, instead of what Python says."""

    async def stream(_request: Request) -> AsyncIterator[Text]:
        yield Text("hi")

    result = talk(Raw(stream)).session.send("go").result(10)

    assert (result.status, result.reason) == ("error", "bad_response")
    assert "write `async def stream`" in result.message


def test_half_characters_are_replaced_wherever_they_come_from() -> None:
    """Text, names, arguments and reasons that cannot be stored do not stop a turn."""
    odd = [Text("a\ud800b"), ToolCall("lo\ud800ok", '{"x": "\udfff"}'), Done("\ud800")]

    def answer(request: Request) -> Iterator[Any]:
        return iter(odd if not request.round else (Text("done"), Done()))

    there = talk(Raw(answer), look)
    result = there.session.send("go").result(10)
    said = there.runes("turn.assistant_delta")[0]

    assert result.output == "done"
    assert isinstance(said, models.AssistantDelta)
    assert said.text == "a?b"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("nope", "{}", "There is no tool named nope"),
        ("", "{}", "There is no tool named"),
        ("x" * 10_000, "{}", "There is no tool named"),
        ("look", "{", "not valid JSON"),
        ("look", "[]", "send an object"),
        ("look", "null", "send an object"),
        ("look", "", "x: is missing"),
        ("look", '{"x": "a"}', "expected int"),
        ("look", '{"y": 1}', "no such argument"),
        ("look", '{"x": 1' + "0" * 400 + "}", "more than 64 bits"),
        ("look", '{"x": 18446744073709551616}', "more than 64 bits"),
        ("look", '{"x": NaN}', "not valid JSON"),
        ("look", '{"x": 1e400}', "not valid JSON"),
        ("look", '{"x":' + "[" * 60 + "]" * 60 + "}", "nested more than"),
        ("look", '{"x":' + "[" * 100_000 + "]" * 100_000 + "}", "nested more than"),
        ("look", "x" * 3_000_000, "not valid JSON"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_call_that_cannot_be_made_is_told_to_the_model(
    name: str, arguments: str, told: str
) -> None:
    """Unknown tools and arguments that do not fit never reach a tool; the model may do better."""
    there = talk([["go ", ToolCall(name, arguments)], ["done"]], look)
    result = there.session.send("go").result(10)
    ((status, text),) = there.model.results

    assert (result.status, result.output) == ("completed", "done")
    assert status == "error"
    assert told in text


def test_a_model_that_asks_for_tools_forever_ends_the_turn() -> None:
    """After as many answers as its agent may give; the error names that limit."""
    asks: Reply = ["so ", call("look", x=1)]
    there = talk([asks, asks, asks, ["fine"]], look, max_rounds=3)
    result = there.session.send("go").result(10)
    after = there.session.send("on").result(10)

    assert (result.status, result.reason, result.output) == ("error", "too_many_rounds", "so ")
    assert "answer number 3, and a turn of this agent has max_rounds=3" in result.message
    assert there.kinds().count("tool.call") == 2
    assert after.output == "fine"


@pytest.mark.parametrize("ends", [True, False])
def test_thousands_of_calls_at_once_end_the_turn_and_harm_no_later_one(*, ends: bool) -> None:
    """None of them runs, whether their list has an end or not; the next history is valid."""

    def answer(request: Request) -> Iterator[Any]:
        if len(request.messages) > 1:
            yield from (Text("fine"), Done())
        yield Text("so ")
        count = 0
        while not ends or count < 10_000:
            count += 1
            yield ToolCall("look", '{"x": 1}')
        yield Done()

    there = talk(Raw(answer), look)
    result = there.session.send("go").result(1000)
    after = there.session.send("on").result(1000)

    assert (result.reason, result.output) == ("too_many_calls", "so ")
    assert after.output == "fine"
    assert "tool.call" not in there.kinds()


def test_an_answer_without_end_is_broken_off() -> None:
    """However much a model says, the turn ends, with what there was."""

    def answer(_request: Request) -> Iterator[Text]:
        while True:
            yield Text("x" * 1_000_000)

    there = talk(Raw(answer))
    result = there.session.send("go").result(1000)

    assert (result.status, result.reason) == ("error", "endless")
    assert 8_000_000 < len(result.output) < 10_000_000


def test_a_fragment_without_measure_ends_the_turn_and_not_the_session() -> None:
    """What is kept of it fits into a rune: the turn's end, which repeats it, is one as well."""
    there = talk(Raw(lambda _: iter((Text("x" * (65 << 20)), Done()))))
    result = there.session.send("go").result(100)

    assert (result.status, result.reason) == ("error", "endless")
    assert len(result.output) == 8 << 20
    assert there.session.state.phase is Phase.ACTIVE

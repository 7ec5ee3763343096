"""Rules about adapters that do what none should: each call has its result all the same."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import call
from actors.tool.adapters.function import FunctionTool
from actors.tool.context import Call, progress
from actors.tool.outcome import Outcome
from actors.tool.spec import ToolSpec
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Own:
    """An adapter as an app may write one."""

    def __init__(self, run: Callable[[Call], Any]) -> None:
        """Run this."""
        self.spec = ToolSpec(name="own", timeout=50)
        self.run = run

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Take anything."""
        return dict(arguments)


def ended(run: Callable[[Call], Any]) -> tuple[str, str, str, float]:
    """Have it called; return how that came out, what the turn said, and how long it took."""
    there = talk([[call("own")], ["done"]], Own(run))
    before = there.stage.clock.now()
    result = there.session.send("go").result(100)
    ((status, told),) = there.model.results
    return status, told, result.output, (there.stage.clock.now() - before) / 1e9


class _Odd(BaseException):
    """What no tool should raise."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no way"),
        SystemExit("no way"),
        KeyboardInterrupt("no way"),
        asyncio.CancelledError("no way"),
        _Odd("no way"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_adapter_that_raises_has_failed(error: BaseException) -> None:
    """At once, and the model is told what it was: it is not waited for until its time is up."""

    def run(_call: Call) -> Outcome:
        raise error

    name = type(error).__name__

    assert ended(run) == ("error", f"error: {name}: no way", "done", 0)


def test_an_adapter_that_gives_no_outcome_has_failed() -> None:
    """What it gave is not guessed at."""
    status, told, said, took = ended(lambda _call: "fine")

    assert (status, said, took) == ("error", "done", 0)
    assert "gave a str and no outcome" in told


def test_an_outcome_of_its_own_is_taken_as_it_is() -> None:
    """An adapter is whatever has a spec and runs."""
    assert ended(lambda _call: Outcome("success", "fine")) == ("success", "fine", "done", 0)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("success", object()),
        Outcome("success", {"x": [object()]}),
        Outcome("error", object(), error="no"),
        Outcome("error", error="half a character: \ud800"),
    ],
    ids=["a thing", "a thing within", "a thing of a failure", "half a character"],
)
def test_what_cannot_be_kept_is_a_failure_like_any_other(outcome: Outcome) -> None:
    """The model is told, and nobody crashes of it again and again."""
    status, told, said, took = ended(lambda _call: outcome)

    assert (status, said, took) == ("error", "done", 0)
    assert "cannot be passed on" in told or "half a character" in told


def test_an_output_past_the_limit_is_cut_whoever_made_it() -> None:
    """What an adapter has cut itself is left as it is."""
    _, long, _, _ = ended(lambda _call: Outcome("success", "x" * 300_000))
    _, cut, _, _ = ended(lambda _call: Outcome("success", "x" * 300_000, truncated=7))

    assert len(long) < 270_000  # its limit, and a note of how much is missing
    assert len(cut) == 300_000


@pytest.mark.parametrize("odd", [math.nan, math.inf, [1.5, -math.inf], {"a": {"b": math.nan}}])
def test_a_number_that_json_does_not_know_is_no_success(odd: object) -> None:
    """It would be passed on as nothing at all; what really is nothing, is."""
    found = FunctionTool(lambda: odd, name="measure").run(Call(call_id="c"))

    assert found.status == "error"
    assert "is no number there" in found.error
    assert FunctionTool(lambda: [None, 1.5], name="measure").run(Call(call_id="c")).output == [
        None,
        1.5,
    ]


def test_a_tool_does_not_fail_of_what_it_says_on_the_way() -> None:
    """What is no text is said as one: by then the tool may have done its work."""
    said: list[tuple[str, str]] = []

    def work() -> str:
        progress(5)  # type: ignore[arg-type]  # as apps do
        return "done"

    def hear(stream: str, chunk: str, /) -> None:
        said.append((stream, chunk))

    found = FunctionTool(work).run(Call(call_id="c", progress=hear))

    assert (found.output, said) == ("done", [("progress", "5")])

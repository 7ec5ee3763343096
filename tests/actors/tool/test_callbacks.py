"""Rules about functions that an app gives: what they are called with, and which are refused."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from actors.tool.adapters.function import FunctionTool
from actors.tool.callbacks import Callback
from actors.tool.context import CallId, Context
from actors.tool.policy import BadPolicy, Policy
from actors.tool.spec import BadTool, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.actors.tool.test_policy import Facts

ADA = Context[int](client_id="ada", app=7)


def first(context: Context[int], name: str, cents: int) -> str:
    """Take the context before all else."""
    return f"{name} {cents} {context.client_id}"


def between(name: str, context: Context[int], cents: int) -> str:
    """Take it in between."""
    return f"{name} {cents} {context.client_id}"


def last(name: str, cents: int, context: Context[int] | None = None) -> str:
    """Take it at the end, and do without it elsewhere."""
    return f"{name} {cents} {context.client_id if context else None}"


def named(name: str, cents: int, *, context: Context[int]) -> str:
    """Take it by its name."""
    return f"{name} {cents} {context.client_id}"


def scaled(name: str, cents: int, factor: int, context: Context[int]) -> str:
    """Take something else as well, which was given before."""
    return f"{name} {cents * factor} {context.client_id}"


class Bank:
    """Has functions that are methods."""

    def judge(self, name: str, cents: int, context: Context[int]) -> str:
        """Be a method."""
        return f"{name} {cents} {context.client_id}"

    def __call__(self, name: str, cents: int, context: Context[int]) -> str:
        """Be an object that can be called."""
        return f"{name} {cents} {context.client_id}"


@pytest.mark.parametrize(
    "function",
    [first, between, last, named, functools.partial(scaled, factor=1), Bank().judge, Bank()],
    ids=["first", "between", "last", "named", "partial", "method", "object"],
)
def test_the_context_comes_where_the_annotation_stands(function: Callable[..., Any]) -> None:
    """In whichever place, by position or by name; the others get what they are called with."""
    assert Callback(function, ("name", "cents"))(ADA, "pay", 5) == "pay 5 ada"


def test_without_an_annotation_there_is_no_context() -> None:
    """A function that does not ask for it is called as it always was."""

    def plain(name: str, cents: int, other: Facts | None = None) -> str:
        return f"{name} {cents} {other}"

    assert Callback(plain, ("name", "cents"))(ADA, "pay", 5) == "pay 5 None"
    assert Callback(max, ("name", "cents"))(ADA, 4, 5) == 5


def test_types_that_only_checkers_know_do_not_hide_the_context() -> None:
    """What the app's object is need not be known at run time, nor what else a function takes."""

    def judge(name: Facts, cents: Facts, context: Context[Facts]) -> str:
        return f"{name} {cents} {context.client_id}"

    assert Callback(judge, ("name", "cents"))(ADA, "pay", 5) == "pay 5 ada"


def test_a_tool_needs_the_types_of_what_a_model_passes_only() -> None:
    """Its schema is made of them; neither the context's nor what it returns is in it."""

    def look(word: str, context: Context[Facts]) -> Facts:
        """Look."""
        raise AssertionError(word, context)

    def guess(word: Facts) -> None:
        """Guess."""

    assert [*FunctionTool(look).spec.parameters["properties"]] == ["word"]
    with pytest.raises(BadTool, match="tool guess: parameter word: name 'Facts' is not defined; "):
        FunctionTool(guess)


def few(name: str) -> None:
    """Take too little."""


def many(name: str, cents: int, factor: int, context: Context[int]) -> None:
    """Take too much."""


def twice(name: str, cents: int, one: Context[int], two: Context[int]) -> None:
    """Take the context twice."""


async def later(name: str, cents: int) -> None:
    """Be a coroutine."""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (few, r"it is called with \(name, cents\): too many positional arguments"),
        (many, r"\(name, cents\) and the context: missing a required argument: 'factor'"),
        (twice, "it takes the context twice, as one and two"),
        (later, "is async: use `def`"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_when_it_is_given(
    function: Callable[..., Any], why: str
) -> None:
    """And not at the first call that it is to judge."""
    with pytest.raises(TypeError, match=why):
        Callback(function, ("name", "cents"))


def test_a_policy_and_a_probe_are_checked_when_they_are_declared() -> None:
    """What is refused is named, with what it is called with."""
    with pytest.raises(
        BadPolicy, match=r"test_callbacks.few does not fit: it is called with \(name"
    ):
        Policy(function=few)
    with pytest.raises(
        BadTool, match=r"tool pay: its probe does not fit: it is called with \(call"
    ):
        ToolSpec(name="pay", on_doubt="probe", probe=few)


def test_a_tool_takes_each_of_what_the_runtime_fills_in_once() -> None:
    """Which one is meant would be a guess."""

    def both(one: Context[int], two: Context[int]) -> None:
        """Take it twice."""

    def ids(one: CallId, two: CallId) -> None:
        """Take the id twice."""

    with pytest.raises(BadTool, match="takes the context twice, as one and two"):
        FunctionTool(both)
    with pytest.raises(BadTool, match="takes the call id twice, as one and two"):
        FunctionTool(ids)

"""Rules about the tools that there are."""

from __future__ import annotations

from typing import Any

import pytest

from actors.tool.adapters.function import FunctionTool, tool
from actors.tool.spec import BadTool
from actors.tool.toolbox import BadArguments, Fits, Toolbox, UnknownTool


@tool(side_effects=False)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def erase(path: str) -> None:
    """Erase a file."""
    raise AssertionError(path)


BOX = Toolbox([add, erase])


def test_a_name_is_given_once() -> None:
    """The second tool of a name is refused; the same tool twice is one."""
    box = Toolbox([add, add])
    other = FunctionTool(lambda: None, name="add")

    with pytest.raises(BadTool, match="two tools named add"):
        box.add(other)
    assert list(box) == [add]


def test_only_tools_go_in() -> None:
    """A bare function is refused with the way to make it one."""
    bare: Any = print

    with pytest.raises(BadTool, match="declare it with @tool"):
        Toolbox([bare])


def test_the_hash_depends_on_what_the_model_is_told() -> None:
    """Not on the order in which tools were listed, and on every word of their descriptions."""
    other = FunctionTool(add._function, name="add", description="Sum.", side_effects=False)
    described = Toolbox([add]).describe()

    assert Toolbox([erase, add]).describe() == Toolbox([add, erase]).describe()
    assert described.hash != Toolbox([other]).describe().hash
    assert [sorted(one) for one in described.tools] == [["description", "name", "parameters"]]


def test_a_call_that_fits_has_its_arguments_read() -> None:
    """They are kept as the log stores them, however they were written."""
    assert BOX.check("add", '{"a": 4}') == Fits(add, {"a": 4})
    assert BOX.check("add", {"a": 4, "b": 2}) == Fits(add, {"a": 4, "b": 2})


def test_a_call_that_does_not_fit_says_why() -> None:
    """In words for the model; nothing of the tool is run."""
    unread = BOX.check("erase", "{")
    unfit = BOX.check("erase", "{}")

    assert isinstance(unread, BadArguments)
    assert "not valid JSON" in unread.message
    assert unfit == BadArguments("The arguments do not fit erase. path: is missing.")


def test_an_unknown_tool_is_told_from_a_typing_error() -> None:
    """The nearest name is offered, or all of them; a hostile name is shown in part."""
    assert BOX.check("eras", "") == UnknownTool("There is no tool named eras. Did you mean erase?")
    assert BOX.check("x", "") == UnknownTool("There is no tool named x. There are: add, erase.")
    assert Toolbox().check("x", "") == UnknownTool(
        "There is no tool named x. There are none at all."
    )
    hostile = BOX.check("\n\ud800" * 100_000, "")
    assert isinstance(hostile, UnknownTool)
    assert len(hostile.message.encode()) < 700

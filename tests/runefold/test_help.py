"""`help()` of what users call first says all that they can give it."""

from __future__ import annotations

import inspect
import re
from typing import get_args

import pytest

from actors.tool.adapters.function import Options as ToolOptions
from actors.tool.adapters.function import tool
from actors.tool.runes import InDoubt
from actors.tool.spec import BadTool
from runefold.async_runtime import AsyncRuntime
from runefold.open_hook import Options
from runefold.runtime import Runtime


def named(what: object) -> set[str]:
    """Return the options that a docstring explains: a list entry begins with them."""
    doc = inspect.getdoc(what) or ""
    heads = re.findall(r"^ *- ((?:`[a-z_]+`(?:, )?)+):", doc, re.MULTILINE)
    return {name for head in heads for name in re.findall(r"`([a-z_]+)`", head)}


def test_the_help_of_open_names_every_option() -> None:
    """Those that it takes, and no others; that of its async twin says the same."""
    assert named(Runtime.open) == {"durability", *Options.__annotations__}
    assert named(AsyncRuntime.open) == named(Runtime.open)


def test_the_help_of_tool_names_every_option() -> None:
    """With what becomes of a call in doubt: each way, the defaults, and a probe that raises."""
    taken = set(ToolOptions.__annotations__) | set(ToolOptions.__mro__[0].__annotations__)
    doc = inspect.getdoc(tool) or ""

    assert named(tool) == taken
    assert {f'"{way}"' for way in get_args(InDoubt)} <= set(re.findall(r'"[a-z]+"', doc))
    assert doc.count("The default") == 2
    assert "One that raises" in doc


def test_what_the_help_of_tool_says_of_running_again_is_true() -> None:
    """What is neither idempotent nor without side effects is never run again by itself."""

    def pay() -> str:
        """Pay."""
        return "paid"

    with pytest.raises(BadTool, match="rerun"):
        tool(on_doubt="rerun")(pay)
    assert tool(pay).spec.on_doubt == "unknown"
    assert tool(idempotent=True)(pay).spec.on_doubt == "rerun"
    assert tool(side_effects=False)(pay).spec.on_doubt == "rerun"

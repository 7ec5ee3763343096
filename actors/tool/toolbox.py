"""The tools there are, by name: what a model is told of them, and whether a call can be made."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from actors.tool.schema import Unfit, parse
from actors.tool.spec import BadTool, Tool, ToolSpec, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Described(msgspec.Struct, frozen=True):
    """What a model is told of its tools, and a hash that changes when any of it does."""

    tools: list[dict[str, Any]]
    hash: str


class Fits(msgspec.Struct, frozen=True):
    """A call that can be made."""

    tool: Tool
    arguments: dict[str, Any]
    """As the log stores them and `Call` takes them."""


class UnknownTool(msgspec.Struct, frozen=True):
    """A call of a tool that is not there."""

    message: str


class BadArguments(msgspec.Struct, frozen=True):
    """A call whose arguments do not fit."""

    message: str


Checked: TypeAlias = Fits | UnknownTool | BadArguments


class Toolbox:
    """Tools by name.

    >>> from actors.tool.adapters.function import tool
    >>> @tool(side_effects=False)
    ... def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> toolbox = Toolbox([add])
    >>> toolbox.check("add", '{"a": 1, "b": 2}').arguments
    {'a': 1, 'b': 2}
    >>> toolbox.check("add", '{"a": 1}').message
    'The arguments do not fit add. b: is missing.'
    >>> toolbox.check("ad", {}).message
    'There is no tool named ad. Did you mean add?'
    >>> [tool["name"] for tool in toolbox.describe().tools]
    ['add']
    """

    def __init__(self, tools: Iterable[Tool] = (), beside: Iterable[Tool] = ()) -> None:
        """Begin with `tools`; those `beside` are found by their names only, never listed."""
        self._tools: dict[str, Tool] = {}
        self._beside = {tool.spec.name: tool for tool in beside}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Take one more; refuse what is not a tool, and a name that is taken."""
        spec = getattr(tool, "spec", None)
        if not isinstance(spec, ToolSpec):
            msg = f"{tool!r:.80} is not a tool: declare it with @tool, or as a CommandTool"
            raise BadTool(msg)
        if self._tools.setdefault(spec.name, tool) is not tool:
            msg = f"there are two tools named {spec.name}: give one of them another, name='...'"
            raise BadTool(msg)

    @property
    def beside(self) -> Iterable[Tool]:
        """Those that are not listed."""
        return self._beside.values()

    def replace(self, tool: Tool) -> None:
        """Have another tool in place of the one of its name."""
        self._tools[tool.spec.name] = tool

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, None if there is none."""
        return self._tools.get(name) or self._beside.get(name)

    def __contains__(self, name: object) -> bool:
        """Return True if there is a tool of that name."""
        return name in self._tools or name in self._beside

    def __iter__(self) -> Iterator[Tool]:
        """Every tool, in the order they came."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tools)

    def describe(self) -> Described:
        """Return what a model is told of the tools, and the hash of that.

        They are in the order of their names: the same tools have the same hash, and a provider's
        cache of the prompt holds, however they were listed.
        """
        tools = [self._tools[name].spec.description_for_model() for name in sorted(self._tools)]
        return Described(tools, digest(tools))

    def check(self, name: str, arguments: Mapping[str, Any] | str | bytes) -> Checked:
        """Say whether a call can be made, and if not, why: in words for the model.

        Calls nothing of the tool's own; looks at files only where an argument is a path.
        """
        tool = self._tools.get(name)
        if tool is None:
            shown = name if name.isprintable() and len(name) <= 64 else ascii(name[:64])
            return UnknownTool(f"There is no tool named {shown}. {self._others(name)}")
        try:
            read = parse(arguments)
            tool.fit(read)
        except Unfit as unfit:
            problems = "; ".join(unfit.problems)
            return BadArguments(f"The arguments do not fit {name}. {problems}.")
        return Fits(tool, read)

    def _others(self, name: str) -> str:
        if close := difflib.get_close_matches(name[:64], self._tools, n=1):
            return f"Did you mean {close[0]}?"
        if not self._tools:
            return "There are none at all."
        return f"There are: {', '.join(sorted(self._tools)[:50])}."

"""`runefold lifecycles`: the transition tables, for people, scripts and diagrams."""

import enum
from collections.abc import Iterator
from typing import Annotated

import msgspec

from actors.kind import Kinds
from runefold.cli.terminal.options import App, argument, kinds_with, option
from runefold.cli.terminal.screen import Part, Screen, table
from runefold.cli.terminal.wording import NOTHING
from runelog.errors import Refused
from runelog.lifecycle import Description, describe


class Format(enum.StrEnum):
    """How tables are printed."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"


def lifecycles(
    names: Annotated[
        list[str] | None,
        argument("NAME", "Only these lifecycles."),
    ] = None,
    *,
    form: Annotated[Format, option(None, "Output format.", "--format", default=True)] = Format.TEXT,
    app: App = "",
) -> None:
    """Print the transition table of each lifecycle."""
    screen = Screen()
    found = _chosen(names or [], kinds_with(app))
    match form:
        case Format.JSON:
            screen.json([msgspec.to_builtins(each) for each in found])
        case Format.MERMAID:
            for number, each in enumerate(found):
                _say(screen, mermaid(each), first=number == 0)
        case Format.TEXT:
            for number, each in enumerate(found):
                _say(screen, text(each), first=number == 0)


def _chosen(names: list[str], kinds: Kinds) -> list[Description]:
    known = {kind.name: describe(kind.lifecycle) for kind in kinds}
    for name in names:
        if name not in known:
            msg = f"there is no lifecycle {name}; there are {', '.join(known)}"
            raise Refused(msg)
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def _say(screen: Screen, lines: Iterator[list[Part]], *, first: bool) -> None:
    if not first:
        screen.line()
    for line in lines:
        screen.line(*line)


def text(law: Description) -> Iterator[list[Part]]:
    """Yield a lifecycle as lines for people."""
    ends = ", ".join(law.terminal) or NOTHING
    yield [(law.name, "bold"), f"  begins in {law.initial}, ends in {ends}"]
    rows: list[list[Part]] = [[("  from", "dim"), ("to", "dim"), ("on", "dim")]]
    rows += [[f"  {row.origin}", row.to, (row.on, "cyan")] for row in law.transitions]
    yield from table(rows)
    for late in law.timeouts:
        yield [f"  after {late.seconds:,g} s in {late.state}: {late.to}"]


def mermaid(law: Description) -> Iterator[list[Part]]:
    """Yield a lifecycle as a state diagram that Mermaid draws."""
    yield ["---"]
    yield [f"title: {law.name}"]
    yield ["---"]
    yield ["stateDiagram-v2"]
    yield [f"    [*] --> {law.initial}"]
    for row in law.transitions:
        yield [f"    {row.origin} --> {row.to}: {row.on}"]
    for state in law.terminal:
        yield [f"    {state} --> [*]"]

"""`runefold lifecycles`: the tables that everything obeys, for people, scripts and pictures."""

import enum
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer

from actors.kind import Kinds
from runefold.cli.options import App, kinds_with
from runefold.cli.screen import Part, Screen, table
from runefold.cli.wording import NOTHING
from runelog.errors import Refused
from runelog.lifecycle import Description, Lifecycle, describe


class Format(enum.StrEnum):
    """How tables are printed."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"


def lifecycles(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these; all without one.", show_default=False),
    ] = None,
    *,
    form: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TEXT,
    app: App = "",
) -> None:
    """Print the lifecycles: which rune leads from which state to which."""
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
    laws: Sequence[Lifecycle[Any, Any, Any, Any]] = [
        kind.lifecycle for kind in kinds if kind.printed
    ]
    known = {each.name: describe(each) for each in laws}
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

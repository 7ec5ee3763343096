"""What is wrong with a log, told to people and to scripts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from runefold.cli.failures import told
from runefold.cli.wording import safe
from runelog.errors import Corrupt, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runefold.cli.screen import Screen
    from runelog.repair.verify import Problem

MAX_TOLD: Final = 100
"""So many problems are told one by one; a script gets all of them."""
_SEVERITIES: Final = {"fatal": "bold red", "error": "red", "warn": "yellow"}


def tell(screen: Screen, problems: Sequence[Problem]) -> None:
    """Tell of problems, one a line."""
    for problem in problems[:MAX_TOLD]:
        screen.line(
            (f"{problem.severity:<5}", _SEVERITIES[problem.severity]),
            f"  {safe(problem.where)}: {safe(problem.message)}",
            (f"  {safe(problem.invariant)}", "dim"),
        )
    if len(problems) > MAX_TOLD:
        screen.line(f"and {len(problems) - MAX_TOLD:,} more: --json lists them all")


def records(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Return problems as JSON has them."""
    return [problem._asdict() for problem in problems]


@contextlib.contextmanager
def also_as_json(screen: Screen, *, wanted: bool) -> Iterator[None]:
    """If JSON is `wanted`, write one of what kept the block from looking at a log at all."""
    try:
        yield
    except (Corrupt, Refused) as error:
        if wanted:
            screen.json({"ok": False, "error": told(error), "problems": []})
        raise


def can_be_repaired(problems: Sequence[Problem]) -> bool:
    """Tell whether a repair does anything: where a file is missing, only a backup helps."""
    return any("from a backup" not in problem.message for problem in problems)

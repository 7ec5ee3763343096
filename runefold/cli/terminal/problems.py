"""Problems found in a log, for people and for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.failures import told
from runefold.cli.terminal.options import find, reading
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import many, safe
from runelog.errors import Corrupt, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runelog.repair.verify import Problem, Report

MAX_TOLD: Final = 100
"""At most this many problems are printed; --json has all of them."""
_DAMAGE: Final = frozenset(
    {"INV-CRC-VALID", "INV-EVENTID-MONOTONIC", "INV-RUNE-IMMUTABLE", "INV-SEGMENT-CONTIGUOUS"}
)
"""What a repair mends."""
_SEVERITIES: Final = {"fatal": "bold red", "error": "red", "warn": "yellow"}


def tell(screen: Screen, problems: Sequence[Problem]) -> None:
    """Print problems, one a line."""
    for problem in problems[:MAX_TOLD]:
        screen.line(
            (f"{problem.severity:<5}", _SEVERITIES[problem.severity]),
            f"  {safe(problem.where)}: {safe(problem.message)}",
            (f"  {safe(problem.invariant)}", "dim"),
        )
    if len(problems) > MAX_TOLD:
        screen.line(f"and {len(problems) - MAX_TOLD:,} more: --json lists them all")


def checked(
    directory: Path, check: Callable[[Callable[[int], None]], Report], *, passes: int, json: bool
) -> None:
    """Check a log, print what was found, and end with exit code 1 if something is wrong.

    `check` is given a function that counts runes; it looks at each rune as often as `passes` says.
    """
    screen = Screen()
    try:
        find(directory)
        count = _expected(directory)
        with screen.progress("verifying", None if count is None else passes * count) as progress:
            report = check(progress)
    except (Corrupt, Refused) as error:
        if json:
            screen.json({"ok": False, "error": told(error), "problems": []})
        raise
    if json:
        screen.record(report, ok=report.ok)
    else:
        _tell_report(screen, report)
    if not report.ok:
        raise typer.Exit(Exit.PROBLEMS)


def _tell_report(screen: Screen, report: Report) -> None:
    tell(screen, report.problems)
    runes, segments = many(report.runes, "rune"), many(report.segments, "segment")
    seen = f"{runes} of {many(report.conversations, 'conversation')} in {segments}"
    if report.ok:
        screen.line(("sound", "bold green"), f": {seen}")
        return
    screen.line((many(len(report.problems), "problem"), "bold red"), f": {seen} checked")
    # A broken rule is no damage, and of a missing file only a backup helps.
    if any(
        each.invariant in _DAMAGE and "from a backup" not in each.message
        for each in report.problems
    ):
        screen.note("`runefold log repair` sets damage aside and keeps what can be read")


def _expected(directory: Path) -> int | None:
    """Return about how many runes there are to look at; None if the index cannot tell."""
    try:
        with reading(directory) as log:
            return sum(conversation.head for conversation in log.conversations())
    except AssertionError:
        # The index is damaged: the check reports it.
        return None

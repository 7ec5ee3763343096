"""The command that checks everything about a log: what is on disk, and what its runes say."""

from typing import Annotated, Final

import typer

from runefold.cli import findings
from runefold.cli.failures import Exit
from runefold.cli.look import expected
from runefold.cli.options import App, Directory, Json, find, kinds_with
from runefold.cli.screen import Screen
from runefold.cli.wording import many
from runefold.observe.verification import verify as checked

_DAMAGE: Final = frozenset({"INV-CRC-VALID", "INV-RUNE-IMMUTABLE", "INV-SEGMENT-CONTIGUOUS"})


def verify(
    directory: Directory,
    *,
    at_rest: Annotated[
        bool,
        typer.Option("--at-rest", help="Have everything come to its end: nothing is under way."),
    ] = False,
    app: App = "",
    json: Json = False,
) -> None:
    """Check everything in a log, and that every conversation in it keeps the rules.

    Does what `log verify` does, and then reads each conversation: turns that end, calls that have
    one result, nothing that ran unapproved, budgets that add up. Works beside a live runtime. Exit
    code 1 if something is wrong; a warning alone is none.
    """
    screen = Screen()
    with findings.also_as_json(screen, wanted=json):
        find(directory)
        count = expected(directory)
        with screen.progress("verifying", None if count is None else 2 * count) as progress:
            report = checked(directory, at_rest=at_rest, progress=progress, kinds=kinds_with(app))
    if json:
        screen.json(
            {
                "ok": report.ok,
                "runes": report.runes,
                "conversations": report.conversations,
                "segments": report.segments,
                "problems": findings.records(report.problems),
            }
        )
    else:
        findings.tell(screen, report.problems)
        runes, segments = many(report.runes, "rune"), many(report.segments, "segment")
        seen = f"{runes} of {many(report.conversations, 'conversation')} in {segments}"
        if report.ok:
            screen.line(("sound", "bold green"), f": {seen}")
        else:
            wrong = many(len(report.problems), "problem")
            screen.line((wrong, "bold red"), f": {seen} looked at")
        damage = [each for each in report.problems if each.invariant in _DAMAGE]
        if findings.can_be_repaired(damage):
            screen.note("`runefold log repair` sets damage aside and keeps what can be read")
    if not report.ok:
        raise typer.Exit(Exit.PROBLEMS)

"""`runefold crash-test`: kill an app at every boundary, without a line of test code."""

import enum
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.options import Json, argument, flag, option
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runelog.errors import Refused

if TYPE_CHECKING:
    from runefold.testing import CrashReport


class Kills(enum.StrEnum):
    """Which points are tested."""

    EVERY = "every"
    RANDOM = "random"
    DOUBLE = "double"
    ACTOR = "actor"
    FAULTS = "faults"
    ALL = "all"


App = Annotated[
    str,
    argument("MODULE:APP", "The app: an object with build, scenario and check, such as a CrashApp"),
]
Mode = Annotated[Kills, option(None, "Which points to test (see docs/crash-testing.md)")]
Where = Annotated[
    str, option("POINT", "Test only this point: 17:after-effect.", "--point", "--crash-point")
]
Seed = Annotated[int | None, option("N", "Random seed.")]
Sample = Annotated[int | None, option("N", "Test at most N points.", least=1)]
Jobs = Annotated[int | None, option("N", "Run N at once [default: two for each core].", least=1)]
InProcess = Annotated[bool, flag("Simulate kills in this process: faster.", "--in-process")]
Order = Annotated[int | None, option("N", "With --in-process: seed for the order of events.")]
FromTheTop = Annotated[
    bool, flag("Run each point from the start and kill it for real.", "--from-the-top")
]
_PATIENCE: Final = 60.0
Patience = Annotated[
    float, option("SECONDS", "Treat a run longer than this as hung.", least=1, default=True)
]
AllowMissed = Annotated[int, option("N", "Allow N unreached points.", least=0, default=True)]
Keep = Annotated[
    Path | None, option("DIR", "Keep the directories of failed runs in DIR.", "--keep")
]
Page = Annotated[Path | None, option("FILE", "Write an HTML report with a timeline.", "--report")]
Junit = Annotated[Path | None, option("FILE", "Write a JUnit XML report.", "--junit")]


def crash_test(  # noqa: PLR0913 -- one for each option
    app: App,
    *,
    kills: Mode = Kills.EVERY,
    point: Where = "",
    seed: Seed = None,
    sample: Sample = None,
    jobs: Jobs = None,
    in_process: InProcess = False,
    order: Order = None,
    from_the_top: FromTheTop = False,
    patience: Patience = _PATIENCE,
    allow_missed: AllowMissed = 0,
    keep: Keep = None,
    report: Page = None,
    junit: Junit = None,
    json: Json = False,
) -> None:
    """Kill an app at every commit and effect, reopen it and check the result.

    The app first runs without a kill. Then, for each point, it runs in a process that is killed
    there, is opened again in a new process and runs to its end. Exit code 1: a point failed or was
    never reached. Each failed point is printed with the command that runs it again.
    """
    screen = Screen()
    for file in (report, junit):
        _check_writable(file)
    # Other commands start faster without these.
    from runefold.testing import SweepOptions, sweep  # noqa: PLC0415 -- see above
    from runefold.testing.crash.report import html, xml  # noqa: PLC0415 -- see above
    from runefold.testing.crash.sweep import Interrupted  # noqa: PLC0415 -- see above

    options = SweepOptions(
        mode=kills.value,
        point=point,
        seed=seed,
        sample=sample,
        jobs=jobs,
        patience=patience,
        allow_missed=allow_missed,
        in_process=in_process,
        order=order,
        warm="fork" if from_the_top else "snapshot",
        keep=None if keep is None else str(keep.absolute()),
        again=_again(app, order, patience, in_process=in_process),
    )
    try:
        with screen.bar("crashing") as move:

            def count(done: int, total: int, failed: int) -> None:
                wrong = f", {failed} failed" if failed else ""
                move(done, total, f"{done} of {total} points{wrong}")

            found = sweep(app, options, count)
    except Interrupted as interrupted:
        found = interrupted.report
    _tell(screen, found, json=json)
    if report is not None:
        report.write_text(html.page(found), encoding="utf-8")
    if junit is not None:
        junit.write_text(xml.junit(found), encoding="utf-8")
    if found.interrupted:
        raise typer.Exit(Exit.INTERRUPTED)
    if not found.ok:
        raise typer.Exit(Exit.PROBLEMS)


def _check_writable(file: Path | None) -> None:
    """Refuse a report that cannot be written, before minutes are spent on the test."""
    if file is None:
        return
    if file.is_dir():
        msg = f"{file} is a directory: name a file in it"
        raise Refused(msg)
    if not file.absolute().parent.is_dir():
        msg = f"{file} cannot be written: {file.parent} is not there"
        raise Refused(msg)


def _again(app: str, order: int | None, patience: float, *, in_process: bool) -> str:
    parts = ["runefold", "crash-test", shlex.quote(app)]
    if in_process:
        parts.append("--in-process")
    if order is not None:
        parts.append(f"--order={order}")
    if patience != _PATIENCE:
        parts.append(f"--patience={patience:g}")
    return " ".join([*parts, "--point"])


def _tell(screen: Screen, found: "CrashReport", *, json: bool) -> None:
    if json:
        causes = msgspec.to_builtins(found.causes)
        screen.json({**msgspec.to_builtins(found), "causes": causes})
        return
    for text in found.lines():
        for line in text.split("\n"):
            screen.line(safe(line))

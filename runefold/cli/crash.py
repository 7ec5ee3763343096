"""`runefold crash-test`: kill an app at every moment, without a line of test code."""

import enum
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from runefold.cli.failures import Exit
from runefold.cli.options import Json
from runefold.cli.screen import Screen
from runefold.cli.wording import safe
from runelog.errors import Refused

if TYPE_CHECKING:
    from runefold.testing import CrashReport


class Kills(enum.StrEnum):
    """Which points are swept."""

    EVERY = "every"
    RANDOM = "random"
    DOUBLE = "double"
    ACTOR = "actor"
    FAULTS = "faults"
    ALL = "all"


def _number(help_: str, *, least: int | None = None) -> object:
    return typer.Option(min=least, metavar="N", help=help_, show_default=False)


def _file(name: str, help_: str, metavar: str = "FILE") -> object:
    return typer.Option(name, metavar=metavar, help=help_, show_default=False)


App = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:APP",
        help="The app: anything with build, scenario and check, such as a CrashApp.",
        show_default=False,
    ),
]
Mode = Annotated[
    Kills,
    typer.Option(
        help="Every boundary; some at random; each twice; one actor instead of the process; "
        "faults instead of kills; or all of it."
    ),
]
Where = Annotated[
    str,
    typer.Option(
        "--point",
        "--crash-point",
        metavar="POINT",
        help="One point only: 17:after-effect.",
        show_default=False,
    ),
]
Seed = Annotated[int | None, _number("What is chosen at random.")]
Sample = Annotated[int | None, _number("So many points at most.", least=1)]
Jobs = Annotated[int | None, _number("So many at once [two for each core].", least=1)]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Have the log raise instead of a kill: quick, for CI.")
]
Order = Annotated[int | None, _number("In process: a seed for another order of events.")]
FromTheTop = Annotated[
    bool,
    typer.Option(
        "--from-the-top", help="Kill at each point, and begin with no copies of what a kill leaves."
    ),
]
_PATIENCE: Final = 60.0
Patience = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="After so long it is a hang.")
]
AllowMissed = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="So many points may go unmet: else an app that varies fails."
    ),
]
Keep = Annotated[Path | None, _file("--keep", "Keep what failed there.", "DIR")]
Page = Annotated[Path | None, _file("--report", "Write a page with a timeline.")]
Junit = Annotated[Path | None, _file("--junit", "Write JUnit XML.")]


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
    """Kill an app at every boundary, open it again, and judge what it comes to.

    The app is run undisturbed first. Then, for each point, it is run in a process that is killed
    there, opened again in a fresh one, and played to its end. Exit code 1 means that some point did
    not survive, or that no run came by it; each that failed is printed with the line that runs it
    again.
    """
    for file in (report, junit):
        _check_writable(file)
    # Other commands are to start without all of this.
    from runefold.testing import SweepOptions, sweep  # noqa: PLC0415 -- see above
    from runefold.testing.crash import html, xml  # noqa: PLC0415 -- see above
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
        with _bar() as move:
            found = sweep(app, options, move)
    except Interrupted as interrupted:
        found = interrupted.report
    _tell(found, json=json)
    if report is not None:
        report.write_text(html.page(found), encoding="utf-8")
    if junit is not None:
        junit.write_text(xml.junit(found), encoding="utf-8")
    if found.interrupted:
        raise typer.Exit(Exit.INTERRUPTED)
    if not found.ok:
        raise typer.Exit(Exit.PROBLEMS)


def _check_writable(file: Path | None) -> None:
    """Refuse a place for a report before minutes are spent on what goes into it."""
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


def _tell(found: "CrashReport", *, json: bool) -> None:
    screen = Screen()
    if json:
        screen.json(msgspec.to_builtins(found))
        return
    for text in found.lines():
        for line in text.split("\n"):
            screen.line(safe(line))


@contextmanager
def _bar() -> Iterator[Callable[[int, int, int], None]]:
    """Show a bar on a terminal while points are swept."""
    console = Console(file=sys.stderr, highlight=False)
    if not console.is_terminal or os.environ.get("TERM") == "dumb":
        yield lambda _done, _total, _failed: None
        return
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} points", markup=False),
        TextColumn("{task.fields[failed]}", style="red", markup=False),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("the undisturbed run", total=1, failed="")

        def move(done: int, total: int, failed: int) -> None:
            wrong = f"{failed} failed" if failed else ""
            bar.update(task, description="crashing", completed=done, total=total, failed=wrong)

        yield move

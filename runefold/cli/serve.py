"""`runefold run`: an app's runtime as a process of its own, until somebody ends it.

SIGTERM and Ctrl-C have it drained: turns that run may end, what waits is kept for the next time.
"""

import json as plain_json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from runefold.cli.options import Directory
from runefold.cli.screen import Screen
from runefold.cli.wording import safe
from runefold.naming import imported
from runefold.runtime import Runtime
from runefold.serving import until_told
from runelog.errors import Refused

App = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:BUILD",
        help="A function that opens a runtime in the directory it is given, and returns it.",
        show_default=False,
    ),
]
Drain = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="So long running turns may take to end."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell of every transition, not of mishaps alone.")
]
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What every record has: the rest is what was said with it."""


def run(directory: Directory, app: App, *, drain: Drain = 30.0, verbose: Verbose = False) -> None:
    """Run an app in this process: go on with what was under way, and take commands.

    Stays until SIGTERM or Ctrl-C. Then no turn begins; those that run may end, and are interrupted
    after a while. What an operator is told goes to standard error, one object of JSON a line.
    """
    screen = Screen()
    tell_operators(logging.INFO if verbose else logging.WARNING)
    runtime = built(directory, app)

    def ready() -> None:
        told = f" {safe(str(directory))} as process {os.getpid()}, until SIGTERM or Ctrl-C"
        screen.line(("running", "green"), told)
        screen.flush()

    until_told(runtime, timeout=drain, ready=ready)
    screen.line(("closed", "blue"), f" {safe(str(directory))}")


def built(directory: Path, app: str) -> Runtime:
    """Have an app open its runtime; refuse what is none."""
    found = imported(app, "build")
    build: Any = getattr(found, "build", found)
    if not callable(build):
        msg = f"{app} is a {type(found).__name__}: name a function that opens a runtime"
        raise Refused(msg)
    runtime = build(directory)
    if not isinstance(runtime, Runtime):
        msg = f"{app} returned a {type(runtime).__name__}: it has to return the runtime it opened"
        raise Refused(msg)
    return runtime


def tell_operators(level: int) -> None:
    """Write what operators are told to standard error: this process is ours alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line())
    logger = logging.getLogger("runefold")
    logger.addHandler(handler)
    logger.setLevel(level)


class Line(logging.Formatter):
    """A record as one line of JSON: what happened, how bad it is, and all that was said with it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII: whatever is in it cannot act on a terminal."""
        said = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        told = {"level": record.levelname.lower(), "event": record.getMessage(), **said}
        if record.exc_text or record.exc_info:
            told["error"] = record.exc_text or self.formatException(record.exc_info or ())  # type: ignore[arg-type]  # as it is in logging
        return plain_json.dumps(told, default=str)

"""`runefold serve`: an app's runtime as a process of its own, until SIGTERM or Ctrl-C drains it."""

import json as plain_json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from runefold.cli.terminal.options import Directory, argument, flag, option
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runefold.naming import imported
from runelog.errors import Refused

if TYPE_CHECKING:
    from runefold.runtime import Runtime

App = Annotated[
    str,
    argument("MODULE:BUILD", "Function that opens a runtime in a given directory and returns it."),
]
Drain = Annotated[
    float, option("SECONDS", "Seconds to wait for running turns.", least=0, default=True)
]
Verbose = Annotated[bool, flag("Log every transition, not only warnings.", "--verbose", "-v")]
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""The fields that every log record has."""


def serve(directory: Directory, app: App, *, drain: Drain = 30.0, verbose: Verbose = False) -> None:
    """Run an app: resume unfinished work and accept commands.

    On SIGTERM or Ctrl-C, start no new turns, wait --drain seconds, interrupt the rest. Logs go to
    standard error as JSON lines.
    """
    from runefold.serving import until_told  # noqa: PLC0415 -- other commands start faster without

    screen = Screen()
    tell_operators(logging.INFO if verbose else logging.WARNING)
    runtime = built(directory, app)

    # Its app may hold another one than it is given.
    held = getattr(runtime.log, "directory", directory)
    if held.absolute() == directory.absolute():
        held = directory

    def ready() -> None:
        told = f" {safe(str(held))} as process {os.getpid()}, until SIGTERM or Ctrl-C"
        screen.line(("running", "green"), told)
        screen.flush()

    until_told(runtime, timeout=drain, ready=ready)
    screen.line(("closed", "blue"), f" {safe(str(held))}")


def demo() -> None:
    """Kill a team of agents at the worst moment, and watch it finish; no key, no network."""
    from runefold.demo import main  # noqa: PLC0415 -- as above

    raise typer.Exit(main())


def built(directory: Path, app: str) -> "Runtime":
    """Let an app open its runtime; refuse what is not one."""
    from runefold.runtime import Runtime  # noqa: PLC0415 -- as above

    found = imported(app, "build")
    build: Any = getattr(found, "build", found)
    if not callable(build):
        msg = f"{app} is a {type(found).__name__}: name a function that opens a runtime"
        raise Refused(msg)
    runtime = build(directory)
    if not isinstance(runtime, Runtime):
        msg = f"{app} returned a {type(runtime).__name__}: return the runtime that it opened"
        raise Refused(msg)
    return runtime


def tell_operators(level: int) -> None:
    """Write the operator log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line())
    logger = logging.getLogger("runefold")
    logger.addHandler(handler)
    logger.setLevel(level)


class Line(logging.Formatter):
    """A log record as one line of JSON: level, event, and all its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII: nothing in it can act on a terminal."""
        said = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        told = {"level": record.levelname.lower(), "event": record.getMessage(), **said}
        if "exception" not in said and (record.exc_text or record.exc_info):
            told["error"] = record.exc_text or self.formatException(record.exc_info or ())  # type: ignore[arg-type]  # as it is in logging
        return plain_json.dumps(told, default=str)

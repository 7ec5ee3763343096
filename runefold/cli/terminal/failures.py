"""Exit codes, and messages instead of tracebacks.

A traceback is for bugs. A mistake, damage or a full disk ends with a sentence and an exit code.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.screen import Screen
from runelog.errors import BadStream, Corrupt, Fault, Held, LogFull, NotALog, ReadOnly, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator


EXIT_CODES: Final = (
    "Exit codes: 0 success; 1 a check failed or found problems; 2 usage error or refused, nothing "
    "changed; 3 damaged log or stream; 4 disk error or no answer in time"
)
_BESIDE: Final = "stop that process first. Read-only commands work meanwhile"
_FOR_PROGRAMS: Final = (
    (
        ": close it there first, use its runtime from here, with Runtime.connect(directory), or "
        "only read it, with Runelog.open(..., readonly=True)"
    ),
    ": open the log with readonly=True",
)


class Verb(TyperCommand):
    """One command."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 -- as it is in click
        """Return its parameters."""
        return _without_types(super().get_params(ctx))


class Guarded(TyperGroup):
    """Commands whose failures end in a sentence and an exit code."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 -- as it is in click
        """Return its parameters."""
        return _without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- as it is in click
        """Run the command that was asked for."""
        with guarded():
            return super().invoke(ctx)


def _without_types(params: list[Any]) -> list[Any]:
    """Show no type behind an option that takes no value, and none behind an argument."""
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        if isinstance(each, TyperArgument):
            each.display_type_rich = _no_type  # type: ignore[method-assign]  # of this one alone
    return params


def _no_type(ctx: object) -> None:
    """Say nothing: the name of an argument says what it is."""
    del ctx


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Turn an error in the block into a message on standard error and an exit code."""
    try:
        try:
            yield
        finally:
            # At the end of the process Python would complain of a reader that went away.
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(Exit.UNREAD) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except (Refused, Corrupt, LogFull, Fault, OSError) as error:
        with contextlib.suppress(BrokenPipeError):
            Screen().error(told(error))
        raise typer.Exit(code_of(error)) from None


def code_of(error: Exception) -> Exit:
    """Return the exit code of a failure."""
    match error:
        case Corrupt() | BadStream():
            return Exit.DAMAGED
        case Refused():
            return Exit.REFUSED
    return Exit.ENVIRONMENT


def told(error: Exception) -> str:
    """Return the message for a failure, with the way out."""
    message = str(error)
    match error:
        case Held() | ReadOnly():
            for hint in _FOR_PROGRAMS:
                message = message.removesuffix(hint)
            return f"{message}: {_BESIDE}" if isinstance(error, Held) else message
        case Corrupt() if "runefold log" not in message and "from a backup" not in message:
            return (
                f"{message}. `runefold log verify` shows how far the damage goes, "
                "`runefold log repair` sets it aside and keeps what can be read"
            )
        case NotALog() if message.endswith("(it has no MANIFEST)"):
            return f"{message}: name another directory, or create a log there with `runefold serve`"
        case OSError() if error.strerror:
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return message


def _discard_output() -> None:
    """Send what is left in the buffers to /dev/null: Python flushes them at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

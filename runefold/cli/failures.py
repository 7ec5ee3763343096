"""What a command's end means to whoever called it: exit codes, and words instead of a traceback.

A traceback is for bugs. A mistake, damage or a full disk has its sentence and its code.
"""

from __future__ import annotations

import contextlib
import enum
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from runefold.cli.screen import Screen
from runelog.errors import BadStream, Corrupt, Fault, Held, LogFull, ReadOnly, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator


class Exit(enum.IntEnum):
    """What a command ends with."""

    OK = 0
    PROBLEMS = 1
    REFUSED = 2
    DAMAGED = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130
    """What a shell says of a process that was ended by Ctrl-C."""
    UNREAD = 141
    """What a shell says of a process whose reader went away, as `head` does."""


EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 verify found problems, or repair left some or lost runes, or the turn "
    "that was waited for did not end well, or an app did not survive its crash test, "
    "or calls would be judged otherwise, or something has to be looked at; "
    "2 wrong usage, or refused and nothing changed; 3 the log or the stream is damaged; "
    "4 the disk is full or failed, or no answer came in time."
)
_BESIDE: Final = (
    "stop that process first. Reading works beside it: stats, list, show, verify, export and backup"
)
_FOR_PROGRAMS: Final = (
    ": close it there first, or only read it, with Runelog.open(..., readonly=True)",
    ": open the log with readonly=True",
)


class Guarded(TyperGroup):
    """Commands whose failures end in a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- as it is in click
        """Run the command that was asked for."""
        with guarded():
            return super().invoke(ctx)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Turn what went wrong in the block into words on standard error and an exit code."""
    try:
        try:
            yield
        finally:
            # Here and not at the end of the process, where a reader that went away makes noise.
            sys.stdout.flush()
    except BrokenPipeError:
        _write_to_nobody()
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
    """Return what to tell a user of a failure, and the way out."""
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
        case OSError() if error.strerror:
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return message


def _write_to_nobody() -> None:
    """Send what is left in the buffers nowhere, so that the end of the process is quiet."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

"""`runefold send`: gives its command, and waits for the answer if that is wanted."""

from pathlib import Path
from typing import Annotated

import typer

from actors.errors import Unanswered
from actors.session.public_commands import Send
from runefold.cli.commands.deliver import is_run
from runefold.cli.commands.verbs import Call
from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.options import find, flag, option
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runefold.control.client import NoRuntime
from runefold.core import core_of
from runefold.turns import Turn, TurnResult
from runelog.errors import Fault, Refused
from runelog.rune import check_id

Wait = Annotated[
    bool,
    flag("Wait for the turn to end and print its answer; exit code 1 if it failed.", "--wait"),
]
Timeout = Annotated[float | None, option("SECONDS", "Give up after SECONDS.", least=0)]


def options(*, wait: Wait = False, timeout: Timeout = None) -> None:
    """Declare the options that `send` has besides the fields of its command."""


def send(call: Call, *, wait: bool, timeout: float | None) -> None:
    """Send a message; with --wait, wait until its turn ends."""
    directory, session, command = call.directory, call.session, call.command
    check_id(session, "session id")
    if not isinstance(command, Send) or not command.content.strip():
        # A variable that was not set, or a broken pipe.
        msg = "the message is empty: nothing was sent"
        raise Refused(msg)
    find(directory)
    if wait and not is_run(directory):
        msg = (
            f"no runtime has {directory} open, so no answer will come: leave out --wait. "
            "Nothing was sent"
        )
        raise Refused(msg)
    answer, runs = call.deliver()
    if not wait or not runs:
        call.report(answer, runs=runs)
        return
    name = answer["message_id"]
    _show(Screen(), _awaited(directory, session, name, timeout), name, json=call.json)


def _awaited(directory: Path, session: str, message_id: str, timeout: float | None) -> TurnResult:
    """Wait until the log has the end of a message's turn."""
    # Not before it is needed: other commands start faster without.
    from runefold.runtime import Runtime  # noqa: PLC0415 -- as above

    with Runtime.connect(directory) as runtime:
        try:
            return Turn(core_of(runtime), session, message_id, after=0).result(timeout)
        except Unanswered:
            msg = f"{message_id} has not been answered within {timeout:g} s; its turn goes on"
            raise Unanswered(msg) from None
        except NoRuntime:
            msg = f"the runtime of {directory} stopped; message {message_id} is kept for the next"
            raise Fault(msg) from None


def _show(screen: Screen, result: TurnResult, message_id: str, *, json: bool) -> None:
    if json:
        screen.record(result, message_id=message_id)
    else:
        for line in result.output.splitlines():
            screen.line(safe(line.expandtabs(4)))
    if not result:
        told = ": ".join(part for part in (result.reason, result.message) if part)
        screen.note((result.status, "yellow"), f" {result.turn_id}: {safe(told)}")
        raise typer.Exit(Exit.PROBLEMS)

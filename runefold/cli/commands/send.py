"""`runefold send`: gives its command, and waits for the answer if that is wanted."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from actors.catalogue import CODEC
from actors.errors import Unanswered
from actors.session.messages import Ended, Refusal, ended
from actors.session.public_commands import Send
from actors.session.runes import InputRefused
from actors.turn.runes import Completed, Error, Interrupted
from runefold.cli.commands.deliver import is_run, watched
from runefold.cli.commands.verbs import Call
from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.options import find, flag, option, reading
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runefold.turns import TurnResult, outcome
from runelog.errors import Fault, Refused
from runelog.rune import check_id, kind_of
from runelog.store import Runelog

_ENDS: Final = frozenset(kind_of(rune) for rune in (Completed, Interrupted, Error, InputRefused))
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
    after = _head(directory, session) if wait else 0
    answer, runs = call.deliver()
    if not wait or not runs:
        call.report(answer, runs=runs)
        return
    name = answer["message_id"]
    _show(Screen(), _awaited(directory, session, name, after, timeout), name, json=call.json)


def _head(directory: Path, session: str) -> int:
    with reading(directory) as log:
        return log.conversation(session).head


def _awaited(
    directory: Path, session: str, message_id: str, after: int, timeout: float | None
) -> TurnResult:
    """Wait until the log has the end of a message's turn."""
    until = None if timeout is None else time.monotonic() + timeout
    with reading(directory, CODEC) as log:
        for seconds in watched(directory, until):
            found = _end(log, session, message_id)
            if found is not None:
                return found
            for _ in log.follow(session, after, kinds=_ENDS, wait=seconds):
                if (found := _end(log, session, message_id)) is not None:
                    return found
        found = _end(log, session, message_id)
    if found is not None:
        return found
    if is_run(directory):
        msg = f"{message_id} has not been answered within {timeout:g} s; its turn goes on"
        raise Unanswered(msg)
    msg = f"the runtime of {directory} stopped; message {message_id} is kept for the next one"
    raise Fault(msg)


def _end(log: Runelog, session: str, message_id: str) -> TurnResult | None:
    match ended(log, session, message_id):
        case Ended(turn_id, rune):
            return outcome(turn_id, rune)
        case Refusal(_, reason):
            msg = f"the message {message_id} never became a turn: {reason}"
            raise Refused(msg)
    return None


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

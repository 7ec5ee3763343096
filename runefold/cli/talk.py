"""What `runefold send` does beside giving its command: it may wait for the answer."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from actors.catalogue import CODEC
from actors.errors import Unanswered
from actors.session.messages import Ended, Refusal, ended
from actors.session.public_commands import Send
from runefold.cli.failures import Exit
from runefold.cli.options import find, reading
from runefold.cli.reach import is_run, watched
from runefold.cli.screen import Screen
from runefold.cli.verbs import Call
from runefold.cli.wording import plain, safe
from runefold.turns import TurnResult, outcome
from runelog.errors import Fault, Refused
from runelog.rune import check_id
from runelog.store import Runelog

_TOLD: Final = frozenset(
    {"turn.completed", "turn.interrupted", "turn.error", "session.input_refused"}
)
Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait",
        help="Wait for the turn's end, and show its answer; exit code 1 if it did not end well.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="Wait so long at most.", show_default=False),
]


def options(*, wait: Wait = False, timeout: Timeout = None) -> None:
    """Declare what `send` takes beside the fields of its command."""


def send(call: Call, *, wait: bool, timeout: float | None) -> None:
    """Send a message; wait for its turn to end if that is wanted."""
    directory, session, command = call.directory, call.session, call.command
    check_id(session, "session id")
    if not isinstance(command, Send) or not command.content.strip():
        # A variable that was not set, or a pipe that broke: an empty message is a mistake.
        msg = "the message is empty: nothing was sent"
        raise Refused(msg)
    find(directory)
    if wait and not is_run(directory):
        msg = f"nobody runs {directory}, so nobody would answer: nothing was sent; do not --wait"
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
    """Wait for the end of a message's turn, as the log tells of it."""
    until = None if timeout is None else time.monotonic() + timeout
    with reading(directory, CODEC) as log:
        for seconds in watched(directory, until):
            found = _end(log, session, message_id)
            if found is not None:
                return found
            for _ in log.follow(session, after, kinds=_TOLD, wait=seconds):
                if (found := _end(log, session, message_id)) is not None:
                    return found
        found = _end(log, session, message_id)
    if found is not None:
        return found
    if is_run(directory):
        msg = f"{message_id} has not been answered within {timeout:g} s; its turn goes on"
        raise Unanswered(msg)
    msg = f"whoever ran {directory} is gone; {message_id} is kept, and taken up by the next one"
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
        screen.json(
            {
                "message_id": message_id,
                "turn_id": result.turn_id,
                "status": result.status,
                "output": plain(result.output),
                "reason": result.reason,
                "message": result.message,
            }
        )
    else:
        for line in result.output.splitlines():
            screen.line(safe(line.expandtabs(4)))
    if not result:
        told = ": ".join(part for part in (result.reason, result.message) if part)
        screen.note((result.status, "yellow"), f" {result.turn_id}: {safe(told)}")
        raise typer.Exit(Exit.PROBLEMS)

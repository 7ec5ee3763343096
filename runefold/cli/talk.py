"""The commands that talk to a session: send, approve, deny, interrupt.

They go to the runtime that has the log open, through its socket. If nobody has, the word is written
into the log and done by whoever opens it next.
"""

import enum
import getpass
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from actors.catalogue import CODEC
from actors.errors import Unanswered
from actors.session.actor import Ended, Refusal, ended
from runefold.cli.failures import Exit
from runefold.cli.options import Directory, Json, Session, find, reading
from runefold.cli.reach import deliver, is_run, say_later, watched
from runefold.cli.screen import Screen
from runefold.cli.wording import many, plain, safe
from runefold.control.offline import OfflineCommands
from runefold.turns import TurnResult, outcome
from runelog.errors import Fault, Refused
from runelog.rune import check_id
from runelog.store import Runelog

STDIN: Final = "-"
_TOLD: Final = frozenset(
    {"turn.completed", "turn.interrupted", "turn.error", "session.input_refused"}
)


class Mode(enum.StrEnum):
    """What becomes of a message while a turn runs."""

    QUEUE = "queue"
    STEER = "steer"


Call = Annotated[
    str, typer.Argument(metavar="CALL", help="The id of a call that waits.", show_default=False)
]
As = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Who says so. [default: you]", show_default=False),
]


def send(
    directory: Directory,
    session: Session,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="The message; - for standard input.", show_default=False
        ),
    ],
    *,
    mode: Annotated[
        Mode, typer.Option(help="Wait for the turn that runs now, or take over from it.")
    ] = Mode.QUEUE,
    to: Annotated[
        str, typer.Option(metavar="AGENT", help="The agent it is for.", show_default=False)
    ] = "",
    message_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Sent again with the same id, it counts once.", show_default=False
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the turn's end, and show its answer.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Wait so long at most.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Send a message to a session. It is on disk when this returns.

    Its turn begins as soon as its agent is free; with --wait its answer is shown, and exit code 1
    means that it was interrupted or ended in an error.
    """
    screen = Screen()
    check_id(session, "session id")
    content = typed(sys.stdin.read() if text == STDIN else text)
    if not content.strip():
        # A variable that was not set, or a pipe that broke: nobody means to say nothing.
        msg = "the message is empty: nothing was sent"
        raise Refused(msg)
    find(directory)
    if wait and not is_run(directory):
        msg = f"nobody runs {directory}, so nobody would answer: nothing was sent; do not --wait"
        raise Refused(msg)
    after = _head(directory, session) if wait else 0
    name, runs = deliver(
        directory,
        lambda runtime: runtime.send(
            session, content, mode=mode.value, to=to, message_id=message_id
        ),
        lambda offline: offline.send(
            session, content, mode=mode.value, to=to, message_id=message_id
        ),
    )
    if not wait or not runs:
        if json:
            screen.json({"session": session, "message_id": name, "running": runs})
        else:
            screen.line(("accepted", "green"), f" {name}")
        if not runs:
            say_later(screen, directory)
        return
    _show(screen, _awaited(directory, session, name, after, timeout), name, json=json)


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


def approve(directory: Directory, session: Session, call: Call, *, who: As = None) -> None:
    """Let a call run that waits for a human."""
    screen = Screen()
    name = typed(who or me())
    _, runs = deliver(
        directory,
        lambda runtime: runtime.approve(session, call, approver=name),
        lambda offline: offline.approve(session, call, approver=name),
    )
    screen.line(("approved", "green"), f" {safe(call)}")
    if not runs:
        say_later(screen, directory)


def deny(
    directory: Directory,
    session: Session,
    call: Call,
    *,
    who: As = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; the model is told.", show_default=False)
    ] = "",
) -> None:
    """Have a call not run that waits for a human. A call in doubt is given up."""
    screen = Screen()
    name = typed(who or me())
    _, runs = deliver(
        directory,
        lambda runtime: runtime.deny(session, call, approver=name, reason=typed(reason)),
        lambda offline: offline.deny(session, call, approver=name, reason=typed(reason)),
    )
    screen.line(("denied", "yellow"), f" {safe(call)}")
    if not runs:
        say_later(screen, directory)


def interrupt(
    directory: Directory,
    session: Session,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is recorded.")] = "interrupt",
) -> None:
    """Stop what a session does now; what was said until then is kept."""
    screen = Screen()
    why = typed(reason)
    stopped, _ = deliver(
        directory,
        lambda runtime: runtime.interrupt(session, why),
        lambda offline: _nothing_runs(offline, directory, session),
    )
    if stopped:
        screen.line(("interrupted", "yellow"), f" {many(stopped, 'turn')}")
    else:
        screen.line("nothing was running")


def _nothing_runs(offline: OfflineCommands, directory: Path, session: str) -> int:
    left = len(offline.state(session).running)
    if left:
        msg = (
            f"nobody runs {directory}: {many(left, 'turn')} of {session} will go on when it is "
            "opened, and can be interrupted then"
        )
        raise Refused(msg)
    return 0


def typed(given: str) -> str:
    """Return a text that was typed, or refuse one that cannot be written down."""
    try:
        given.encode()
    except UnicodeEncodeError:
        msg = "that is no text in the encoding of this terminal"
        raise Refused(msg) from None
    return given


def me() -> str:
    """Return the name of whoever types."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name.
        return f"user {os.getuid()}"

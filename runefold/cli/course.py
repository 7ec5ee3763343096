"""The commands that decide a session's course: pause, resume, unsuspend, replenish, close; answer.

Like those that talk to it, they go to the runtime that has the log open; if nobody has, the word is
written into the log and done by whoever opens it next.
"""

import enum
import json as plain_json
from typing import Annotated, Any, Literal

import typer

from runefold.cli.options import Directory, Session
from runefold.cli.reach import deliver, say_later
from runefold.cli.screen import Screen
from runefold.cli.talk import As, Call, me, typed
from runefold.cli.wording import safe
from runefold.spec import Budget
from runelog.errors import Refused

Reason = Annotated[
    str, typer.Option(metavar="TEXT", help="Why; it is recorded.", show_default=False)
]


class Verdict(enum.StrEnum):
    """What a human may say about a call in doubt."""

    RERUN = "rerun"
    HAPPENED = "happened"
    GIVE_UP = "give-up"


_VERDICTS: dict[Verdict, Literal["rerun", "happened", "give_up"]] = {
    Verdict.RERUN: "rerun",
    Verdict.HAPPENED: "happened",
    Verdict.GIVE_UP: "give_up",
}


def answer(
    directory: Directory,
    session: Session,
    call: Call,
    verdict: Annotated[
        Verdict,
        typer.Argument(
            metavar="VERDICT",
            help="rerun, happened (with --output what came out of it), or give-up.",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE", help="What came out of it: JSON, or else text.", show_default=False
        ),
    ] = None,
    who: As = None,
) -> None:
    """Say what is to become of a call that a crash left in doubt, and that asks a human.

    To run it again needs somebody who runs the session; the other answers are kept for whoever
    opens the log next.
    """
    screen = Screen()
    if output is not None and verdict is not Verdict.HAPPENED:
        msg = "an output is only there if it happened: leave --output out"
        raise Refused(msg)
    name, value, word = typed(who or me()), _value(output), _VERDICTS[verdict]
    _, runs = deliver(
        directory,
        lambda runtime: runtime.answer(session, call, word, approver=name, output=value),
        lambda offline: offline.answer(session, call, word, approver=name, output=value),
    )
    screen.line(("answered", "green"), f" {safe(call)}: {verdict.value}")
    if not runs:
        say_later(screen, directory)


def _value(given: str | None) -> object:
    if given is None:
        return None
    try:
        return plain_json.loads(typed(given))
    except ValueError:
        return given


def pause(
    directory: Directory,
    session: Session,
    *,
    interrupt: Annotated[
        bool, typer.Option("--interrupt", help="Stop running turns; else they finish.")
    ] = False,
    reason: Reason = "",
) -> None:
    """Begin no more turns in a session until it is resumed. Messages are still accepted."""
    screen = Screen()
    why, finish = typed(reason), not interrupt
    _, runs = deliver(
        directory,
        lambda runtime: runtime.pause(session, why, finish=finish),
        lambda offline: offline.pause(session, why, finish=finish),
    )
    screen.line(("paused", "yellow"), f" {safe(session)}")
    if not runs:
        say_later(screen, directory)


def resume(directory: Directory, session: Session) -> None:
    """Go on with a session that was paused."""
    screen = Screen()
    _, runs = deliver(
        directory,
        lambda runtime: runtime.resume(session),
        lambda offline: offline.resume(session),
    )
    screen.line(("resumed", "green"), f" {safe(session)}")
    if not runs:
        say_later(screen, directory)


def unsuspend(directory: Directory, session: Session, *, reason: Reason = "") -> None:
    """Go on with a session that was suspended: somebody has seen to why."""
    screen = Screen()
    why = typed(reason)
    _, runs = deliver(
        directory,
        lambda runtime: runtime.unsuspend(session, why),
        lambda offline: offline.unsuspend(session, why),
    )
    screen.line(("unsuspended", "green"), f" {safe(session)}")
    if not runs:
        say_later(screen, directory)


def _more(what: str) -> object:
    return typer.Option(help=f"So many {what} more.", metavar="N", show_default=False)


def replenish(
    directory: Directory,
    session: Session,
    *,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="An agent's budget, not the session's."),
    ] = None,
    tokens: Annotated[int | None, _more("tokens")] = None,
    tool_calls: Annotated[int | None, _more("tool calls")] = None,
    wall_seconds: Annotated[float | None, _more("seconds of running turns")] = None,
    retries: Annotated[int | None, _more("retries")] = None,
    sub_calls: Annotated[int | None, _more("calls of other agents")] = None,
    cost: Annotated[float | None, _more("units of cost")] = None,
) -> None:
    """Raise the limits of a session's budget. One that was suspended for that goes on."""
    screen = Screen()
    more = _raised(
        tokens=tokens,
        tool_calls=tool_calls,
        wall_seconds=wall_seconds,
        retries=retries,
        sub_calls=sub_calls,
        cost=cost,
    )
    _, runs = deliver(
        directory,
        lambda runtime: runtime.replenish(session, more, agent=agent),
        lambda offline: offline.replenish(session, more, agent=agent),
    )
    screen.line(("replenished", "green"), f" {safe(agent or session)}")
    if not runs:
        say_later(screen, directory)


def _raised(**more: Any) -> Budget:  # noqa: ANN401 -- numbers, as they were given
    given = {name: value for name, value in more.items() if value is not None}
    if not given:
        msg = "nothing was said to raise: give --tokens, for instance"
        raise Refused(msg)
    for name, value in given.items():
        if not value > 0:
            option = name.replace("_", "-")
            msg = f"--{option} is {value}: limits are only raised, so give a positive number"
            raise Refused(msg)
    return Budget(**given)


def close(directory: Directory, session: Session, *, reason: Reason = "") -> None:
    """Bring a session to its end: nothing more is accepted, what runs is stopped."""
    screen = Screen()
    why = typed(reason)
    _, runs = deliver(
        directory,
        lambda runtime: runtime.close(session, why),
        lambda offline: offline.close_session(session, why),
    )
    screen.line(("closed" if runs else "closing", "blue"), f" {safe(session)}")
    if not runs:
        say_later(screen, directory)

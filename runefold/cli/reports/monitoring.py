"""The commands that show what entities did: history, phases, alerts. They only read the log."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from actors.catalogue import KINDS
from actors.view import Move
from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.options import (
    App,
    Directory,
    Json,
    Session,
    argument,
    flag,
    kinds_with,
    option,
    reading,
)
from runefold.cli.terminal.screen import Part, Screen
from runefold.cli.terminal.wording import moment, plain, safe
from runefold.observe.history import History, Invalid, moves
from runefold.observe.history import history as told
from runefold.observe.monitoring import Alert, Monitor, Rules
from runefold.observe.spending import Spending, Spent
from runefold.observe.spending import spending as spent
from runelog.errors import Refused
from runelog.rune import check_id

Entity = Annotated[
    str,
    argument("ENTITY", "Id of the session's agent, turn, call, or other entity."),
]
OneSession = Annotated[str, argument("SESSION", "Only this session.")]
Stuck = Annotated[
    list[str] | None,
    option(
        "PHASE=SECONDS",
        "Report an entity that stays longer than SECONDS in PHASE: tool.executing=60. Repeatable.",
    ),
]
Failing = Annotated[
    int, option("N", "Report a session after N failed turns in a row.", least=1, default=True)
]
Follow = Annotated[bool, flag("Keep printing new entries until Ctrl-C.", "--follow", "-f")]
_COLOURS = {"failing": "red", "invalid": "bold red", "view": "red"}
"""Of alerts that are worse than others."""
_PAUSE = 1.0


def history(
    directory: Directory,
    session: Session,
    entity: Entity = "session",
    *,
    follow: Follow = False,
    app: App = "",
    json: Json = False,
) -> None:
    """Show an entity's transitions: time, phase, cause, actor.

    If a rune is invalid, list the runes up to it and exit with 1. With --follow, print each
    transition until the entity ends; with --json, one object a line.
    """
    screen = Screen()
    check_id(session, "session id")
    check_id(entity, "entity id")
    kinds = kinds_with(app)
    with reading(directory, kinds.codec) as log:
        found = told(log, session, entity, time.time_ns(), kinds)
        if follow:
            _follow(screen, moves(log, session, entity, kinds), json=json)
            return
    if json:
        screen.record(found, seconds=found.seconds)
    else:
        _tell(screen, found)
    if found.invalid is not None:
        raise typer.Exit(Exit.PROBLEMS)


def _tell(screen: Screen, found: History) -> None:
    screen.table(("event", "time", "phase", "by", "cause"), map(_row, found.moves), right={0})
    stays = ", ".join(f"{phase} {seconds:,.3f} s" for phase, seconds in found.seconds.items())
    is_now = "ended" if found.is_over else "is"
    screen.line((f"{found.lifecycle} {is_now} {found.phase}", "bold"), f": {stays}")
    if found.invalid is not None:
        _tell_invalid(screen, found.invalid)


def _follow(screen: Screen, found: Iterator[Move], *, json: bool) -> None:
    for move in found:
        if json:
            screen.record(move)
        else:
            number, when, way, actor, why = _row(move)
            screen.line(number, " ", when, "  ", way, "  ", actor, "  ", why)
        screen.flush()


def _row(move: Move) -> list[Part]:
    way = move.to if move.to == move.origin else f"{move.origin} -> {move.to}"
    when = moment(move.time, 3)
    by = f"{move.actor} {safe(move.human)}".rstrip()
    return [f"{move.event_id:,}", when, way, (by, "dim"), safe(move.trigger)]


def _tell_invalid(screen: Screen, invalid: Invalid) -> None:
    screen.line(("invalid", "bold red"), f" at event {invalid.event_id:,}: {safe(invalid.reason)}")
    for event_id, kind in invalid.led:
        screen.line(f"  {event_id:,} {safe(kind)}")


def spending(directory: Directory, session: Session, *, json: Json = False) -> None:
    """Show what a session and its agents spent, and what is left."""
    screen = Screen()
    check_id(session, "session id")
    with reading(directory, KINDS.codec) as log:
        found = spent(log, session)
    if json:
        screen.json(plain(found))
        return
    rows = [_amounts("session", found), *(_amounts(*each) for each in found.agents.items())]
    names = Spent.__struct_fields__
    screen.table(("", *names), rows, right={*range(1, 1 + len(names))})


def _amounts(name: str, found: Spending) -> list[Part]:
    """Return a row: of each thing what was spent, what is set aside, and what is left."""
    row: list[Part] = [safe(name)]
    for what in Spent.__struct_fields__:
        reserved, left = getattr(found.reserved, what), getattr(found.left, what)
        row.append(
            f"{getattr(found.spent, what):,}"
            + (f" +{reserved:,}" if reserved else "")
            + ("" if left is None else f" ({left:,} left)")
        )
    return row


def phases(
    directory: Directory, session: OneSession = "", *, app: App = "", json: Json = False
) -> None:
    """Count entities per phase: current, entered, time spent."""
    screen = Screen()
    if session:
        check_id(session, "session id")
    kinds = kinds_with(app)
    with reading(directory, kinds.codec) as log:
        found = Monitor(log, conversation=session, kinds=kinds).phases()
    if json:
        screen.json(plain(found))
        return
    if not found:
        screen.note("no entities")
        return
    rows: list[list[Part]] = [
        [
            f"{each.lifecycle}.{each.phase}",
            f"{each.here:,}",
            f"{each.entered:,}",
            f"{each.per_hour:,.1f}",
            f"{each.seconds:,.1f}",
            f"{each.seconds / each.entered:,.1f}",
        ]
        for each in found
    ]
    heads = ("phase", "current", "entered", "per hour", "seconds", "mean")
    screen.table(heads, rows, right={1, 2, 3, 4, 5})


def alerts(
    directory: Directory,
    *,
    stuck: Stuck = None,
    failing: Failing = 3,
    follow: Follow = False,
    app: App = "",
    json: Json = False,
) -> None:
    """List what needs attention: stuck, failing, suspended, over budget, in doubt, or invalid.

    A call that waits for approval is listed once four fifths of its time have passed.

    Exit code 1 if the list is not empty.
    """
    screen = Screen()
    rules = Rules(stuck=dict(_limit(each) for each in stuck or ()), failing=failing)
    known: set[Any] = set()
    kinds = kinds_with(app)
    with reading(directory, kinds.codec) as log:
        monitor = Monitor(log, rules, kinds=kinds)
        while True:
            found = monitor.alerts()
            for each in found:
                if _key(each) not in known:
                    _say(screen, each, json=json)
            known = {_key(each) for each in found}
            if not follow:
                break
            screen.flush()
            time.sleep(_PAUSE)
    if known:
        raise typer.Exit(Exit.PROBLEMS)
    if not json:
        screen.note("no alerts")


def _key(alert: Alert) -> tuple[str, str, str, int]:
    return alert.rule, alert.conversation, alert.entity, alert.event_id


def _say(screen: Screen, alert: Alert, *, json: bool) -> None:
    if json:
        screen.record(alert)
        return
    screen.line(
        (alert.rule, _COLOURS.get(alert.rule, "yellow")),
        f" {safe(alert.conversation)} {safe(alert.entity)}: {safe(alert.message)}",
        (f", since {moment(alert.since)}, event {alert.event_id:,}", "dim"),
    )


def _limit(given: str) -> tuple[str, float]:
    phase, _, seconds = given.partition("=")
    try:
        return phase, float(seconds)
    except ValueError:
        msg = f"{given!r} is not PHASE=SECONDS: write e.g. tool.executing=60"
        raise Refused(msg) from None

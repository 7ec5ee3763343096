"""The commands that tell what became of entities: history, phases, alerts. They wake nobody."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from actors.view import Move
from runefold.cli.failures import Exit
from runefold.cli.options import App, Directory, Json, Session, kinds_with, reading
from runefold.cli.screen import Part, Screen, table
from runefold.cli.wording import instant, safe
from runefold.observe.history import History, Invalid, moves
from runefold.observe.history import history as told
from runefold.observe.monitoring import Alert, Monitor, Rules
from runelog.errors import Refused
from runelog.rune import check_id

Entity = Annotated[
    str,
    typer.Argument(
        metavar="ENTITY",
        help="The session, or an agent, a turn, a call of it, or an entity of an app's kind.",
    ),
]
OneSession = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="Of one session only.", show_default=False),
]
Stuck = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PHASE=SECONDS",
        help="So long may be spent in a phase: tool.executing=60. Repeatable.",
        show_default=False,
    ),
]
Failing = Annotated[int, typer.Option(min=1, metavar="N", help="So many turns that fail in a row.")]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what is found later, until Ctrl-C.")
]
_RULES = {"stuck": "yellow", "failing": "red", "over_budget": "yellow", "invalid": "bold red"}
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
    """Show which phases an entity went through, when, why and by whom, and how long it stayed.

    Where its runes stop making sense, those that led there. Exit code 1 then. What is followed is
    told move by move, until the entity is over; with --json, one object a line.
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
        screen.json({**msgspec.to_builtins(found), "seconds": found.seconds})
    else:
        _tell(screen, found)
    if found.invalid is not None:
        raise typer.Exit(Exit.PROBLEMS)


def _tell(screen: Screen, found: History) -> None:
    rows: list[list[Part]] = [[(head, "bold") for head in ("event", "time", "phase", "by", "why")]]
    rows += [_row(move) for move in found.moves]
    for line in table(rows, right=frozenset({0})):
        screen.line(*line)
    stays = ", ".join(f"{phase} {seconds:,.3f} s" for phase, seconds in found.seconds.items())
    is_now = "ended" if found.is_over else "is"
    screen.line((f"{found.lifecycle} {is_now} {found.phase}", "bold"), f": {stays}")
    if found.invalid is not None:
        _tell_invalid(screen, found.invalid)


def _follow(screen: Screen, found: Iterator[Move], *, json: bool) -> None:
    for move in found:
        if json:
            screen.json(msgspec.to_builtins(move))
        else:
            number, when, way, actor, why = _row(move)
            screen.line(number, " ", when, "  ", way, "  ", actor, "  ", why)
        screen.flush()


def _row(move: Move) -> list[Part]:
    way = move.to if move.to == move.origin else f"{move.origin} -> {move.to}"
    when = instant(move.time, 3)
    return [f"{move.event_id:,}", when, way, (move.actor, "dim"), safe(move.trigger)]


def _tell_invalid(screen: Screen, invalid: Invalid) -> None:
    screen.line(("invalid", "bold red"), f" at event {invalid.event_id:,}: {safe(invalid.reason)}")
    for event_id, kind in invalid.led:
        screen.line(f"  {event_id:,} {safe(kind)}")


def phases(
    directory: Directory, session: OneSession = "", *, app: App = "", json: Json = False
) -> None:
    """Count who is in which phase, how often it was come into, and the time spent there."""
    screen = Screen()
    if session:
        check_id(session, "session id")
    kinds = kinds_with(app)
    with reading(directory, kinds.codec) as log:
        found = Monitor(log, conversation=session, kinds=kinds).phases()
    if json:
        screen.json(msgspec.to_builtins(found))
        return
    if not found:
        screen.note("no entities")
        return
    heads = ("phase", "here", "entered", "an hour", "seconds", "each")
    rows: list[list[Part]] = [[(head, "bold") for head in heads]]
    rows += [
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
    for line in table(rows, right=frozenset({1, 2, 3, 4, 5})):
        screen.line(*line)


def alerts(
    directory: Directory,
    *,
    stuck: Stuck = None,
    failing: Failing = 3,
    follow: Follow = False,
    app: App = "",
    json: Json = False,
) -> None:
    """Say what somebody has to look at: stuck, failing, over budget, or invalid.

    Exit code 1 if there is anything.
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
        screen.note("nothing to look at")


def _key(alert: Alert) -> tuple[str, str, str, int]:
    return alert.rule, alert.conversation, alert.entity, alert.event_id


def _say(screen: Screen, alert: Alert, *, json: bool) -> None:
    if json:
        screen.json({**msgspec.to_builtins(alert), "since": instant(alert.since, 6)})
        return
    screen.line(
        (alert.rule, _RULES[alert.rule]),
        f" {safe(alert.conversation)} {safe(alert.entity)}: {safe(alert.message)}",
        (f", since {instant(alert.since)}, event {alert.event_id:,}", "dim"),
    )


def _limit(given: str) -> tuple[str, float]:
    phase, _, seconds = given.partition("=")
    try:
        return phase, float(seconds)
    except ValueError:
        msg = f"{given!r} is no limit: write PHASE=SECONDS, such as tool.executing=60"
        raise Refused(msg) from None

"""The commands that show sessions and running actors: sessions, tree."""

from typing import Any

from runefold.cli.commands.deliver import held, is_run
from runefold.cli.terminal.options import App, Directory, Json, find, kinds_with, reading
from runefold.cli.terminal.screen import Part, Screen, headed, table
from runefold.cli.terminal.wording import NOTHING, many, moment, plain, safe, value
from runefold.control.client import NoRuntime, Remote
from runefold.observe import session_list
from runelog.errors import Corrupt

_PHASES = {
    "active": "green",
    "paused": "yellow",
    "suspended": "bold yellow",
    "damaged": "bold red",
}
_STATES = {"running": "green", "silent": "bold yellow", "gone": "dim"}


def sessions(directory: Directory, *, app: App = "", json: Json = False) -> None:
    """List sessions: phase, turns, queued messages, pending approvals.

    Works with and without a runtime that has the log open. Entities of unknown kinds are listed
    as unknown: name their app with --app. conv_system, which is no session, is listed if something
    in it needs an answer or is unknown.
    """
    screen = Screen()
    kinds = kinds_with(app)
    with reading(directory, kinds.codec) as log:
        found = session_list.sessions(log, kinds=kinds)
    if json:
        screen.json(plain(found))
    elif not found:
        screen.note("no sessions")
    else:
        _tell(screen, found)
    damaged = [each.id for each in found if each.phase == session_list.DAMAGED]
    if damaged:
        msg = f"{many(len(damaged), 'session')} cannot be read ({', '.join(damaged[:3])})"
        raise Corrupt(msg)


def _tell(screen: Screen, found: list[session_list.Listed]) -> None:
    rows: list[list[Part]] = [
        [
            safe(each.id),
            (each.phase, _PHASES.get(each.phase, "dim")),
            f"{each.turns:,}",
            f"{each.running:,}",
            f"{each.waiting:,}",
            NOTHING if each.last_time is None else moment(each.last_time),
        ]
        for each in found
    ]
    heads = ("session", "phase", "turns", "running", "waiting", "last")
    lines = table(headed(heads, rows), right={2, 3, 4})
    screen.line(*next(lines))
    for each, line in zip(found, lines, strict=True):
        screen.line(*line)
        for asked in each.approvals:
            what = f": {safe(asked.tool_name)} {value(asked.arguments)}" if asked.tool_name else ""
            why = f": {safe(asked.reason)}" if asked.reason else ""
            until = f", until {moment(asked.deadline)}"
            screen.line("  ", ("asks", "yellow"), f" {safe(asked.call_id)}{what}{why}{until}")
        for doubt in each.in_doubt:
            what = f": {safe(doubt.tool)} {value(doubt.arguments)}" if doubt.tool else ""
            since = f", since {moment(doubt.since)}" if doubt.since else ""
            screen.line("  ", ("in doubt", "yellow"), f" {safe(doubt.call_id)}{what}{since}")
        if each.unknown:
            screen.line("  ", ("unknown", "yellow"), f" {safe(', '.join(each.unknown))}")


def tree(directory: Directory, *, json: Json = False) -> None:
    """Show the running actors and their supervisors."""
    screen = Screen()
    find(directory)
    try:
        top = Remote(directory).tree()
    except NoRuntime:
        if is_run(directory):
            raise held(directory) from None
        if json:
            screen.json(None)
        else:
            screen.note(f"no runtime has {directory} open")
        return
    if json:
        screen.json(top)
    else:
        _draw(screen, top)


def _draw(screen: Screen, top: dict[str, Any]) -> None:
    # A loop and no recursion: the answer of another process may be of any depth.
    ahead: list[tuple[dict[str, Any], str, str]] = [(top, "", "")]
    while ahead:
        node, here, below = ahead.pop()
        times = f"  {many(node['restarts'], 'restart')}" if node["restarts"] else ""
        state = str(node["state"])
        screen.line(
            (here, "dim"),
            safe(str(node["id"])),
            (f"  {safe(str(node['type']))}", "dim"),
            "  ",
            (safe(state), _STATES.get(state, "yellow")),
            (times, "yellow"),
        )
        children = node["children"]
        for at in reversed(range(len(children))):
            last = at == len(children) - 1
            ahead.append(
                (
                    children[at],
                    below + ("└─ " if last else "├─ "),
                    below + ("   " if last else "│  "),
                )
            )

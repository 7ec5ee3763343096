"""The commands that show what there is to run and what runs: sessions, tree."""

from typing import Any

from runefold.cli.options import App, Directory, Json, find, kinds_with, reading
from runefold.cli.reach import is_run
from runefold.cli.screen import Part, Screen, table
from runefold.cli.wording import NOTHING, instant, many, plain, safe, value
from runefold.control.client import NoRuntime, Remote
from runefold.observe import session_list
from runelog import manifest
from runelog.errors import Corrupt, Held

_PHASES = {
    "active": "green",
    "paused": "yellow",
    "suspended": "bold yellow",
    "damaged": "bold red",
}
_STATES = {"running": "green", "silent": "bold yellow", "gone": "dim"}


def sessions(directory: Directory, *, app: App = "", json: Json = False) -> None:
    """List sessions: phase, turns, what waits, and which calls wait for a human.

    Works beside a runtime that runs, and without one. Entities whose kind is not known here are
    listed as unknown: --app names the app that they are of.
    """
    screen = Screen()
    kinds = kinds_with(app)
    with reading(directory, kinds.codec) as log:
        found = session_list.sessions(log, kinds=kinds)
    if json:
        screen.json([_record(each) for each in found])
    elif not found:
        screen.note("no sessions")
    else:
        _tell(screen, found)
    damaged = [each.id for each in found if each.phase == session_list.DAMAGED]
    if damaged:
        msg = f"{many(len(damaged), 'session')} cannot be read ({', '.join(damaged[:3])})"
        raise Corrupt(msg)


def _record(each: session_list.Listed) -> dict[str, Any]:
    return {
        "id": each.id,
        "phase": each.phase,
        "turns": each.turns,
        "running": each.running,
        "waiting": each.waiting,
        "last_time": None if each.last_time is None else instant(each.last_time, 6),
        "approvals": [
            {
                "call_id": asked.call_id,
                "tool_name": asked.tool_name,
                "arguments": plain(asked.arguments),
                "reason": asked.reason,
                "until": instant(asked.deadline, 6),
            }
            for asked in each.approvals
        ],
        "in_doubt": list(each.in_doubt),
        "unknown": list(each.unknown),
    }


def _tell(screen: Screen, found: list[session_list.Listed]) -> None:
    heads = ("session", "phase", "turns", "running", "waiting", "last")
    rows: list[list[Part]] = [[(head, "bold") for head in heads]]
    rows += [
        [
            safe(each.id),
            (each.phase, _PHASES.get(each.phase, "dim")),
            f"{each.turns:,}",
            f"{each.running:,}",
            f"{each.waiting:,}",
            NOTHING if each.last_time is None else instant(each.last_time),
        ]
        for each in found
    ]
    lines = table(rows, right=frozenset({2, 3, 4}))
    screen.line(*next(lines))
    for each, line in zip(found, lines, strict=True):
        screen.line(*line)
        for asked in each.approvals:
            what = f": {safe(asked.tool_name)} {value(asked.arguments)}" if asked.tool_name else ""
            why = f": {safe(asked.reason)}" if asked.reason else ""
            until = f", until {instant(asked.deadline)}"
            screen.line("  ", ("asks", "yellow"), f" {safe(asked.call_id)}{what}{why}{until}")
        if each.in_doubt:
            screen.line("  ", ("in doubt", "yellow"), f" {safe(', '.join(each.in_doubt))}")
        if each.unknown:
            screen.line("  ", ("unknown", "yellow"), f" {safe(', '.join(each.unknown))}")


def tree(directory: Directory, *, json: Json = False) -> None:
    """Show what is alive in the runtime that has a log open, and who keeps it so."""
    screen = Screen()
    find(directory)
    try:
        top = Remote(directory).tree()
    except NoRuntime:
        if is_run(directory):
            holder = manifest.holder(directory)
            msg = f"{directory} is being written by {holder}, which takes no commands here"
            raise Held(msg) from None
        if json:
            screen.json(None)
        else:
            screen.note(f"nothing runs: nobody has {directory} open")
        return
    if json:
        screen.json(top)
    else:
        _draw(screen, top)


def _draw(screen: Screen, top: dict[str, Any]) -> None:
    # As deep as supervisors are, and they are as many as there are sessions: no recursion is
    # needed, and what was answered is not trusted to be shallow.
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

"""The command that checks past tool calls against another policy."""

from collections.abc import Iterator
from typing import Annotated

import typer

from actors.catalogue import CODEC
from actors.tool.policy import Policy
from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.options import Directory, Json, argument, option, reading
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import many, plain, safe
from runefold.observe.policy_replay import KINDS, Judged, judged, policy_of
from runefold.open_hook import object_of
from runelog.rune import SYSTEM
from runelog.store import Runelog

Rules = Annotated[
    str,
    argument(
        "POLICY", "`package.module:policy`, or a .toml or .json file with `mode` and `rules`."
    ),
]
WithApp = Annotated[
    str,
    option(
        "MODULE:BUILD",
        "The function that opens the app's runtime: the policy gets its `app=`. None is opened.",
        "--app",
    ),
]
OneSession = Annotated[str | None, argument("SESSION", "Only this session.")]


def policy_check(
    directory: Directory,
    rules: Rules,
    session: OneSession = None,
    *,
    app: WithApp = "",
    json: Json = False,
) -> None:
    """Check past tool calls against another policy.

    List the calls whose verdict would change. Nothing is run or changed; it works while a runtime
    has the log open. A policy that is a function gets the context of each call from the log, and
    its app object with --app. Exit code 1 if a verdict changes.
    """
    screen = Screen()
    policy = policy_of(rules)
    given = object_of(app) if app else None
    with reading(directory, CODEC) as log:
        found = [*_all(log, policy, session, given)]
    others = [each for each in found if each.is_other]
    if json:
        screen.json({"calls": len(found), "rules": policy.hash, "otherwise": plain(others)})
    else:
        for each in others:
            screen.line(
                f"{safe(each.conversation)} {each.event_id}  {safe(each.tool)}  {each.was} -> ",
                (each.now, "bold"),
                f"  {safe(each.reason)}",
            )
        told = f"{many(len(others), 'verdict')} would change" if others else "no verdict changes"
        screen.line(f"{many(len(found), 'call')} checked, {told}")
    if others:
        raise typer.Exit(Exit.PROBLEMS)


def _all(log: Runelog, policy: Policy, session: str | None, app: object) -> Iterator[Judged]:
    names = [each.id for each in log.conversations() if each.id != SYSTEM]
    for name in names if session is None else [session]:
        yield from judged(log.read(name, kinds=KINDS), policy, app)

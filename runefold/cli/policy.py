"""The command that judges old calls by other rules."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from actors.catalogue import CODEC
from actors.tool.policy import Policy
from runefold.cli.failures import Exit
from runefold.cli.options import Directory, Json, reading
from runefold.cli.screen import Screen
from runefold.cli.wording import many, safe
from runefold.observe.policy_replay import Judged, judged, policy_of
from runelog.rune import SYSTEM
from runelog.store import Runelog

Rules = Annotated[
    str,
    typer.Argument(
        metavar="POLICY",
        help="`package.module:policy`, or a .toml or .json file with `mode` and `rules`.",
        show_default=False,
    ),
]
OneSession = Annotated[
    str | None,
    typer.Argument(metavar="SESSION", help="Only of this session.", show_default=False),
]


def policy_check(
    directory: Directory, rules: Rules, session: OneSession = None, *, json: Json = False
) -> None:
    """Judge again, by another policy, every call that was made.

    Lists the calls that would have been allowed, asked about or denied otherwise. Nothing is run
    or changed, and it works beside a live runtime. Exit code 1 if there are any.
    """
    screen = Screen()
    policy = policy_of(rules)
    with reading(directory, CODEC) as log:
        found = [*_all(log, policy, session)]
    others = [each for each in found if each.is_other]
    if json:
        records = [msgspec.to_builtins(each) for each in others]
        screen.json({"calls": len(found), "rules": policy.hash, "otherwise": records})
    else:
        for each in others:
            screen.line(
                f"{safe(each.conversation)} {each.event_id}  {safe(each.tool)}  {each.was} -> ",
                (each.now, "bold"),
                f"  {safe(each.reason)}",
            )
        told = f"{len(others)} of them would be judged otherwise" if others else "none otherwise"
        screen.line(f"{many(len(found), 'call')} judged again, {told}")
    if others:
        raise typer.Exit(Exit.PROBLEMS)


def _all(log: Runelog, policy: Policy, session: str | None) -> Iterator[Judged]:
    names = [each.id for each in log.conversations() if each.id != SYSTEM]
    for name in names if session is None else [session]:
        yield from judged(log.read(name, kinds={"tool.call"}), policy)

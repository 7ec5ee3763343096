"""The commands of `runefold`, put together."""

import contextlib
import io
import sys
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final

import typer

import runefold
from actors.catalogue import KINDS
from actors.kind import Kinds
from actors.session.public_commands import Send
from runefold.cli import crash_test, serve
from runefold.cli.commands import new_session, send, verbs
from runefold.cli.log import backup, inspect, maintain, transfer, verify
from runefold.cli.reports import lifecycles, monitoring, overview, policy
from runefold.cli.terminal.failures import EXIT_CODES, Guarded, Verb
from runefold.cli.terminal.options import kinds_with

APP: Final = "--app"
_HINT: Final = f"Commands of an app's own machine need {APP} MODULE:BUILD."


class WithApps(Guarded):
    """The commands of `runefold`; with --app, those of the kinds that an app brings as well."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 -- as it is in click
        """Find a command; `runefold KIND VERB ... --app MODULE:BUILD` finds an app's."""
        if self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        named, left = _app_of(args)
        if not named:
            ctx.fail(f"No such command {args[0]!r}. {_HINT}")
        kinds = kinds_with(named)
        theirs = typer.Typer()
        add(theirs, kinds, {kind.name for kind in kinds} - {kind.name for kind in KINDS})
        found = typer.main.get_group(theirs).get_command(ctx, args[0])
        if found is None:
            ctx.fail(f"No such command {args[0]!r}, and {named} has no kind of that name.")
        return args[0], found, left[1:]


def _app_of(args: list[str]) -> tuple[str, list[str]]:
    """Return the app that is named among arguments, and the other arguments."""
    for at, word in enumerate(args):
        if word.startswith(f"{APP}="):
            return word.removeprefix(f"{APP}="), [*args[:at], *args[at + 1 :]]
        if word == APP and at + 1 < len(args):
            return args[at + 1], [*args[:at], *args[at + 2 :]]
    return "", args


app = typer.Typer(
    name="runefold",
    cls=WithApps,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
)
log = typer.Typer(
    name="log",
    cls=Guarded,
    help="Inspect and maintain a log.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "stats": inspect.stats,
    "list": inspect.list_,
    "show": inspect.show,
    "verify": verify.verify_files,
    "export": transfer.send,
    "import": transfer.receive,
    "archive": maintain.archive,
    "restore": maintain.restore,
    "erase": maintain.erase,
    "repair": maintain.mend,
    "backup": backup.backup,
    "restore-backup": backup.restore,
}
for name, command in _COMMANDS.items():
    log.command(name, cls=Verb)(command)

_TOP: Final = {"session": "Sessions", "tool": "Tool calls"}
"""Kinds whose commands need no kind before them, and the heading of each."""


def add(to: typer.Typer, known: Kinds, kinds: Collection[str]) -> None:
    """Add a verb for each command: `runefold VERB`, and `runefold KIND VERB` for other kinds."""
    groups: dict[str, typer.Typer] = {}
    for kind, command in known.commands:
        if kind.name not in kinds:
            continue
        panel = _TOP.get(kind.name)
        if panel is None and kind.name not in groups:
            groups[kind.name] = typer.Typer(
                cls=Guarded, no_args_is_help=True, rich_markup_mode="markdown"
            )
            about = f"Commands for {kind.name}s."
            to.add_typer(
                groups[kind.name], name=kind.name, help=about, rich_help_panel="Other entities"
            )
        sends = command is Send
        verb = verbs.verb(
            known,
            kind,
            command,
            send.send if sends else verbs.carry,
            send.options if sends else verbs.with_app if kind.name not in KINDS.by_name else None,
        )
        name = command.verb().replace("_", "-")
        place = to if panel else groups[kind.name]
        place.command(name, cls=Verb, rich_help_panel=panel)(verb)


_TO_A_RUNTIME: dict[str, dict[str, Callable[..., None]]] = {
    "Run": {"serve": serve.serve, "demo": serve.demo},
    "Inspect": {
        "sessions": overview.sessions,
        "tree": overview.tree,
        "history": monitoring.history,
        "phases": monitoring.phases,
        "alerts": monitoring.alerts,
        "spending": monitoring.spending,
        "verify": verify.verify,
        "lifecycles": lifecycles.lifecycles,
    },
    "Test": {"crash-test": crash_test.crash_test, "policy-check": policy.policy_check},
}
for panel, verbs_of in _TO_A_RUNTIME.items():
    if panel == "Test":
        app.command("new-session", cls=Verb, rich_help_panel="Sessions")(new_session.new_session)
        add(app, KINDS, KINDS.commands.kinds)
    for name, command in verbs_of.items():
        app.command(name, cls=Verb, rich_help_panel=panel)(command)
app.add_typer(log, rich_help_panel="Maintain")


def _print_version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"runefold {runefold.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=lambda asked: _print_version(asked=asked),
        ),
    ] = False,
) -> None:
    """Run agents that survive crashes; inspect and maintain their logs."""
    del version


def main() -> None:
    """Run the command line with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is printed as its number.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError):
                stream.reconfigure(errors="backslashreplace")
    app(prog_name="runefold")

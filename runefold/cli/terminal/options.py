"""Arguments and options that several commands have, and how they open a log."""

import enum
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from actors.catalogue import KINDS, RESERVED
from actors.kind import Kinds
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import safe
from runefold.open_hook import kinds_of
from runelog.codec import Codec
from runelog.errors import Corrupt
from runelog.log import Log
from runelog.manifest import read_manifest
from runelog.rune import State, check_id
from runelog.store import Runelog


def argument(metavar: str, about: str) -> Any:  # noqa: ANN401 -- as in typer
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=about, show_default=False)


def option(
    metavar: str | None, about: str, *names: str, least: int | None = None, default: bool = False
) -> Any:  # noqa: ANN401 -- as in typer
    """Declare an option with a value; with `default`, its help names the default."""
    return typer.Option(*names, metavar=metavar, help=about, min=least, show_default=default)


def flag(about: str, *names: str) -> Any:  # noqa: ANN401 -- as in typer
    """Declare an option that is given or not."""
    return typer.Option(*names, help=about, show_default=False)


Directory = Annotated[Path, argument("DIR", "Directory of the log.")]
Conversations = Annotated[list[str], argument("CONVERSATION", "Ids of conversations.")]
Session = Annotated[str, argument("SESSION", "Id of a session.")]
App = Annotated[
    str,
    option(
        "MODULE:BUILD",
        "Know this app's machines too: its list of kinds, or the function that opens its runtime.",
        "--app",
    ),
]
Json = Annotated[bool, flag("Write JSON.", "--json")]

STATES: Final = {
    State.LIVE: ("live", "green"),
    State.ARCHIVED: ("archived", "blue"),
    State.ERASED: ("erased", "dim"),
}
"""How states are named and coloured."""


class StateName(enum.StrEnum):
    """A state of conversations, as it is named on the command line."""

    LIVE = "live"
    ARCHIVED = "archived"
    ERASED = "erased"


def kinds_with(app: str) -> Kinds:
    """Return our kinds, with those of an app if one is named."""
    return KINDS.plus(kinds_of(app), RESERVED) if app else KINDS


def reading(directory: Path, codec: Codec | None = None) -> Runelog:
    """Open a log for reading, beside its writer if there is one.

    Without a codec it knows no rune: all are shown as they are stored.
    """
    find(directory)
    return Runelog.open(directory, codec or Codec(), readonly=True)


def writing(directory: Path, codec: Codec | None = None) -> Runelog:
    """Open a log for writing, as the only one."""
    find(directory)
    log = Runelog.open(directory, codec, create=False, errand=errand())
    show_notices(log)
    return log


def errand() -> str:
    """Return the name of this command; an app that is started meanwhile waits for its end."""
    words = sys.argv[1:3] if sys.argv[1:2] == ["log"] else sys.argv[1:2]
    return " ".join(["runefold", *words])


def show_notices(log: Log) -> None:
    """Print what opening a log found or repaired."""
    for notice in log.notices if isinstance(log, Runelog) else ():
        Screen().note("note: ", safe(notice))


def find(directory: Path) -> None:
    """Refuse a directory that holds no log, and leave it alone."""
    if not (directory / "MANIFEST").exists() and has_segments(directory):
        msg = f"{directory} has no MANIFEST: `runefold log repair` rebuilds it from the segments"
        raise Corrupt(msg)
    read_manifest(directory)


def has_segments(directory: Path) -> bool:
    """Return True if the directory holds segments of a log."""
    return any(directory.glob("segments/*.mdb"))


def ids(conversations: list[str]) -> list[str]:
    """Return the ids that were given, each once; refuse the first that is not valid."""
    return [check_id(given, "conversation id") for given in dict.fromkeys(conversations)]

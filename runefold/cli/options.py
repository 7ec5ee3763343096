"""Arguments and options that several commands have, and how they open a log."""

import enum
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from actors.catalogue import KINDS, RESERVED
from actors.kind import Kinds
from runefold.cli.screen import Screen
from runefold.cli.wording import safe
from runefold.open_hook import kinds_of
from runelog.codec import Codec
from runelog.errors import Corrupt
from runelog.log import Log
from runelog.manifest import read_manifest
from runelog.rune import State, check_id
from runelog.store import Runelog

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory of the log.", show_default=False)
]
Conversations = Annotated[
    list[str],
    typer.Argument(metavar="CONVERSATION", help="Ids of conversations.", show_default=False),
]
Session = Annotated[
    str, typer.Argument(metavar="SESSION", help="The id of a session.", show_default=False)
]
App = Annotated[
    str,
    typer.Option(
        "--app",
        metavar="MODULE:BUILD",
        help="Know the machines of this app too: its list of kinds, or what opens its runtime.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for scripts.")]

STATES: Final = {
    State.LIVE: ("live", "green"),
    State.ARCHIVED: ("archived", "blue"),
    State.ERASED: ("erased", "dim"),
}
"""How states are named and coloured."""


class StateName(enum.StrEnum):
    """A state of conversations, as it is asked for."""

    LIVE = "live"
    ARCHIVED = "archived"
    ERASED = "erased"


def kinds_with(app: str) -> Kinds:
    """Return our kinds, with those of an app if one is named."""
    return KINDS.plus(kinds_of(app), RESERVED) if app else KINDS


def reading(directory: Path, codec: Codec | None = None) -> Runelog:
    """Open a log for reading, beside its writer if there is one."""
    find(directory)
    return Runelog.open(directory, codec, readonly=True)


def writing(directory: Path, codec: Codec | None = None) -> Runelog:
    """Open a log for writing, as the only one."""
    find(directory)
    log = Runelog.open(directory, codec, create=False, errand=errand())
    show_notices(log)
    return log


def errand() -> str:
    """Return the command that runs now by its name: an app that is started waits for its end."""
    words = sys.argv[1:3] if sys.argv[1:2] == ["log"] else sys.argv[1:2]
    return " ".join(["runefold", *words])


def show_notices(log: Log) -> None:
    """Tell the user what opening a log did that an operator should know."""
    for notice in log.notices if isinstance(log, Runelog) else ():
        Screen().note("note: ", safe(notice))


def find(directory: Path) -> None:
    """Make sure that there is a log: a directory that holds none is refused and left alone."""
    if not (directory / "MANIFEST").exists() and has_segments(directory):
        msg = f"{directory} has no MANIFEST: `runefold log repair` rebuilds it from the segments"
        raise Corrupt(msg)
    read_manifest(directory)


def has_segments(directory: Path) -> bool:
    """Tell whether a log is here, or what is left of one."""
    return any(directory.glob("segments/*.mdb"))


def ids(conversations: list[str]) -> list[str]:
    """Return the ids that were given, each once, or refuse the first that cannot be one."""
    return [check_id(given, "conversation id") for given in dict.fromkeys(conversations)]

"""Arguments and options that several commands have, and how they open a log."""

import enum
from pathlib import Path
from typing import Annotated, Final

import typer

from runelog.errors import NotALog
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


def reading(directory: Path) -> Runelog:
    """Open a log for reading, beside its writer if there is one."""
    return Runelog.open(directory, readonly=True)


def writing(directory: Path, *, create: bool = False) -> Runelog:
    """Open a log for writing, as the only one."""
    if not create:
        # Says it better than a writer does: there is nothing to be made here.
        read_manifest(directory)
    return Runelog.open(directory, create=create)


def is_log(directory: Path) -> bool:
    """Tell whether there is a log, sound or damaged."""
    try:
        read_manifest(directory)
    except NotALog:
        return False
    return True


def ids(conversations: list[str]) -> list[str]:
    """Return the ids that were given, each once, or refuse the first that cannot be one."""
    return [check_id(given, "conversation id") for given in dict.fromkeys(conversations)]

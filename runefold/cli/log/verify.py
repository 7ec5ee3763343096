"""The commands that check a log: its files, and the rules that its conversations must keep."""

from typing import Annotated

from runefold.cli.terminal.options import App, Directory, Json, flag, kinds_with
from runefold.cli.terminal.problems import checked
from runefold.observe import verification
from runelog.repair import verify as files

AtRest = Annotated[bool, flag("Also report unfinished work as a problem.", "--at-rest")]


def verify(
    directory: Directory,
    *,
    at_rest: AtRest = False,
    app: App = "",
    json: Json = False,
) -> None:
    """Check files and checksums, and audit every conversation.

    Does what `log verify` does, then reads each conversation: every turn ends, every call has one
    result, nothing ran without its approval, budgets add up. Works while a runtime has the log
    open. Exit code 1 if a problem was found. Warnings do not count.
    """
    kinds = kinds_with(app)
    checked(
        directory,
        lambda progress: verification.verify(
            directory, at_rest=at_rest, progress=progress, kinds=kinds
        ),
        passes=2,
        json=json,
    )


def verify_files(directory: Directory, *, json: Json = False) -> None:
    """Check the files of a log: checksums, digests, order, indexes, archives, blobs.

    Exit code 1 if a problem was found. Warnings do not count.
    """
    checked(
        directory,
        lambda progress: files.verify(directory, progress=progress),
        passes=1,
        json=json,
    )

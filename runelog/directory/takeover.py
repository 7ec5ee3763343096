"""Taking a log over from a writer that hangs.

That writer is fenced off by its epoch, in a transaction that needs the mutex of all writers. Where
it hangs in the middle of a write of its own it has that mutex, and whether its write happens is not
settled: it may yet be carried out, and acknowledged. So it is waited for there, until it goes on or
is killed; but not without an end, and not without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runelog import manifest
from runelog.errors import Busy, Corrupt, Refused
from runelog.index.check_in_child import may_write

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE: Final = 10.0
"""How many seconds a writer in the middle of a write is waited for."""


def wait_for_writer(directory: Path) -> None:
    """Wait until the present writer is not in the middle of a write; `Busy` if it stays there.

    Nothing has changed then: that writer still has the log.
    """
    if not manifest.writer_alive(directory):
        return
    try:
        now = manifest.read_manifest(directory)
    except (Corrupt, Refused):
        return  # opening the log says what is wrong with it
    active = directory / "segments" / now.active.name
    if not may_write(active, directory / f"catalog.{now.catalog}.mdb", PATIENCE):
        msg = (
            f"{directory} cannot be taken over yet: {manifest.holder(directory)} has been in the "
            f"middle of a write for {PATIENCE:g} s; kill that process, or let it go on, and try "
            "again"
        )
        raise Busy(msg)

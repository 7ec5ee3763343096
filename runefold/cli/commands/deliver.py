"""How a command reaches a log: through the runtime that has it open, or by opening it itself."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from runefold.cli.terminal.options import errand, find, show_notices
from runefold.control.client import NoRuntime, Remote
from runefold.control.offline import OfflineCommands
from runelog import manifest
from runelog.errors import Held

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeVar

    from actors.kind import Kinds
    from runefold.cli.terminal.screen import Screen
    from runefold.handles import Commander

    T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds to wait for a runtime that is just being opened to take commands."""
_PAUSE: Final = 0.05


def deliver(directory: Path, kinds: Kinds, give: Callable[[Commander], T]) -> tuple[T, bool]:
    """Give a command to the runtime that has the log open, or record it if none has.

    Return the answer, and True if a runtime carried it out. `Held` names a process that holds the
    log and takes no commands.
    """
    find(directory)
    until = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(NoRuntime):
            return give(Remote(directory, commands=kinds.commands)), True
        try:
            with OfflineCommands.open(directory, errand(), kinds) as offline:
                show_notices(offline.log)
                return give(offline), False
        except Held:
            # A runtime that is just being opened, or another command that is about to end.
            if time.monotonic() > until:
                raise held(directory) from None
            time.sleep(_PAUSE)


def held(directory: Path) -> Held:
    """Return the error for a log whose holder takes no commands."""
    holder = manifest.holder(directory)
    return Held(f"{directory} is being written by {holder}, which takes no commands")


def is_run(directory: Path) -> bool:
    """Return True if a process has the log open for writing."""
    return manifest.writer_alive(directory)


def say_later(screen: Screen, directory: Path) -> None:
    """Say that a command takes effect later."""
    screen.note(f"recorded; no runtime has {directory} open. It takes effect when one opens it")

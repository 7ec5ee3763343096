"""Programs to run: Python scripts as command tools, and what can be counted while they run."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.tool.adapters.command import CommandTool
from actors.tool.context import Call, Cancellation

if TYPE_CHECKING:
    from actors.tool.outcome import Outcome


def python(script: str, **options: Any) -> CommandTool:  # noqa: ANN401 -- passed on
    """Declare a program that is a Python script."""
    options.setdefault("root", "/")
    options.setdefault("grace", 0.1)
    escaped = script.replace("{", "{{").replace("}", "}}")
    return CommandTool("t", [sys.executable, "-c", escaped], **options)


def cancelled_when_ready(tool: CommandTool) -> Outcome:
    """Run a program, and cancel it from another thread once it says `ready`."""
    cancellation, ready = Cancellation(), threading.Event()
    said: list[str] = []

    def hear(_stream: str, chunk: str, /) -> None:
        said.append(chunk)
        if "ready" in "".join(said):
            ready.set()

    def cancel() -> None:
        ready.wait()
        cancellation.cancel()

    other = threading.Thread(target=cancel)
    other.start()
    outcome = tool.run(Call(call_id="c", progress=hear, cancellation=cancellation))
    ready.set()
    other.join()
    return outcome


class Held:
    """A pipe named `held` in a directory, which the processes of a program hold open.

    Their ids are no help: inside bubblewrap they have others.
    """

    def __init__(self, directory: Path) -> None:
        """Make the pipe, and open our end."""
        os.mkfifo(directory / "held")
        self._end = os.open(directory / "held", os.O_RDONLY | os.O_NONBLOCK)

    def close(self) -> None:
        """Close our end."""
        os.close(self._end)

    def heard(self) -> str:
        """Return what was written; wait until no process holds the other end any more."""
        os.set_blocking(self._end, True)
        found = b""
        while chunk := os.read(self._end, 4096):
            found += chunk
        return found.decode()

    def is_held(self) -> bool:
        """Return True if a process still holds the other end; what was written is dropped."""
        try:
            while os.read(self._end, 4096):
                pass
        except BlockingIOError:
            return True
        return False


def open_files() -> int:
    """Count the files that are open here."""
    return len(list(Path("/proc/self/fd").iterdir()))

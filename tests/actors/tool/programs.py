"""Programs to run: Python scripts as command tools, and what can be counted while they run."""

from __future__ import annotations

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


def cancelled_when_ready(tool: CommandTool) -> tuple[Outcome, list[int]]:
    """Run a program, cancel it from another thread once it says `ready`; tell its numbers too."""
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
    return outcome, [int(word) for word in "".join(said).split() if word.isdigit()]


def open_files() -> int:
    """Count the files that are open here."""
    return len(list(Path("/proc/self/fd").iterdir()))

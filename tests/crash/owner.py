"""A runtime as a process of its own, which others are connected to, killed at a moment of its life.

    python -m tests.crash.owner DIR NUMBER

It kills itself at moment NUMBER, 0 for never. A moment is right before and right after each commit,
each request of a client, and each time that its tool is at work: a request that was carried out and
not answered, for instance, is one. At its end it says how many there were.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.outcome import Happened
from runefold.control.server import Control
from runefold.runtime import Runtime
from runefold.serving import until_told
from runelog.lmdb.environment import Environment
from tests.runefold.cli_scenes import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.model.provider import Request

READY: Final = "ready"


class Moments:
    """Counts, and kills the process when it has come to a number."""

    def __init__(self, number: int) -> None:
        """Begin at the first."""
        self._number = number
        self._count = itertools.count(1)
        self._lock = threading.Lock()
        self.passed = 0

    def pass_one(self) -> None:
        """Come to the next moment."""
        with self._lock:
            self.passed = next(self._count)
            if self.passed == self._number:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, cls: type, name: str) -> None:
        """Have a moment before and one after each call of a method."""
        inner: Callable[..., Any] = getattr(cls, name)

        def outer(*args: Any, **options: Any) -> Any:  # noqa: ANN401 -- whatever it takes
            self.pass_one()
            found = inner(*args, **options)
            self.pass_one()
            return found

        mock.patch.object(cls, name, outer).start()


def paid(directory: Path) -> list[str]:
    """Return the calls that were paid, in the order they were."""
    file = directory.with_name(directory.name + ".paid")
    return file.read_text().split() if file.exists() else []


def opened(directory: Path, moments: Moments) -> Runtime:
    """Open the app's runtime."""

    def look(call_id: str, _: dict[str, Any]) -> Happened | None:
        return Happened("paid") if call_id in paid(directory) else None

    @tool(requires_approval=True, on_doubt="probe", probe=look)
    def pay(call_id: CallId) -> str:
        """Pay, which cannot be undone."""
        moments.pass_one()
        with directory.with_name(directory.name + ".paid").open("a") as file:
            file.write(f"{call_id}\n")
        moments.pass_one()
        return "paid"

    def reply(request: Request) -> list[Any]:
        last = request.messages[-1]
        if last.role == "tool":
            return ["It is ", "paid."]
        return [call("pay")] if last.text == "Pay." else ["Hello", "!"]

    return Runtime.open(directory, tools=[pay], providers={"demo": Scripted(reply)})


def main(directory: Path, number: int) -> None:
    """Run until SIGTERM, or until the moment has come."""
    moments = Moments(number)
    moments.around(Environment, "_end_writing")
    moments.around(Control, "_reply")
    until_told(opened(directory, moments), timeout=0.1)
    sys.stdout.write(f"{moments.passed}\n")


class Owner:
    """That process, and its successor when it was killed."""

    def __init__(self, directory: Path, number: int) -> None:
        """Start it, to be killed at a moment."""
        self._directory = directory
        self._lock = threading.Lock()
        self._ends = False
        self._process = self._started(number)
        self.kills = 0
        self.passed = 0
        """How many moments its last life had."""
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def _started(self, number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.crash.owner", str(self._directory), str(number)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=ROOT, env=environment(), text=True
        )

    def _keep(self) -> None:
        """Start a successor, which nothing kills, whenever it was killed."""
        while True:
            out, _ = self._process.communicate()
            if self._process.returncode != -signal.SIGKILL:
                self.passed = int(out or 0)
                return
            self.kills += 1
            with self._lock:
                if self._ends:
                    return
                self._process = self._started(0)

    def end(self) -> None:
        """Have it end in order, if it was not killed just now."""
        with self._lock:
            self._ends = True
            self._process.send_signal(signal.SIGTERM)
        self._thread.join()
        assert self._process.returncode in {0, -signal.SIGKILL}, self._process.args


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

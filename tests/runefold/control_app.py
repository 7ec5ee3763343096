"""A small app with a runtime, run as a process of its own, that others give commands to.

    python -m tests.runefold.control_app DIR KIND

It tells on standard output, a line of JSON each, what it has come to, and stays until it is told to
end. What its tool does is counted in a file beside the log, so that it can be counted after a kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.model.providers.scripted import Scripted, call, pause
from actors.tool.adapters.function import tool
from runefold.runtime import Runtime
from runefold.serving import until_told
from runefold.spec import AgentSpec
from tests.runefold.cli_scenes import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION: Final = "conv_00000000000000aa"
HOUR: Final = 3600.0
SCRIPTS: Final[dict[str, Any]] = {
    "asks": [["Let me see. ", call("charge", amount=3)], "It is paid."],
    "slow": [["Well, ", pause(HOUR), "no."]],
    "plain": ["Hello!\n\tTwo \x1b[31mlines\x1b[0m."],
}


def charges(directory: Path) -> list[str]:
    """Return what was charged so far."""
    counted = _counted(directory)
    return counted.read_text().split() if counted.exists() else []


def _counted(directory: Path) -> Path:
    return directory.with_name(directory.name + ".charges")


def options(directory: Path, kind: str) -> dict[str, Any]:
    """Return what the app's runtime is opened with."""

    @tool(requires_approval=True, timeout=5)
    def charge(amount: int) -> str:
        """Charge a customer."""
        with _counted(directory).open("a") as file:
            file.write(f"{amount}\n")
        return "charged"

    return {"tools": [charge], "providers": {"demo": Scripted(SCRIPTS[kind])}}


def spec() -> AgentSpec:
    """Return the app's agent."""
    return AgentSpec(role="helper", model="demo", tools=["charge"])


def main(directory: Path, kind: str) -> None:
    """Open the runtime, say so, and stay."""
    runtime = Runtime.open(directory, **options(directory, kind))
    if any(each.id == SESSION for each in runtime.sessions()):
        session = runtime.session(SESSION)
    else:
        session = runtime.create_session(spec(), conversation_id=SESSION)
        if kind != "plain":
            session.send("Go.", message_id="first")
    told = {"asks": "tool.approval_requested", "slow": "turn.assistant_delta"}.get(kind)
    found: Any = None
    if told is not None:
        found = next(iter(session.follow(kinds={told})))
    call_id = getattr(found and found.payload, "call_id", "")
    until_told(runtime, timeout=0.1, ready=lambda: _say(pid=os.getpid(), call=call_id))
    _say(closed=True)


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class App:
    """The app, as a process."""

    def __init__(self, directory: Path, kind: str) -> None:
        """Start it, and wait until it runs."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runefold.control_app", str(directory), kind],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            text=True,
        )
        self.told = self.hear()

    @property
    def call(self) -> str:
        """The call that waits for a human."""
        return str(self.told["call"])

    def hear(self) -> dict[str, Any]:
        """Return what it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the app ended without a word"
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Have it end in order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@contextlib.contextmanager
def running(directory: Path, kind: str) -> Iterator[App]:
    """Run the app for the length of the block."""
    app = App(directory, kind)
    try:
        yield app
    finally:
        app.kill()
        assert app.process.stdout is not None
        app.process.stdout.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

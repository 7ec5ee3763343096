"""Rules about programs that want more than they may have."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from actors.tool.adapters.command import CommandTool, Limits
from actors.tool.context import Call
from tests.actors.tool.programs import cancelled_when_ready, python

# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "script", "words"),
    [
        (Limits(cpu=1), "while True: pass", "SIGXCPU: over its limit of CPU time"),
        (Limits(memory=300 << 20), "x = bytearray(1 << 30)", "MemoryError"),
        (Limits(files=20), "x = [open('/dev/null') for _ in range(30)]", "Too many open files"),
        (
            Limits(file_size=1000),
            "import signal as s; s.signal(s.SIGXFSZ, s.SIG_DFL); open('b','wb').write(bytes(2000))",
            "SIGXFSZ: over its limit of file size",
        ),
    ],
    ids=["cpu", "memory", "files", "file size"],
)
def test_a_program_that_takes_too_much_is_told_apart(
    limits: Limits, script: str, words: str, tmp_path: Path
) -> None:
    """The model learns what there was too much of."""
    outcome = python(script, limits=limits, root=tmp_path).run(Call(call_id="c"))

    assert outcome.status == "error"
    assert words in outcome.error


def test_a_crash_leaves_no_core(tmp_path: Path) -> None:
    """Neither in its directory nor in its limits."""
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE), flush=True)\n"
    outcome = python(script + "import os; os.abort()", root=tmp_path).run(Call(call_id="c"))

    assert outcome.output == "(0, 0)\n"
    assert outcome.error.startswith("it was killed by SIGABRT")
    assert not list(tmp_path.iterdir())


BOMB = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except BlockingIOError:
        print("ready", flush=True)
        while True:
            signal.pause()
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="needs a user of its own, as the limit counts all processes of one",
)
def test_a_fork_bomb_is_bounded_and_ends() -> None:
    """It gets no further than its limit, and each of its many is killed."""
    nobody = 54_321
    tool = CommandTool(
        "bomb",
        ["setpriv", f"--reuid={nobody}", "--clear-groups", sys.executable, "-c", BOMB],
        root="/",
        grace=0.1,
        limits=Limits(processes=30),
    )
    outcome, _ = cancelled_when_ready(tool)
    owners = [
        path
        for path in Path("/proc").glob("[0-9]*")
        if path.exists() and path.stat().st_uid == nobody
    ]

    assert outcome.status == "cancelled"
    assert not owners


# -- network --------------------------------------------------------------------------------------

KNOCK = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
    print("open")
except OSError:
    print("closed")
"""


def knocking(*, network: bool = False, strict: bool = False) -> tuple[str, list[str]]:
    """Have a program knock at a door of ours; tell what it found and what the sandbox said."""
    notes: list[str] = []

    def hear(stream: str, chunk: str, /) -> None:
        if stream == "sandbox":
            notes.append(chunk)

    script = KNOCK.replace("{", "{{").replace("}", "}}")
    tool = CommandTool(
        "t",
        [sys.executable, "-c", script, "{port}"],
        root="/",
        parameters={"port": int},
        network=network,
        strict=strict,
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        outcome = tool.run(Call(call_id="c", arguments={"port": port}, progress=hear))
    return str(outcome.output or outcome.error).strip(), notes


def test_the_network_is_there_only_if_asked_for() -> None:
    """Where it cannot be blocked that is said, and a strict tool does not run."""
    found, notes = knocking()
    strict, _ = knocking(strict=True)

    assert knocking(network=True) == ("open", [])
    if notes:
        assert found == "open"
        assert "cannot be blocked here" in strict
    else:
        assert found == strict == "closed"


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs privileges to give up"
)
def test_the_network_is_blocked_without_privileges_too() -> None:
    """The guard of a plain user finds its own way, and the user stays who it is."""
    root = Path(__file__).parents[3]
    script = f"""
import sys; sys.path.insert(0, {str(root)!r})
from actors.tool.sandbox import guard
import os
if not guard._can_isolate():
    sys.exit(3)
guard._isolate()
print(os.getuid(), os.listdir("/sys/class/net") and open("/proc/net/dev").read().count(":"))
"""
    plain = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all"]
    done = subprocess.run(
        [*plain, sys.executable, "-S", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 3:
        pytest.skip("no user namespaces here")

    assert done.stdout.split() == ["54321", "1"]

"""Rules about programs that want more than they may have."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from actors.tool.adapters.command import Limits
from actors.tool.context import Call
from tests.actors.tool.programs import Held, cancelled_when_ready, python

if TYPE_CHECKING:
    from pathlib import Path

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
@pytest.mark.usefixtures("way")
def test_a_program_that_takes_too_much_is_told_apart(
    limits: Limits, script: str, words: str, tmp_path: Path
) -> None:
    """The model learns what there was too much of."""
    outcome = python(script, limits=limits, root=tmp_path).run(Call(call_id="c"))

    assert outcome.status == "error"
    assert words in outcome.error


@pytest.mark.usefixtures("way")
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
held = open("held", "w")
held.write("begun")
held.flush()
try:
    for _ in range(FUSE):
        if os.fork() == 0:
            os.setsid()
except BlockingIOError:
    print("ready", flush=True)
while True:
    signal.pause()
"""
FUSE = 8
"""How often each process forks: a bomb without an end would take the machine with it if it won."""


@pytest.mark.usefixtures("way")
def test_a_fork_bomb_is_bounded_and_ends(tmp_path: Path) -> None:
    """It does not get to all that it would be, and each of its many is killed.

    Where the kernel counts them it cannot start more, and is there until it is stopped; else it is
    killed for it.
    """
    held = Held(tmp_path)
    script = BOMB.replace("FUSE", str(FUSE))
    tool = python(script, root=tmp_path, limits=Limits(processes=30), timeout=60)
    outcome = cancelled_when_ready(tool)
    left = held.is_held()
    held.close()

    assert not left
    if outcome.status == "cancelled":
        assert os.geteuid() != 0
        assert tool.isolation.network
    else:
        assert outcome.error == "it was killed: over its limit of processes"


@pytest.mark.usefixtures("way")
def test_a_program_may_be_many_processes_within_its_limit() -> None:
    """There is a limit unless it is said otherwise, and it leaves room."""
    script = """
import subprocess, sys
running = [subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
           for _ in range(20)]
print(len(running))
for each in running:
    each.communicate(b"go")
"""

    assert python(script).run(Call(call_id="c")).output == "20\n"
    assert Limits().processes is not None
    assert Limits().written is not None


FILL = """
import itertools, os, sys
block = bytes(1 << 20)
for number in itertools.count():
    with open(os.path.join("PLACE", str(number)), "wb") as file:
        for _ in range(8):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
"""
BY_CHILDREN = """
import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
for _ in range(1000):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        for number in range(4):
            with open(f"{os.getpid()}-{number}", "wb") as file:
                file.write(bytes(8 << 20))
                os.fsync(file.fileno())
        os._exit(0)
    os.wait()
"""
TOTAL = 48 << 20


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("script", [FILL.replace("PLACE", "."), BY_CHILDREN], ids=["one", "many"])
def test_what_all_files_take_is_bounded(script: str, tmp_path: Path) -> None:
    """Each of them is small, and by one process or by many, together they are too much."""
    tool = python(script, root=tmp_path, limits=Limits(written=TOTAL), timeout=60)
    outcome = tool.run(Call(call_id="c"))

    assert outcome.error == "it was killed: over its limit of bytes written"


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_what_is_not_on_a_disk_counts_too(place: str, tmp_path: Path) -> None:
    """What a program writes into its own empty directories is memory, and as bounded."""
    script = FILL.replace("PLACE", place)
    tool = python(script, root=tmp_path, limits=Limits(written=TOTAL), timeout=60)
    outcome = tool.run(Call(call_id="c"))

    assert outcome.status == "error"
    assert "over its limit of bytes written" in outcome.error or "No space left" in outcome.error

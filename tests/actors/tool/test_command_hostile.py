"""Rules about programs that do not want to end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from actors.tool.adapters.command import CommandTool
from actors.tool.context import Call, Cancellation
from actors.tool.outcome import Outcome
from tests.actors.tool.programs import Held, cancelled_when_ready, open_files, python

if TYPE_CHECKING:
    from collections.abc import Iterator

STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
WAIT = """
print("ready", flush=True)
while True:
    signal.pause()
"""
HOLD = (
    STUBBORN
    + """
held = open("held", "w")
held.write("begun ")
held.flush()
"""
)
LEAVE_ONE_BEHIND = """
if os.fork() == 0:
    LEAVING
    held.write("left ")
    held.flush()
    print("ready", flush=True)
    while True:
        signal.pause()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    """Give a pipe that programs in this directory hold."""
    pipe = Held(tmp_path)
    yield pipe
    pipe.close()


def children() -> str:
    """List our own children."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


@pytest.mark.usefixtures("way")
def test_a_program_out_of_time_is_stopped() -> None:
    """However long it would go on, and whether it got to say anything or not."""
    script = "import signal; print('here', flush=True); signal.pause()"
    outcome = python(script, timeout=0.3).run(Call(call_id="c"))

    assert outcome.status == "timeout"
    assert outcome.error == "it was stopped after 0.3 s"


def test_the_time_left_counts_and_not_the_tools_own() -> None:
    """After a restart less may be left, or nothing."""
    outcome = python("import signal; signal.pause()").run(Call(call_id="c", timeout=0))

    assert outcome.status == "timeout"


@pytest.mark.usefixtures("way")
def test_a_program_may_say_good_bye() -> None:
    """SIGTERM comes first, and what it does then is waited for."""
    script = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit("bye"))
print("ready", flush=True)
signal.pause()
"""
    outcome = cancelled_when_ready(python(script, grace=30))

    assert outcome == Outcome("cancelled", "ready\nbye\n", error="it was cancelled, and stopped")


@pytest.mark.usefixtures("way")
def test_a_program_that_is_stopped_hears_it_too() -> None:
    """One that sleeps by SIGSTOP is woken in order to end: its parent waits for just that."""
    script = (
        STUBBORN
        + """
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    os.kill(os.getpid(), signal.SIGSTOP)
    signal.pause()
os.waitpid(child, os.WUNTRACED)
print("ready", flush=True)
os.waitpid(child, 0)
print("bye")
"""
    )
    outcome = cancelled_when_ready(python(script, grace=300))

    assert outcome.output == "ready\nbye\n"


@pytest.mark.usefixtures("way")
def test_a_program_dies_with_its_parent_and_gains_no_privileges() -> None:
    """The kernel sees to both, should nobody of us be left to do it."""
    script = """
import ctypes, re
word = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(word), 0, 0, 0)
print(word.value, re.search("NoNewPrivs:.*([01])", open("/proc/self/status").read())[1])
"""
    outcome = python(script).run(Call(call_id="c"))

    assert outcome.output == "9 1\n"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "leaving", ["pass", "os.setsid()", "os.setsid(); os.fork() and os._exit(0)"]
)
def test_grandchildren_that_ignore_every_word_are_killed(
    leaving: str, held: Held, tmp_path: Path
) -> None:
    """Whether they stay in the group, leave it, or leave their parents as well."""
    script = HOLD + LEAVE_ONE_BEHIND.replace("LEAVING", leaving)
    script += "\nwhile True: signal.pause()"
    outcome = cancelled_when_ready(python(script, root=tmp_path))

    assert outcome.status == "cancelled"
    assert not held.is_held()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("leaving", ["pass", "os.setsid()"])
def test_what_a_program_leaves_behind_ends_with_it(
    leaving: str, held: Held, tmp_path: Path
) -> None:
    """Its own end is the end of the call; nobody stays to hold its output open."""
    script = (
        HOLD
        + "r, w = os.pipe()"
        + LEAVE_ONE_BEHIND.replace("LEAVING", leaving).replace(
            "flush=True)\n", "flush=True); os.write(w, b'x')\n", 1
        )
    )
    script += "\nos.read(r, 1)"
    outcome = python(script, root=tmp_path).run(Call(call_id="c"))

    assert outcome.status == "success"
    assert outcome.output == "ready\n"
    assert not held.is_held()


@pytest.mark.usefixtures("way")
def test_nothing_is_left_of_us_either() -> None:
    """No zombie, no open file, no thread: however it ended."""
    scripts = ["pass", "1/0", "import signal; signal.pause()", "import os; os.abort()"]
    tools = [python(script, timeout=0.3) for script in scripts]
    tools += [CommandTool("t", ["no-such-program"], root="/")]
    for tool in tools:
        tool.run(Call(call_id="c"))
    before = open_files(), children(), threading.active_count()
    for tool in tools * 2:
        tool.run(Call(call_id="c"))

    assert (open_files(), children(), threading.active_count()) == before


def test_calls_on_many_threads_do_not_meet() -> None:
    """Each has its own output and its own end; cancelling one is nothing to the others."""
    script = "import sys; print(sys.argv[1] * 1000)"
    tool = CommandTool("t", [sys.executable, "-c", script, "{it}"], root="/")
    with ThreadPoolExecutor(8) as pool:
        stopped = pool.submit(cancelled_when_ready, python(STUBBORN + WAIT))
        calls = [Call(call_id=f"c{n}", arguments={"it": str(n)}) for n in range(16)]
        outcomes = list(pool.map(tool.run, calls))

    assert [outcome.output for outcome in outcomes] == [f"{str(n) * 1000}\n" for n in range(16)]
    assert stopped.result().status == "cancelled"


def test_a_call_cancelled_before_it_began_does_not_begin() -> None:
    """No process is started for it."""
    cancellation = Cancellation()
    cancellation.cancel()
    outcome = python("print('here')").run(Call(call_id="c", cancellation=cancellation))

    assert outcome == Outcome("cancelled", error="it was cancelled before it began")


RUNTIME = """
import sys
from actors.tool.adapters.command import CommandTool
from actors.tool.context import Call
script, root = sys.argv[1:]
tool = CommandTool("t", [sys.executable, "-c", script], root=root, grace=3600)
tool.run(Call(call_id="c"))
"""
HOLDERS = (
    HOLD
    + """
if os.fork() == 0:
    os.setsid()
if os.fork() == 0:
    pass
held.write("x")
held.flush()
print("ready", flush=True)
while True:
    signal.pause()
"""
)


@pytest.mark.usefixtures("way")
def test_a_program_does_not_outlive_the_runtime(tmp_path: Path) -> None:
    """Killed without a word, we leave nobody behind, and at once, whatever its grace is.

    The next runtime may run it again, and nothing is to run beside that.
    """
    os.mkfifo(tmp_path / "held")
    root = Path(__file__).parents[3]
    runtime = subprocess.Popen([sys.executable, "-c", RUNTIME, HOLDERS, str(tmp_path)], cwd=root)
    with (tmp_path / "held").open("rb", buffering=0) as reading:
        heard = b""
        while heard.count(b"x") < 4:
            heard += reading.read(64)
        runtime.kill()
        runtime.wait()

        # Comes back at the end of the last one that holds the other end.
        assert reading.read() == b""


KILL_PARENTS = (
    HOLD
    + """
import time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parents = [int(line.split()[1]) for line in open("/proc/%d/status" % os.getppid())
               if line.startswith("PPid")]
    for pid in {*parents, 1}:
        try:
            os.kill(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            pass
    held.write("tried ")
    held.flush()
    print("ready", flush=True)
    while True:
        signal.pause()
while True:
    signal.pause()
"""
)


@pytest.mark.usefixtures("bubblewrap")
def test_a_grandchild_cannot_kill_its_guard(held: Held, tmp_path: Path) -> None:
    """It is process 1 there: neither killed nor stopped, and it ends the grandchild too."""
    outcome = cancelled_when_ready(python(KILL_PARENTS, root=tmp_path))

    assert outcome.status == "cancelled"
    assert outcome.error == "it was cancelled, and stopped"
    assert not held.is_held()


@pytest.mark.usefixtures("guard_alone")
def test_a_program_does_not_outlive_its_guard(held: Held, tmp_path: Path) -> None:
    """If the watchdog is killed the program goes, and those in its group: the call says so."""
    script = (
        HOLD
        + """
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b"x")
    while True:
        signal.pause()
os.read(reading, 1)
os.kill(os.getppid(), signal.SIGKILL)
while True:
    signal.pause()
"""
    )
    outcome = python(script, root=tmp_path).run(Call(call_id="c"))

    assert held.heard() == "begun "
    assert outcome == Outcome("error", error="its watchdog was killed")

"""Rules about the process that starts servers: it serves many sweeps, and changes none of them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runefold.testing import CrashApp
from runefold.testing.crash.running import launcher
from runefold.testing.crash.sweep import Options, sweep
from runelog.errors import Refused
from tests.crash.kit import bots

if TYPE_CHECKING:
    from runefold import Runtime
    from runefold.testing import Effects
    from runefold.testing.crash.report.report import Report

NOTED = "RUNEFOLD_TEST_NOTED"


def check(_runtime: Runtime, _effects: Effects) -> None:
    """Note where a server runs, and what it was given."""
    with Path(f"noted-{os.environ[NOTED]}").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} ")


APP = CrashApp(bots.build, bots.scenario, check, "noted")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher.current()  # before this process goes elsewhere
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(NOTED, "first")


def swept() -> Report:
    """Sweep at two points, in servers."""
    return sweep(APP, Options(mode="every", in_process=True, sample=2, seed=1, jobs=1))


def test_one_process_starts_the_servers_of_all_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported once serves them all; each has a server of its own, which ends with it."""
    assert swept().ok
    started = launcher.current()
    monkeypatch.setenv(NOTED, "second")
    assert swept().ok

    assert launcher.current() is started
    first, second = (set(Path(f"noted-{name}").read_text().split()) for name in ("first", "second"))
    assert first.isdisjoint(second)
    assert not any(Path(f"/proc/{pid}").exists() for pid in first | second)
    assert str(started.pid) not in first | second


def test_where_python_runs_otherwise_it_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what Python reads at its start only, a process that runs already knows nothing."""
    before = launcher.current()
    monkeypatch.setenv("PYTHONHASHSEED", "17")
    after = launcher.current()

    assert after is not before
    assert launcher.current() is after


def test_one_that_was_killed_is_named_and_replaced() -> None:
    """The sweep that finds it gone says so; the next one starts another."""
    os.kill(launcher.current().pid, signal.SIGKILL)
    with pytest.raises(Refused, match=r"the process that starts servers .* has ended"):
        swept()

    assert swept().ok


_KILLED = """
import os, signal
from runefold.testing.crash.running import launcher
print(launcher.current().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_the_process_that_it_works_for() -> None:
    """Whatever ends that: nothing is left of it."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLED], capture_output=True, check=False, timeout=60, text=True
    )
    pid = int(done.stdout)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], 60)
    os.close(process)

    assert ended

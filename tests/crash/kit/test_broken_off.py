"""Rules about sweeps that somebody breaks off: what is known by then is told, and not as sound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from runefold.testing.crash.report.report import Report
from runefold.testing.crash.report.xml import junit
from runefold.testing.crash.running.trial import Result
from tests.crash.kit.test_fixture import ALONE, PYTEST
from tests.crash.kit.test_report import data_of

ROOT = Path(__file__).parents[3]


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a directory."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**ALONE, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def test_the_xml_of_a_sweep_that_was_broken_off_has_an_error() -> None:
    """Whatever shows it does not show it as passed, though every point in it has survived."""
    survived = Result(point="1:after-commit", status="survived")
    report = Report(app="bot", mode="every", results=[survived], interrupted=True)
    suite = ET.fromstring(junit(report))

    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("2", "1", "0")
    (error,) = suite.iter("error")
    assert "nothing is known of the points that are not here" in error.get("message", "")


_EARLY = """
import os, signal, sys
from runefold.cli import main
from runefold.testing.crash.running.workers import Workers

def one(crew, task):
    os.kill(os.getpid(), signal.SIGINT)

Workers.one = one
sys.argv[1:] = ["crash-test", "tests.crash.kit.bots:SOUND", "--in-process", "--jobs=1", "--json"]
main()
"""


def test_an_interrupt_of_the_undisturbed_run_leaves_a_report_too(tmp_path: Path) -> None:
    """Of no point, but one that a script can read."""
    (tmp_path / "early.py").write_text(_EARLY)
    done = run(tmp_path, "early.py")

    assert done.returncode == 130, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["interrupted"] is True
    assert told["results"] == []
    assert told["notes"] == ["interrupted: 0 points were done by then"]


_TEST = """
import os, pathlib, signal
from tests.crash.kit import bots

def check(runtime, effects):
    if effects.point:
        os.kill(int(pathlib.Path("pytest-pid").read_text()), signal.SIGINT)

def test_bot(crash_sweep):
    pathlib.Path("pytest-pid").write_text(str(os.getpid()))
    crash_sweep(bots.build, bots.scenario, check, in_process=True, jobs=1)
"""


def test_an_interrupted_test_tells_and_writes_what_is_known(tmp_path: Path) -> None:
    """Ctrl-C under pytest ends pytest, but not without a page and a summary."""
    (tmp_path / "test_bot.py").write_text(_TEST)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    done = run(tmp_path, *PYTEST[1:], "--crash-report=pages")

    assert done.returncode == 2, done.stdout + done.stderr
    assert "points were done by then" in done.stdout
    (page,) = (tmp_path / "pages").glob("*.html")
    assert data_of(page.read_text("utf-8"))["interrupted"] is True

"""Rules about the pytest plugin: one fixture, some options, and a failure that can be run again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEST = """
from tests.crash.kit import bots

def test_sound_bot_survives(crash_sweep):
    crash_sweep(bots.build, bots.scenario, bots.check)

def test_careless_bot_survives(crash_sweep):
    crash_sweep(bots.build_careless, bots.scenario, bots.check, mode="random", seed=1)
"""

OWN = """
from tests.crash.kit import bots

def build(directory):
    return bots.build(directory)

def scenario(runtime):
    bots.scenario(runtime)

def test_own_bot_survives(crash_sweep):
    crash_sweep(build, scenario)
"""


TWICE = """
from tests.crash.kit import bots

def test_twice(crash_sweep):
    crash_sweep(bots.build, bots.scenario, bots.check, sample=1)
    crash_sweep(bots.build_careless, bots.scenario, bots.check, patience=31)
"""

END = "-- exit code:"
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "_runefold_pytest")
ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the plugins of others, which take a second to import: ours is named."""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a directory with one test of each kind."""
    (directory / "test_bots.py").write_text(TEST)
    (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    return subprocess.run(
        [*PYTEST, *arguments],
        cwd=directory,
        env=ALONE,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def test_a_sound_app_passes(tmp_path: Path) -> None:
    """One line in a test sweeps an app; options of the command line go before those in the test."""
    done = run(tmp_path, "-k", "sound", "--crash-sample=2", "--crash-seed=3")

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failure_prints_how_to_run_its_point_again(tmp_path: Path) -> None:
    """The line that is printed runs just that point, and fails just so."""
    done = run(
        tmp_path, "-k", "careless", "--crash-in-process", "--crash-mode=every", "--crash-jobs=1"
    )

    assert done.returncode == 1, done.stdout + done.stderr
    again = re.search(r"again: +pytest (\S+) (.*--crash-point=(\S+))", done.stdout)
    assert again is not None, done.stdout
    assert again[3].endswith(":after-effect")
    assert re.search(r"check: AssertionError", done.stdout)

    once_more = run(tmp_path, again[1], *again[2].split())

    assert once_more.returncode == 1
    assert f"{again[3]} did not survive" in once_more.stdout
    assert "1 point of" in once_more.stdout


OWN_FAILS = """
from tests.crash.kit import bots

def test_own(crash_sweep):
    crash_sweep(bots.build_careless, bots.scenario, bots.check, in_process=True, jobs=1)
"""


def test_the_line_works_from_where_pytest_was_started(tmp_path: Path) -> None:
    """From a folder below the root, a test is named as it is called there."""
    below = tmp_path / "below"
    below.mkdir()
    (below / "test_own.py").write_text(OWN_FAILS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    command = [*PYTEST, "--rootdir", ".."]
    done = subprocess.run(
        command, cwd=below, env=ALONE, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "again:   pytest test_own.py::test_own --crash-in-process" in done.stdout


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_functions_of_a_test_are_found_by_other_processes(tmp_path: Path, mode: str) -> None:
    """They need not be in a module that can be imported: however pytest imports tests."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "test_own.py").write_text(OWN)
    done = run(tmp_path, "own", f"--import-mode={mode}", "--crash-sample=1", "-pxdist", "-n1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_page_is_written_for_each_sweep(tmp_path: Path) -> None:
    """`--crash-report` names a directory for pages."""
    done = run(
        tmp_path, "-k", "sound", "--crash-in-process", "--crash-sample=3", "--crash-report=pages"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (page,) = (tmp_path / "pages").glob("*.html")
    assert "test_sound_bot_survives" in page.read_text("utf-8")


def test_without_a_crash_test_nothing_of_us_is_imported(tmp_path: Path) -> None:
    """Projects that have runefold installed and test something else do not pay for it."""
    program = (
        "import sys, pytest; code = pytest.main(['-q', '-p', 'no:cacheprovider']); "
        "print(sorted({'_runefold_pytest', 'runefold', 'actors', 'lmdb'} & set(sys.modules)))"
    )
    (tmp_path / "test_other.py").write_text("def test_something_else():\n    assert True\n")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stdout.splitlines()[-1] == "['_runefold_pytest']"


def test_the_plugin_is_registered(pytestconfig: pytest.Config) -> None:
    """The options are there because the distribution says so, not because somebody imports it."""
    assert pytestconfig.pluginmanager.has_plugin("runefold")


def test_of_several_sweeps_the_one_that_failed_is_run_again(tmp_path: Path) -> None:
    """The line says which of them a point is of, and how patient it was."""
    (tmp_path / "test_twice.py").write_text(TWICE)
    done = run(tmp_path, "test_twice.py")
    again = re.search(r"again: +pytest (.*)", done.stdout)

    assert done.returncode == 1, done.stdout + done.stderr
    assert again is not None, done.stdout
    assert "--crash-sweep=2" in again[1]
    assert "--crash-patience=31" in again[1]
    once = run(tmp_path, *shlex.split(again[1]))
    assert once.returncode == 1, once.stdout + once.stderr
    assert "1 point of" in once.stdout
    other = run(tmp_path, *shlex.split(again[1].replace("--crash-sweep=2", "--crash-sweep=1")))
    assert other.returncode == 0, other.stdout + other.stderr


def test_an_option_that_cannot_be_meant_fails_the_test(tmp_path: Path) -> None:
    """It says why, and shows none of the kit's own code."""
    reasons = {
        "--crash-sample=0": "sample is 0",
        "--crash-mode=odd": "no mode 'odd'",
        "--crash-point=": "--crash-point is empty",
        "--crash-patience=-1": "patience is -1",
    }
    (tmp_path / "test_bots.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    # All in one process, since starting pytest takes longer than the tests.
    program = (
        "import sys, pytest\n"
        "for option in sys.argv[1:]:\n"
        "    plugins = ['-p', 'no:cacheprovider', '-p', '_runefold_pytest']\n"
        "    code = pytest.main([*plugins, '-k', 'sound', option])\n"
        f"    print({END!r}, int(code))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *reasons],
        cwd=tmp_path,
        env=ALONE,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )

    told = done.stdout.split(END)
    assert len(told) == len(reasons) + 1, done.stdout + done.stderr
    for why, output, after in zip(reasons.values(), told, told[1:], strict=False):
        assert after.split()[0] == "1", done.stdout
        assert why in output
        assert "Traceback" not in output
        assert "sweep.py" not in output

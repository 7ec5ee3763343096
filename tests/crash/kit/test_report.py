"""Rules about what is told of a sweep: on a page, as XML, as JSON and on a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from runefold.cli.crash_test import _tell
from runefold.cli.terminal.screen import Screen
from runefold.testing import SweepOptions, sweep
from runefold.testing.crash.report.html import page
from runefold.testing.crash.report.report import Report
from runefold.testing.crash.report.xml import junit
from runefold.testing.crash.running.run_once import raised
from runefold.testing.crash.running.trial import Result
from runefold.testing.crash.sweep import left_out
from runefold.testing.crash.verdict.judge import Finding
from tests.crash.kit import bots

if TYPE_CHECKING:
    from runefold.testing import CrashReport

ROOT = Path(__file__).parents[3]
HOSTILE = "</script><script>alert(1)</script> \x00\ud800 & <b>"


@cache
def report() -> CrashReport:
    """Sweep a bot that lies, in this process: two of its points fail."""
    return sweep(
        bots.LIAR, SweepOptions(in_process=True, jobs=1, seed=1, again="run --crash-point")
    )


def data_of(text: str) -> dict[str, Any]:
    """Return the data that a page draws itself from."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_page_holds_everything_and_loads_nothing() -> None:
    """Every point with what recovery did, in one file that asks no other machine for anything."""
    text = page(report())
    data = data_of(text)

    assert len(data["results"]) == len(report().results)
    assert {result["status"] for result in data["results"]} == {"survived", "failed"}
    assert any(step["kinds"] == ["tool.doubted"] for r in data["results"] for step in r["steps"])
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?(https?:|//|data:)""", text)
    assert "default-src 'none'" in text
    assert "a lying bot" in text


def test_what_an_app_says_cannot_act_on_the_page() -> None:
    """Whatever is in an error, it is shown and not carried out; what UTF-8 cannot carry, too."""
    text = page(_with(HOSTILE))

    assert data_of(text)["results"][0]["wrong"][0]["message"] == HOSTILE
    assert text.count("</script>") == 2
    assert text.encode()


def test_the_page_makes_no_markup_out_of_text() -> None:
    """Every text goes into the page as text, by the one function that shows what hides in it."""
    script = page(report()).rpartition("<script>")[2]
    set_as_text = re.findall(r"\.textContent = (.*)", script)

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert len(set_as_text) >= 3
    for value in set_as_text:
        assert re.match(r"""plain\(|"[A-Z][a-z ]+";|data\.wrong\.length \? "The""", value), value


def _with(message: str) -> CrashReport:
    """Return a report of one point, of which this message is told."""
    failed = Result(point="1:after-commit", status="failed", wrong=[Finding("check", message)])
    return msgspec.structs.replace(report(), results=[failed])


def test_what_an_app_says_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """No colour is changed, no cursor moved, no direction of writing turned."""
    _tell(Screen(), _with("\x1b[31mred\x1b[0m \u202eback\nnext"), json=False)
    told = capsys.readouterr().out

    assert "\\x1b[31mred\\x1b[0m \\u202eback\n" in told
    assert all(char.isprintable() or char == "\n" for char in told)


def test_an_error_that_is_no_proper_text_is_told_of() -> None:
    """A name from the disk may be in it, which UTF-8 cannot carry."""
    found = raised(OSError("caf\udce9"))

    assert found.message.encode().startswith(b"OSError: caf\\udce9")


def test_the_xml_has_a_case_for_each_point() -> None:
    """What shows test results shows each point, failed ones with all that is known of them."""
    suite = ET.fromstring(junit(report()))
    failures = suite.findall("testcase/failure")

    assert suite.get("tests") == str(len(report().results))
    assert len(failures) == len(report().failed) == int(suite.get("failures") or 0)
    assert "took effect 2 times" in (failures[0].text or "")
    assert "again: run --crash-point=" in (failures[0].text or "")


def test_what_xml_cannot_hold_is_replaced() -> None:
    """An app's error may have any character in it."""
    suite = ET.fromstring(junit(_with(HOSTILE)))

    assert "alert(1)" in (suite.findall("testcase/failure")[0].text or "")


# -- the command line ----------------------------------------------------------------------------


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `runefold crash-test` in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "runefold.cli", "crash-test", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def test_the_command_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    """No test code: an app by its name, a page, XML, and JSON for scripts."""
    done = run(
        tmp_path,
        "tests.crash.kit.bots:SOUND",
        *("--kills", "random", "--sample", "2", "--seed", "4"),
        *("--report", "out.html", "--junit", "out.xml", "--json"),
    )
    told = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert told["seed"] == 4
    assert [result["status"] for result in told["results"]] == ["survived", "survived"]
    assert data_of((tmp_path / "out.html").read_text("utf-8"))["seed"] == 4
    assert ET.fromstring((tmp_path / "out.xml").read_text("utf-8")).get("tests") == "2"


def test_the_command_fails_and_says_how_to_see_it_again(tmp_path: Path) -> None:
    """Exit code 1, what is wrong, the command that shows the log, and the one to run it again."""
    point = report().failed[0].point
    done = run(
        tmp_path, "tests.crash.kit.bots:LIAR", f"--crash-point={point}", "--keep", str(tmp_path)
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert f"again:   runefold crash-test tests.crash.kit.bots:LIAR --point={point}" in done.stdout
    shown = re.search(r"its log: runefold (log show .*)", done.stdout)
    assert shown is not None
    look = subprocess.run(
        [sys.executable, "-m", "runefold.cli", *shown[1].split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "tool.retried" in look.stdout, look.stderr


def test_what_is_wrong_with_the_name_is_a_sentence(tmp_path: Path) -> None:
    """A mistake is answered with exit code 2 and no traceback."""
    done = run(tmp_path, "nowhere:app")

    assert done.returncode == 2
    assert done.stderr.startswith("error: nowhere:app cannot be imported")


def test_a_report_that_could_not_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """Before the app is even looked for, and not after minutes of sweeping."""
    missing = run(tmp_path, "nowhere:app", "--report", "missing/out.html")
    folder = run(tmp_path, "nowhere:app", "--junit", ".")

    assert (missing.returncode, folder.returncode) == (2, 2)
    assert missing.stderr == "error: missing/out.html cannot be written: missing is not there\n"
    assert folder.stderr == "error: . is a directory: name a file in it\n"


# -- what goes wrong ---------------------------------------------------------------------------


def test_an_interrupt_leaves_a_report_and_no_process(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a sweep: what was done by then is told, and written."""
    (tmp_path / "sweeping.py").write_text(_SWEEPING)
    done = subprocess.run(
        [sys.executable, "sweeping.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 130, done.stdout + done.stderr
    assert "interrupted: 3 points were done by then" in done.stdout
    assert data_of((tmp_path / "out.html").read_text("utf-8"))["interrupted"] is True
    servers = [int(pid) for pid in (tmp_path / "servers").read_text("utf-8").split()]
    assert len(servers) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in servers)


_SWEEPING = """
import os, signal, sys
from pathlib import Path
from runefold.cli import crash_test, main
from runefold.testing.crash.running.workers import Workers, Server

real, starts = Workers.all, Server.__init__

def all(crew, tasks):
    for number, each in enumerate(real(crew, tasks)):
        yield each
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)

def begin(server, *rest):
    starts(server, *rest)
    with open("servers", "a") as file:
        file.write(f"{server._pid} ")

Workers.all, Server.__init__ = all, begin
sys.argv[1:] = ["crash-test", "tests.crash.kit.bots:SOUND", "--from-the-top", "--jobs=2",
                "--report=out.html"]
main()
"""


def test_an_interrupted_sweep_is_not_sound() -> None:
    """Whatever survived until then."""
    survived = [result for result in report().results if result.status == "survived"]
    whole = msgspec.structs.replace(report(), results=survived)

    assert whole.ok
    assert not msgspec.structs.replace(whole, interrupted=True).ok


@pytest.mark.parametrize("in_process", [True, False])
def test_a_sweep_that_was_left_out_says_so_and_nothing_else(*, in_process: bool) -> None:
    """It is well, as nothing was asked of it, and tells where the point is that was."""
    empty = left_out("bot", SweepOptions(point="3:after-commit", in_process=in_process))
    note, summary = empty.lines()

    assert empty == Report(app="bot", mode="every", in_process=in_process, notes=[note])
    assert empty.ok
    assert note == "left out: 3:after-commit is a point of another sweep of this test"
    assert summary.startswith("0 points of 0 commits (0 runes), 0 survived, 0 failed")

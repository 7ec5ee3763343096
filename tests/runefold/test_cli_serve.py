"""Rules about `runefold serve`: an app as a process, which SIGTERM ends in order."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from actors.catalogue import CODEC
from actors.model.providers.scripted import Scripted
from runefold.cli.serve import Line
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.store import Runelog
from tests.runefold.cli_scenes import ROOT, environment, run
from tests.runefold.control_app import SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = "tests.runefold.serve_app"


@contextlib.contextmanager
def served(
    directory: Path, *options: str, build: str = "build", held: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Have the app run for the length of the block, from when it says so."""
    app = f"{APP}:{build}"
    command = [sys.executable, "-m", "runefold", "serve", str(directory), app, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, cwd=ROOT, env=environment(), text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"running {directory / held} as process {process.pid}"), line
        try:
            yield process
        finally:
            process.kill()


def begun(directory: Path) -> None:
    """Leave a session behind that has nothing to do."""
    with Runtime.open(directory, providers={"demo": Scripted(["Hello!"])}) as runtime:
        spec = AgentSpec(role="helper", model="demo")
        session = runtime.create_session(spec, conversation_id=SESSION)
        session.send("Hi").result(30)


def kinds(directory: Path) -> list[str]:
    """Return what is on disk of the session."""
    with Runelog.open(directory, CODEC, readonly=True) as log:
        return [each.kind for each in log.read(SESSION)]


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_has_what_runs_end_first(tmp_path: Path, word: signal.Signals) -> None:
    """The turn that runs comes to its end, no other begins, and the process ends as it should."""
    place = tmp_path / "data"
    begun(place)
    with served(place) as process:
        for message in ("first", "second"):
            sent = run("send", place, SESSION, "Go.", "--message-id", message)
            assert sent.exit_code == 0, sent.stderr
        process.send_signal(word)
        out, _ = process.communicate()
    found = kinds(place)

    assert process.returncode == 0
    assert out == f"closed {place}\n"
    assert (found.count("turn.started"), found.count("turn.completed")) == (2, 2)
    assert found.count("session.input_accepted") == 3


def test_what_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    """It ends within the time it was given, and what it had said is kept."""
    place = tmp_path / "data"
    begun(place)
    with served(place, "--drain", "0.1", "--verbose") as process:
        run("send", place, SESSION, "for ever", "--message-id", "first")
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate()
    lines = [json.loads(line) for line in told.splitlines()]
    ends = [line for line in lines if line.get("rune") == "turn.interrupted"]

    assert process.returncode == 0
    assert kinds(place).count("turn.interrupted") == 1
    # Who waits for the turn's end repeats the interrupt: a turn that has ended refuses it.
    assert {line["event"] for line in lines} - {"slow_step", "refused"} == {"transition"}
    assert [(line["to"], line["trigger"]) for line in ends if line["entity"] == "turn_2"] == [
        ("interrupted", "shutdown")
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1 / 0", "ZeroDivisionError: division by zero (BROKEN, line 1)"),
        ("def build(d:", "SyntaxError: '(' was never closed (broken.py, line 1)"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all' (BROKEN, line 1)"),
    ],
)
def test_an_app_that_cannot_be_imported_is_told_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    """Its own mistake is said in one line, without our way there."""
    broken = tmp_path / "broken.py"
    broken.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    found = run("serve", tmp_path / "data", "broken:build")

    assert found.exit_code == 2
    assert why.replace("BROKEN", str(broken)) in found.stderr.replace("\n", "")
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("app", "why"),
    [
        (f"{APP}:nothing", "return the runtime that it opened"),
        (f"{APP}:WORD", "name a function"),
        (f"{APP}:absent", "cannot be imported"),
        ("absent", "write it as package.module:build"),
    ],
)
def test_what_is_no_app_is_refused(tmp_path: Path, app: str, why: str) -> None:
    """With what is wrong about it."""
    found = run("serve", tmp_path / "data", app)

    assert found.exit_code == 2
    assert why in found.stderr


def test_a_line_has_an_error_and_acts_on_no_terminal() -> None:
    """What was said, whatever it was, is one line of ASCII."""
    error = ValueError("\x1b[31m")
    said = {"exc_info": (ValueError, error, None), "of": object()}
    record = logging.makeLogRecord({"msg": "went_wrong", "levelname": "ERROR", **said})
    line = Line().format(record)
    told = json.loads(line)

    assert line.isascii()
    assert line.isprintable()
    assert (told["event"], told["level"]) == ("went_wrong", "error")
    assert told["error"].endswith("ValueError: \x1b[31m")


def test_the_directory_that_really_holds_the_log_is_named(tmp_path: Path) -> None:
    """An app may open its log elsewhere than where it was told: that is where others find it."""
    with served(tmp_path, build="inside", held="log") as process:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)

    assert rest.startswith(f"closed {tmp_path / 'log'}")

"""Rules about how commands fail: a sentence, an exit code, and no traceback but for a bug."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import runefold
from runefold.cli.log import stats
from runefold.cli.terminal.exit_codes import Exit
from runefold.cli.terminal.failures import code_of, told
from runelog.errors import Corrupt, LogFailed, LogFull, Refused
from runelog.rune import Change
from tests.runefold.cli_scenes import (
    ROOT,
    Said,
    command,
    environment,
    flip,
    make_log,
    opened,
    real,
    run,
    sealed,
)

if TYPE_CHECKING:
    from pathlib import Path

LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16)); "
    "from runefold.cli import main; main()"
)
"""The command line in a process whose files cannot grow beyond 64 KiB: a disk that is full."""

READING = {
    "stats": [],
    "list": [],
    "show": ["conv_a"],
    "verify": [],
    "export": ["-", "--all"],
}
WRITING = {
    "archive": ["conv_a"],
    "restore": ["conv_a"],
    "erase": ["conv_a", "--yes"],
    "repair": [],
}


def test_the_codes_are_fixed() -> None:
    """Scripts rely on them."""
    assert [(code.name, code.value) for code in Exit] == [
        ("OK", 0),
        ("PROBLEMS", 1),
        ("REFUSED", 2),
        ("DAMAGED", 3),
        ("ENVIRONMENT", 4),
        ("INTERRUPTED", 130),
        ("UNREAD", 141),
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("no"), Exit.REFUSED),
        (Corrupt("bad"), Exit.DAMAGED),
        (LogFull("full"), Exit.ENVIRONMENT),
        (LogFailed("failed"), Exit.ENVIRONMENT),
        (OSError(5, "Input/output error", "disk"), Exit.ENVIRONMENT),
    ],
)
def test_a_failure_has_its_code(error: Exception, code: Exit) -> None:
    """Who is at fault decides."""
    assert code_of(error) is code
    assert told(error)


def test_damage_comes_with_the_way_out() -> None:
    """Whoever meets damage is told of verify and repair, once."""
    assert "`runefold log repair`" in told(Corrupt("rune 8 is damaged"))
    assert told(Corrupt("`runefold log repair` can")) == "`runefold log repair` can"


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_what_is_no_log_is_refused(tmp_path: Path, name: str) -> None:
    """A missing directory, an empty one, a file, or somebody's letters: named, and left alone."""
    words = {**READING, **WRITING}[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "file").write_text("dear")
    results = [run("log", name, tmp_path / place, *words) for place in ("gone", "folder", "file")]

    assert [result.exit_code for result in results] == [Exit.REFUSED] * 3
    assert all(result.stderr.startswith("error: ") for result in results)
    assert [str(tmp_path / "gone") in results[0].stderr, results[0].stdout] == [True, ""]
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("name", WRITING)
def test_a_held_log_is_not_touched(tmp_path: Path, name: str) -> None:
    """Whoever would change it is told who holds it, and what can be done meanwhile."""
    log = make_log(tmp_path / "log")
    with opened(log):
        result = real("log", name, log, *WRITING[name])
        message = result.stderr.decode()

    assert result.returncode == Exit.REFUSED
    assert "is being written by process" in message
    assert "Read-only commands work meanwhile" in message
    assert "readonly=True" not in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("name", ["show", "export"])
def test_a_damaged_rune_stops_a_reader(tmp_path: Path, name: str) -> None:
    """A flipped bit ends with code 3 and the name of the rune, never with a wrong one."""
    log = make_log(tmp_path / "log")
    flip(sealed(log), b"word 7")
    result = real("log", name, log, *READING[name])

    assert result.returncode == Exit.DAMAGED
    assert b"rune 7 of conv_a" in result.stderr
    assert b"`runefold log repair`" in result.stderr
    assert b"Traceback" not in result.stderr
    assert b"word 6" not in result.stdout or b"word 7" not in result.stdout


def test_verify_finds_damage(tmp_path: Path) -> None:
    """Exit code 1, each problem with its severity and place, in words and for scripts."""
    log = make_log(tmp_path / "log")
    flip(sealed(log), b"word 7")
    words = run("log", "verify", log)
    script = run("log", "verify", log, "--json")
    found = json.loads(script.stdout)

    assert (words.exit_code, script.exit_code) == (Exit.PROBLEMS, Exit.PROBLEMS)
    assert found["ok"] is False
    assert {"invariant", "severity", "where", "message"} == set(found["problems"][0])
    assert "conv_a event 7" in [problem["where"] for problem in found["problems"]]
    assert "fatal  conv_a event 7" in words.stdout


@pytest.mark.parametrize("harm", ["cut", "gone", "manifest", "catalog"])
@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_damage_is_no_traceback(tmp_path: Path, name: str, harm: str) -> None:
    """Whatever is wrong with the files, every command ends with a sentence and one of its codes."""
    log = make_log(tmp_path / "log")
    if harm == "cut":
        sealed(log).write_bytes(sealed(log).read_bytes()[:8_192])
    elif harm == "gone":
        sealed(log).unlink()
    elif harm == "manifest":
        (log / "MANIFEST").write_bytes((log / "MANIFEST").read_bytes()[:-9])
    else:
        path = min(log.glob("catalog.*.mdb"))
        path.write_bytes(path.read_bytes()[:4_096])
    # What is not ended in a sentence is raised here.
    result = run("log", name, log, *{**READING, **WRITING}[name])

    assert result.exit_code in {Exit.OK, Exit.PROBLEMS, Exit.REFUSED, Exit.DAMAGED}
    assert result.stderr or result.exit_code in {Exit.OK, Exit.PROBLEMS}


def test_stats_tell_what_they_can_of_a_damaged_log(tmp_path: Path) -> None:
    """Without its index there are still files to count; the code says that it is damaged."""
    log = make_log(tmp_path / "log")
    min(log.glob("catalog.*.mdb")).write_bytes(b"rubbish")
    result = run("log", "stats", log, "--json")
    found = json.loads(result.stdout)

    assert result.exit_code == Exit.DAMAGED
    assert "damaged" in found["damage"]
    assert len(found["segments"]) == 2
    assert "state          damaged" in run("log", "stats", log).stdout


def test_a_log_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """Not damage: the message says to use a later version."""
    log = make_log(tmp_path / "log")
    manifest = log / "MANIFEST"
    manifest.write_bytes(manifest.read_bytes().replace(b"runefold 2 ", b"runefold 9 ", 1))
    result = run("log", "list", log)

    assert result.exit_code == Exit.REFUSED
    assert "use a later version" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["log", "show", "DIR", "conv_a", "--after", "-1"],
        ["log", "show", "DIR", "conv_a", "--limit", "none"],
        ["log", "show", "DIR", "--entity", "turn_1"],
        ["log", "show", "DIR", "conv_nowhere"],
        ["log", "show", "DIR", "conv\x1b[2J"],
        ["log", "show", "DIR", "conv_a", "--entity", "no id"],
        ["log", "list", "DIR", "--state", "lost"],
        ["log", "stats"],
        ["log", "sing"],
        ["--nonsense"],
    ],
)
def test_wrong_usage_is_refused(tmp_path: Path, words: list[str]) -> None:
    """Exit code 2 and a message on standard error; what was typed cannot act on the terminal."""
    log = make_log(tmp_path / "log")
    result = run(*[str(log) if word == "DIR" else word for word in words])

    assert result.exit_code == Exit.REFUSED
    assert result.stdout == ""
    assert result.stderr
    assert "\x1b[2J" not in result.stderr


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """An export without room ends with code 4, says so, and leaves no half of a file."""
    log = tmp_path / "log"
    with opened(log) as writer:
        words = [f"{number * 2_654_435_761 % 2**64:x}" for number in range(40_000)]
        writer.append("conv_a", [Change("turn_1", 0, [Said(text=" ".join(words))])])
    target = tmp_path / "out"
    target.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, "log", "export", log, target / "a.runes", "--all"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=environment(),
        timeout=60,
    )

    assert result.returncode == Exit.ENVIRONMENT
    assert b"no room to write" in result.stderr
    assert b"Traceback" not in result.stderr
    assert list(target.iterdir()) == []


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """As with `head`: the command ends quietly, with what a shell calls a broken pipe."""
    log = tmp_path / "log"
    with opened(log) as writer:
        said = [Said(text=f"{number} " * 20) for number in range(5_000)]
        writer.append("conv_a", [Change("turn_1", 0, said)])
    with subprocess.Popen(
        command("log", "show", log, "conv_a"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        child.stdout.close()
        complaints = child.stderr.read()

    assert first.split()[0] == b"1"
    assert child.returncode == Exit.UNREAD
    assert complaints == b""


def test_an_interrupt_ends_a_tail_quietly(tmp_path: Path) -> None:
    """Ctrl-C is how `--follow` ends."""
    log = make_log(tmp_path / "log")
    with subprocess.Popen(
        command("log", "show", log, "conv_a", "--follow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        lines = [child.stdout.readline() for _ in range(11)]
        child.send_signal(signal.SIGINT)
        complaints = child.stderr.read()

    assert b"turn.completed" in lines[-1]
    assert child.returncode == Exit.INTERRUPTED
    assert complaints == b""


@pytest.mark.parametrize("name", [[], ["sessions"], ["log"], ["log", "verify"], ["approve"]])
def test_help_is_about_this_command(name: list[str]) -> None:
    """A flag takes no value, and the exit codes of all commands stand at the root alone."""
    told = run(*name, "--help").stdout

    assert "<bool>" not in told
    assert ("Exit codes: 0 success" in " ".join(told.split())) is (not name)


def test_where_no_log_is_the_way_out_is_named(tmp_path: Path) -> None:
    """Which directory, and what to do about it."""
    found = run("sessions", tmp_path).stderr

    assert found == (
        f"error: {tmp_path} holds no log (it has no MANIFEST): name another directory, or create "
        "a log there with `runefold serve`\n"
    )


def test_the_version_is_printed_without_importing_a_command() -> None:
    """Nor is what commands need."""
    program = (
        "import sys; from runefold.cli import main; sys.argv[1:] = ['--version']; main(); "
        "print(*[name for name in ('typer', 'runefold.cli.app') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=environment(),
        timeout=60,
        text=True,
    )

    assert done.stdout == f"runefold {runefold.__version__}\n\n"


def test_an_interrupt_while_commands_are_imported_is_no_traceback() -> None:
    """Ctrl-C ends a command in the same way at any time."""
    program = (
        "import sys, builtins, runefold.cli as cli; real = builtins.__import__\n"
        "def importing(name, *rest):\n"
        "    if name == 'runefold.cli.app': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = importing; sys.argv[1:] = ['sessions']; cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=environment(),
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, b"")


def test_a_bug_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nobody's mistake but ours keeps its traceback."""
    log = make_log(tmp_path / "log")
    monkeypatch.setattr(stats, "gather", lambda _: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        run("log", "stats", log)

"""Rules about export and import: whole conversations travel, or none."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from runefold.cli.terminal.exit_codes import Exit
from tests.runefold.cli_scenes import (
    ROOT,
    SECRET,
    command,
    environment,
    make_log,
    opened,
    real,
    run,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Make a log to export from."""
    return make_log(tmp_path / "log")


def runes(log: Path, conversation: str) -> list[dict[str, object]]:
    """Return a conversation's runes without their place in the log, which importing changes."""
    lines = run("log", "show", log, conversation, "--json").stdout.splitlines()
    return [{**json.loads(line), "position": 0} for line in lines]


def test_conversations_go_through_a_pipe(log: Path, tmp_path: Path) -> None:
    """`export - | import -` gives another log the same conversations."""
    other = tmp_path / "other"
    with subprocess.Popen(
        command("log", "export", log, "-", "--all", "--secret"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(),
    ) as sender:
        receiver = subprocess.run(
            command("log", "import", other, "-", "--create", "--json"),
            stdin=sender.stdout,
            capture_output=True,
            check=False,
            cwd=ROOT,
            env=environment(),
        )

    assert (sender.returncode, receiver.returncode) == (0, 0)
    assert json.loads(receiver.stdout) == {
        "conversations": ["conv_a", "conv_hostile", "conv_work"],
        "runes": 15,
    }
    assert run("log", "verify", other).exit_code == 0
    for conversation in ("conv_a", "conv_hostile", "conv_work"):
        assert runes(other, conversation) == runes(log, conversation)


def test_an_export_has_a_summary(log: Path, tmp_path: Path) -> None:
    """What was written is told, in words and for scripts."""
    file = tmp_path / "a.runes"
    words = run("log", "export", log, file, "conv_a")
    script = run("log", "export", log, file, "conv_a", "--force", "--json")
    told = json.loads(script.stdout)

    assert words.exit_code == 0
    assert words.stdout.startswith("exported 11 runes of 1 conversation to ")
    assert told == {
        "file": str(file),
        "conversations": 1,
        "runes": 11,
        "blobs": 0,
        "bytes": file.stat().st_size,
        "secret": False,
    }


def test_the_stream_has_standard_output_to_itself(log: Path) -> None:
    """Nothing but the stream is in the pipe; the summary goes beside it."""
    result = real("log", "export", log, "-", "conv_a")
    again = run("log", "import", log, "-", feed=result.stdout)

    assert result.stderr == b"exported 11 runes of 1 conversation\n"
    assert "conv_a is already in this log" in again.stderr


def test_secrets_stay_behind_unless_asked_for(log: Path, tmp_path: Path) -> None:
    """By default a tombstone stands in their place, so that ids stay gap-free."""
    file, other = tmp_path / "a.runes", tmp_path / "other"
    run("log", "export", log, file, "conv_hostile")
    assert run("log", "import", other, file, "--create").exit_code == 0
    seen = runes(other, "conv_hostile")

    assert [rune["event_id"] for rune in seen] == [1, 2, 3]
    assert seen[1]["kind"] == "log.tombstone"
    assert seen[1]["payload"] == {"reason": "secret", "was": "key.given"}
    with opened(other) as reader:
        bodies = b"".join(bytes(rune.body) for rune in reader.read("conv_hostile"))
    assert SECRET.encode() not in bodies


def test_an_erased_conversation_is_not_exported(log: Path, tmp_path: Path) -> None:
    """`--all` passes it over; by name it is refused and no file is made."""
    run("log", "erase", log, "conv_a", "--yes")
    everything = run("log", "export", log, tmp_path / "all.runes", "--all", "--json")
    named = run("log", "export", log, tmp_path / "a.runes", "conv_a")

    assert json.loads(everything.stdout)["conversations"] == 2
    assert named.exit_code == Exit.REFUSED
    assert "conv_a was erased" in named.stderr
    assert not (tmp_path / "a.runes").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["FILE"], "name the conversations to export, or --all"),
        (["FILE", "conv_a", "--all"], "not both"),
        (["FILE", "conv_nowhere"], "no conversation conv_nowhere in this log"),
        (["FILE", "no/id"], "'no/id' is not a valid conversation id"),
        (["DIR", "--all"], "is a directory: name a file"),
        (["DIR/nowhere/x", "--all"], "there is no directory"),
    ],
)
def test_a_wrong_export_is_refused(log: Path, tmp_path: Path, words: list[str], told: str) -> None:
    """The message says what to do instead, and nothing is written."""
    file = tmp_path / "a.runes"
    given = [w.replace("FILE", str(file)).replace("DIR", str(tmp_path)) for w in words]
    result = run("log", "export", log, *given)

    assert result.exit_code == Exit.REFUSED
    assert told in result.stderr
    assert not file.exists()


def test_a_file_is_not_replaced_by_accident(log: Path, tmp_path: Path) -> None:
    """What exists stays as it is without `--force`."""
    file = tmp_path / "precious"
    file.write_text("precious")
    result = run("log", "export", log, file, "--all")

    assert result.exit_code == Exit.REFUSED
    assert "--force" in result.stderr
    assert file.read_text() == "precious"


def everything(directory: Path) -> dict[str, bytes]:
    """Return the content of every file of a log, but for who held it last."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "LOCK" and not path.name.endswith("-lock")
    }


@pytest.mark.parametrize("harm", ["garbage", "empty", "cut", "flipped", "text"])
def test_a_bad_stream_changes_nothing(log: Path, tmp_path: Path, harm: str) -> None:
    """Not one file of the log is another afterwards, and no log is made for it either."""
    good = real("log", "export", log, "-", "conv_a").stdout
    middle = len(good) // 2
    bad = {
        "garbage": bytes(range(256)) * 16,
        "empty": b"",
        "cut": good[:-7],
        "flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "text": b"conv_a\n",
    }[harm]
    target = make_log(tmp_path / "target")
    before = everything(target)
    (tmp_path / "bad").write_bytes(bad)
    by_name = run("log", "import", target, tmp_path / "bad")
    by_pipe = real("log", "import", tmp_path / "new", "-", "--create", feed=bad)

    assert (by_name.exit_code, by_pipe.returncode) == (Exit.DAMAGED, Exit.DAMAGED)
    assert by_name.stderr.startswith("error: ")
    assert b"Traceback" not in by_pipe.stderr
    assert everything(target) == before
    assert not (tmp_path / "new").exists()


def test_what_is_there_already_is_refused(log: Path, tmp_path: Path) -> None:
    """One known conversation in a stream, and none of it is taken in."""
    run("log", "export", log, tmp_path / "all.runes", "--all")
    other = tmp_path / "other"
    run("log", "export", log, tmp_path / "a.runes", "conv_hostile")
    run("log", "import", other, tmp_path / "a.runes", "--create")
    result = run("log", "import", other, tmp_path / "all.runes")

    assert result.exit_code == Exit.REFUSED
    assert "conv_hostile is already in this log" in result.stderr
    assert len(json.loads(run("log", "list", other, "--json").stdout)) == 1


def test_a_log_is_made_only_when_asked_for(log: Path, tmp_path: Path) -> None:
    """A mistyped directory does not become a log."""
    run("log", "export", log, tmp_path / "all.runes", "--all")
    result = run("log", "import", tmp_path / "typo", tmp_path / "all.runes")

    assert result.exit_code == Exit.REFUSED
    assert "--create" in result.stderr
    assert not (tmp_path / "typo").exists()


def test_a_file_that_cannot_be_read_is_the_users_mistake(log: Path, tmp_path: Path) -> None:
    """Missing, or a directory: refused by name."""
    missing = run("log", "import", log, tmp_path / "missing")
    folder = run("log", "import", log, tmp_path)

    assert (missing.exit_code, folder.exit_code) == (Exit.REFUSED, Exit.REFUSED)
    assert "missing cannot be read: No such file or directory" in missing.stderr
    assert "cannot be read: Is a directory" in folder.stderr

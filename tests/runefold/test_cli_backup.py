"""Rules about the commands that back a log up and restore it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runefold import AgentSpec, Runtime
from runefold.cli.terminal.exit_codes import Exit
from runefold.providers import Scripted
from runelog.rune import Change
from tests.runefold.cli_scenes import Said, flip, make_log, opened, real, run, sealed
from tests.runefold.test_cli_wording import on_terminal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Make a log to back up."""
    return make_log(tmp_path / "log")


def listed(log: Path) -> list[dict[str, object]]:
    """Return what `list` tells of a log."""
    found: list[dict[str, object]] = json.loads(run("log", "list", log, "--json").stdout)
    return found


def test_a_log_is_backed_up_again_and_restored(log: Path, tmp_path: Path) -> None:
    """Each command says what it did; the second backup copies what is new."""
    backup, again = tmp_path / "backup", tmp_path / "again"
    first = run("log", "backup", log, backup)
    with opened(log) as writer:
        writer.append("conv_b", [Change("turn_1", 0, [Said(text="new")])])
    second = run("log", "backup", log, backup, "--verify")
    third = run("log", "restore-backup", backup, again)

    assert (first.exit_code, second.exit_code, third.exit_code) == (0, 0, 0)
    assert f"backed up to {backup}: 3 files (" in first.stdout
    assert "0 files (0 B) already there" in first.stdout
    assert ": 1 file (" in second.stdout
    assert "2 files (" in second.stdout
    assert "already there, checked again" in second.stdout
    assert third.stdout.startswith(f"restored 4 conversations to {again}, 3 files (")
    assert listed(again) == listed(backup) == listed(log)
    assert run("log", "verify", backup).exit_code == run("log", "verify", again).exit_code == 0


def test_a_script_is_told_what_was_copied_and_checked(log: Path, tmp_path: Path) -> None:
    """Counts of files and bytes, of what was new and of what was there."""
    backup, again = tmp_path / "backup", tmp_path / "again"
    first = json.loads(run("log", "backup", log, backup, "--json").stdout)
    second = json.loads(run("log", "backup", log, backup, "--json", "--verify").stdout)
    none = {"files": 0, "bytes": 0}

    assert first["copied"]["files"] == 3
    assert first["copied"]["bytes"] > 0
    assert (first["reused"], first["checked_again"], first["removed"]) == (none, none, 0)
    assert (second["copied"], second["reused"]) == (none, first["copied"])
    assert (second["checked_again"], second["verified"]) == (first["copied"], True)
    assert (second["position"], second["log"]) == (first["position"], first["log"])
    restored = json.loads(run("log", "restore-backup", backup, again, "--json").stdout)
    assert restored == {
        "directory": str(again),
        "log": first["log"],
        "position": first["position"],
        "conversations": 3,
        "copied": first["copied"],
        "erased": [],
        "replaced": None,
    }


def test_what_was_erased_goes_from_the_backup_and_does_not_come_back(
    log: Path, tmp_path: Path
) -> None:
    """A backup from before is restored without it; the next backup does not have it either."""
    old, new = tmp_path / "old", tmp_path / "new"
    run("log", "backup", log, old)
    run("log", "backup", log, new)
    run("log", "erase", log, "conv_a", "--yes")
    carried = run("log", "backup", log, new)
    refused = run("log", "restore-backup", old, log)
    restored = run("log", "restore-backup", old, log, "--replace")

    assert "removed 1 file that the log no longer has" in carried.stdout
    assert all(b"word 7" not in path.read_bytes() for path in new.rglob("*.mdb"))
    assert refused.exit_code == Exit.REFUSED
    assert "--replace keeps it" in refused.stderr
    assert "erased conv_a: it was erased after the backup was made" in restored.stdout
    assert f"is kept in {log}.replaced-1" in restored.stdout
    assert all(b"word 7" not in path.read_bytes() for path in log.rglob("*.mdb"))
    states = {each["id"]: each["state"] for each in listed(log)}
    assert states["conv_a"] == "erased"


def test_tombstones_are_taken_from_logs_that_are_named(log: Path, tmp_path: Path) -> None:
    """For a log that was moved away by hand."""
    run("log", "backup", log, tmp_path / "backup")
    run("log", "erase", log, "conv_a", "--yes")
    done = run(
        *("log", "restore-backup", tmp_path / "backup", tmp_path / "again"),
        *("--tombstones-from", log, "--json"),
    )

    assert json.loads(done.stdout)["erased"] == ["conv_a"]


def test_a_log_is_backed_up_while_a_runtime_holds_it(tmp_path: Path) -> None:
    """By another process; what was acknowledged before is in it."""
    directory, backup = tmp_path / "data", tmp_path / "backup"
    model = Scripted([["one"], ["two"]])
    with Runtime.open(directory, providers={"demo": model}) as runtime:
        session = runtime.create_session(AgentSpec(role="helper", model="demo"))
        session.send("first").result(timeout=60)
        first = real("log", "backup", directory, backup, "--json")
        session.send("second").result(timeout=60)
        second = real("log", "backup", directory, backup, "--json")
        events = [envelope.event_id for envelope in runtime.log.read(session.id)]
    shown = run("log", "show", backup, session.id, "--json").stdout

    assert (first.returncode, second.returncode) == (0, 0)
    assert json.loads(second.stdout)["position"] > json.loads(first.stdout)["position"]
    assert [json.loads(line)["event_id"] for line in shown.splitlines()] == events
    assert run("verify", backup).exit_code == 0


def test_refusals_and_damage_have_their_exit_codes(log: Path, tmp_path: Path) -> None:
    """2 for a place that is not for this, 3 for a log or a backup that is damaged."""
    run("log", "backup", log, tmp_path / "backup")
    flip(sealed(tmp_path / "backup"), b"word 7")
    flip(sealed(log), b"word 7")

    assert run("log", "backup", log, log).exit_code == Exit.REFUSED
    assert run("log", "backup", tmp_path / "none", tmp_path / "b").exit_code == Exit.REFUSED
    assert run("log", "restore-backup", tmp_path / "none", tmp_path / "b").exit_code == Exit.REFUSED
    damaged = run("log", "backup", log, tmp_path / "other")
    assert damaged.exit_code == Exit.DAMAGED
    assert "log repair" in damaged.stderr
    restored = run("log", "restore-backup", tmp_path / "backup", tmp_path / "again")
    assert restored.exit_code == Exit.DAMAGED
    assert not (tmp_path / "again").exists()


def test_a_backup_shows_a_bar_to_those_who_watch(log: Path, tmp_path: Path) -> None:
    """In bytes, with how many there are; a pipe gets none."""
    shown = on_terminal("log", "backup", log, tmp_path / "one")

    assert b"backing up" in shown
    assert b" of " in shown
    assert real("log", "backup", log, tmp_path / "two").stderr == b""

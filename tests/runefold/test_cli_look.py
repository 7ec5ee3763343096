"""Rules about the commands that look at a log."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import runefold
from runefold.cli.terminal.exit_codes import Exit
from runelog.codec import Codec
from runelog.rune import Change, Rune
from runelog.store import Runelog
from tests.runefold.cli_scenes import (
    ROOT,
    SECRET,
    Said,
    command,
    environment,
    make_log,
    opened,
    real,
    run,
)

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ["stats", "list", "show", "verify", "export", "import"]
COMMANDS += ["archive", "restore", "erase", "repair"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Make a log that was closed."""
    return make_log(tmp_path / "log")


def shown(*arguments: str | Path) -> list[dict[str, Any]]:
    """Return what `show --json` tells, line by line."""
    result = run("log", "show", *arguments, "--json")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_version_is_told() -> None:
    """`--version` says the name and the number, and ends well."""
    result = run("--version")

    assert (result.exit_code, result.stdout) == (0, f"runefold {runefold.__version__}\n")


def test_the_commands_are_listed_by_what_they_are_for() -> None:
    """Each stands under a heading; none is left over."""
    result = run("--help")
    headings = re.findall(r"─ ([\w ]+) ─", result.stdout)

    assert result.exit_code == 0
    assert headings == [
        *("Options", "Run", "Inspect", "Sessions", "Tool calls", "Test"),
        *("Other entities", "Maintain"),
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """The exit codes that all commands have stand in the help of `runefold` alone."""
    result = run("log", name, "--help")

    assert result.exit_code == 0
    assert f"Usage: runefold log {name}" in result.stdout
    assert "Exit codes" not in result.stdout


def test_stats_counts_everything(log: Path) -> None:
    """For a script there is one object, with every number apart."""
    result = run("log", "stats", log, "--json")
    found = json.loads(result.stdout)

    assert result.exit_code == 0
    assert found["conversations"] == {"live": 3, "archived": 0, "erased": 0}
    assert (found["runes"], found["position"]) == (15, 15)
    assert found["open_work"] == {
        "entities": 1,
        "conversations": 1,
        "earliest_deadline": "2023-11-14T22:13:20.000000000Z",
    }
    assert [entry["state"] for entry in found["segments"]] == ["sealed", "active"]
    assert found["closed_cleanly"] is True
    assert found["writer"] is None
    assert found["damage"] is None
    assert found["disk_bytes"] > 0
    assert found["blobs"] == {"files": 0, "bytes": 0}


def test_stats_are_lines_for_people(log: Path) -> None:
    """Without `--json` the same is told in words."""
    result = run("log", "stats", log)

    assert result.exit_code == 0
    assert "closed cleanly" in result.stdout
    assert "3 (3 live)" in result.stdout
    assert "1 entity in 1 conversation, earliest deadline 2023-11-14T22:13:20Z" in result.stdout


def test_an_empty_log_can_be_looked_at(tmp_path: Path) -> None:
    """That there is nothing yet is no error."""
    opened(tmp_path / "log").close()

    assert json.loads(run("log", "stats", tmp_path / "log", "--json").stdout)["first_time"] is None
    assert run("log", "stats", tmp_path / "log").exit_code == 0
    assert json.loads(run("log", "list", tmp_path / "log", "--json").stdout) == []
    assert run("log", "list", tmp_path / "log").exit_code == 0
    assert run("log", "show", tmp_path / "log").exit_code == 0
    assert run("log", "verify", tmp_path / "log").exit_code == 0


def test_list_tells_of_every_conversation(log: Path) -> None:
    """Archived and erased ones are listed too, each with its state."""
    assert run("log", "archive", log, "conv_a").exit_code == 0
    assert run("log", "erase", log, "conv_work", "--yes").exit_code == 0
    result = run("log", "list", log, "--json")
    found = json.loads(result.stdout)

    assert result.exit_code == 0
    assert [(entry["id"], entry["state"], entry["head"]) for entry in found] == [
        ("conv_a", "archived", 11),
        ("conv_hostile", "live", 3),
        ("conv_work", "erased", 0),
    ]
    assert found[0]["first_time"] == "2023-11-14T22:13:21.000000000Z"
    assert found[0]["bytes"] > 0
    assert found[2]["first_time"] is None


@pytest.mark.parametrize(("state", "listed"), [("live", 2), ("archived", 1), ("erased", 0)])
def test_list_can_be_kept_to_one_state(log: Path, state: str, listed: int) -> None:
    """`--state` leaves the others out."""
    run("log", "archive", log, "conv_a")

    assert len(json.loads(run("log", "list", log, "--state", state, "--json").stdout)) == listed


def test_list_is_a_table_without_surprises(log: Path) -> None:
    """Piped, a row is a line, whatever the width of a terminal that is not there."""
    result = real("log", "list", log, COLUMNS="20")
    head, *rows = result.stdout.decode().splitlines()

    assert head.split() == ["conversation", "state", "runes", "size", "first", "last"]
    assert [row.split()[0] for row in rows] == ["conv_a", "conv_hostile", "conv_work"]
    assert b"\x1b" not in result.stdout


def test_show_gives_runes_of_any_kind_with_their_fields(log: Path) -> None:
    """The command line knows no kinds, and needs none in order to show them."""
    result = run("log", "show", log, "conv_a")
    lines = result.stdout.splitlines()

    assert result.exit_code == 0
    assert lines[0].split() == [
        "1",
        "2023-11-14T22:13:21.000000Z",
        "turn.assistant_delta",
        "turn_1",
        'text="word',
        '1"',
    ]
    assert lines[-1].endswith('usage={"tokens": 12} raw=0x00ff')


def test_show_as_json_has_all_of_a_rune(log: Path) -> None:
    """A line is an object with the envelope and the payload, bytes as base64."""
    *_, last = shown(log, "conv_a")

    assert last == {
        "conversation": "conv_a",
        "event_id": 11,
        "position": 11,
        "time": "2023-11-14T22:13:22.000000000Z",
        "kind": "turn.completed",
        "owner": "turn_2",
        "observers": [],
        "agent": None,
        "turn": None,
        "cause": 10,
        "visibility": "public",
        "tags": [],
        "schema": 1,
        "withheld": None,
        "payload": {"usage": {"tokens": 12}, "raw": {"$base64": "AP8="}},
    }


@pytest.mark.parametrize(
    ("options", "events"),
    [
        (["--after", "8"], [9, 10, 11]),
        (["--until", "2"], [1, 2]),
        (["--after", "3", "--until", "5"], [4, 5]),
        (["--last", "2"], [10, 11]),
        (["--limit", "1"], [1]),
        (["--kind", "turn.completed"], [11]),
        (["--kind", "turn", "--after", "9"], [10, 11]),
        (["--kind", "turn.*", "--limit", "2"], [1, 2]),
        (["--kind", "tur"], []),
        (["--kind", "a", "--kind", "turn.completed"], [11]),
        (["--entity", "agt_1", "--after", "8"], [9, 10]),
        (["--entity", "turn_2"], [11]),
        (["--entity", "nobody"], []),
        (["--follow", "--limit", "2", "--after", "1"], [2, 3]),
        (["--follow", "--entity", "turn_2", "--limit", "1"], [11]),
    ],
)
def test_show_can_be_narrowed(log: Path, options: list[str], events: list[int]) -> None:
    """Options choose a stretch, kinds, families, or what one entity sees."""
    assert [rune["event_id"] for rune in shown(log, "conv_a", *options)] == events


def test_show_without_a_conversation_gives_the_whole_log(log: Path) -> None:
    """In the order of the log, with a word where something was taken out since."""
    run("log", "archive", log, "conv_a")
    first, *rest = shown(log)

    assert first == {"gap": "archived", "conversation": "conv_a", "first": 1, "last": 11}
    assert [rune["position"] for rune in rest if "position" in rune] == [12, 13, 14, 15]
    assert "1-11  conv_a was archived since" in run("log", "show", log).stdout


def test_show_reads_what_is_archived(log: Path) -> None:
    """Cold storage reads like the rest."""
    before = shown(log, "conv_a")
    run("log", "archive", log, "conv_a")

    assert shown(log, "conv_a") == before


def test_long_values_are_cut_unless_asked_for(log: Path) -> None:
    """A line stays readable and says how much there is; `--full` and `--json` have all of it."""
    short = run("log", "show", log, "conv_work").stdout
    full = run("log", "show", log, "conv_work", "--full").stdout

    assert "… (5,000 characters)" in short
    assert "x" * 200 not in short
    assert "x" * 5_000 in full
    assert shown(log, "conv_work")[0]["payload"]["text"] == "x" * 5_000


def test_circumstances_are_shown_when_asked_for(log: Path) -> None:
    """Who observed a rune, who acted, and what led to it, is a matter of `--long`."""
    first, *_, last = run("log", "show", log, "conv_a", "--long").stdout.splitlines()

    assert 'observers=["agt_1"] agent="agt_1" tags=["t"] schema=1 position=1' in first
    assert "cause=10" in last


def test_a_secret_is_never_shown(log: Path) -> None:
    """That there is one is told, what it is is not: not by any option."""
    lines = run("log", "show", log, "conv_hostile", "--full", "--long").stdout
    record = shown(log, "conv_hostile")[1]

    assert "secret: not shown" in lines
    assert (record["kind"], record["withheld"]) == ("key.given", "secret")
    assert (record["payload"], record["tags"]) == (None, [])
    for told in (lines, json.dumps(record), run("log", "show", log, "--json").stdout):
        assert SECRET not in told
        assert "hush" not in told


def test_an_operator_sees_what_is_internal(log: Path) -> None:
    """Internal runes are hidden from clients, not from whoever runs the log."""
    line = run("log", "show", log, "conv_hostile", "--kind", "plan.critique").stdout

    assert 'internal  findings=["weak"]' in line


def test_show_can_be_narrowed_to_what_somebody_may_see(log: Path) -> None:
    """Whoever may see more sees that and all that others see; without a word, everything."""
    everything = shown(log, "conv_hostile")
    levels = ["public", "internal", "secret"]

    assert {rune["visibility"] for rune in everything} == set(levels)
    for at, level in enumerate(levels, 1):
        want = [rune for rune in everything if rune["visibility"] in levels[:at]]
        assert shown(log, "conv_hostile", "--visibility", level) == want
        assert shown(log, "conv_hostile", "--visibility", level, "--kind", "no.such") == []
    assert run("log", "show", log, "--visibility", "mine").exit_code == 2


def test_looking_works_beside_a_writer(log: Path) -> None:
    """While an app writes, reading commands see what is committed, and who writes."""
    with opened(log) as writer:
        writer.append("conv_new", [Change("turn_1", 0, [Said(text="now")])])
        stats = json.loads(real("log", "stats", log, "--json").stdout)
        listed = json.loads(real("log", "list", log, "--json").stdout)
        verified = real("log", "verify", log)
        seen = real("log", "show", log, "conv_new")

    assert stats["writer"]["pid"] > 0
    assert stats["closed_cleanly"] is None
    assert "conv_new" in [entry["id"] for entry in listed]
    assert verified.returncode == 0
    assert b'text="now"' in seen.stdout


def test_follow_goes_on_with_what_is_appended(log: Path) -> None:
    """A live tail in another process gets what is committed after it began."""
    with (
        opened(log) as writer,
        subprocess.Popen(
            command("log", "show", log, "conv_a", "--follow", "--after", "10", "--limit", "3"),
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        ) as tail,
    ):
        assert tail.stdout is not None
        first = tail.stdout.readline()
        # It has shown all there was: what comes now, it has to wait for.
        for word in ("one", "two"):
            writer.append("conv_a", [Change("turn_3", None, [Said(text=word)])])
        rest = tail.stdout.read().splitlines()

    assert tail.returncode == 0
    assert b"turn.completed" in first
    assert [line.rsplit(b"=")[1] for line in rest] == [b'"one"', b'"two"']


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("options", "events"),
    [
        (["conv_a", "--after", "8", "--until", "11"], [9, 10, 11]),
        (["conv_a", "--until", "11", "--kind", "turn.completed"], [11]),
        (["conv_a", "--until", "10", "--kind", "turn.completed"], []),
        (["conv_a", "--after", "11", "--until", "11"], []),
        (["--after", "13", "--until", "15"], [3, 1]),
    ],
)
def test_follow_ends_where_it_was_told_to(log: Path, options: list[str], events: list[int]) -> None:
    """With an end that is reached, a tail does not wait for a rune that need not come."""
    with opened(log):
        shown = run("log", "show", log, *options, "--follow", "--json")

    assert shown.exit_code == 0
    assert [json.loads(line)["event_id"] for line in shown.stdout.splitlines()] == events


def test_verify_says_that_a_log_is_sound(log: Path) -> None:
    """Nothing wrong is exit code 0, in words and for scripts."""
    words = run("log", "verify", log)
    script = run("log", "verify", log, "--json")

    assert (words.exit_code, script.exit_code) == (0, 0)
    assert words.stdout == "sound: 15 runes of 3 conversations in 2 segments\n"
    assert json.loads(script.stdout) == {
        "ok": True,
        "runes": 15,
        "conversations": 3,
        "segments": 2,
        "problems": [],
    }


@pytest.mark.parametrize("command", [("log", "verify"), ("verify",)])
def test_a_script_gets_json_also_where_there_is_nothing_to_verify(
    log: Path, command: tuple[str, ...]
) -> None:
    """Without MANIFEST nothing can be looked at: the exit code says so, and the JSON says why."""
    (log / "MANIFEST").unlink()
    result = run(*command, log, "--json")
    told = json.loads(result.stdout)

    assert result.exit_code == Exit.DAMAGED
    assert told["ok"] is False
    assert "log repair" in told["error"]
    assert "log repair" in result.stderr


def test_verify_decodes_the_kinds_it_knows(tmp_path: Path) -> None:
    """A rune of one of our kinds that nobody could read is named, sound as its bytes are.

    `log verify` looks at logs of any app, and knows no kinds.
    """

    class Loose(Rune, frozen=True, tag="turn.started"):
        turn_id: int

    with Runelog.open(tmp_path / "log", Codec([Loose])) as other:
        other.append("conv_a", [Change("turn_1", 0, [Loose(turn_id=5)])])
    bytes_only = run("log", "verify", tmp_path / "log")
    result = run("verify", tmp_path / "log")

    assert bytes_only.exit_code == 0
    assert result.exit_code == Exit.PROBLEMS
    assert "conv_a event 1" in result.stdout
    assert "cannot be decoded" in result.stdout

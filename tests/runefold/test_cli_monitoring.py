"""Rules about the commands that tell what became of entities, beside whoever runs them or not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from actors.catalogue import CODEC
from actors.turn import runes as turns
from runefold.cli.reports import monitoring
from runefold.cli.terminal.screen import Screen
from runefold.cli.terminal.wording import record
from runefold.observe.monitoring import Alert
from runefold.runtime import Runtime
from runelog.rune import Change, Envelope
from runelog.store import Runelog
from tests.runefold.cli_scenes import ROOT, environment, run
from tests.runefold.control_app import SESSION, options, spec

if TYPE_CHECKING:
    from pathlib import Path


class Step(msgspec.Struct):
    """Something with a time, and with data of a user that is called like one."""

    time: int
    arguments: dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Leave a log that nobody runs, with a call that waits for a human."""
    directory = tmp_path / "data"
    with Runtime.open(directory, **options(directory, "asks")) as runtime:
        session = runtime.create_session(spec(), conversation_id=SESSION)
        session.send("Go.", message_id="first")
        asked = next(iter(session.follow(kinds={"tool.approval_requested"})))
        assert isinstance(asked, Envelope)
    return directory


def test_a_history_is_shown_with_every_move_and_the_time_it_took(place: Path) -> None:
    """For people in lines, for scripts in JSON; without a name, the session's."""
    plain = run("history", place, SESSION, "turn_1")
    found = json.loads(run("history", place, SESSION, "turn_1", "--json").stdout)
    whole = json.loads(run("history", place, SESSION, "--json").stdout)

    assert plain.exit_code == 0
    heads, first, second, last = plain.stdout.splitlines()
    assert heads.split() == ["event", "time", "phase", "by", "cause"]
    assert "idle -> streaming" in first
    assert "streaming -> tool_executing" in second
    assert last.startswith("turn is tool_executing: idle 0.000 s, streaming ")
    assert [move["to"] for move in found["moves"]] == ["streaming", "tool_executing"]
    assert found["seconds"].keys() == {"idle", "streaming", "tool_executing"}
    assert (whole["lifecycle"], whole["phase"]) == ("session", "active")


def test_what_is_no_entity_is_refused(place: Path) -> None:
    """With what to name instead."""
    found = run("history", place, SESSION, "turn_9")

    assert found.exit_code == 2
    assert "has no entity turn_9" in found.stderr
    assert run("history", place, "conv_absent").exit_code == 2
    assert run("phases", place, "conv_absent").exit_code == 2
    assert run("phases", place, "no id").exit_code == 2


def test_an_invalid_history_says_what_led_there(place: Path) -> None:
    """Each rune by its event and kind, and an exit code for scripts."""
    with Runelog.open(place, CODEC) as log:
        version = log.version(SESSION, "turn_1")
        runes = [turns.StreamRestarted(0, 1, "x", "y")]
        bad = log.append(SESSION, [Change("turn_1", version, runes)]).first
    found = run("history", place, SESSION, "turn_1")

    assert found.exit_code == 1
    assert f"invalid at event {bad}: turn in phase tool_executing does not allow" in found.stdout
    assert found.stdout.splitlines()[-1] == f"  {bad} turn.stream_restarted"


def test_phases_are_counted(place: Path) -> None:
    """Of everything, or of one session."""
    plain = run("phases", place)
    everything = json.loads(run("phases", place, "--json").stdout)
    alone = json.loads(run("phases", place, SESSION, "--json").stdout)
    counted = {f"{each['lifecycle']}.{each['phase']}": each for each in everything}

    assert plain.stdout.splitlines()[0].split()[:3] == ["phase", "current", "entered"]
    assert counted["tool.awaiting_approval"]["here"] == 1
    assert (counted["turn.streaming"]["here"], counted["turn.streaming"]["entered"]) == (0, 1)
    assert [each["entered"] for each in alone] == [each["entered"] for each in everything]


def test_alerts_are_told_by_rules_and_by_an_exit_code(place: Path) -> None:
    """Nothing wrong is nothing to say; what is, is said with where to look."""
    calm = run("alerts", place)
    plain = run("alerts", place, "--stuck", "tool.awaiting_approval=0")
    found = json.loads(run("alerts", place, "--stuck", "tool.awaiting_approval=0", "--json").stdout)

    assert (calm.exit_code, calm.stdout, calm.stderr) == (0, "", "no alerts\n")
    assert (plain.exit_code, plain.stdout.startswith(f"stuck {SESSION} call_")) == (1, True)
    assert (found["rule"], found["conversation"]) == ("stuck", SESSION)


def test_every_time_in_json_is_iso_8601(place: Path) -> None:
    """With a Z, whichever command prints it; what a call was given is left as it is."""
    history = json.loads(run("history", place, SESSION, "--json").stdout)
    alert = json.loads(run("alerts", place, "--stuck", "tool.awaiting_approval=0", "--json").stdout)
    [session] = json.loads(run("sessions", place, "--json").stdout)
    [listed] = [
        each
        for each in json.loads(run("log", "list", place, "--json").stdout)
        if each["id"] == SESSION
    ]
    times = [
        *(history["began"], history["seen"], history["moves"][0]["time"], alert["since"]),
        *(session["last_time"], session["approvals"][0]["deadline"]),
        *(listed["first_time"], listed["last_time"]),
    ]

    assert all(isinstance(time, str) and time.endswith("Z") for time in times)
    assert all(datetime.fromisoformat(time).tzinfo is UTC for time in times)
    assert record(Step(time=1_000_000_000, arguments={"time": 7})) == {
        "time": "1970-01-01T00:00:01.000000000Z",
        "arguments": {"time": 7},
    }


def test_every_alert_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A rule that is new or rare has a colour like the others."""
    for rule in ("stuck", "failing", "over_budget", "invalid", "view", "of tomorrow"):
        monitoring._say(Screen(), Alert(rule, "conv_a", "turn_1", "why", 1, 2), json=False)

    assert capsys.readouterr().out.count("conv_a") == 6


@pytest.mark.parametrize("given", ["tool.executing", "tool.executing=soon", "tool.runs=1"])
def test_a_limit_that_is_none_is_refused(place: Path, given: str) -> None:
    """A word that was mistyped must not leave everything calm."""
    assert run("alerts", place, "--stuck", given).exit_code == 2


@pytest.mark.parametrize("json_", [False, True])
def test_a_history_can_be_followed_to_its_end(place: Path, *, json_: bool) -> None:
    """What there was comes first; with the end of the entity it ends by itself."""
    with Runelog.open(place, CODEC, readonly=True) as log:
        (call,) = (each.owner for each in log.read(SESSION) if each.kind == "tool.call")
    command = ["history", str(place), SESSION, call, "--follow", *(["--json"] if json_ else [])]
    with subprocess.Popen(
        [sys.executable, "-m", "runefold", *command],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        text=True,
    ) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        denied = run("deny", place, SESSION, call, "--as", "ann", "--reason", "no")
        rest, _ = follower.communicate()

    assert (denied.exit_code, follower.returncode) == (0, 0)
    assert len(rest.splitlines()) == 1
    if json_:
        assert (json.loads(first)["to"], json.loads(rest)["to"]) == ("awaiting_approval", "denied")
    else:
        assert "pending_call -> awaiting_approval" in first
        assert "awaiting_approval -> denied  user ann  deny" in rest


def test_alerts_can_be_followed_while_somebody_else_writes(place: Path) -> None:
    """What goes wrong later is told of when it does; Ctrl-C ends it."""
    with Runtime.open(place, **options(place, "asks")) as runtime:
        follower = subprocess.Popen(
            [sys.executable, "-m", "runefold", "alerts", str(place), "--follow"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            text=True,
        )
        with follower:
            assert follower.stdout is not None
            runtime.session(SESSION).suspend("look at this")
            line = follower.stdout.readline()
            follower.send_signal(signal.SIGINT)
            _, told = follower.communicate()

    assert line.startswith(f"suspended {SESSION} session: suspended: look at this")
    assert "Traceback" not in told


def test_spending_is_told_per_agent(place: Path) -> None:
    """What was spent, set aside and left: as a table, and as JSON."""
    plain = run("spending", place, SESSION)
    told = json.loads(run("spending", place, SESSION, "--json").stdout)

    assert plain.stdout.splitlines()[0].split()[:2] == ["tokens", "tool_calls"]
    assert "session" in plain.stdout
    assert told["spent"]["tokens"] > 0
    assert {"spent", "reserved", "left"} <= {*told, *next(iter(told["agents"].values()))}
    assert run("spending", place, "conv_absent").exit_code == 2

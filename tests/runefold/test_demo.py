"""Rules about the demo: it really kills, it really recovers, and it fails if anything is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from actors.catalogue import CODEC
from actors.tool import runes as tool
from runefold import demo
from runelog.rune import Change
from runelog.store import Runelog

ROOT = Path(__file__).parents[2]
CALL = tool.Called(
    call_id="call_1",
    tool_name="charge_card",
    arguments={},
    caller="turn_1",
    agent_id="agt_1",
    rule=tool.Rule("allow"),
    at=0,
)
RESULT = tool.Result(call_id="call_1", status="success")


def scene(directory: Path, *results: tool.Result, charges: int = 1) -> Path:
    """Leave what a team leaves: a log with one call, and what the service did."""
    with Runelog.open(directory / "log", CODEC) as log:
        log.append(demo.CONVERSATION, [Change("call_1", 0, [CALL, *results])])
    (directory / demo.LEDGER).write_text("call_1 96\n" * charges, encoding="utf-8")
    return directory


def test_a_team_that_ends_too_early_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have left no log at all: the demo says what happened, and fails."""
    monkeypatch.setattr(sys, "argv", ["demo"])
    monkeypatch.setattr(
        demo, "_child", lambda _: subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    )

    assert demo.main() == 1
    assert "failed: the team ended before it was killed" in capsys.readouterr().out


@pytest.mark.timeout(120)
def test_the_team_is_killed_and_finishes() -> None:
    """The whole story is told, the kill is a real one, and the demo says that it ended well."""
    done = subprocess.run(
        [sys.executable, "-m", "runefold.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9 (exit -9)" in done.stdout
    assert "in doubt" in done.stdout
    assert "nothing lost, nothing run twice" in done.stdout


def test_one_charge_with_one_result_is_right(tmp_path: Path) -> None:
    """What happened once, and is known to have happened once, is fine."""
    assert demo._judge(scene(tmp_path, RESULT), last=2) == []


@pytest.mark.parametrize("charges", [0, 2])
def test_a_charge_too_many_or_too_few_is_noticed(tmp_path: Path, charges: int) -> None:
    """The service is asked what it did, not the log."""
    wrong = demo._judge(scene(tmp_path, RESULT, charges=charges), last=2)

    assert wrong == [f"the card was charged {charges} times"]


def test_a_call_without_a_result_is_noticed(tmp_path: Path) -> None:
    """Every call has exactly one result."""
    assert demo._judge(scene(tmp_path), last=1) == ["a call has no result, or more than one"]


def test_what_was_seen_and_is_gone_is_noticed(tmp_path: Path) -> None:
    """An event that a reader was shown is never taken back."""
    assert demo._judge(scene(tmp_path, RESULT), last=3) == ["events are missing"]

"""Rules about what the kit refuses: a sweep that would show nothing is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from runefold.testing import CrashApp, SweepOptions, sweep
from runefold.testing.crash.app import named
from runefold.testing.crash.instrumentation.journal import Committed, Opened
from runefold.testing.crash.running.trial import _shown
from runefold.testing.crash.verdict.judge import Finding
from runelog.errors import Refused
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.runtime import Runtime
    from runefold.testing.crash.instrumentation.journal import Line


@pytest.mark.parametrize(
    ("option", "value"),
    [("sample", 0), ("sample", -1), ("jobs", 0), ("patience", 0), ("patience", -1), ("order", 3)],
)
def test_an_option_that_would_show_nothing_is_refused(option: str, value: Any) -> None:  # noqa: ANN401 -- any option's
    """Nothing is swept then, and nobody is told that all is well."""
    with pytest.raises(Refused, match=option):
        sweep(bots.SOUND, SweepOptions(**{option: value}))


@pytest.mark.parametrize("count", ["0", "-3", "some"])
def test_no_seeds_are_no_simulation(count: str) -> None:
    """Whoever plays none has not shown that nothing is wrong."""
    done = subprocess.run(
        [sys.executable, "-m", "runefold.testing.simulation", "--seeds", count],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "--seeds" in done.stderr


def begin(runtime: Runtime) -> None:
    """Begin a conversation, and say nothing in it."""
    bots.talk(runtime)


@pytest.mark.parametrize("in_process", [True, False])
def test_a_conversation_in_which_nothing_was_said_survives(*, in_process: bool) -> None:
    """How often it was opened before anything came of it is for recovery to know."""
    report = swept(CrashApp(bots.build, begin, None, "silent"), in_process=in_process)

    assert report.ok, told(report)
    assert report.results


def tidy_up(runtime: Runtime) -> None:
    """Close what was opened by somebody else."""
    with runtime:
        bots.scenario(runtime)


@pytest.mark.parametrize("in_process", [True, False])
def test_a_scenario_that_closes_its_runtime_is_told_to_leave_that(*, in_process: bool) -> None:
    """Nothing can be asked of a runtime that is closed; that this is so is no riddle."""
    report = swept(CrashApp(bots.build, tidy_up, None, "tidy"), in_process=in_process)

    assert not report.results
    assert "the scenario closed the runtime: leave it open" in told(report)


@pytest.mark.parametrize(
    ("given", "meant"), [("bot.py:app", "bot:app"), ("bots/bot.py:app", "bots.bot:app")]
)
def test_whoever_names_a_file_is_told_how_it_is_named(given: str, meant: str) -> None:
    """Other programs take files, so it is tried here too."""
    with pytest.raises(Refused, match=f"is a file: name its module, {meant}"):
        named(given)


def committed(conversation: str) -> Committed:
    """Return that an append was made."""
    return Committed(1, 1, "mark", 1, conversation, ("x",), 1, (), 0.0)


def test_the_log_that_is_shown_is_the_one_that_something_is_wrong_with(tmp_path: Path) -> None:
    """By a line for a shell, whatever the directory is called."""
    root, kept = tmp_path / "root", tmp_path / "a b"
    opened = Opened(1, {}, str(root / "data"))
    lines: list[Line] = [opened, committed("conv_a"), committed("conv_b")]

    for told_of, shown in (("conv_b: lost", "conv_b"), ("conv_bb", "conv_a"), ("", "conv_a")):
        found = _shown(lines, root, str(kept), [Finding("state", told_of)])
        assert found == f"runefold log show '{kept}/data' {shown}"

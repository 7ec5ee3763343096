"""Rules about the demo: it really kills, and it really fails if something is missing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from runefold import demo_log as demo
from runefold.demo_log import Ack, Seen
from runelog.rune import Tombstone

ROOT = Path(__file__).parents[2]
CONVERSATION = "conv_0000000100000000"


def scene(appends: int = 8) -> tuple[list[Ack], dict[str, list[Seen]]]:
    """Return what a writer acknowledged, and a log that has all of it."""
    acks: list[Ack] = []
    seen: list[Seen] = []
    for serial in range(appends):
        first = len(seen) + 1
        for rune in demo.append_of(CONVERSATION, serial):
            seen.append(Seen(len(seen) + 1, rune))
        acks.append(Ack(CONVERSATION, serial, first, len(seen)))
    return acks, {CONVERSATION: seen}


def test_a_log_that_kept_everything_is_praised() -> None:
    """Acknowledged or not, what is there is whole."""
    acks, there = scene()

    assert demo.compare(acks, there) == []
    assert demo.compare(acks[:3], there) == []


@pytest.mark.parametrize("last", range(20))
def test_whatever_is_missing_is_missed(last: int) -> None:
    """Cut off behind any rune, the log has lost an acknowledged append, and that is told."""
    acks, there = scene()
    assert len(there[CONVERSATION]) == 20
    cut = {CONVERSATION: there[CONVERSATION][:last]}

    assert demo.compare(acks, cut)


def test_a_missing_conversation_is_missed() -> None:
    """A log that forgot everything does not pass."""
    acks, _ = scene()

    assert len(demo.compare(acks, {})) == len(acks)


@pytest.mark.parametrize("last", [2, 4, 5, 8, 9])
def test_half_of_an_append_is_told(last: int) -> None:
    """Nobody acknowledged it, and still it must not be there in part."""
    _, there = scene()
    wrong = demo.compare([], {CONVERSATION: there[CONVERSATION][:last]})

    assert len(wrong) == 1
    assert "half there" in wrong[0]


def test_a_changed_rune_is_told() -> None:
    """A text that is not the one that was written is as bad as none."""
    acks, there = scene()
    seen = there[CONVERSATION]
    seen[3] = Seen(4, demo.Said(1, 1, 2, "something else"))

    assert demo.compare(acks, there)


def test_a_gap_and_a_stranger_are_told() -> None:
    """Event ids have no gaps, and nothing is there that nobody appended."""
    _, there = scene()
    seen = there[CONVERSATION]
    gap = {CONVERSATION: [*seen[:1], *(Seen(found.event_id + 1, found.rune) for found in seen[1:])]}
    stranger = {CONVERSATION: [*seen, Seen(len(seen) + 1, Tombstone(reason="lost"))]}

    assert "is missing" in demo.compare([], gap)[0]
    assert "nobody appended" in demo.compare([], stranger)[0]


def test_a_writer_is_killed_in_the_middle(tmp_path: Path) -> None:
    """It dies of SIGKILL, told of at least as much as it was allowed to, and lost none of that."""
    ended = demo.live_and_die(tmp_path / "log", 1, 20)

    assert ended.code == -signal.SIGKILL
    assert len(ended.acks) >= 20
    assert demo.compare(ended.acks, demo.look(tmp_path / "log")) == []


def test_losing_what_was_acknowledged_fails_the_demo(tmp_path: Path) -> None:
    """With a log put back to an earlier state, the story does not end well."""
    first = demo.live_and_die(tmp_path / "log", 1, 5)
    there = demo.look(tmp_path / "log")
    longer = [
        *first.acks,
        Ack(CONVERSATION, 1 << 20, len(there[CONVERSATION]) + 1, len(there[CONVERSATION]) + 1),
    ]

    assert demo.compare(longer, there)


def test_a_writer_that_fails_by_itself_fails_the_demo(tmp_path: Path) -> None:
    """A log that cannot be opened is no reason to say that all is well."""
    (tmp_path / "letter.txt").write_text("dear")
    console = Console(quiet=True)
    wrong = demo.perform(console, tmp_path, random.Random(1))

    assert len(wrong) == 1
    assert "ended by itself" in wrong[0]


def test_a_failed_demo_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says what the words say, and the log is left to be looked at."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "look", lambda _: {})

    assert demo.main() == 1
    assert "FAILED" in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 1


def test_the_demo_runs_without_a_terminal() -> None:
    """In a pipe it tells its story, ends well, and leaves nothing behind."""
    result = subprocess.run(
        [sys.executable, "-m", "runefold.demo_log"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "FORCE_COLOR"},
        timeout=100,
    )

    assert result.returncode == 0
    assert result.stdout.count("killed with SIGKILL") == demo.ROUNDS
    assert "Kept: nothing acknowledged was missing" in result.stdout
    assert "\x1b" not in result.stdout

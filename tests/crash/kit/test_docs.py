"""Rules about the page on crash testing: what it shows is what the example does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "crash-testing.md"
EXAMPLE = ROOT / "examples" / "refund_bot"


def blocks() -> dict[str, str]:
    """Return the files that the page shows, by name."""
    found = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return dict(found)


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a directory."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide the example in a folder of its own."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "bot"))


def test_the_page_shows_the_example() -> None:
    """What is on the page is in the files, line for line."""
    shown = blocks()

    assert set(shown) == {"payments.py", "bot_with_bug.py", "test_refund_bot.py"}
    for name, text in shown.items():
        assert text == (EXAMPLE / name).read_text("utf-8"), name


def test_the_line_at_fault_on_the_page_is_that_of_whoever_copies_it() -> None:
    """A file that is copied has its name in its first line."""
    shown = re.search(r'/bot_with_bug.py", line (\d+), in check\n +(.*)', PAGE.read_text("utf-8"))
    assert shown is not None
    lines = ["# bot_with_bug.py", *blocks()["bot_with_bug.py"].splitlines()]

    assert lines[int(shown[1]) - 1].strip() == shown[2]


def test_the_mend_on_the_page_is_the_whole_difference() -> None:
    """Mended as the page says, the bot with the bug is the bot."""
    diff = re.search(r"```diff\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert diff is not None
    mended, sound = ((EXAMPLE / name).read_text("utf-8") for name in ("bot_with_bug.py", "bot.py"))
    for part in diff[1].split("@@\n"):
        lines = part.splitlines()
        old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
        assert mended.count(old) == 1
        mended = mended.replace(old, new)

    # But for what it says of itself.
    assert mended.partition("\n")[2] == sound.partition("\n")[2]


def test_the_double_refund_is_caught(folder: Path) -> None:
    """The bot with the bug is killed for real after its refund, and the customer is paid twice."""
    quick = run(
        folder, "runefold.cli", "crash-test", "bot_with_bug:app", "--in-process", "--jobs=1"
    )
    point = re.search(r"--point=(\d+:after-effect)", quick.stdout)

    assert point is not None, quick.stdout + quick.stderr
    killed = run(folder, "runefold.cli", "crash-test", "bot_with_bug:app", f"--point={point[1]}")
    assert killed.returncode == 1
    assert "paid = [2000, 2000]" in killed.stdout, killed.stdout + killed.stderr


def test_the_mended_bot_survives(folder: Path) -> None:
    """Kills and faults of all kinds in one process; real kills are what its own test is for."""
    options = ("--in-process", "--kills=all", "--sample=60", "--seed=1", "--jobs=1")
    quick = run(folder, "runefold.cli", "crash-test", "bot:app", *options)

    assert quick.returncode == 0, quick.stdout + quick.stderr


def test_the_numbers_on_the_page_add_up() -> None:
    """Every point survived or failed, and began with a copy or at the top: none is told twice."""
    counted = re.findall(
        r"^(\d+) points of .*, (\d+) survived, (\d+) failed, "
        r".*, (\d+) from copies \((\d+) of them killed as well\)(?:, (\d+) from the top)?,",
        PAGE.read_text("utf-8"),
        re.MULTILINE,
    )

    assert len(counted) == 2
    for points, survived, failed, copies, killed, top in counted:
        assert int(points) == int(survived) + int(failed) == int(copies) + int(top or 0)
        # One in ten, and none of those that failed.
        assert int(killed) <= -(-int(points) // 10)

"""Rules about where a sweep works: it leaves nothing behind, and clears up after the dead."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from runefold.testing.crash.running import work_directory
from runefold.testing.crash.running.work_directory import workplace

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a place for such directories."""
    monkeypatch.setattr(work_directory, "MEMORY", tmp_path)
    return tmp_path


_KILLED = """
import os, pathlib, signal, sys
from runefold.testing.crash.running import work_directory
work_directory.MEMORY = pathlib.Path(sys.argv[1])
with work_directory.workplace() as work:
    (work / "something").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left(home: Path) -> None:
    """Whether it ends well or not."""
    with workplace() as work:
        assert [*home.iterdir()] == [work]
    with pytest.raises(KeyboardInterrupt), workplace():
        raise KeyboardInterrupt

    assert [*home.iterdir()] == []


def test_what_the_dead_left_is_cleared_up_by_the_next(home: Path) -> None:
    """It would fill the memory: one that is killed cannot do it itself."""
    subprocess.run([sys.executable, "-c", _KILLED, str(home)], check=False, timeout=60)
    (left,) = home.iterdir()
    with workplace() as work:
        assert [*home.iterdir()] == [work]
    assert not left.exists()


def test_who_is_at_work_is_left_alone(home: Path) -> None:
    """Two sweeps beside each other; and whatever else has such a name."""
    (home / "runefold-crash-other").mkdir()
    with workplace() as one, workplace() as other:
        assert one.exists()
        assert other.exists()
    assert [*home.iterdir()] == [home / "runefold-crash-other"]


def test_a_memory_without_room_is_left_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's shared memory is too small for what a sweep keeps: it goes to the disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    monkeypatch.setattr(work_directory, "ROOM", 1 << 60)
    with workplace() as work:
        assert work.parent == disk
    assert [*home.iterdir()] == [disk]

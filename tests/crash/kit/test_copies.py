"""Rules about copies: where they are right a sweep begins with them, and else from the top."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.catalogue import CODEC
from actors.tool.runes import Progress
from runefold.testing import CrashApp
from runefold.testing.crash.instrumentation import logs, watch
from runefold.testing.crash.instrumentation.journal import Memory
from runefold.testing.crash.instrumentation.logs import DiskLog
from runefold.testing.crash.running import forked_checks
from runelog.errors import Corrupt
from runelog.index import check_in_child
from runelog.rune import Change
from runelog.store import Runelog
from runelog.writer import commit_queue, leader
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from runefold.testing import Effects

OUTSIDE: Final = "KIT_OUTSIDE"


def check_book(runtime: Runtime, effects: Effects) -> None:
    """Find fault with whatever began with a copy: the process that was copied had gone on."""
    marks: Path = runtime.log.directory / "marks"  # type: ignore[attr-defined]  # wherever it is
    book = Path(os.environ[OUTSIDE])
    seen = (book / marks.read_text("utf-8")).exists()
    assert not effects.point or not seen, "it has gone on"


def scenario_outside(runtime: Runtime) -> None:
    """Pay, and say outside of the directory that it came to its end."""
    marks: Path = runtime.log.directory / "marks"  # type: ignore[attr-defined]  # wherever it is
    if not marks.exists():
        marks.write_text(str(os.getpid()), "utf-8")
    bots.scenario(runtime)
    if marks.read_text("utf-8") == str(os.getpid()):
        Path(os.environ[OUTSIDE], str(os.getpid())).touch()


def test_what_lies_outside_is_found_and_every_point_is_run_from_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies come to something else than kills: that is said, and nothing is blamed on the app."""
    monkeypatch.setenv(OUTSIDE, str(tmp_path))
    app = CrashApp(bots.build, scenario_outside, check_book, "outside")
    report = swept(app, sample=12)

    assert report.ok, told(report)
    assert "each from the top" in report.summary()
    assert "so that every point was run from the top" in told(report)


def build_parent(directory: Path) -> Runtime:
    """Open a bot that has a process of its own beside it."""
    runtime = bots.build(directory)
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    return runtime


def test_a_process_with_children_is_not_copied() -> None:
    """They do not stand still with it: its points are run from the top."""
    app = CrashApp(build_parent, bots.scenario, name="parent")
    report = swept(app, sample=5)

    assert report.ok, told(report)
    assert "each from the top" in report.summary()


def test_for_a_few_points_nothing_is_copied() -> None:
    """The two runs in which it is done take longer than those that they would save."""
    report = swept(bots.SOUND, sample=2)

    assert report.ok, told(report)
    assert not any(result.warm for result in report.results)


def test_what_fails_from_a_copy_is_really_killed(tmp_path: Path) -> None:
    """A failure that is told of is one that somebody can have again."""
    report = swept(bots.LIAR, keep=str(tmp_path))
    failed = [result for result in report.results if result.status == "failed"]
    survived = [result for result in report.results if result.status == "survived"]

    assert failed
    assert not any(result.warm for result in failed)
    assert all(result.warm for result in survived)
    # One that failed was copied and killed, and is told of once: as killed.
    assert report.agreed is not None
    assert 0 < report.spot <= report.agreed[0] - len(failed)
    ways = f"{len(survived)} from copies ({report.spot} of them killed as well), {len(failed)} from"
    assert ways in report.summary()


# -- standing still ------------------------------------------------------------------------------


class Hand:
    """A clock that only a test moves; it tells when the log's own thread has looked at it."""

    def __init__(self) -> None:
        """Begin somewhere."""
        self.now = 1_000.0
        self.looks = threading.Semaphore(0)

    def monotonic(self) -> float:
        """Tell the time."""
        if threading.current_thread().name == "runelog-flush":
            self.looks.release()
        return self.now

    def seen(self) -> None:
        """Return when the log's own thread has looked, and done what is to be done then."""
        while self.looks.acquire(blocking=False):
            pass
        for _ in range(4):
            assert self.looks.acquire(timeout=bots.PATIENCE)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Provide a clock for the log."""
    found = Hand()
    for module in (leader, commit_queue, logs, watch):
        monkeypatch.setattr(module, "time", found)
    return found


def test_what_nobody_waits_for_is_not_written_because_a_process_stood_still(
    tmp_path: Path, clock: Hand
) -> None:
    """A copy that is taken afterwards has no more in it than a kill would have left."""
    with DiskLog.open(tmp_path / "log", CODEC) as log:
        assert isinstance(log, DiskLog)
        log.watch = watch.Watch(1, Memory())
        log.append(
            "conv_a", [Change("call_1", 0, [Progress("call_1", "stdout", "so far")])], durable=False
        )
        with log.still():
            clock.now += leader.AWAKE / 2
        clock.seen()
        before = log.conversation("conv_a").head if _has(log) else 0
        clock.now += leader.FLUSH_AFTER
        clock.seen()

        assert before == 0
        assert log.conversation("conv_a").head == 1


def _has(log: DiskLog) -> bool:
    return any(each.id == "conv_a" for each in log.conversations())


# -- looking at files ----------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Provide a file of a log."""
    with Runelog.open(tmp_path / "log", CODEC) as log:
        log.roll()
    return tmp_path / "log" / "segments" / "000001.0.mdb"


@pytest.mark.parametrize("damaged", [False, True])
def test_a_walker_that_is_forked_finds_what_a_started_one_finds(
    log: Path, monkeypatch: pytest.MonkeyPatch, *, damaged: bool
) -> None:
    """The same verdict in the same words, from a process of its own."""
    if damaged:
        log.write_bytes(b"\xff" * log.stat().st_size)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    started = _verdict(log)
    with forked_checks.forked():
        monkeypatch.setattr(subprocess, "run", _never)
        forked = _verdict(log)

    assert forked == started
    assert bool(forked) == damaged


def _verdict(path: Path) -> str:
    try:
        check_in_child.check_file(path)
    except Corrupt as corrupt:
        return str(corrupt)
    return ""


def _never(*_args: Any, **_options: Any) -> None:  # noqa: ANN401 -- whatever it takes
    raise AssertionError("started")  # noqa: EM101 -- once


def test_beside_threads_a_walker_is_started(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked, it might wait for ever for what one of them held."""
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    monkeypatch.setattr(os, "fork", _never)
    with forked_checks.forked():
        assert _verdict(log) == ""

"""Forks under load, and handles that share a process: nobody is in another's way."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog.rune import Change
from runelog.store import Runelog
from tests.crash.calls import Recorder, watch
from tests.crash.guard import survived
from tests.crash.judge import sound
from tests.crash.ptrace import needs_tracer
from tests.crash.runs import scratch
from tests.crash.story import CODEC, Noted, Pipe, content, open_log

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

FORKS: Final = 32
THREADS: Final = 4


def note(text: str) -> list[Change]:
    """Return an append of one rune."""
    return [Change("note_1", None, [Noted(text=text)], ("book_1",))]


class Crowd:
    """Threads that append and read until they are told to stop."""

    def __init__(self, log: Runelog) -> None:
        """Begin, each with a conversation of its own."""
        self._log = log
        self._over = threading.Event()
        self.done = dict.fromkeys((f"conv_{n}" for n in range(THREADS)), 0)
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._work, args=(name,)) for name in self.done]
        for thread in self._threads:
            thread.start()

    def _work(self, name: str) -> None:
        try:
            while not self._over.is_set():
                self._log.append(name, note(str(self.done[name])), durable=self.done[name] % 3 < 2)
                self.done[name] += 1
                assert next(self._log.read(name)).event_id == 1
                assert len([*self._log.conversations()]) <= THREADS
        except BaseException as error:  # noqa: BLE001 -- told to whoever joins
            self.errors.append(repr(error))

    def stop(self) -> None:
        """Let all come to an end."""
        self._over.set()
        for thread in self._threads:
            thread.join()


def _under_load(root: Path) -> None:
    with open_log(root / "log") as log:
        crowd = Crowd(log)
        try:
            told = [survived(partial(_in_fork, log)) for _ in range(FORKS)]
        finally:
            crowd.stop()
        assert told == [""] * FORKS
        assert crowd.errors == []
        log.flush()
        for name, count in crowd.done.items():
            assert content(log, name) == tuple(map(str, range(count)))
    sound(root / "log")


def _in_fork(log: Runelog) -> None:
    log.close()
    with Runelog.open(log.directory, CODEC, readonly=True) as mine:
        for found in mine.conversations():
            assert content(mine, found.id)


def _in_the_middle(root: Path) -> None:
    """Fork inside a read, and go on reading in the parent."""
    with open_log(root / "log") as log:
        log.append("conv_a", note("one"))
        active = log.log_directory.segments.manifest.active.number
        with log.log_directory.segments.take(active) as (_, view):
            assert survived(partial(_leave, log)) == ""
            log.append("conv_a", note("two"))
            assert len(view.scan("runes")) == 1
        assert content(log, "conv_a") == ("one", "two")
        found = log.read("conv_a")
        assert next(found).event_id == 1
        assert survived(partial(_in_fork, log)) == ""
        assert [envelope.event_id for envelope in found] == [2]


def _leave(log: Runelog) -> None:
    log.close()


def in_scratch(job: str) -> str:
    """Run one of the jobs of this module in a child; return what went wrong."""
    with scratch() as root:
        return survived(partial(globals()[job], root), 100)


def test_a_child_can_read_whenever_it_was_forked(pool: ProcessPoolExecutor) -> None:
    """While threads append, each forked child closes its copy and opens the log to read it."""
    assert pool.submit(in_scratch, "_under_load").result() == ""


def test_a_fork_in_the_middle_of_a_read_costs_the_parent_nothing(
    pool: ProcessPoolExecutor,
) -> None:
    """What a parent was reading when it forked, it reads to the end, and later reads work."""
    assert pool.submit(in_scratch, "_in_the_middle").result() == ""


# -- handles that share a process --------------------------------------------------------------


def _strict_after_relaxed(root: Path, pipe: Pipe) -> None:
    relaxed = Runelog.open(root / "log", CODEC, durability="relaxed")
    relaxed.append("conv_a", note("one"))
    reader = Runelog.open(root / "log", CODEC, readonly=True)
    content(reader, "conv_a")
    relaxed.close()
    with open_log(root / "log") as strict:
        strict.append("conv_a", note("two"))
        pipe.tell("here")
        strict.append("conv_a", note("three"))
        pipe.tell("and here")
    reader.close()
    os._exit(0)


def sync_before_acknowledging() -> list[str]:
    """Return the last things that were done to the segment before each append was acknowledged."""
    with scratch() as root:
        pipe = Pipe()
        recorder = Recorder(str(root), pipe.writing)
        assert watch(partial(_strict_after_relaxed, root, pipe), recorder) == 0
        pipe.told()
        last, found = "", []
        for change in recorder.changes:
            if change.what == "ack":
                found.append(last)
            elif change.path.endswith("000001.0.mdb"):
                last = "durable" if change.durable else change.what
        return found


@needs_tracer
def test_a_strict_writer_syncs_what_a_relaxed_one_opened(pool: ProcessPoolExecutor) -> None:
    """A writer at level `commit` syncs, also where a reader kept a relaxed one's file open."""
    found = pool.submit(sync_before_acknowledging).result()

    assert len(found) == 2
    assert set(found) <= {"sync", "durable"}


@pytest.mark.parametrize("first", ["reader", "writer"])
def test_a_reader_and_a_writer_share_a_process(tmp_path: Path, first: str) -> None:
    """In one process a reader and a writer work side by side, whichever came first."""
    with open_log(tmp_path / "log") as log:
        log.append("conv_a", note("one"))
        log.roll()
        log.append("conv_a", note("two"))
    handles = {}
    for name in (first, *({"reader", "writer"} - {first})):
        handles[name] = Runelog.open(tmp_path / "log", CODEC, readonly=name == "reader")
        if name == "reader":
            assert [found.id for found in handles[name].conversations()] == ["conv_a"]
    reader, writer = handles["reader"], handles["writer"]

    writer.append("conv_b", note("three"))
    writer.roll()
    writer.append("conv_a", note("four"))
    assert content(reader, "conv_a") == ("one", "two", "four")
    assert content(reader, "conv_b") == ("three",)
    writer.close()
    assert content(reader, "conv_b") == ("three",)
    with open_log(tmp_path / "log") as again:
        again.append("conv_b", note("five"))
        assert content(reader, "conv_b") == ("three", "five")
    reader.close()
    sound(tmp_path / "log")

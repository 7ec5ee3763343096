"""A log's handle: what it is opened with, who holds it, and what comes of one that is dropped."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any

import pytest

from runelog import manifest
from runelog.errors import Fenced, Held, ReadOnly
from runelog.lmdb.environment import Environment
from runelog.manifest import Lock, writer_alive
from runelog.rune import Change
from runelog.store import Runelog
from tests.runelog.ledger import CODEC, Booked, contents, open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LOOK = """
import sys
from pathlib import Path
from runelog.manifest import writer_alive
print("ready", flush=True)
directory = Path(sys.argv[1])
while not (directory / "over").exists():
    writer_alive(directory)
"""


def book(log: Runelog, amount: int, *, durable: bool = True) -> None:
    """Append one rune."""
    log.append("conv_a", [Change("book_1", None, [Booked(amount=amount)])], durable=durable)


# -- dropped -----------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_a_dropped_log_lets_go(tmp_path: Path, *, durable: bool) -> None:
    """A handle that nobody has any more warns, keeps what was appended, and lets others write."""
    log = open_ledger(tmp_path)
    book(log, 1, durable=durable)

    held = [log]
    del log
    with pytest.warns(ResourceWarning, match="unclosed runelog"):
        held.clear()
    with open_ledger(tmp_path) as again:
        assert contents(again) == {"conv_a": [Booked(amount=1)]}


def test_a_closed_log_does_not_warn(tmp_path: Path) -> None:
    """Dropping a handle that was closed is nothing to speak of, nor is one that did not open."""
    log = open_ledger(tmp_path)
    log.close()
    with pytest.raises(Held), open_ledger(tmp_path):
        open_ledger(tmp_path)

    del log
    gc.collect()


def test_reading_keeps_a_log_open(tmp_path: Path) -> None:
    """Whoever reads on has the log, although nobody else has its handle."""
    with open_ledger(tmp_path) as log:
        book(log, 1)
    found = open_ledger(tmp_path, readonly=True).read("conv_a")
    gc.collect()

    with pytest.warns(ResourceWarning, match="unclosed runelog"):
        assert [envelope.payload for envelope in found] == [Booked(amount=1)]


# -- held --------------------------------------------------------------------------------------


def test_a_second_handle_is_told_that_the_first_is_here(tmp_path: Path) -> None:
    """Who opens a log twice for writing in one process is told that it was this process."""
    with (
        open_ledger(tmp_path),
        pytest.raises(Held, match="in this very process"),
    ):
        open_ledger(tmp_path)


def test_a_closed_log_names_no_holder(tmp_path: Path) -> None:
    """LOCK names the process that holds it, and nobody once it is let go of."""
    log = open_ledger(tmp_path)
    assert str(os.getpid()) in (tmp_path / "LOCK").read_text(encoding="utf-8")
    log.close()

    assert (tmp_path / "LOCK").read_bytes() == b""


def test_looking_for_a_writer_holds_nothing(tmp_path: Path) -> None:
    """However many look whether somebody writes, whoever wants to write is let in at once."""
    open_ledger(tmp_path).close()
    lookers = [
        subprocess.Popen(
            [sys.executable, "-c", _LOOK, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        for looker in lookers:
            assert looker.stdout is not None
            assert looker.stdout.readline() == "ready\n"
        for _ in range(200):
            lock = Lock(tmp_path)
            assert lock._try()
            assert writer_alive(tmp_path)
            lock.release()
    finally:
        (tmp_path / "over").touch()
        for looker in lookers:
            looker.communicate()


@pytest.mark.parametrize("what", ["append", "roll", "archive"])
def test_a_writer_is_fenced_by_the_epoch_alone(tmp_path: Path, what: str) -> None:
    """A writer that was taken over stops, even if the LOCK that it held is put back."""
    log = open_ledger(tmp_path)
    book(log, 1)
    kept = tmp_path / "LOCK.kept"
    (tmp_path / "LOCK").rename(kept)
    (tmp_path / "LOCK").hardlink_to(kept)
    with Runelog.open(tmp_path, CODEC, take_over=True) as other:
        book(other, 2)
    kept.replace(tmp_path / "LOCK")
    act: dict[str, Callable[[], object]] = {
        "append": lambda: book(log, 3),
        "roll": log.roll,
        "archive": lambda: log.archive("conv_a"),
    }

    with pytest.raises(Fenced):
        act[what]()

    log.close()
    with open_ledger(tmp_path) as again:
        assert contents(again) == {"conv_a": [Booked(amount=1), Booked(amount=2)]}


def test_a_taken_over_lock_is_held_by_one(tmp_path: Path) -> None:
    """A lock that was taken over is the new holder's, whatever the old one does with its own."""
    old, new, third = Lock(tmp_path), Lock(tmp_path), Lock(tmp_path)
    old.acquire()
    new.acquire(take_over=True)
    old.release()

    assert writer_alive(tmp_path)
    with pytest.raises(Held):
        third.acquire()
    new.release()
    assert not writer_alive(tmp_path)


# -- what it is opened with --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"clock": None}, "clock"),
        ({"clock": time.time_ns()}, "clock"),
        ({"codec": [Booked]}, "codec"),
    ],
)
def test_nonsense_is_refused_at_the_door(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    """A clock that cannot be called, or a codec that is none, is named before anything is made."""
    with pytest.raises(TypeError, match=named):
        Runelog.open(tmp_path / "log", **{"codec": CODEC, **options})
    assert not (tmp_path / "log").exists()


def test_an_environment_opened_to_read_is_not_written(tmp_path: Path) -> None:
    """Who opened an environment to read cannot write to it, although a writer shares it."""
    path = tmp_path / "one.mdb"
    with_writer = Environment(path, map_size=1 << 20, create=True)
    reader = Environment(path, map_size=1 << 20, readonly=True)
    try:
        with pytest.raises(ReadOnly), reader.batch():
            pass
        with with_writer.batch() as batch:
            batch.put("meta", b"key", b"value")
        with reader.view() as view:
            assert view.get("meta", b"key") == b"value"
    finally:
        reader.close()
        with_writer.close()


def test_an_errand_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens a log that another program has open for a moment gets it when that is done."""
    open_ledger(tmp_path).close()
    holder = Popen(
        [sys.executable, "-c", _ERRAND, str(tmp_path)], stdin=PIPE, stdout=PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        holder.communicate("go\n")

    # Nobody else is waited for at all.
    monkeypatch.setattr(manifest, "_PATIENCE", -1.0)
    monkeypatch.setattr(time, "sleep", wait)
    with open_ledger(tmp_path) as log:
        book(log, 1)

    assert waits
    assert holder.returncode == 0


def test_an_errand_without_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some seconds the holder is named: its process, what it does, and since when."""
    open_ledger(tmp_path).close()
    monkeypatch.setattr(manifest, "ERRANDS", 0.0)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    lock = Lock(tmp_path)
    lock.acquire(errand="nightly archive")
    try:
        with pytest.raises(Held):
            open_ledger(tmp_path)
        told = manifest.holder(tmp_path)
    finally:
        lock.release()

    assert told.startswith(f"process {os.getpid()} (nightly archive) on ")
    assert told.endswith(" since 2023-11-14 22:13:20 UTC")


def test_who_runs_no_errand_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app that has the log open keeps it: whoever else wants it is told at once."""
    monkeypatch.setattr(manifest, "ERRANDS", threading.TIMEOUT_MAX)

    with open_ledger(tmp_path), pytest.raises(Held):
        open_ledger(tmp_path)


def test_a_lock_that_names_nobody_is_held_all_the_same(tmp_path: Path) -> None:
    """What is in LOCK is for people; whatever is there, a second writer is refused."""
    with open_ledger(tmp_path):
        for said in (b"", b"\xff\xfe", b"[]", b'{"pid": "x"}', b'{"pid": 1, "host": 2}'):
            (tmp_path / "LOCK").write_bytes(said)
            with pytest.raises(Held):
                open_ledger(tmp_path)

            assert manifest.holder(tmp_path) == "another process"


_ERRAND = """
import sys
from runelog.store import Runelog
with Runelog.open(sys.argv[1], errand="a test"):
    print("ready", flush=True)
    sys.stdin.readline()
"""

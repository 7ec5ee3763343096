"""Group commit: shared syncs, back-pressure, and what an interrupt may and may not do."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from runelog.errors import Busy, Closed, LogFull, Refused, WrongVersion
from runelog.lmdb.environment import Batch, Environment, MapFull
from runelog.repair.verify import verify
from runelog.rune import Change
from runelog.store import Runelog
from runelog.writer.commit_queue import MAX_ITEMS, PendingAppend
from tests.runelog.ledger import CODEC, Booked, open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.stream.stream_blocks import Entry


PATIENCE = 60.0


def book(amount: int, version: int | None = None) -> list[Change]:
    """Return the change of one append."""
    return [Change("book_1", version, [Booked(amount=amount)])]


class Gate:
    """Stands before every commit of a log, and lets it pass when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count the commits; hold none yet."""
        self.commits = 0
        self.arrived = threading.Event()
        self.open = threading.Event()
        self.open.set()
        self.before: Callable[[], None] | None = None
        whole = Environment.batch

        @contextlib.contextmanager
        def batch(env: Environment, *, spare: bool = True) -> Iterator[Batch]:
            with whole(env, spare=spare) as found:
                yield found
                if env.path.parent.name == "segments":
                    self.arrived.set()
                    assert self.open.wait(PATIENCE)
                    if self.before is not None:
                        self.before()
                    self.commits += 1

        monkeypatch.setattr(Environment, "batch", batch)

    def close(self) -> None:
        """Hold the next commit."""
        self.arrived.clear()
        self.open.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Give the gate that commits pass."""
    return Gate(monkeypatch)


def start(*works: Callable[[], object]) -> list[threading.Thread]:
    """Start threads, each at its work."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    """Wait for threads to end, for so long."""
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def queued(log: Runelog) -> int:
    """Return how many appends wait; only for waiting until they do."""
    writer: Any = log._writer
    return len(writer._queue)


def until(condition: Callable[[], bool]) -> None:
    """Let other threads work until something is so."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.002)):
        if condition():
            return
        pause.wait(0.002)
    raise AssertionError(condition)


def test_threads_that_wait_share_one_sync(tmp_path: Path, gate: Gate) -> None:
    """Whatever is queued while a commit is under way goes to disk with the next, all of it."""
    with open_ledger(tmp_path) as log:
        log.append("conv_a", book(0))
        gate.close()
        leader = start(lambda: log.append("conv_a", book(1)))
        assert gate.arrived.wait(PATIENCE)
        before = gate.commits
        others = start(*(lambda n=n: log.append(f"conv_{n}", book(n)) for n in range(20)))
        until(lambda: queued(log) == 20)
        gate.open.set()
        join(leader + others)

        assert gate.commits - before == 2
        assert log.position == 22


def test_whoever_is_told_that_it_is_done_finds_it_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's position is behind an append before its caller goes on."""
    found = []
    finish = PendingAppend.finish

    def finished(item: PendingAppend) -> None:
        found.append(log.position)
        finish(item)

    monkeypatch.setattr(PendingAppend, "finish", finished)
    with open_ledger(tmp_path) as log:
        log.append("conv_a", book(1))
        log.append("conv_a", book(2))

    assert found == [1, 2]


def test_a_full_queue_makes_the_caller_wait_or_refuses_it(tmp_path: Path, gate: Gate) -> None:
    """Without a time-out a caller waits for room; with one it is refused, and nothing is lost."""
    with Runelog.open(tmp_path, CODEC) as log:
        log.append("conv_a", book(0))
        writer: Any = log._writer
        writer._reserve(MAX_ITEMS * (32 << 10))  # or they would wait for the disk already
        gate.close()
        leader = start(lambda: log.append("conv_a", book(1)))
        assert gate.arrived.wait(PATIENCE)
        for number in range(MAX_ITEMS):
            log.append("conv_b", book(number), durable=False)
        with pytest.raises(Busy, match="4,096"):
            log.append("conv_b", book(-1), timeout=0)
        with pytest.raises(Refused, match="timeout"):
            log.append("conv_b", book(-1), timeout=-1)
        waiting = start(lambda: log.append("conv_b", book(MAX_ITEMS)))
        gate.open.set()
        join(leader + waiting)

        found = [e.payload for e in log.read("conv_b")]
        assert found == [Booked(amount=number) for number in range(MAX_ITEMS + 1)]


@pytest.mark.parametrize("what", ["flush", "roll", "archive", "close"])
def test_nothing_starves_under_load(tmp_path: Path, what: str) -> None:
    """However many append without a pause, whoever wants the log for itself gets its turn."""
    log = open_ledger(tmp_path)
    log.append("conv_cold", book(0))
    stop = threading.Event()
    appended = itertools.count()

    def busy(name: str) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            try:
                log.append(name, book(number), durable=number % 3 == 0)
            except Closed:
                return
            next(appended)

    threads = start(*(lambda n=n: busy(f"conv_{n}") for n in range(6)))
    until(lambda: next(appended) > 50)
    done = threading.Event()

    def work() -> None:
        log.archive("conv_cold") if what == "archive" else getattr(log, what)()
        done.set()

    start(work)
    assert done.wait(PATIENCE)
    stop.set()
    join(threads)
    log.close()
    assert verify(tmp_path).problems == []


def test_what_was_missed_can_be_read_when_it_is_asked_for(tmp_path: Path, gate: Gate) -> None:
    """`WrongVersion` says to fold what was missed: then it is committed, also if nobody waited."""
    with open_ledger(tmp_path) as log:
        log.append("conv_a", book(0, 0))
        gate.commits = 0
        log.append("conv_a", book(1, 1), durable=False)
        with pytest.raises(WrongVersion) as caught:
            log.append("conv_a", book(2, 1))

        assert caught.value.actual == 2
        assert log.version("conv_a", "book_1") == 2
        assert len(list(log.read("conv_a"))) == 2


def test_a_full_map_goes_on_in_the_next_segment(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a segment be full before it was expected, the append is in the next one, once."""
    with open_ledger(tmp_path) as log:
        log.append("conv_a", book(0))
        gate.before = once(MapFull())
        log.append("conv_a", book(1))
        log.append("conv_a", book(2))

        assert [e.payload for e in log.read("conv_a")] == [Booked(amount=n) for n in range(3)]
        assert len(log.log_directory.segments.manifest.segments) == 2

        def no_room(_need: int) -> Environment:
            msg = "no room"
            raise LogFull(msg)

        writer: Any = log._writer
        with monkeypatch.context() as patched:
            patched.setattr(writer._home, "next_segment", no_room)
            gate.before = once(MapFull())
            with pytest.raises(LogFull):
                log.append("conv_a", book(3))
        log.append("conv_a", book(4))
        assert [e.event_id for e in log.read("conv_a")] == [1, 2, 3, 4]
    assert verify(tmp_path).problems == []


def once(error: BaseException) -> Callable[[], None]:
    """Return something that raises the first time it is called."""
    errors = [error]

    def call() -> None:
        if errors:
            raise errors.pop()

    return call


def test_an_interrupt_before_the_commit_leaves_nobody_waiting(tmp_path: Path, gate: Gate) -> None:
    """Ctrl-C in the thread that commits for others: they go on, and so does the log."""
    with open_ledger(tmp_path) as log:
        log.append("conv_a", book(0))
        gate.close()
        gate.before = once(KeyboardInterrupt())
        caught: list[BaseException] = []

        def lead() -> None:
            try:
                log.append("conv_a", book(1))
            except KeyboardInterrupt as interrupt:
                caught.append(interrupt)

        leader = start(lead)
        assert gate.arrived.wait(PATIENCE)
        others = start(*(lambda n=n: log.append(f"conv_{n}", book(n)) for n in range(3)))
        until(lambda: queued(log) == 3)
        gate.open.set()
        join(leader + others)

        assert len(caught) == 1
        assert log.position == 5
        log.append("conv_a", book(2))
    assert verify(tmp_path).problems == []


def test_an_interrupt_at_any_moment_costs_at_most_an_answer(tmp_path: Path) -> None:
    """Ctrl-C while appending: the handle lives, and what was acknowledged is there, once."""
    armed: list[bool] = []

    def interrupt(_number: int, _frame: object) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    kept: list[int] = []
    try:
        with open_ledger(tmp_path) as log:
            log.append("conv_b", book(0))
            for number in range(400):
                try:
                    armed.append(True)
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + (number % 97) * 2e-5)
                    log.append("conv_a", book(number))
                    armed.clear()
                    kept.append(number)
                except KeyboardInterrupt:
                    pass
                signal.setitimer(signal.ITIMER_REAL, 0)
            log.append("conv_a", book(400))
            found = [e.payload for e in log.read("conv_a")]
    finally:
        signal.signal(signal.SIGALRM, before)

    amounts = [rune.amount for rune in found if isinstance(rune, Booked)]
    assert len(set(amounts)) == len(amounts)
    assert set(amounts) >= {*kept, 400}
    assert len(kept) < 400, "no interrupt came; the test shows nothing"
    assert verify(tmp_path).problems == []


def test_the_thread_that_keeps_the_log_is_told_not_to_append(tmp_path: Path) -> None:
    """An append from within an import would wait for itself: it is refused instead."""
    with open_ledger(tmp_path) as log:
        log.append("conv_a", book(0))
        refused: list[Exception] = []

        def progress(_count: int) -> None:
            try:
                log.append("conv_a", book(1))
            except Refused as error:
                refused.append(error)

        from runelog.stream.streams import entry_of  # noqa: PLC0415 -- only here

        entries: list[Entry] = [entry_of(envelope) for envelope in log.read("conv_a")]
        log.take_in([("conv_b", entries)], 100, progress)

        assert refused
        assert [e.payload for e in log.read("conv_b")] == [Booked(amount=0)]

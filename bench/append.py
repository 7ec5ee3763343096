"""Appending: in bulk, from many threads at once, one by one."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

from bench.measure import race, rate
from bench.peers import BareLmdb, Eventsourcing, Sqlite
from bench.table import faster
from bench.workload import BATCH, CODEC, Talk, append_batch, batches, singles
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results
    from bench.table import Row
    from bench.workload import Part

THREADS = 32


def rows(directory: Path, sizes: Sizes, results: Results) -> list[Row]:
    """Measure everything about appending; note what the peers were set to."""
    return [
        *_bulk(directory, sizes, results.settings),
        *_threads(directory, sizes, results.settings),
        _one_by_one(directory, sizes),
    ]


def _bulk(directory: Path, sizes: Sizes, settings: list[tuple[str, str]]) -> list[Row]:
    """Append 1,024 runes a batch, some ten for each of 100 conversations."""
    log = Runelog.open(directory / "bulk", CODEC)
    loose = Runelog.open(directory / "loose", CODEC)
    bare = BareLmdb(directory / "bulk.lmdb")
    by_rune = BareLmdb(directory / "by_rune.lmdb", by_rune=True)
    library = Eventsourcing(directory / "bulk.sqlite")
    count = sizes.batches * BATCH
    streams = [batches() for _ in range(5)]
    alone = (_each_alone(batch) for batch in streams[1])

    def rounds_of(source: Iterator[list[Part]], commit: Callable[[list[Part]], None]) -> float:
        # The runes are made before the clock starts: only the log, or its peer, is measured.
        todo = list(itertools.islice(source, sizes.batches))

        def run() -> None:
            for parts in todo:
                commit(parts)

        return rate(count, run)

    def saving() -> float:
        spent = 0.0
        few = sizes.batches
        for parts in itertools.islice(streams[4], few):
            heard = library.prepare(parts)
            start = time.perf_counter()
            library.save(heard)
            spent += time.perf_counter() - start
        return few * BATCH / spent

    best = race(
        sizes.rounds,
        lambda: rounds_of(streams[0], lambda parts: append_batch(log, parts)),
        lambda: rounds_of(alone, lambda parts: append_batch(loose, parts)),
        lambda: rounds_of(streams[2], bare.commit),
        lambda: rounds_of(streams[3], by_rune.commit),
        saving,
    )
    settings.append(("bare lmdb", bare.settings()))
    settings.append(("eventsourcing", library.settings()))
    for opened in (log, loose, bare, by_rune, library):
        opened.close()
    ours, apart, runs, entries, saved = best
    name = f"durable bulk append, {BATCH:,} a batch"
    return [
        faster(name, (ours, runs), "bare lmdb loop, index by run", ">= 0.5"),
        faster(name, (ours, saved), "eventsourcing on SQLite", ">= 4"),
        faster(name, (ours, entries), "bare lmdb loop, index by rune"),
        faster(f"{name}, one rune a call", (apart, runs), "bare lmdb loop, index by run"),
    ]


def _each_alone(parts: list[Part]) -> list[Part]:
    return [part._replace(runes=[rune]) for part in parts for rune in part.runes]


def _threads(directory: Path, sizes: Sizes, settings: list[tuple[str, str]]) -> list[Row]:
    """Let 32 threads append one rune at a time, each waiting until its own is durable."""
    log = Runelog.open(directory / "threads", CODEC)
    peer = Sqlite(directory / "threads.sqlite", THREADS)
    each = max(sizes.singles * 2 // THREADS, 1)
    talks, peers_talks = ([Talk(number) for number in range(THREADS)] for _ in range(2))

    def ours(_thread: int, part: Part) -> None:
        log.append(part.conversation, [part.change()])

    best = race(
        sizes.rounds,
        lambda: _together(talks, each, ours),
        lambda: _together(peers_talks, each, peer.append),
    )
    # Slow, and for information only: a few rounds will do.
    (unaided,) = race(3, lambda: _together(peers_talks, each, peer.append_unaided))
    settings.append(("SQLite", peer.settings()))
    log.close()
    peer.close()
    name = f"{THREADS} threads, each waiting for its own durable append"
    return [
        faster(name, (best[0], unaided), "SQLite WAL, a connection per thread", ">= 3"),
        faster(name, (best[0], best[1]), "SQLite WAL, the same behind a lock of ours"),
    ]


def _together(talks: list[Talk], each: int, append: Callable[[int, Part], None]) -> float:
    """Return the rate of appends over all threads, from a common start."""
    todo = [[talk.part(1) for _ in range(each)] for talk in talks]
    start = threading.Barrier(len(talks) + 1)

    def work(thread: int) -> None:
        start.wait()
        for part in todo[thread]:
            append(thread, part)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(talks))]
    for thread in threads:
        thread.start()

    def run() -> None:
        start.wait()
        for thread in threads:
            thread.join()

    return rate(each * len(talks), run)


def _one_by_one(directory: Path, sizes: Sizes) -> Row:
    """Append one durable rune at a time from one thread."""
    log = Runelog.open(directory / "single", CODEC)
    bare = BareLmdb(directory / "single.lmdb")
    source, peers_source = singles(), singles()

    def ours() -> float:
        todo = list(itertools.islice(source, sizes.singles))

        def run() -> None:
            for part in todo:
                log.append(part.conversation, [part.change()])

        return rate(sizes.singles, run)

    def peers() -> float:
        todo = list(itertools.islice(peers_source, sizes.singles))

        def run() -> None:
            for part in todo:
                bare.commit([part])

        return rate(sizes.singles, run)

    best = race(sizes.rounds, ours, peers)
    log.close()
    bare.close()
    name = "one thread, one durable rune at a time"
    return faster(name, (best[0], best[1]), "bare lmdb, one commit a rune", ">= 0.6")

"""Reading: a long conversation, its state at some event, and the memory that replaying takes."""

from __future__ import annotations

import json
import random
import time
from functools import partial
from typing import TYPE_CHECKING, TypedDict, cast

from bench.measure import child, race, rate
from bench.peers import BareLmdb, Eventsourcing
from bench.table import Row, faster
from bench.workload import BATCH, CODEC, LIFECYCLE, Delta, Talk, build_long
from runelog.replay import replay
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results
    from runelog.snapshot import Snapshots

SNAPSHOT_EVERY = 1_000
ALLOWED = 100.0
"""Megabytes of anonymous memory that a replay may take."""
SEED = 2


class _Memory(TypedDict):
    empty: int
    peak: int
    runes: int


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure everything about reading."""
    name = build_long(directory / "long", sizes.read)
    with Runelog.open(directory / "long", CODEC) as log:
        found = [*_whole(directory, sizes, log, name), _state(sizes, log, name)]
    return [*found, _memory(directory, sizes)]


def _whole(directory: Path, sizes: Sizes, log: Runelog, name: str) -> list[Row]:
    """Read and decode a conversation from its first rune to its last, payloads too."""
    bare = BareLmdb(directory / "long.lmdb")
    talk = Talk(0)
    for _ in range(sizes.read // 1_000):
        bare.commit([talk.part(10) for _ in range(100)])
    library = Eventsourcing(directory / "long.sqlite")
    talk = Talk(0)
    for _ in range(0, sizes.rebuilt, BATCH):
        (aggregate,) = library.prepare([talk.part(BATCH)])
        library.save([aggregate])

    def ours() -> float:
        def run() -> None:
            count, decoded = 0, None
            for envelope in log.read(name):
                decoded = envelope.payload
                count += 1
            assert count == sizes.read
            assert isinstance(decoded, Delta)

        return rate(sizes.read, run)

    def cursor() -> float:
        def run() -> None:
            assert bare.read() == sizes.read

        return rate(sizes.read, run)

    def rebuild() -> float:
        start = time.perf_counter()
        events = library.rebuild(aggregate.id)
        return events / (time.perf_counter() - start)

    first, second = race(sizes.rounds // 3, ours, cursor)
    (third,) = race(min(sizes.rounds // 3, 3), rebuild)
    bare.close()
    library.close()
    what = f"read and decode one conversation of {sizes.read:,}"
    return [
        faster(what, (first, second), "bare cursor, typed decoder, no checksums", ">= 0.5"),
        faster(what, (first, third), "eventsourcing rebuilding its aggregate", ">= 10"),
    ]


def _state(sizes: Sizes, log: Runelog, name: str) -> Row:
    """Ask for the state at random events, with snapshots and by folding from the start."""
    replay(log, name, LIFECYCLE, snapshots=log.snapshots, save_every=SNAPSHOT_EVERY)
    # One from each stretch of equal length: a few events then stand for all of them.
    stretch = sizes.read // sizes.states
    dice = random.Random(SEED)
    events = [dice.randint(n * stretch + 1, (n + 1) * stretch) for n in range(sizes.states)]
    ours = peer = 0.0
    for event in events:
        fast, slow = race(
            1 if sizes.states < 10 else 3,
            partial(rate, 1, partial(_at, log, name, event, log.snapshots)),
            partial(rate, 1, partial(_at, log, name, event, None)),
        )
        ours += 1_000 / fast / len(events)
        peer += 1_000 / slow / len(events)
    return Row(
        name=f"state at a random event of {sizes.read:,}, a snapshot each {SNAPSHOT_EVERY:,}",
        ours=ours,
        peer=peer,
        peer_name="folding from the start",
        ratio=peer / ours,
        bar=">= 50",
        unit="ms",
    )


def _at(log: Runelog, name: str, event: int, snapshots: Snapshots | None) -> None:
    found = replay(log, name, LIFECYCLE, event, snapshots=snapshots)
    assert found.state.fragments == event


def _memory(directory: Path, sizes: Sizes) -> Row:
    """Replay a long conversation in a fresh process and see how much memory it takes."""
    place = directory / "replayed"
    name = build_long(place, sizes.replayed)
    report = child("memory", str(place), name)
    found = cast("_Memory", json.loads(report.stdout))
    assert found["runes"] == sizes.replayed
    above = (found["peak"] - found["empty"]) / 1e6
    return Row(
        name=f"replay {sizes.replayed:,} runes: RssAnon above the empty process",
        ours=above,
        peer=ALLOWED,
        peer_name=f"what is allowed (empty: {found['empty'] / 1e6:.0f} MB)",
        ratio=above / ALLOWED,
        bar="<= 1",
        unit="MB",
    )

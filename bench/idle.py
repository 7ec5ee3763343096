"""Sessions with nothing to do: what they take, and what it costs to wake one or to open many."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.measure import FULL, child, race
from bench.scene import open_runtime
from bench.table import Row
from runefold.core import core_of

if TYPE_CHECKING:
    from bench.measure import Sizes
    from bench.results import Results

MOST_THREADS: Final = 64
MOST_MEMORY: Final = 4.0
"""KB of anonymous memory for each session."""
UNFINISHED: Final = 10


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure what idle sessions take, and what it takes to open a runtime that has many."""
    many = directory / "many"
    made = child("idle", str(many), str(sizes.idle))
    assert made.returncode == 0, "the sessions could not be made"
    found = json.loads(made.stdout)
    each = (found["memory"] - found["empty"]) / sizes.idle / 1_000
    what = f"{sizes.idle:,} open, idle sessions"
    return [
        _within(f"{what}: threads", found["threads"], MOST_THREADS, "threads"),
        # Few sessions would have to answer for what the caches of many take.
        _within(
            f"{what}: anonymous memory of each",
            each,
            MOST_MEMORY,
            "KB",
            counts=sizes.idle >= FULL.idle,
        ),
        Row(
            name=f"{what}: a turn of one that has to wake",
            ours=found["waking"] * 1e3,
            peer=found["awake"] * 1e3,
            peer_name="a turn of one that is awake",
            ratio=found["waking"] / found["awake"],
            bar="<= 3",
            unit="ms",
        ),
        *_reopening(directory, many, sizes),
    ]


def _within(name: str, ours: float, most: float, unit: str, *, counts: bool = True) -> Row:
    return Row(
        name=name, ours=ours, peer=most, peer_name="what it may be", ratio=ours / most,
        bar="<= 1" if counts else "", unit=unit,
    )  # fmt: skip


def _reopening(directory: Path, many: Path, sizes: Sizes) -> list[Row]:
    """Open a runtime with unfinished work, among many sessions and alone."""
    found = []
    times = {}
    what = f"open a runtime with {sizes.idle:,} sessions, {UNFINISHED} with work left"
    for how, bar in (("closed", "<= 3"), ("killed", "")):
        large, small = directory / f"{how}-many", directory / f"{how}-few"
        shutil.copytree(many, large, ignore=_sockets)
        for place in (large, small):
            ended = child("unfinished", str(place), str(UNFINISHED), how)
            assert ended.returncode == (0 if how == "closed" else -signal.SIGKILL)
        best = race(
            sizes.reopens,
            lambda large=large: 1 / _open(large),  # type: ignore[misc]  # bound now, not later
            lambda small=small: 1 / _open(small),  # type: ignore[misc]  # the same
        )
        ours, peer = (1_000 / number for number in best)
        times[how] = ours
        found.append(
            Row(
                name=f"{what}, {how} before",
                ours=ours,
                peer=peer,
                peer_name=f"one with those {UNFINISHED} alone",
                ratio=ours / peer,
                bar=bar,
                unit="ms",
            )
        )
    killed, closed = times["killed"], times["closed"]
    return [
        *found,
        Row(
            name=f"{what}, killed before", ours=killed, peer=closed,
            peer_name="the same, closed before", ratio=killed / closed, bar="<= 3", unit="ms",
        ),
    ]  # fmt: skip


def _open(place: Path) -> float:
    """Open a copy, as the work gets done once it is open; return the seconds that it took."""
    copy = place.with_name(f"{place.name}-copy")
    shutil.copytree(place, copy, ignore=_sockets)
    # What was just copied is not to be written while we measure.
    os.sync()
    start = time.perf_counter()
    runtime = open_runtime(copy)
    spent = time.perf_counter() - start
    assert len(core_of(runtime).tree.awake()) == UNFINISHED
    runtime.close()
    shutil.rmtree(copy)
    return spent


def _sockets(folder: str, names: list[str]) -> list[str]:
    """Name what cannot be copied: one that was killed leaves its socket behind."""
    return [name for name in names if Path(folder, name).is_socket()]

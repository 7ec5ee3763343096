"""Opening: a large log beside an empty one, after a clean close and after a kill."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Final

from bench.measure import bytes_on_disk, child, race
from bench.table import Row
from bench.workload import CODEC, Talk, build
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results

EACH = 10
"""Runes in an append while the large log is made."""
SMALLER: Final = 20
LONGER: Final = 1_000
"""Conversations of the logs that are opened after a kill."""
RUNE: Final = 170
"""About how many bytes a rune takes in a file."""


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure how long it takes to open a log."""
    large, empty = directory / "large", directory / "empty"
    rounds = max(sizes.open_runes // sizes.open_conversations // EACH, 1)
    count = build(large, rounds, sizes.open_conversations, EACH)
    Runelog.open(empty, CODEC).close()
    what = f"{count:,} runes in {sizes.open_conversations:,} conversations"
    found = [
        _row(f"open a log of {what}", "<= 5", sizes.opens, large, empty, _look),
        _row("the same, and read a conversation", "", 3, large, empty, _read),
        _row("the same, and append", "", 3, large, empty, _append),
    ]

    def crashed(path: Path) -> float:
        assert child("crash", str(path)).returncode == -signal.SIGKILL
        return _look(path)

    found.append(_row("open it after kill -9", "", 3, large, empty, crashed))
    return [*found, _after_kill(directory, sizes, crashed)]


def _after_kill(directory: Path, sizes: Sizes, opening: Callable[[Path], float]) -> Row:
    """Open a large log and one of a twentieth of it, each killed before."""
    places = []
    for size in (sizes.large, sizes.large // SMALLER):
        place = directory / f"killed-{size}"
        runes = max(size // RUNE // LONGER // EACH, 1)
        build(place, runes, LONGER, EACH)
        places.append(place)
    taken = [bytes_on_disk(place) / 1e6 for place in places]
    best = race(3, *(lambda place=place: 1 / opening(place) for place in places))
    ours, peer = (1_000 / number for number in best)
    return Row(
        name=f"open a log of {taken[0]:,.0f} MB after kill -9", ours=ours, peer=peer,
        peer_name=f"one of {taken[1]:,.0f} MB after kill -9", ratio=ours / peer, bar="<= 2",
        unit="ms",
    )  # fmt: skip


def _row(
    name: str, bar: str, opens: int, large: Path, empty: Path, opening: Callable[[Path], float]
) -> Row:
    best = race(opens, lambda: 1 / opening(large), lambda: 1 / opening(empty))
    ours, peer = (1_000 / number for number in best)
    return Row(
        name=name, ours=ours, peer=peer, peer_name="an empty log", ratio=ours / peer, bar=bar,
        unit="ms",
    )  # fmt: skip


def _timed(path: Path, then: Callable[[Runelog], object]) -> float:
    start = time.perf_counter()
    log = Runelog.open(path, CODEC)
    then(log)
    spent = time.perf_counter() - start
    log.close()
    return spent


def _look(path: Path) -> float:
    return _timed(path, lambda _: None)


def _read(path: Path) -> float:
    def then(log: Runelog) -> None:
        first = next(iter(log.conversations()), None)
        assert first is None or sum(1 for _ in log.read(first.id)) == first.head

    return _timed(path, then)


def _append(path: Path) -> float:
    part = Talk(0).part(1)
    return _timed(path, lambda log: log.append(part.conversation, [part.change()]))

"""Bytes on disk: of the log as it lies closed, and of archived conversations."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from bench.measure import bytes_on_disk
from bench.table import Row
from bench.workload import BATCH, CODEC, CONVERSATIONS, Talk, append_batch, batches, singles
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure what the runes take on disk beside their own encoded length."""
    place = directory / "stored"
    with Runelog.open(place, CODEC) as log:
        for parts in itertools.islice(batches(), sizes.stored):
            append_batch(log, parts)
        encoded = sum(conversation.size for conversation in log.conversations())
        names = [conversation.id for conversation in log.conversations()]
    count = sizes.stored * BATCH
    whole = f"{count:,} runes of {encoded / count:.0f} bytes in {CONVERSATIONS} conversations"
    found = [_row(f"on disk, active, with indexes: {whole}", _active(place), encoded, "<= 1.6")]
    with Runelog.open(place, CODEC) as log:
        log.archive(*names)
    cold = bytes_on_disk(place / "archive")
    found.append(_row("on disk, archived: the same", cold, encoded, "<= 0.35"))
    return [*found, _one_a_call(directory / "scattered", sizes), _one_by_one(directory, sizes)]


def _one_by_one(directory: Path, sizes: Sizes) -> Row:
    """Archive conversations one at a time: many of them, and a tenth as many."""
    many, few = sizes.archived, sizes.archived // 10
    each = {count: _archiving(directory / f"archived-{count}", count) for count in (few, many)}
    return Row(
        name=f"archive {many:,} conversations one by one, time for each",
        ours=each[many],
        peer=each[few],
        peer_name=f"{few:,} of them",
        ratio=each[many] / each[few],
        bar="<= 1.5",
        unit="ms",
    )


def _archiving(place: Path, count: int) -> float:
    """Return how many milliseconds it takes to archive one of so many conversations."""
    parts = [Talk(number).part(30) for number in range(count)]
    with Runelog.open(place, CODEC) as log:
        append_batch(log, parts)
        began = time.perf_counter()
        for part in parts:
            log.archive(part.conversation)
        return 1_000 * (time.perf_counter() - began) / count


def _one_a_call(place: Path, sizes: Sizes) -> Row:
    with Runelog.open(place, CODEC) as log:
        for part in itertools.islice(singles(), sizes.stored * BATCH // 4):
            log.append(part.conversation, [part.change()], durable=False)
        log.flush()
        encoded = sum(conversation.size for conversation in log.conversations())
    return _row("on disk, active, appended one rune a call", _active(place), encoded, "")


def _active(place: Path) -> int:
    """Return what the segments and the catalog take."""
    catalogs = sum(bytes_on_disk(path) for path in place.glob("catalog.*"))
    return bytes_on_disk(place / "segments") + catalogs


def _row(name: str, taken: int, encoded: int, bar: str) -> Row:
    return Row(
        name=name,
        ours=taken / 1e6,
        peer=encoded / 1e6,
        peer_name="the encoded runes",
        ratio=taken / encoded,
        bar=bar,
        unit="MB",
    )

"""100,000 idle sessions: what each takes. Making them takes minutes, so it is measured if named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from bench.idle import MOST_MEMORY
from bench.measure import FULL, child
from bench.table import Row

if TYPE_CHECKING:
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results

TIMES: Final = 5
"""So many more than `bench.idle` has."""


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure what so many take; there is no bar for it."""
    count = sizes.idle * TIMES
    made = child("idle", str(directory / "many"), str(count))
    assert made.returncode == 0, "the sessions could not be made"
    found = json.loads(made.stdout)
    each = (found["memory"] - found["empty"]) / count / 1_000
    return [
        Row(
            name=f"{count:,} open, idle sessions: anonymous memory of each", ours=each,
            peer=MOST_MEMORY, peer_name=f"what it may be of {FULL.idle:,}",
            ratio=each / MOST_MEMORY, bar="", unit="KB",
        ),
        Row(
            name=f"{count:,} open, idle sessions: a turn of one that has to wake",
            ours=found["waking"] * 1e3, peer=found["awake"] * 1e3,
            peer_name="a turn of one that is awake", ratio=found["waking"] / found["awake"],
            bar="", unit="ms",
        ),
    ]  # fmt: skip

"""Memory of a runtime that lives long: what turns, and sessions that came and went, leave behind.

Anonymous memory only: what is mapped of the log's files is the kernel's to take back. It is
measured once the runtime is at rest: all sessions sleep, and the threads that ran them have ended,
ten seconds later. The last figure is held against the first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from bench.measure import FULL, child
from bench.table import Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results

SESSIONS: Final = 200
BAR: Final = "<= 1.05"
_MB: Final = 1_000_000


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure the memory after more and more turns, and after more and more sessions."""
    # So few as a quick run has do not even fill the caches.
    bar = BAR if sizes.soak == FULL.soak else ""
    marks = [str(mark) for mark in sizes.soak]
    turns = _run("turns", str(directory / "turns"), str(SESSIONS), *marks)
    found = _rows(f"turns in {SESSIONS} sessions", sizes.soak, turns, bar)
    for how in ("closed", "asleep"):
        passing = _run("passing", str(directory / how), how, *marks)
        what = "sessions that were closed" if how == "closed" else "sessions that fell asleep"
        found += _rows(f"{what} after a turn", sizes.soak, passing, bar)
    return found


def _run(*arguments: str) -> list[dict[str, int]]:
    done = child(*arguments)
    assert done.returncode == 0, f"{arguments} did not come to its end"
    found: list[dict[str, int]] = json.loads(done.stdout)
    return found


def _rows(what: str, marks: Sequence[int], found: list[dict[str, int]], bar: str) -> list[Row]:
    first = found[0]["at rest"]
    return [
        Row(
            name=(
                f"anonymous memory after {mark:,} {what} ({each['awake'] / _MB:.1f} before sleep, "
                f"{each['asleep'] / _MB:.1f} just after)"
            ),
            ours=each["at rest"] / _MB,
            peer=first / _MB,
            peer_name=f"after {marks[0]:,}",
            ratio=each["at rest"] / first,
            bar=bar if mark == marks[-1] else "",
            unit="MB",
        )
        for mark, each in zip(marks[1:], found[1:], strict=True)
    ]

"""How the cost of a turn grows with the sessions that go on at once, and with its fragments.

There are no bars here: what is measured is plotted, in docs/performance.md.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from bench.contender import Contender, Missing, Spent, best

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results
    from bench.table import Row

KEYS: Final = ("ours", "plain", "burr", "activegraph", "dbos")
TURNS: Final = 128
"""Over all sessions; each has two at least."""
WORDS: Final = 20_000
"""Over all turns of a length; there are three at least."""
ROUNDS: Final = 2


def rows(directory: Path, sizes: Sizes, results: Results) -> list[Row]:
    """Measure what is plotted."""
    field: list[Contender] = []
    for key in KEYS:
        with contextlib.suppress(Missing):
            field.append(Contender(key, directory))
    results.series["sessions at once"] = {
        contender.name: _line(
            sizes.crowds,
            lambda count, of=contender: of.turns(count, max(TURNS // count, 2)),  # type: ignore[misc]  # bound now, not later
            lambda spent: spent.rate,
        )
        for contender in field
    }
    ours = field[0]
    spent = {count: _best(lambda count=count: _said(ours, count)) for count in sizes.lengths}  # type: ignore[misc]  # the same
    figures: dict[str, Callable[[Spent], float]] = {
        "time, ms": lambda each: 1e3 / each.rate,
        "CPU, ms": lambda each: each.cpu,
        "KB written": lambda each: each.written,
    }
    results.series["fragments of a turn"] = {
        name: [(count, figure(each)) for count, each in spent.items()]
        for name, figure in figures.items()
    }
    for contender in field:
        contender.close()
    return []


def _said(ours: Contender, count: int) -> Spent:
    return ours.say(count, min(max(WORDS // count, 3), 40))


def _line(
    counts: Iterable[int], run: Callable[[int], Spent], figure: Callable[[Spent], float]
) -> list[tuple[float, float]]:
    return [(count, figure(_best(lambda count=count: run(count)))) for count in counts]  # type: ignore[misc]  # the same


def _best(run: Callable[[], Spent]) -> Spent:
    return best([run() for _ in range(ROUNDS)])

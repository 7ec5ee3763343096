"""The tables and the plots of docs/performance.md, made from what was published last.

`python -m bench.report` writes them anew; `make bench` does so when it has published.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.plots import axis, plot
from bench.results import Results, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.plots import Points
    from bench.results import Standing
    from bench.table import Row

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.json"
PAGE: Final = HERE.parent / "docs" / "performance.md"
PLOTS: Final = PAGE.with_suffix("")
"""The directory of the plots, beside the page."""
_BLOCK: Final = re.compile(
    r"(<!-- measured: (\w+) -->\n).*?(<!-- end of what was measured -->)", re.DOTALL
)
_TURNS: Final = "turns of a conversation"
_SESSIONS: Final = "sessions at once"
_FRAGMENTS: Final = "fragments of a turn"


# -- tables -------------------------------------------------------------------------------------


def page(text: str, results: Results) -> str:
    """Return the page with its tables as the results have them, and all else as it is."""

    def block(found: re.Match[str]) -> str:
        begins, name, ends = found.groups()
        return f"{begins}\n{BLOCKS[name](results)}\n{ends}"

    return _BLOCK.sub(block, text)


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---", *("--:" for _ in headings[1:])]
    return "".join(f"| {' | '.join(line)} |\n" for line in (headings, rule, *lines))


def _field(results: Results) -> str:
    """Show what a turn takes each contender."""
    if not results.field:
        return _NOTHING

    def line(each: Standing) -> list[str]:
        grown = "-" if each.blocks is None else " → ".join(f"{ms:,.1f}" for ms in each.blocks)
        alone, many = each.alone, each.many
        figures = [alone.rate, many.rate]
        costs = [alone.written, alone.cpu, many.cpu, many.switches]
        return [
            each.name, *(f"{figure:,.0f}" for figure in figures), grown,
            *(f"{cost:,.0f}" if cost >= 10 else f"{cost:,.2g}" for cost in costs),
        ]  # fmt: skip

    headings = (
        "a durable turn", "turns/s, 1 conversation", "turns/s, 32", "ms, first 20 turns → last 20",
        "KB written", "CPU ms", "CPU ms, 32", "switches, 32",
    )  # fmt: skip
    return _table(headings, map(line, results.field))


def _bars(results: Results) -> str:
    """Show every bar, met or missed."""

    def line(row: Row) -> list[str]:
        verdict = "met" if row.ok else "**missed**"
        if row.reason:
            return [row.name, "-", row.reason, "-", _bar(row), verdict]
        peer = f"{_shown(row.peer)} ({row.peer_name})"
        ours = f"{_shown(row.ours)} {row.unit}"
        return [row.name, ours, peer, _shown(row.ratio), _bar(row), verdict]

    return _table(("what", "runefold", "beside", "ratio", "bar", ""), map(line, results.rows))


def _bar(row: Row) -> str:
    return row.bar.replace(">=", "≥").replace("<=", "≤")


def _turn(results: Results) -> str:
    """Say what a turn does, and where its bytecodes are."""
    if not results.parts:
        return _NOTHING
    total = sum(results.parts.values())
    parts = [
        (name, f"{count:,.0f}", f"{count / total:.0%}") for name, count in results.parts.items()
    ]
    does = [(name, f"{count:,.1f}") for name, count in results.turn.items()]
    bytecodes = _table(("bytecodes of a turn", "", ""), [*parts, ("all", f"{total:,.0f}", "")])
    return f"{bytecodes}\n{_table(('a turn does', ''), does)}"


def _settings(results: Results) -> str:
    """Say what was measured with."""
    if not results.settings:
        return _NOTHING
    return "".join(f"- **{what}**: {how}\n" for what, how in results.settings)


def _plots(results: Results) -> str:
    """Show every plot that there is."""
    lines = [f"![{title}](performance/{name}.svg)\n" for name, title in _titles(results).items()]
    return "\n".join(lines) or _NOTHING


_NOTHING: Final = "Not measured yet: `make bench` does.\n"
BLOCKS: Final[Mapping[str, Callable[[Results], str]]] = {
    "field": _field,
    "bars": _bars,
    "turn": _turn,
    "settings": _settings,
    "plots": _plots,
}


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


# -- plots --------------------------------------------------------------------------------------

_TITLES: Final = {
    "turns": (_TURNS, "A turn, as its conversation gets longer"),
    "sessions": (_SESSIONS, "Turns a second, by the sessions that go on at once"),
    "fragments": (_FRAGMENTS, "A turn of runefold, by the fragments that its model says"),
}


def _titles(results: Results) -> dict[str, str]:
    return {name: title for name, (key, title) in _TITLES.items() if key in results.series}


def drawn(results: Results) -> dict[str, str]:
    """Return the plots that there are figures for, by the names of their files."""
    found = {}
    for name, title in _titles(results).items():
        series = results.series[_TITLES[name][0]]
        lines = {_short(line): points for line, points in series.items()}
        across, up = _AXES[name]
        found[f"{name}.svg"] = plot(
            title,
            lines,
            axis(across, _values(lines, 0), is_log=name != "turns", is_marked=name != "turns"),
            axis(up, _values(lines, 1), is_log=name != "sessions"),
        )
    return found


_AXES: Final = {
    "turns": ("turns of the conversation so far", "ms a turn, mean of 20"),
    "sessions": ("sessions at once", "turns a second, all sessions together"),
    "fragments": ("fragments of the turn", "of a turn"),
}


_SETTINGS: Final = re.compile(" with | on |, fragments")
"""Where a contender's name begins to say what it is set to."""


def _values(lines: Mapping[str, Points], which: int) -> list[float]:
    return [point[which] for points in lines.values() for point in points]


def _short(name: str) -> str:
    """Return a contender's name without what it is set to.

    >>> _short("Burr with its SQLite persister in WAL mode, as documented")
    'Burr'
    """
    return _SETTINGS.split(name, maxsplit=1)[0].removeprefix("a ")


def write(results: Results) -> None:
    """Write the page's tables and the plots anew."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    PLOTS.mkdir(exist_ok=True)
    for name, text in drawn(results).items():
        (PLOTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(load(RESULTS))
    sys.exit()

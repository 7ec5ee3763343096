"""Plots as SVG, written by hand: lines over logarithmic or even axes, each named where it ends."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Points = Sequence[tuple[float, float]]

WIDTH: Final = 800
HEIGHT: Final = 400
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 56, 48
"""What is left for what is written around the lines."""
APART: Final = 15
"""How far the names of two lines are apart at least."""
COLOURS: Final = (
    "#c2410c",
    "#475569",
    "#0369a1",
    "#15803d",
    "#7e22ce",
    "#a16207",
    "#be185d",
    "#0f766e",
)
"""The first is ours; all of them can be read on white and on nearly black."""


class Axis(NamedTuple):
    """One of the two: what it says, and from where to where it goes."""

    name: str
    low: float
    high: float
    is_log: bool = False
    marks: tuple[float, ...] = ()
    """The values that are written beside it; if there are none, round ones."""

    def place(self, value: float) -> float:
        """Return where a value is on it, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return the values that are written beside it."""
        if self.marks:
            return [*self.marks]
        if self.is_log:
            steps = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            few = len(steps) <= 3
            found = [10.0**step * by for step in steps for by in ((1, 2, 5) if few else (1,))]
        else:
            step = _step((self.high - self.low) / 5)
            found = [step * number for number in range(round(self.high / step) + 2)]
        return [each for each in found if self.low * 0.999 <= each <= self.high * 1.001]


def axis(
    name: str, values: Iterable[float], *, is_log: bool = False, is_marked: bool = False
) -> Axis:
    """Return an axis on which all values are; one that is not logarithmic begins at 0.

    With `is_marked` the values themselves are written beside it.
    """
    found = sorted({*values})
    low, high = found[0], found[-1]
    marks = tuple(found) if is_marked else ()
    if is_log:
        return Axis(name, low / 1.15, high * 1.15, is_log=True, marks=marks)
    return Axis(name, 0.0, high * 1.06, marks=marks)


def _step(rough: float) -> float:
    """Return a step that people count in, at least as large.

    >>> _step(37)
    50.0
    """
    base = 10.0 ** math.floor(math.log10(rough))
    return next(base * by for by in (1, 2, 5, 10) if base * by >= rough)


def plot(title: str, lines: Mapping[str, Points], across: Axis, up: Axis) -> str:
    """Return a plot of some lines, by their names; the first is ours."""
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return LEFT + across.place(x) * wide, TOP + (1 - up.place(y)) * high

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' font-family="system-ui, sans-serif" font-size="12" role="img"'
        f' aria-label="{escape(title)}">'
    )
    parts = [
        head,
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 22, title, 'font-size="15" font-weight="600" fill="#0f172a"'),
        _text(LEFT, 42, up.name, 'fill="#64748b"'),
        _text(LEFT + wide / 2, HEIGHT - 10, across.name, 'fill="#64748b" text-anchor="middle"'),
    ]
    for value in up.ticks():
        _, y = at((across.low, value))
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e8f0"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, _shown(value), 'fill="#64748b" text-anchor="end"'))
    for value in across.ticks():
        x, _ = at((value, up.low))
        parts.append(_text(x, TOP + high + 18, _shown(value), _MIDDLE))
    named = _apart({name: at(points[-1])[1] for name, points in lines.items()})
    # Ours is drawn last, above the others.
    for number, (name, points) in reversed([*enumerate(lines.items())]):
        colour = COLOURS[number % len(COLOURS)]
        ours = number == 0
        places = [at(point) for point in points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{colour}"'
            f' stroke-width="{2.6 if ours else 1.6}" stroke-linejoin="round"/>'
        )
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3.2 if ours else 2.2}" fill="{colour}"/>'
            for x, y in places
        ]
        weight = ' font-weight="600"' if ours else ""
        parts.append(_text(places[-1][0] + 10, named[name] + 4, name, f'fill="{colour}"{weight}'))
    return "\n".join([*parts, "</svg>", ""])


_MIDDLE: Final = 'fill="#64748b" text-anchor="middle"'


def _text(x: float, y: float, words: str, how: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {how}>{escape(words)}</text>'


def _apart(places: Mapping[str, float]) -> dict[str, float]:
    """Move names down, the least that is needed for all of them to be read.

    >>> _apart({"a": 10.0, "b": 12.0, "c": 90.0})
    {'a': 10.0, 'b': 25.0, 'c': 90.0}
    """
    found: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        last = found[name] = max(place, last + APART)
    over = last - (HEIGHT - BOTTOM)
    return {name: place - max(over, 0) for name, place in found.items()}


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"

"""The page says what was published, and its plots show it."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree as ET

import pytest

from bench import plots, report
from bench.contender import Spent
from bench.plots import axis, plot
from bench.results import Results, Standing, load
from bench.table import Row, missed

SPENT = Spent(rate=100.0, cpu=1.5, switches=20.0, written=159.4, syncs=0.5)
ROW = Row(
    name="CPU of a turn", ours=2.5, peer=0.5, peer_name="a loop", ratio=5.0, bar="<= 3", unit="ms",
    ok=False,
)  # fmt: skip
FOUND = Results(
    settings=[("Burr", "as documented")],
    rows=[ROW, missed("streams", "a program", "<= 3", "no such provider")],
    field=[Standing("runefold", SPENT, SPENT, (2.0, 2.04)), Standing("Burr", SPENT, SPENT)],
    turn={"runes": 22.0},
    parts={"laws": 600.0, "log": 400.0},
    series={"turns of a conversation": {"runefold, heard": [(20, 2.0), (40, 2.1)]}},
)


def test_the_page_is_made_from_what_was_published() -> None:
    """No number in it is stale: run `python -m bench.report` after a change."""
    text = report.PAGE.read_text(encoding="utf-8")

    assert report.page(text, load(report.RESULTS)) == text


def test_the_plots_are_made_from_what_was_published() -> None:
    """Each plot that there are figures for is there, as it would be drawn now, and no other."""
    wanted = report.drawn(load(report.RESULTS))
    found = {path.name: path.read_text(encoding="utf-8") for path in report.PLOTS.glob("*.svg")}

    assert found == wanted


def test_every_table_has_its_place_in_the_page() -> None:
    """None is made that nobody reads."""
    text = report.PAGE.read_text(encoding="utf-8")

    assert all(f"<!-- measured: {name} -->" in text for name in report.BLOCKS)


def test_a_table_is_put_where_its_name_is_and_nothing_else_changes() -> None:
    """What is written by hand stays."""
    text = "before\n<!-- measured: bars -->\nstale\n<!-- end of what was measured -->\nafter\n"
    made = report.page(text, FOUND)

    assert made.startswith("before\n<!-- measured: bars -->\n")
    assert made.endswith("<!-- end of what was measured -->\nafter\n")
    assert "stale" not in made
    assert "| CPU of a turn | 2.5 ms | 0.5 (a loop) | 5 | ≤ 3 | **missed** |" in made
    assert "| streams | - | no such provider | - | ≤ 3 | **missed** |" in made
    assert report.page(made, FOUND) == made


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("field", "| runefold | 100 | 100 | 2.0 → 2.0 | 159 | 1.5 | 1.5 | 20 |"),
        ("field", "| Burr | 100 | 100 | - | 159 | 1.5 | 1.5 | 20 |"),
        ("turn", "| laws | 600 | 60% |"),
        ("turn", "| runes | 22.0 |"),
        ("settings", "- **Burr**: as documented"),
        ("plots", "![A turn, as its conversation gets longer](performance/turns.svg)"),
    ],
)
def test_a_table_shows_what_was_measured(name: str, line: str) -> None:
    """Each figure is in its line."""
    assert line in report.BLOCKS[name](FOUND).splitlines()


def test_nothing_is_made_up_where_nothing_was_measured() -> None:
    """A table without figures says so."""
    assert report.BLOCKS["field"](Results()) == "Not measured yet: `make bench` does.\n"
    assert report.drawn(Results()) == {}


def test_a_plot_is_a_picture_with_a_line_for_each_that_is_named() -> None:
    """It is well-formed, every point is inside, and names that contain markup are escaped."""
    lines = {"ours & <us>": [(1, 10.0), (10, 12.0)], "peer": [(1, 10.0), (10, 1_000.0)]}
    values = [10.0, 12.0, 1_000.0]
    text = plot("a < b", lines, axis("n", [1, 10], is_log=True), axis("ms", values, is_log=True))
    svg = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    drawn = [each.attrib["points"] for each in svg.iter(f"{space}polyline")]
    places = [tuple(map(float, pair.split(","))) for each in drawn for pair in each.split()]

    assert len(drawn) == 2
    assert {"ours & <us>", "peer"} <= {each.text for each in svg.iter(f"{space}text")}
    assert all(0 <= x <= plots.WIDTH and 0 <= y <= plots.HEIGHT for x, y in places)


def test_higher_is_further_up_and_more_is_further_right() -> None:
    """The first point of the line that rises is left of and below its last one."""
    text = plot("t", {"a": [(0, 1.0), (5, 9.0)]}, axis("n", [0, 5]), axis("ms", [1.0, 9.0]))
    line = next(ET.fromstring(text).iter("{http://www.w3.org/2000/svg}polyline"))
    (x0, y0), (x1, y1) = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]

    assert x0 < x1
    assert y0 > y1


def test_an_axis_may_be_marked_with_the_values_that_were_measured() -> None:
    """Where they are few and not round, such as numbers of sessions."""
    made = axis("n", [8, 1, 32, 8], is_log=True, is_marked=True)

    assert made.ticks() == [1, 8, 32]


def test_names_at_the_ends_of_lines_do_not_cover_each_other() -> None:
    """They are moved apart, in their order, and stay in the picture."""
    placed = plots._apart({"a": 340.0, "b": 341.0, "c": 345.0, "d": 20.0})
    order = sorted(placed, key=placed.__getitem__)
    gaps = [placed[low] - placed[high] for high, low in itertools.pairwise(order)]

    assert order == ["d", "a", "b", "c"]
    assert all(gap >= plots.APART - 1e-9 for gap in gaps)
    assert max(placed.values()) <= plots.HEIGHT - plots.BOTTOM


@pytest.mark.parametrize(("low", "high"), [(1, 128), (1, 50_000), (0.8, 90)])
def test_an_axis_has_some_ticks_and_all_of_them_on_it(low: float, high: float) -> None:
    """Logarithmic or even, short or long."""
    for is_log in (True, False):
        made = axis("n", [low, high], is_log=is_log)
        ticks = made.ticks()

        assert 3 <= len(ticks) <= 12
        assert all(-0.001 <= made.place(tick) <= 1.001 for tick in ticks)

"""Rules about what is told of failed points: by cause, the app's own words first, by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from runefold.testing import SweepOptions, sweep
from runefold.testing.crash.report.causes import Cause, causes, shape, worst_first
from runefold.testing.crash.report.html import page
from runefold.testing.crash.running.trial import Result
from runefold.testing.crash.verdict.judge import Finding
from runefold.testing.crash.verdict.named import in_what, named
from tests.crash.kit import bots
from tests.crash.kit.test_report import data_of, run

if TYPE_CHECKING:
    from pathlib import Path

TWICE = 'AssertionError\n  File "bot.py", line 61, in check\n    assert len(paid) <= 1\n'


def failed(point: str, *wrong: Finding) -> Result:
    """Return a point that failed of this."""
    return Result(point=point, status="failed", wrong=[*wrong])


def test_points_of_one_cause_are_one_story() -> None:
    """Ids, numbers and what variables held differ from point to point: the cause is the same."""
    found = causes(
        [
            failed("1:after-commit", Finding("check", f"{TWICE}      paid = [1]")),
            failed("2:after-commit", Finding("check", f"{TWICE}      paid = [1, 2]")),
            failed("3:after-commit", Finding("effect", "pay (call_0123456789abcdef) took 2")),
            failed("4:after-commit", Finding("effect", "pay (call_fedcba9876543210) took 3")),
        ]
    )

    assert [(each.verdict, each.points) for each in found] == [
        ("check", ["1:after-commit", "2:after-commit"]),
        ("effect", ["3:after-commit", "4:after-commit"]),
    ]
    assert found[0].message.endswith("paid = [1]")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("refund took effect", "charge took effect"),
        (TWICE, TWICE.replace("paid", "sent")),
        ("turn ended as error", "turn ended as interrupted"),
    ],
)
def test_what_is_said_in_other_words_is_another_cause(one: str, other: str) -> None:
    """Another tool, another line of a check or another end is not thrown together."""
    assert shape(one) != shape(other)
    assert (
        len(causes([failed("1:x", Finding("check", one)), failed("2:x", Finding("check", other))]))
        == 2
    )


def test_the_verdict_parts_causes() -> None:
    """The same words as the verdict of another check are another cause."""
    several = [failed("1:x", Finding("state", "gone")), failed("2:x", Finding("effect", "gone"))]

    assert [each.verdict for each in causes(several)] == ["effect", "state"]


def test_what_the_app_says_comes_first() -> None:
    """What its own check says is understood at once; what else was found explains it."""
    wrong = [Finding("state", "m ended otherwise"), Finding("check", "paid twice")]

    assert [each.verdict for each in worst_first(wrong)] == ["check", "state"]
    assert causes([failed("1:x", *wrong)]) == [
        Cause(verdict="check", message="paid twice", points=["1:x"])
    ]


def test_the_cause_of_most_points_comes_first_of_its_verdict() -> None:
    """Where all say the same of how bad it is, what happens most often is told first."""
    several = [failed("1:x", Finding("check", "seldom"))]
    several += [failed(f"{number}:x", Finding("check", "often")) for number in (2, 3)]

    assert [each.message for each in causes(several)] == ["often", "seldom"]


def test_a_point_of_which_nothing_is_known_is_told_too() -> None:
    """It is never left out of the list of causes."""
    assert [each.points for each in causes([failed("1:x")])] == [["1:x"]]


def test_a_sweep_tells_a_cause_once_and_every_point_beneath() -> None:
    """The summary on the terminal, the page and JSON agree on what failed of what."""
    report = sweep(
        bots.LIAR, SweepOptions(in_process=True, jobs=1, seed=1, again="run --crash-point")
    )
    told = "\n".join(report.lines())
    points = sorted(point for cause in report.causes for point in cause.points)

    assert points == sorted(result.point for result in report.failed)
    assert len(report.causes) < len(points)
    for cause in report.causes:
        assert told.count(f"{cause}\n") == 1
    for point in points:
        assert told.count(f"  {point} did not survive: ") == 1
    assert data_of(page(report))["causes"] == msgspec.to_builtins(report.causes)


def test_json_for_scripts_has_the_causes(tmp_path: Path) -> None:
    """A script need not group them again."""
    done = run(tmp_path, "tests.crash.kit.bots:LIAR", "--in-process", "--json", "--seed", "1")
    told = json.loads(done.stdout)

    assert done.returncode == 1
    assert told["causes"]
    assert {point for cause in told["causes"] for point in cause["points"]} == {
        result["point"] for result in told["results"] if result["status"] == "failed"
    }


def test_values_are_told_by_name() -> None:
    """A reader need not count the items of a tuple: each difference names its field."""
    want = {"phase": "paid", "stats": {"turns": 1, "errors": 0}, "items": ["a", "b"]}
    got = {"phase": "paid", "stats": {"turns": 2, "errors": 0}, "items": ["a"]}

    assert in_what(got, want) == "stats.turns is 2, not 1; items has 1 items, not 2"
    assert (
        in_what({"a": 1}, {"b": 2})
        == "b is missing, it should be 2; a is 1, and should not be there"
    )
    assert named({"phase": "paid", "late": True}) == "phase='paid', late=True"


def test_many_and_long_differences_are_cut() -> None:
    """A state with a thousand fields, or one of a megabyte, does not bury what is known."""
    want = {f"field_{number}": "x" * 10_000 for number in range(20)}
    told = in_what(dict.fromkeys(want, "y"), want)

    assert told.endswith("; and 15 more")
    assert len(told) < 2_000

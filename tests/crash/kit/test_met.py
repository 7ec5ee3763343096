"""Rules about points that are met: what was hit nowhere is not said to have survived."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import msgspec
import pytest
from typer.testing import CliRunner

from runefold.cli.app import app as cli
from runefold.testing import CrashApp
from runefold.testing.crash.plan import modes
from runefold.testing.crash.plan.points import Message
from runefold.testing.crash.report.xml import junit
from runefold.testing.crash.running.baseline import in_both
from runefold.testing.crash.running.trial import NOTHING_MORE, UNMET
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import effect_points, swept, told

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("in_process", [False, True])
def test_an_app_with_ids_of_its_own_is_hit_as_any_other(*, in_process: bool) -> None:
    """A conversation whose id is new in each run: the payment that is made twice is found."""
    app = CrashApp(bots.build_careless, bots.scenario_own_id, bots.check, "own ids")
    point = effect_points(app)[0]
    report = swept(app, in_process=in_process, point=point)

    assert [result.point for result in report.failed] == [point], told(report)
    assert report.failed[0].lives[0].hit == "after-effect"


def test_with_ids_of_its_own_all_points_are_met() -> None:
    """Every commit, every message of an actor and every effect is found again."""
    app = CrashApp(bots.build, bots.scenario_own_id, name="own ids")
    report = swept(app, in_process=True, mode="all", sample=60)

    assert report.ok, told(report)
    assert not report.missed


@pytest.mark.parametrize("in_process", [False, True])
def test_points_that_no_run_comes_by_fail_a_sweep(*, in_process: bool) -> None:
    """They are named, with why that may be and what to do; who knows better may allow some."""
    report = swept(bots.LOST, in_process=in_process, sample=2)
    too_few, allowed = (msgspec.structs.replace(report, allow_missed=count) for count in (1, 2))

    assert (report.ok, allowed.ok, too_few.ok) == (False, True, False)
    assert f"2 not met, however often tried: {report.missed[0].point}, " in told(report)
    assert "the app does not do the same twice" in told(report)
    assert "--allow-missed N" in told(report)
    assert "--allow-missed" not in told(allowed)
    assert [ET.fromstring(junit(each)).get("failures") for each in (report, allowed)] == ["2", "0"]


@pytest.mark.parametrize(("allowed", "code"), [(1, 1), (2, 0)])
def test_the_command_fails_unless_so_many_may_go_unmet(allowed: int, code: int) -> None:
    """Exit code 1 if more points are not met than was said."""
    options = ["tests.crash.kit.bots:LOST", "--in-process", "--sample=2", "--jobs=1"]
    done = CliRunner().invoke(cli, ["crash-test", *options, f"--allow-missed={allowed}"])

    assert (done.exit_code, "2 not met" in done.output) == (code, True), done.output


@pytest.mark.parametrize("in_process", [False, True])
def test_what_is_wrong_in_a_run_that_missed_its_point_is_told(*, in_process: bool) -> None:
    """Nothing was done to it, and it came to something wrong all the same."""
    app = CrashApp(bots.build, bots.scenario_nowhere, bots.check_undisturbed, "wrong by itself")
    report = swept(app, in_process=in_process, sample=1, allow_missed=1)

    assert not report.ok
    assert [finding.verdict for finding in report.failed[0].wrong] == ["check"]
    assert UNMET in told(report)


def test_a_second_hit_falls_into_what_recovery_really_does() -> None:
    """Each point is hit twice, unless its recovery commits nothing at all; that is said."""
    report = swept(
        CrashApp(bots.build, bots.scenario, name="sound"), mode="double", in_process=True
    )
    once = [result for result in report.results if NOTHING_MORE in result.notes]
    twice = [result for result in report.results if result not in once]

    assert report.ok, told(report)
    assert all(len(result.lives) == 2 for result in once)
    assert all(result.lives[0].hit and result.lives[1].hit for result in twice)
    assert all(len(result.lives) == 3 for result in twice)
    assert len(once) <= 3


@pytest.mark.parametrize("in_process", [False, True])
def test_a_second_hit_that_was_asked_for_and_met_nothing_is_not_survived(
    *, in_process: bool
) -> None:
    """One kill is not two: who asks for a point gets it, or is told that it is not there."""
    report = swept(bots.SOUND, point="2:after-commit+99:before-commit", in_process=in_process)

    assert [result.status for result in report.results] == ["missed"]
    assert not report.ok


def test_two_servers_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both do some of it, and what they found is told in the order of the points."""
    monkeypatch.setenv("KIT_PLACES", str(tmp_path))
    app = CrashApp(bots.build, bots.scenario, bots.check_where, "shared")
    report = swept(app, in_process=True, jobs=2)
    points = modes.plan("every", report.boundaries, report.messages, seed=1)

    assert report.ok, told(report)
    assert len(list(tmp_path.iterdir())) == 2
    assert [result.point for result in report.results] == [str(point) for point in points]


def test_only_what_two_runs_have_in_common_is_aimed_at() -> None:
    """A message that an actor was sent in one run and not in the other may never come again."""
    one = [Message(1, "turn Wake", 1), Message(2, "turn Wake", 2), Message(3, "agent Wake", 1)]
    other = [Message(1, "turn Wake", 1), Message(2, "agent Wake", 1)]

    assert in_both(one, other) == [Message(1, "turn Wake", 1), Message(2, "agent Wake", 1)]
    assert in_both(other, one) == other

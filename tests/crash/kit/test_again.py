"""Rules about running a point again: it is the same one, whatever number it has by then."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runefold.testing import CrashApp
from runefold.testing.crash.report.html import page
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runefold.runtime import Runtime
    from runefold.testing import CrashReport, Effects


def scenario_turned(runtime: Runtime) -> None:
    """Pay in two conversations; which of them is the first is another one in each run."""
    directory: Path = runtime.log.directory  # type: ignore[attr-defined]  # wherever it is
    turns = Path(os.environ["KIT_PLACES"], "turns")
    file = directory / "order"
    if not file.exists():
        file.write_text(turns.read_text("utf-8") if turns.exists() else "ab", "utf-8")
        turns.write_text(file.read_text("utf-8")[::-1], "utf-8")
    for name in file.read_text("utf-8"):
        bots.talk(runtime, name).send("pay", message_id="m1").result(bots.PATIENCE)


def check_a(runtime: Runtime, _effects: Effects) -> None:
    """Be content unless something was repeated in the conversation `a`."""
    kinds = [rune.kind for rune in runtime.session("a").runes()]
    assert "tool.retried" not in kinds


TURNED = CrashApp(bots.build_careless, scenario_turned, check_a, "turned")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashReport]:
    """Sweep an app whose commits come in another order each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KIT_PLACES", str(tmp_path_factory.mktemp("places")))
        yield swept(TURNED, warm="fork", again="crash --point")


def test_the_line_that_is_printed_means_the_same_point_in_every_run(report: CrashReport) -> None:
    """Commits come in another order each time: the line says which is meant, and meets it."""
    lines = [report.rerun(result) for result in report.failed]
    options = [shlex.split(line)[1].partition("=")[2] for line in lines]
    again = [
        swept(TURNED, point=point, again="crash --point") for point in options[:1] for _ in "ab"
    ]

    assert report.shifts
    assert lines
    assert all("@a " in point for point in options), lines
    assert all(len(each.failed) == 1 and not each.missed for each in again)
    assert len({each.failed[0].point.partition(":")[0] for each in again}) > 1
    assert all(line in told(report) for line in lines[:1])


def test_the_page_has_the_same_line(report: CrashReport) -> None:
    """It is there to be copied."""
    found = re.search(
        r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page(report), re.DOTALL
    )
    assert found is not None
    reruns = json.loads(found[1])["reruns"]

    assert all(reruns[result.point] == report.rerun(result) for result in report.failed)
    assert all("@a " in reruns[result.point] for result in report.failed)


def test_where_numbers_stay_a_number_is_enough() -> None:
    """An app that does the same each time is told of in the shortest way."""
    report = swept(bots.SOUND, point="2:after-commit", again="crash --point")

    assert not report.shifts
    assert report.rerun(report.results[0]) == "crash --point=2:after-commit"


@pytest.mark.parametrize("in_process", [False, True])
def test_of_messages_it_is_said_which_one_is_meant(*, in_process: bool) -> None:
    """Actors handle them beside each other, in any order; but not on one thread."""
    report = swept(
        bots.SOUND, point="3:actor-after-message", again="crash --point", in_process=in_process
    )
    (option,) = shlex.split(report.rerun(report.results[0]))[1:]

    assert option.startswith("--point=3:actor-after-message")
    assert ("@" in option) is not in_process

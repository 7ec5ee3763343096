"""The crash kit itself is tested: each deliberate bug of the runtime is found by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from actors.catalogue import KINDS
from runefold.testing import SweepOptions, sweep
from runefold.testing.crash.plan.points import BY_MESSAGE, MOMENTS, parse
from tests.crash.core.mutants import MUTANTS, app
from tests.crash.core.outcome_mutants import OUTCOME_MUTANTS

if TYPE_CHECKING:
    from runefold.testing import CrashReport
    from tests.crash.core.mutants import Mutant

PAGE: Final = Path(__file__).parents[3] / "docs" / "planted-bugs.md"
ROW: Final = re.compile(
    r"^\| ([^|]+?) \| `(\w+)` \| `(\w+)` \| `(\w+)` "
    r"\| (?:`([\w-]+)` of `([\w. ]+)`|undisturbed) \|",
    re.MULTILINE,
)
KIND_ROW: Final = re.compile(r"^\| ([^|]+?) \| `(\w+)` \|$", re.MULTILINE)
SOME: Final = ("in doubt, so run again", "snapshot before the log", "half an answer")
"""Those that are killed for real with every run of the tests, each at one point."""
PATIENCE: Final = 15.0
"""Seconds until it is a hang: half of these bugs are about something that never comes."""


def is_at(report: CrashReport, mutant: Mutant, point: str) -> bool:
    """Tell whether a point is of the kind at which a bug is said to show."""
    at = parse(point)
    if at.kind != mutant.moment:
        return False
    if at.kind in BY_MESSAGE:
        return report.messages[at.number - 1].mark.endswith(mutant.of)
    return mutant.of in report.boundaries[at.number - 1].kinds


def verdicts(report: CrashReport, mutant: Mutant, *, anywhere: bool = False) -> set[str]:
    """Return what was said where the bug is said to show, or anywhere."""
    if not mutant.moment:
        return {finding.verdict for finding in report.wrong}
    return {
        finding.verdict
        for result in report.failed
        if anywhere or is_at(report, mutant, result.point)
        for finding in result.wrong
    }


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_caught(name: str) -> None:
    """With the bug switched on something does not survive there, and the right verdict says so."""
    mutant = MUTANTS[name]
    options = SweepOptions(mode=mutant.mode, in_process=True, seed=1, jobs=1)
    if mutant.moment not in MOMENTS:
        assert mutant.caught in verdicts(sweep(app(name), options), mutant)
        return
    report = sweep(app(name), options._replace(sample=1))
    numbers = [at.number for at in report.boundaries if mutant.of in at.kinds]
    hits = (
        sweep(app(name), options._replace(point=f"{number}:{mutant.moment}")) for number in numbers
    )

    assert any(mutant.caught in verdicts(hit, mutant) for hit in hits)


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_caught_by_real_kills(name: str) -> None:
    """So it is where the bug is in a process of its own that is killed at every point."""
    mutant = MUTANTS[name]
    # From the top each time: what hangs would hang twice, from a copy and killed.
    options = SweepOptions(mode=mutant.mode, seed=1, jobs=1, patience=PATIENCE, warm="fork")
    report = sweep(app(name), options)

    found = verdicts(report, mutant, anywhere=mutant.wanders)

    assert not report.ok
    assert mutant.killed in found, "\n".join(report.lines())


@pytest.mark.parametrize("name", SOME)
def test_a_bug_is_caught_by_a_real_kill(name: str) -> None:
    """With every run of the tests at one point: it need not take a sweep to see that it can."""
    mutant = MUTANTS[name]
    report = sweep(app(name), SweepOptions(in_process=True, jobs=1, sample=1))
    numbers = [at.number for at in report.boundaries if mutant.of in at.kinds]
    point = f"{numbers[0]}:{mutant.moment}"
    report = sweep(app(name), SweepOptions(jobs=1, point=point, patience=PATIENCE, warm="fork"))

    assert mutant.killed in verdicts(report, mutant), "\n".join(report.lines())


def point_of(report: CrashReport) -> str:
    """Return the moment at which the bugs of kinds show: the last call of a tool is under way."""
    return (
        f"{[at.number for at in report.boundaries if 'tool.started' in at.kinds][-1]}:after-commit"
    )


def found_by(report: CrashReport) -> set[str]:
    """Return all verdicts on the points of a sweep."""
    return {finding.verdict for result in report.failed for finding in result.wrong}


@pytest.mark.parametrize("name", OUTCOME_MUTANTS)
def test_a_bug_of_a_kind_is_found_by_its_outcome_alone(name: str) -> None:
    """What an entity came to is another thing after the kill, and nothing else tells."""
    options = SweepOptions(in_process=True, seed=1, jobs=1)
    undisturbed = sweep(app(name), options._replace(sample=1))
    report = sweep(app(name), options._replace(point=point_of(undisturbed)))

    assert found_by(report) == {"outcome"}, "\n".join(report.lines())
    told = {finding.message for result in report.failed for finding in result.wrong}
    assert {text.partition("what each ")[2].partition(" came to")[0] for text in told} == {
        OUTCOME_MUTANTS[name].kind.name
    }


def test_every_kind_has_such_a_bug() -> None:
    """A kind whose outcome was never compared would not be missed otherwise."""
    assert {kind.name for kind in KINDS} <= {each.kind.name for each in OUTCOME_MUTANTS.values()}


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", OUTCOME_MUTANTS)
def test_a_bug_of_a_kind_is_found_by_a_real_kill(name: str) -> None:
    """So it is where the log is on disk and the process is killed."""
    undisturbed = sweep(app(name), SweepOptions(in_process=True, jobs=1, sample=1))
    point = point_of(undisturbed)
    report = sweep(app(name), SweepOptions(jobs=1, point=point, patience=PATIENCE, warm="fork"))

    assert found_by(report) == {"outcome"}, "\n".join(report.lines())


def test_the_page_lists_them_all() -> None:
    """The documentation names each bug, the mode, what caught it, and where."""
    listed = {row[0]: row[1:] for row in ROW.findall(PAGE.read_text("utf-8"))}

    assert listed == {
        name: (each.mode, each.caught, each.killed, each.moment, each.of)
        for name, each in MUTANTS.items()
    }


def test_the_page_lists_those_of_kinds_too() -> None:
    """The documentation names each of them, and the kind that it is of."""
    listed = dict(KIND_ROW.findall(PAGE.read_text("utf-8")))

    assert listed == {name: each.kind.name for name, each in OUTCOME_MUTANTS.items()}

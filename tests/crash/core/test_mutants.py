"""The crash kit itself is tested: each deliberate bug of the runtime is found by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runefold.testing import SweepOptions, sweep
from tests.crash.core.mutants import MUTANTS, app

PAGE = Path(__file__).parents[3] / "docs" / "crash-testing.md"
ROW = re.compile(r"^\| ([^|]+?) \| `(\w+)` \| `(\w+)` \|", re.MULTILINE)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_caught(name: str) -> None:
    """With the bug switched on something does not survive, and the right verdict says so."""
    mutant = MUTANTS[name]
    report = sweep(app(name), SweepOptions(mode=mutant.mode, staged=True, seed=1, jobs=1))
    found = [*report.wrong, *(finding for result in report.failed for finding in result.wrong)]

    assert not report.ok
    assert mutant.caught in {finding.verdict for finding in found}


def test_a_bug_is_caught_by_a_real_kill() -> None:
    """With real processes it is the same: what was in doubt was executed twice."""
    name = "in doubt, so run again"
    report = sweep(app(name), SweepOptions(seed=1, jobs=1, point=_after_the_first_tool(name)))
    (result,) = report.failed

    assert "effect" in {finding.verdict for finding in result.wrong}


def _after_the_first_tool(name: str) -> str:
    report = sweep(app(name), SweepOptions(staged=True, jobs=1, sample=1))
    return next(
        f"{at.number}:after-effect"
        for at in report.boundaries
        if [effect.what for effect in at.effects] == ["tool"]
    )


def test_the_page_lists_them_all() -> None:
    """The documentation names each bug, the mode in which it shows, and what caught it."""
    listed = {(name, mode, caught) for name, mode, caught in ROW.findall(PAGE.read_text("utf-8"))}

    assert listed == {(name, each.mode, each.caught) for name, each in MUTANTS.items()}

"""Faults of the machine that an app must not notice, each where it once did harm."""

from __future__ import annotations

from typing import Final

import pytest

from runefold.testing import SweepOptions, sweep
from tests.crash.core.apps import app

CASES: Final = [
    ("fault", "turn.stream_restarted", "clock-back"),
    ("approval", "turn.assistant_delta", "sync-eio"),
]
"""A retry that is paused for must not take as long as a clock was set back by; and whoever follows
a log is told when it fails."""


@pytest.mark.parametrize(("name", "rune", "fault"), CASES)
def test_nobody_is_held_up(name: str, rune: str, fault: str) -> None:
    """On threads and on disk, at the first commit that has such a rune."""
    found = app(name)
    report = sweep(found, SweepOptions(jobs=1, sample=1))
    at = next(each.number for each in report.boundaries if rune in each.kinds)
    again = sweep(found, SweepOptions(jobs=1, point=f"{at}:{fault}", patience=30))

    assert again.ok, "\n".join(again.lines())
    assert again.results[0].status == "survived"

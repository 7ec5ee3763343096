"""Rules about apps with machines of their own: the kit knows the kinds that the runtime knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing import SweepOptions, sweep
from tests.crash.kit.machines import ERRANDS, ORDERS, PURCHASES

if TYPE_CHECKING:
    from runefold.testing import CrashApp

each_app = pytest.mark.parametrize("app", [ORDERS, ERRANDS, PURCHASES], ids=lambda app: app.name)


@each_app
def test_an_apps_machine_survives_at_every_point(app: CrashApp) -> None:
    """Its runes are audited and its calls known, in a session and outside of one."""
    report = sweep(app, SweepOptions(in_process=True, seed=1, jobs=1))

    assert report.ok, "\n".join(report.lines())
    assert len(report.results) > 10


@each_app
def test_an_apps_machine_survives_real_kills(app: CrashApp) -> None:
    """So it is where the log is on disk and the process is killed."""
    report = sweep(app, SweepOptions(sample=4, seed=2))

    assert report.ok, "\n".join(report.lines())

"""The pytest plugin of runefold: the fixture `crash_sweep` and its options.

It is installed beside the package, not in it: every run of pytest imports it, in projects too that
have runefold installed and test something else, and those must not pay for more than this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runefold.testing.crash.fixture import Sweeper


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the crash kit."""
    group = parser.getgroup("runefold", "runefold's crash kit")
    group.addoption(
        "--crash-point",
        metavar="POINT",
        help="sweep one point only, as a failure prints it: 17:after-effect",
    )
    group.addoption(
        "--crash-sweep",
        type=int,
        metavar="N",
        help="of a test that sweeps more than once, the one that the point is of",
    )
    group.addoption(
        "--crash-mode",
        metavar="MODE",
        help="every, random, double, actor, faults or all, whatever a test says",
    )
    group.addoption("--crash-seed", type=int, metavar="N", help="what is chosen at random")
    group.addoption("--crash-sample", type=int, metavar="N", help="so many points at most")
    group.addoption("--crash-jobs", type=int, metavar="N", help="so many at once")
    group.addoption("--crash-order", type=int, metavar="N", help="in process: the order of events")
    group.addoption("--crash-patience", type=float, metavar="SECONDS", help="when it is a hang")
    group.addoption("--crash-report", metavar="DIR", help="write an HTML page for each sweep there")
    group.addoption("--crash-keep", metavar="DIR", help="keep the directories of failures there")
    group.addoption(
        "--crash-in-process",
        action="store_true",
        default=None,
        help="have the log raise instead of a kill: quick, on one thread",
    )
    group.addoption(
        "--crash-from-the-top",
        action="store_true",
        default=None,
        help="kill at each point, and begin with no copies of what a kill leaves",
    )


@pytest.fixture
def crash_sweep(request: pytest.FixtureRequest) -> Sweeper:
    """Kill an app at every boundary, open it again, and fail unless it comes to the same end.

    def test_my_bot_survives(crash_sweep):
        crash_sweep(build, scenario, check)
    """
    from runefold.testing.crash.fixture import Sweeper  # noqa: PLC0415 -- see above

    return Sweeper(request)

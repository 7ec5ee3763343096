"""Every scenario of the core under every mode of the crash kit: it comes to the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.core.apps import app
from tests.scenarios.plays import ALL

if TYPE_CHECKING:
    from runefold.testing.crash.fixture import Sweeper

MODES: Final = ("every", "double", "actor", "faults")
OFTEN: Final = ("parallel", "approval", "steer", "interrupt", "team", "budget")
"""What agents are for: killed at several moments even in the short run."""
ORDERS: Final = (None, 1, 2, 3, 4, 5)
"""Orders in which things happen; the first is the order in which they come."""
SEED: Final = 7
UNMET: Final = 1
"""How many points of a scenario may go unmet if no two runs of it are alike."""
ACTORS_UNMET: Final = 2
"""The same where actors die of messages: each is two points, before it and after it. How often one
is woken is up to the threads that have something to tell it, in any scenario."""


def sweep(
    sweeper: Sweeper, name: str, *, quick: bool = False, kept: bool = False, **options: object
) -> set[str]:
    """Sweep a scenario; return what became of its points. What does not survive is told at once.

    Where time is hurried, or conversations go on beside each other, it is up to the machine what
    comes first: a moment may not come a second time, and that one is then left out.
    """
    found = app(name, warm=quick, kept=kept)
    by_message = options.get("mode") == "actor"
    if chancy := ALL[name].hurried or ALL[name].mixed or by_message:
        options.setdefault("allow_missed", ACTORS_UNMET if by_message else UNMET)
    report = sweeper(found.build, found.scenario, found.check, seed=SEED, **options)
    return {each.status for each in report.results if not (chancy and each.status == "missed")}


@pytest.mark.parametrize("name", ALL)
def test_cut_off_somewhere_it_comes_to_the_same_end(crash_sweep: Sweeper, name: str) -> None:
    """At a sample of the points of all modes, in one process and in another order of events."""
    assert sweep(crash_sweep, name, mode="all", in_process=True, sample=12, order=SEED) == {
        "survived"
    }


def test_a_plain_turn_killed_anywhere_comes_to_the_same_end(crash_sweep: Sweeper) -> None:
    """Killed for real at every moment there is, a fresh process goes on."""
    assert sweep(crash_sweep, "plain") == {"survived"}


@pytest.mark.parametrize("name", [name for name in ALL if name != "plain"])
def test_killed_somewhere_it_comes_to_the_same_end(crash_sweep: Sweeper, name: str) -> None:
    """Killed for real at some points, once or twice, a fresh process goes on."""
    sample = 6 if name in OFTEN else 2
    assert sweep(crash_sweep, name, quick=True, mode="random", sample=sample) == {"survived"}


@pytest.mark.parametrize("mode", ["every", "actor"])
def test_killed_somewhere_what_was_kept_of_it_may_be_believed(
    crash_sweep: Sweeper, mode: str
) -> None:
    """States were kept on the way, so most of the log is not read again: it is the same end."""
    assert sweep(crash_sweep, "budget", mode=mode, kept=True, sample=8) == {"survived"}


@pytest.mark.crash
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ALL)
def test_cut_off_anywhere_it_comes_to_the_same_end(
    crash_sweep: Sweeper, name: str, order: int | None
) -> None:
    """At every point of every mode, in any order of events."""
    assert sweep(crash_sweep, name, mode="all", in_process=True, order=order) == {"survived"}


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ALL)
def test_killed_anywhere_it_comes_to_the_same_end(
    crash_sweep: Sweeper, name: str, mode: str
) -> None:
    """Killed for real at every point, and hit by every fault, a fresh process goes on."""
    assert sweep(crash_sweep, name, mode=mode, quick=True) == {"survived"}


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mode", ["every", "actor"])
@pytest.mark.parametrize("name", ALL)
def test_killed_anywhere_what_was_kept_of_it_may_be_believed(
    crash_sweep: Sweeper, name: str, mode: str
) -> None:
    """The same where states were kept as often as can be."""
    assert sweep(crash_sweep, name, mode=mode, kept=True) == {"survived"}


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", ["budget", "team"])
def test_begun_from_copies_it_comes_to_the_same_end(crash_sweep: Sweeper, name: str) -> None:
    """The longest ones once more from copies of what a kill leaves: those killed as well agree."""
    assert sweep(crash_sweep, name, warm="snapshot") == {"survived"}

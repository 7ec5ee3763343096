"""Killed again and again: what gets nowhere is suspended, what waits or gets further is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from actors.session.lifecycle import Phase
from actors.session.runes import Suspended
from runefold.testing import CrashApp, SweepOptions, sweep
from tests.crash.core.apps import build_warm, till_of
from tests.scenarios.plays import NAME, App, folded, is_done, until
from tests.scenarios.world import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runefold.runtime import Runtime
    from runefold.testing import Effects
    from runefold.testing.crash.running.trial import Result

OPENS: Final = 5
"""More than a session that gets nowhere is given."""

in_process = pytest.mark.parametrize(
    "in_process", [True, pytest.param(False, marks=pytest.mark.crash)], ids=["in_process", "killed"]
)
"""On the stage with every run, with real processes in the long sweeps."""


def asked(runtime: Runtime) -> None:
    """Send what a human has to agree to, and something behind it; see to both."""
    app = App(runtime, till_of(runtime))
    turns = [app.send("refund", "m1"), app.send("hello", "m2")]
    log = runtime.log
    until(runtime, lambda: bool(folded(log).approvals) or is_done(log, "m1"))
    for each in folded(log).approvals:
        app.session.approve(each.call_id, approver="ada")
    app.wait(*turns)


def charge_all(runtime: Runtime) -> None:
    """Have several customers charged in one round."""
    app = App(runtime, till_of(runtime))
    app.wait(app.send("charge all", "m1"))


@dataclass(frozen=True)
class LookedAfter:
    """Says something; if the session is suspended, somebody looks and lets it go on."""

    word: str

    def __call__(self, runtime: Runtime) -> None:
        """Send, see to it, wait."""
        app = App(runtime, till_of(runtime))
        turn = app.send(self.word, "m1")
        if app.session.state.phase is Phase.SUSPENDED:
            app.session.unsuspend()
        app.wait(turn)


def _suspensions(runtime: Runtime) -> list[str]:
    found = [each.payload for each in runtime.log.read(NAME, kinds={"session.suspended"})]
    return [rune.reason for rune in found if isinstance(rune, Suspended)]


def never_given_up(runtime: Runtime, _effects: Effects) -> None:
    """Hold that nobody had to look, and that nothing was charged twice."""
    entries = till_of(runtime).entries()

    assert _suspensions(runtime) == []
    assert [*runtime.log.read(NAME, kinds={"turn.error", "turn.interrupted"})] == []
    assert entries
    assert len(entries) == len(set(entries))


def given_up(runtime: Runtime, effects: Effects) -> None:
    """Hold that somebody had to look, once, if it was hit at all."""
    assert _suspensions(runtime) == (["error_threshold"] if effects.point else [])


def killed(
    app: CrashApp, rune: str, moment: str, then: Sequence[str], *, in_process: bool
) -> Result:
    """Kill an app at the first commit that has a rune, and then at each of some other moments."""
    report = sweep(app, SweepOptions(in_process=in_process, jobs=1, sample=1))
    at = next(each.number for each in report.boundaries if rune in each.kinds)
    point = "+".join([f"{at}:{moment}", *then])
    report = sweep(app, SweepOptions(in_process=in_process, jobs=1, point=point, warm="fork"))

    assert report.ok, "\n".join(report.lines())
    (result,) = report.results
    assert [each.ended for each in result.lives] == ["killed"] * (1 + len(then)) + ["finished"]
    return result


def _app(play: Callable[[Runtime], None], check: Callable[[Runtime, Effects], None]) -> CrashApp:
    return CrashApp(build_warm, play, check, "again and again")


@in_process
def test_what_waits_for_a_human_outlives_any_number_of_processes(*, in_process: bool) -> None:
    """Nothing but an approval is missing: opened often, a session and its queue are as they were.

    Each process finds what the first one left: that is all it has to do until somebody agrees.
    """
    app = _app(asked, never_given_up)
    then = ["1:before-commit"] * OPENS
    result = killed(app, "tool.approved", "before-commit", then, in_process=in_process)

    assert len({each.found[NAME] for each in result.lives[1:]}) == 1
    assert "session.reopened" not in [kind for step in result.steps for kind in step.kinds]


@in_process
def test_a_turn_that_gets_further_each_time_is_not_given_up(*, in_process: bool) -> None:
    """Killed after each of the charges of one round, a turn makes them all, each once."""
    app = _app(charge_all, never_given_up)
    # It says that it was opened again, that there is a doubt; then its end and the next charge.
    then = ["3:after-effect"] * (MANY - 1)
    result = killed(app, "tool.started", "after-effect", then, in_process=in_process)
    found = [each.found[NAME] for each in result.lives[1:]]

    assert found == sorted(set(found))


@in_process
@pytest.mark.parametrize(
    ("word", "rune", "first"),
    [("hello", "model.called", []), ("charge all", "tool.started", ["3"])],
)
def test_a_turn_that_gets_nowhere_is_given_up(
    word: str, rune: str, first: Sequence[str], *, in_process: bool
) -> None:
    """Killed each time before anything came of it, a session waits for somebody to look.

    So it is in the middle of a round too, where the next call has begun and others wait for it.
    """
    app = _app(LookedAfter(word), given_up)
    then = [*(f"{number}:after-effect" for number in first), *["1:after-commit"] * OPENS]
    result = killed(app, rune, "after-effect", then, in_process=in_process)

    assert "session.suspended" in [kind for step in result.steps for kind in step.kinds]

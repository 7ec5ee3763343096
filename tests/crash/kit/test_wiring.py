"""Rules about a sweep as a whole: every verdict is asked for, and every point is what it says."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import msgspec
import pytest

from runefold import open_hook
from runefold.testing import CrashApp, CrashReport
from runefold.testing.crash.instrumentation.journal import Committed, Memory, Synced, Told
from runefold.testing.crash.instrumentation.logs import InProcessLog
from runefold.testing.crash.instrumentation.watch import Watch
from runefold.testing.crash.plan.points import aims, parse
from runefold.testing.crash.running.in_process import InProcess, InProcessScene
from runefold.testing.crash.running.trial import Scene
from runefold.testing.crash.verdict import judge
from runelog.rune import Change
from tests.crash.kit import bots, broken
from tests.crash.kit.test_sweep import swept, told
from tests.crash.kit.test_verdicts import log_of, lost, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runefold.runtime import Runtime

BOTH: Final = pytest.mark.parametrize("in_process", [True, False])


@cache
def recorded(app: CrashApp) -> CrashReport:
    """Return what an app does if nothing happens to it."""
    with tempfile.TemporaryDirectory() as place:
        return hit_here(app, "", Path(place))


def hit_here(app: CrashApp, point: str, place: Path) -> CrashReport:
    """Hit an app at a point as in one process, and in this one: no server has to start for it."""
    scene = InProcessScene(
        Scene(app, place / "work", place, bots.PATIENCE, place / "baseline"), None
    )
    found = scene.record()
    report = CrashReport(
        app=app.name,
        mode="every",
        in_process=True,
        boundaries=found.boundaries,
        messages=found.messages,
        wrong=found.wrong,
    )
    if found.wrong or not point:
        return report
    at = parse(point)
    result = scene.attempt(at, aims(at, found.boundaries, found.messages))
    return msgspec.structs.replace(report, results=[result])


def hit(app: CrashApp, point: str, place: Path, *, in_process: bool) -> CrashReport:
    """Hit an app at a point, here or in processes that are really killed."""
    return hit_here(app, point, place) if in_process else swept(app, point=point)


@pytest.fixture(autouse=True)
def _bugs_are_taken_out() -> Iterator[None]:
    """Take out what an app has put into this process."""
    yield
    mock.patch.stopall()


def commit(app: CrashApp, kind: str) -> int:
    """Return the number of the commit with the first rune of a kind."""
    return next(at.number for at in recorded(app).boundaries if kind in at.kinds)


def message(mark: str) -> int:
    """Return the number of the first message of an actor that is told by this."""
    found = recorded(bots.SOUND).messages
    return next(at.number for at in found if at.mark == f"{bots.NAME} {mark}")


def found(report: CrashReport) -> dict[str, str]:
    """Return what is said of the one point, by verdict."""
    return {finding.verdict: finding.message for finding in report.results[0].wrong}


# -- verdicts are asked for ------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (broken.scenario_lacking, "was acknowledged, and is not in the log"),
        (broken.scenario_changed, "was acknowledged as session.input_accepted, and is now"),
    ],
)
def test_a_log_that_does_not_keep_what_it_acknowledged_is_found(
    scenario: Callable[[Runtime], None], words: str, tmp_path: Path, *, in_process: bool
) -> None:
    """Whatever it says to others: every rune is looked for that was once said to be on disk."""
    app = CrashApp(bots.build, scenario, name="forgetful")
    report = hit(
        app, f"{commit(bots.SOUND, 'tool.started')}:after-commit", tmp_path, in_process=in_process
    )

    assert words in found(report)["acknowledged"], told(report)


@BOTH
def test_a_state_that_drifts_from_its_runes_is_found(tmp_path: Path, *, in_process: bool) -> None:
    """All that is in the log is well, and the session believes something else."""
    app = CrashApp(bots.build, broken.scenario_drifting, name="drifting")
    report = hit(
        app, f"{commit(bots.SOUND, 'tool.started')}:after-commit", tmp_path, in_process=in_process
    )

    assert [*found(report)] == ["state"], told(report)
    assert "the live state is not the replayed one" in found(report)["state"]


EARLY: Final = CrashApp(broken.build_early, broken.scenario_paused, name="early")


def test_what_an_app_was_told_too_early_is_found(tmp_path: Path) -> None:
    """It was told that its message is kept, and a kill took the message.

    What a process that is really killed had given to the system by then is a matter of luck.
    """
    point = f"{commit(EARLY, 'session.input_accepted')}:before-sync"
    report = hit(EARLY, point, tmp_path, in_process=True)

    assert "told that m1 is accepted, and the log has lost" in found(report)["acknowledged"]


@BOTH
def test_an_invariant_that_is_broken_without_a_crash_is_told(
    tmp_path: Path, *, in_process: bool
) -> None:
    """Nothing is swept then, as everything would be blamed on crashes."""
    app = CrashApp(bots.build, broken.scenario_stray, name="stray")
    report = hit(app, "1:before-commit", tmp_path, in_process=in_process)

    assert "invariant" in {finding.verdict for finding in report.wrong}, told(report)
    assert report.results == []
    assert not report.ok


@BOTH
def test_a_turn_that_ends_in_an_error_of_a_fault_nobody_may_notice_is_found(
    tmp_path: Path, *, in_process: bool
) -> None:
    """Asked again a little later the model would have answered: an app that gives up is found."""
    app = CrashApp(bots.build, broken.scenario_gives_up, name="gives up")
    report = hit(
        app, f"{commit(bots.SOUND, 'model.called')}:provider-429", tmp_path, in_process=in_process
    )

    assert "m1 ended as error" in told(report)
    assert "state" in found(report), told(report)


def test_of_an_event_that_was_written_twice_the_first_one_counts() -> None:
    """It was acknowledged; that another one took its place, and was acknowledged too, is a loss."""
    journal = Memory()
    for life, text in ((1, "a"), (2, "b")):
        log = InProcessLog(lambda: 0)
        log.watch = Watch(life, journal)
        log.append("conv_a", [Change("call_1", 0, (said(text),))])
    lines = journal.lines()

    assert [type(line) for line in lines] == [Committed, Synced, Committed, Synced]
    assert len(lost(lines, log_of(said("b")))) == 1
    assert [*judge.lost(lines, log_of(said("a")))] == []


# -- points are what they say ----------------------------------------------------------------------


def left(report: CrashReport, number: int) -> int:
    """Return how much of the commit with a number a kill left, and of what came after it."""
    (result,) = report.results
    return result.head.get(bots.NAME, 0) - (report.boundaries[number - 1].first - 1)


@BOTH
@pytest.mark.parametrize(
    ("moment", "kept"), [("before-commit", 0), ("before-sync", 0), ("after-commit", 2)]
)
def test_a_kill_leaves_what_its_moment_says(
    moment: str, kept: int, tmp_path: Path, *, in_process: bool
) -> None:
    """Of a commit that nobody waited for: all of it after it, and nothing before or unsynced."""
    number = commit(bots.SOUND, "session.input_accepted")
    report = hit(bots.SOUND, f"{number}:{moment}", tmp_path, in_process=in_process)
    at = report.boundaries[number - 1]

    assert report.ok, told(report)
    assert at.kinds == ("session.input_accepted", "turn.started")
    assert at.synced
    assert left(report, number) == kept


@pytest.mark.parametrize("kind", ["actor-before-message", "actor-after-message"])
@pytest.mark.parametrize("mark", ["tool#1 Wake", "turn_1 Wake"])
def test_an_actor_that_is_to_die_does(kind: str, mark: str, tmp_path: Path) -> None:
    """Somebody had to start it again, and said so in the log; its process lived on."""
    app = CrashApp(bots.build, bots.scenario, broken.check_restarted, "restarted")
    report = hit_here(app, f"{message(mark)}:{kind}", tmp_path)

    assert report.ok, told(report)
    assert report.results[0].lives[0].hit == kind
    assert len(report.results[0].lives) == 1


# -- what is noted ---------------------------------------------------------------------------------


def test_what_an_app_is_told_is_noted(tmp_path: Path) -> None:
    """That its conversation is there, that its message is kept, and how the turn ended."""
    stage = InProcess(None)
    stage.begin(1, None)
    with open_hook.through(stage):
        runtime = bots.build(tmp_path)
    bots.scenario(runtime)
    lines: list[Any] = [line for line in stage.journal.lines() if isinstance(line, Told)]

    assert lines == [
        Told(1, bots.NAME, "created"),
        Told(1, bots.NAME, "accepted", "m1"),
        Told(1, bots.NAME, "completed", "m1"),
    ]


@BOTH
def test_turns_that_nobody_waits_for_are_given_time_to_end(
    tmp_path: Path, *, in_process: bool
) -> None:
    """They are judged when they have come to rest: undisturbed, and after a crash."""
    app = CrashApp(bots.build, broken.scenario_leaves, broken.check_over, "leaves")
    report = hit(
        app, f"{commit(bots.SOUND, 'tool.started')}:after-commit", tmp_path, in_process=in_process
    )

    assert report.ok, told(report)
    assert len(report.results[0].lives) == 2

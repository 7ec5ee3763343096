"""Rules about sweeps: what is sound survives, and what is wrong is found and named."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from actors.catalogue import CODEC
from runefold.cli.app import app as cli
from runefold.testing import CrashApp, SweepOptions, sweep
from runelog.errors import Refused
from runelog.store import Runelog
from tests.crash.kit import bots

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from runefold.testing import CrashReport


def swept(app: CrashApp, **options: Any) -> CrashReport:  # noqa: ANN401 -- those of a sweep
    """Sweep an app with one server."""
    return sweep(app, SweepOptions(**{"jobs": 1, "seed": 1, **options}))


TWICE = ["killed", "killed", "finished"]


def told(report: CrashReport) -> str:
    """Return all that is said of a sweep."""
    return "\n".join(report.lines())


# -- real kills ----------------------------------------------------------------------------------


def test_what_is_sound_survives_a_kill() -> None:
    """Killed before and after a commit and after an effect, it comes to the same end each time."""
    report = swept(bots.SOUND, sample=5, warm="fork")

    assert report.ok, told(report)
    assert len(report.results) == 5
    assert all(result.lives[0].ended == "killed" for result in report.results)
    assert all(result.lives[1].ended == "finished" for result in report.results)


def test_a_probe_that_lies_is_found_out(tmp_path: Path) -> None:
    """A payment made twice is named, the log is kept, and one line runs the point again."""
    app = CrashApp(bots.build_lying, bots.scenario, name="liar")
    points = effect_points(app)
    report = swept(app, point=points[-1], keep=str(tmp_path), again="pytest --crash-point")
    (result,) = report.failed

    assert {finding.verdict for finding in result.wrong} == {"effect"}
    assert "took effect 2 times: its probe said that it had not happened" in told(report)
    assert f"pytest --crash-point={points[-1]}" in told(report)
    with Runelog.open(Path(result.kept) / "app", CODEC, readonly=True) as log:
        assert "tool.retried" in [each.kind for each in log.read(bots.NAME)]


@cache
def effect_points(app: CrashApp) -> list[str]:
    """Return the points after the effects of tools."""
    report = swept(app, in_process=True, sample=1)
    return [
        f"{at.number}:after-effect" + (f".{which}" if which > 1 else "")
        for at in report.boundaries
        for which, effect in enumerate(at.effects, 1)
        if effect.what == "tool"
    ]


def test_a_hang_is_a_failure_with_its_stacks() -> None:
    """What does not come to its end in time is ended, and every thread says what it waited for."""
    app = CrashApp(bots.build, bots.scenario_stuck, name="stuck")
    report = swept(app, point=effect_points(bots.SOUND)[0], patience=4)
    (result,) = report.failed

    assert [finding.verdict for finding in result.wrong] == ["hang"]
    assert "in scenario_stuck, line" in result.wrong[0].message
    assert "scenario_stuck" in result.stacks.split("\n\n")[0]
    assert result.stacks.count("(most recent call first)") > 1
    assert result.lives[-1].ended == "hung"


@pytest.mark.parametrize("in_process", [False, True])
def test_a_process_that_ends_by_itself_is_a_failure(*, in_process: bool) -> None:
    """Nobody killed it a second time: whatever it did before, it has not survived."""
    app = CrashApp(bots.build, bots.scenario_dying, name="dying")
    report = swept(app, point=effect_points(bots.SOUND)[0], in_process=in_process)

    assert [finding.verdict for finding in report.failed[0].wrong] == ["died"]


def test_copies_of_what_a_kill_leaves_come_to_the_same() -> None:
    """Begun from snapshots, the same points survive, and those that are really killed agree."""
    report = swept(bots.SOUND, sample=6)

    assert report.ok, told(report)
    assert report.agreed == (1, 1)
    assert all(result.warm for result in report.results)
    assert "6 from copies (1 of them killed as well)" in report.summary()


def test_killed_again_while_it_recovers_it_survives() -> None:
    """A second kill, in the middle of the recovery from the first, changes nothing."""
    report = swept(bots.SOUND, mode="double", sample=2)

    assert report.ok, told(report)
    ended = [[life.ended for life in result.lives] for result in report.results]
    # A second kill may be aimed at a commit that the recovery from the last ones does not make.
    assert TWICE in ended
    assert all(each in (TWICE, TWICE[1:]) for each in ended), ended


def test_the_report_says_what_recovery_did() -> None:
    """Of each point it is known what the kill left and what was appended afterwards."""
    report = swept(bots.SOUND, point=effect_points(bots.SOUND)[0])
    (result,) = report.results
    kinds = [kind for step in result.steps for kind in step.kinds]

    assert result.head[bots.NAME] > 0
    assert kinds[:3] == ["session.reopened", "tool.doubted", "tool.result"]


def test_functions_of_a_running_program_are_copied() -> None:
    """A closure cannot be imported by others: a process with one thread is copied for it."""
    done = subprocess.run(
        [sys.executable, "-c", _CLOSURE], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout == "True 1\n", done.stdout + done.stderr


_CLOSURE = """
from runefold.testing import CrashApp, SweepOptions, sweep
from tests.crash.kit import bots

app = CrashApp(lambda directory: bots.build(directory), bots.scenario)
report = sweep(app, SweepOptions(jobs=1, sample=1))
print(report.ok, len(report.results))
"""


def test_functions_of_a_running_program_are_refused_beside_threads() -> None:
    """A process with more threads cannot be copied: that is said, and what to do about it."""
    app = CrashApp(lambda directory: bots.build(directory), bots.scenario)  # noqa: PLW0108 -- made here
    over = threading.Event()
    beside = threading.Thread(target=over.wait)
    beside.start()
    try:
        with pytest.raises(Refused, match="make them functions of a module"):
            swept(app, sample=1)
    finally:
        over.set()
        beside.join()


# -- in one process ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["every", "actor", "faults"])
def test_in_one_process_all_modes_are_survived(mode: str) -> None:
    """The same sweep with a log that raises instead of a kill: every point of every mode."""
    report = swept(CrashApp(bots.build, bots.scenario, name="sound"), mode=mode, in_process=True)

    assert report.ok, told(report)
    assert not report.missed


def test_what_the_app_says_must_hold_is_asked_each_time() -> None:
    """A tool that is said to be idempotent and is not: only the app's own check can tell."""
    app = CrashApp(bots.build_careless, bots.scenario, bots.check, "careless")
    report = swept(app, in_process=True)
    verdicts = {finding.verdict for result in report.failed for finding in result.wrong}

    assert report.failed[0].point == effect_points(app)[0]
    assert verdicts == {"check"}
    assert "assert len(paid) == len(set(paid)) == 1, paid" in told(report)
    assert re.search(r"paid = \['call_\w+', 'call_\w+'\]", told(report))


def test_a_call_that_nobody_can_ask_about_is_unknown_and_not_repeated() -> None:
    """That is allowed: it is told to everybody, and it was not executed twice."""
    report = swept(CrashApp(bots.build_blind, bots.scenario, name="blind"), in_process=True)

    assert report.ok, told(report)


def test_what_does_not_even_run_undisturbed_is_not_swept() -> None:
    """Nothing is blamed on a crash that is wrong without one."""
    report = swept(CrashApp(bots.build, bots.scenario, _never, "never"), in_process=True)

    assert not report.ok
    assert report.results == []
    assert "the undisturbed run is not well" in told(report)
    assert "nothing is ever right" in told(report)


def _never(_runtime: object, _effects: object) -> None:
    raise AssertionError("nothing is ever right")  # noqa: EM101 -- once


@pytest.mark.parametrize("in_process", [False, True])
def test_a_scenario_that_commits_nothing_is_not_said_to_survive(*, in_process: bool) -> None:
    """There is nothing to be killed at: that is a mistake, and is told as one."""
    report = swept(CrashApp(bots.build, _idle, name="idle"), in_process=in_process)

    assert not report.ok
    assert "without a single commit" in told(report)


def _idle(_runtime: object) -> None:
    pass


@pytest.mark.parametrize("in_process", [False, True])
def test_one_that_waits_in_vain_undisturbed_is_explained(*, in_process: bool) -> None:
    """What the runtime says to it is told, with where in the app that was."""
    report = swept(CrashApp(bots.build_slow, _hasty, name="hasty"), in_process=in_process)

    assert report.results == []
    assert "Unanswered" in told(report)
    assert "in _hasty" in told(report)


def _hasty(runtime: Runtime) -> None:
    bots.talk(runtime, tools=[]).send("hello", message_id="m1").result(0.1)


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize("name", ["scenario_twice", "scenario_anew"])
def test_a_scenario_that_cannot_be_called_again_is_explained(
    name: str, *, in_process: bool
) -> None:
    """Without ids a resend is a new message: that is said before anything is swept."""
    report = swept(CrashApp(bots.build, getattr(bots, name), name=name), in_process=in_process)

    assert not report.ok
    assert "called again on what it left the scenario is not" in told(report)
    assert "a message_id" in told(report)


def test_a_hang_in_one_process_is_a_failure_too() -> None:
    """The process that hangs gives up by itself, and another one takes its place."""
    app = CrashApp(bots.build, bots.scenario_stuck, name="stuck")
    points = effect_points(bots.SOUND)
    report = swept(app, point=points[0], patience=3, in_process=True)

    assert [finding.verdict for finding in report.failed[0].wrong] == ["hang"]
    assert "scenario_stuck" in report.failed[0].stacks


def test_another_order_of_events_is_survived_too() -> None:
    """Who runs next is left to a seed, and the same seed gives the same boundaries."""
    reports = [swept(bots.SOUND, in_process=True, order=3, sample=6) for _ in range(2)]

    assert reports[0].ok, told(reports[0])
    assert [at.mark for at in reports[0].boundaries] == [at.mark for at in reports[1].boundaries]


@pytest.mark.parametrize("in_process", [False, True])
def test_what_differs_by_itself_is_not_compared(*, in_process: bool) -> None:
    """A model that never says the same twice: the report says so, and all else is judged."""
    app = CrashApp(bots.build_moody, bots.scenario_small, name="moody")
    report = swept(app, in_process=in_process, sample=2)

    assert report.ok, told(report)
    assert len(report.varies) == 2
    assert "two undisturbed runs differ in this, so it is not compared" in told(report)


@pytest.mark.parametrize("in_process", [False, True])
def test_a_scenario_may_be_async(*, in_process: bool) -> None:
    """One that awaits its turns is swept as any other."""
    app = CrashApp(bots.build, bots.scenario_async, bots.check, "async")
    report = swept(app, in_process=in_process, sample=2)

    assert report.ok, told(report)


@pytest.mark.parametrize(
    ("app", "why"),
    [
        ("no colon", "write it as package.module:app"),
        ("tests.crash.kit.bots:nothing", "cannot be imported"),
        ("nowhere.to.be.found:app", "cannot be imported"),
        ("tests.crash.kit.bots:Bank", "has no function build"),
    ],
)
def test_what_names_no_app_is_refused(app: str, why: str) -> None:
    """Before anything is started it is said what is wrong with the name."""
    with pytest.raises(Refused, match=why):
        sweep(app)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def build(:", r"SyntaxError: .*\(broken_app\.py, line 1\)\n"),
        ("import math\nmath.sqrt(-1)", r"ValueError: .*\(\S+/broken_app\.py, line 2\)\n"),
    ],
)
def test_a_module_that_does_not_run_is_refused_with_where(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of the app's is told as such, without the kit's own code around it."""
    (tmp_path / "broken_app.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(cli, ["crash-test", "broken_app:app"])

    assert done.exit_code == 2
    assert re.search(f"broken_app:app cannot be imported: .*{why}", done.output), done.output
    assert "importlib" not in done.output


def test_what_is_opened_behind_our_back_is_noticed() -> None:
    """A runtime that was not opened through `Runtime.open` here cannot be watched."""
    report = swept(CrashApp(_behind, bots.scenario, name="behind"))

    assert "the crash kit did not see opened" in told(report)


def _behind(directory: Path) -> Any:  # noqa: ANN401 -- a runtime
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 -- only here

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(bots.build, directory).result()

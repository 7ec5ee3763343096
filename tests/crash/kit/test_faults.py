"""Rules about faults: each is played in earnest, and who takes it wrongly is found out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import pytest

from actors.tool.adapters.function import tool
from actors.tool.context import Call
from actors.tool.runes import Result
from runefold.testing import CrashApp
from runefold.testing.crash.plan.faults import WORDS, MadeToFail, raising
from tests.crash.kit import bots, faulty
from tests.crash.kit.test_sweep import swept, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runefold.runtime import Runtime
    from runefold.testing import CrashReport, Effects

UNTOLD: Final = {"actor", "finished", "hang"}
"""Nobody is told that something has raised: then somebody waits for it, or is told wrongly."""
CASES: Final = [
    ("tool-raises", bots.build, "functions may raise", UNTOLD),
    ("tool-raises", faulty.build_own, "tools may raise", UNTOLD),
    ("tool-breaks", bots.build, "functions may raise", UNTOLD),
    ("tool-breaks", faulty.build_own, "tools may raise", UNTOLD),
    ("provider-raises", bots.build, "models may raise", UNTOLD),
    ("provider-refuses", bots.build, "models may refuse", UNTOLD),
    ("sync-lost", bots.build, "written for sure", {"effect"}),
]
"""A fault, an app that it is played on, a bug of the runtime, and verdicts that may find it."""


@cache
def points(fault: str) -> list[str]:
    """Return where a fault can be played: on what it befalls, or before a tool is begun."""
    what = "model" if fault.startswith("provider") else "tool"
    report = swept(bots.SOUND, in_process=True, point="1:before-commit")
    return [
        f"{at.number}:{fault}"
        for at in report.boundaries
        for effect in at.effects
        if effect.what == what
    ]


def played(fault: str, build: object, bug: str = "", *, in_process: bool) -> CrashReport:
    """Play a fault on an app, in a runtime with a bug."""
    made = faulty.Bugged(build, bug)  # type: ignore[arg-type]  # those of the cases
    app = CrashApp(made, bots.scenario, name=bug or "sound")
    return swept(app, point=points(fault)[0], in_process=in_process, patience=6)


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize(("fault", "build", "bug", "verdicts"), CASES)
def test_a_fault_is_survived_unless_it_is_taken_wrongly(
    fault: str, build: object, bug: str, verdicts: set[str], *, in_process: bool
) -> None:
    """What was raised is told, what was lost is not believed; a runtime that errs is found out."""
    sound = played(fault, build, in_process=in_process)
    wrong = played(fault, build, bug, in_process=in_process)

    assert sound.ok, told(sound)
    assert sound.results[0].lives[0].hit == fault
    assert verdicts & {finding.verdict for finding in wrong.failed[0].wrong}, told(wrong)


def test_a_model_that_hangs_is_given_up() -> None:
    """It holds its thread and says nothing: after a while it is asked again; else it is a hang."""
    sound = played("provider-hangs", bots.build, in_process=False)
    wrong = played("provider-hangs", bots.build, "silence is golden", in_process=False)

    assert sound.ok, told(sound)
    assert [finding.verdict for finding in wrong.failed[0].wrong] == ["hang"]


def check_error(runtime: Runtime, effects: Effects) -> None:
    """See that the tool was run, once, and that what it raised is its result."""
    if effects.point:
        (result,) = [each.payload for each in runtime.log.read(bots.NAME, kinds={"tool.result"})]
        assert isinstance(result, Result)
        assert (result.status, result.error) == ("error", f"MadeToFail: {WORDS}")
        assert [done.status for done in effects.of("pay")] == ["error"]


def test_a_tool_that_raises_is_run_as_any_other() -> None:
    """Its own adapter makes a result of what it raises; the ledger knows that it was executed."""
    app = CrashApp(bots.build, bots.scenario, check_error, "raising")
    report = swept(app, point=points("tool-raises")[0], in_process=True)

    assert report.ok, told(report)


def paid(runtime: Runtime) -> int:
    """Return how often somebody was paid."""
    directory: Path = runtime.log.directory  # type: ignore[attr-defined]  # wherever it is
    return len(bots.Bank(directory).paid())


def check_unpaid(runtime: Runtime, effects: Effects) -> None:
    """See that the tool failed before it had paid."""
    check_error(runtime, effects)
    assert paid(runtime) == (0 if effects.point else 1)


def check_paid(runtime: Runtime, effects: Effects) -> None:
    """See that it failed after it had."""
    check_error(runtime, effects)
    assert paid(runtime) == 1


@pytest.mark.parametrize(
    ("fault", "check"), [("tool-raises", check_unpaid), ("tool-breaks", check_paid)]
)
def test_a_tool_that_breaks_has_done_its_work(
    fault: str, check: Callable[[Runtime, Effects], None]
) -> None:
    """The money is gone and the answer is lost, as on a bad line; one that just raises did none."""
    report = swept(CrashApp(bots.build, bots.scenario, check, fault), point=points(fault)[0])

    assert report.ok, told(report)
    assert report.results[0].lives[0].hit == fault


async def later(cents: int) -> str:
    """Pay, but not at once."""
    return f"{cents} paid"


def test_whatever_a_tool_is_it_raises_where_its_own_code_would() -> None:
    """A function fails within its adapter, and stays as it was; what is no function just raises."""
    call = Call(call_id="call_1", arguments={"cents": 5})
    for each in (faulty.pay, tool(later)):
        assert raising(each).run(call).error == f"MadeToFail: {WORDS}"
        assert raising(each, late=True).run(call).error == f"MadeToFail: {WORDS}"
        assert each.run(call).output == "5 paid"
    with pytest.raises(MadeToFail):
        raising(faulty.OwnTool(faulty.pay)).run(call)


def check_lost(runtime: Runtime, effects: Effects) -> None:
    """See that what could not be synced was not there when the log was opened again."""
    if effects.point:
        kinds = [each.kind for each in runtime.log.read(bots.NAME)]
        assert "session.reopened" in kinds
        assert kinds.count("tool.started") == kinds.count("tool.result") == 1
        assert kinds.index("tool.started") > kinds.index("session.reopened")


@pytest.mark.parametrize("in_process", [True, False])
def test_what_could_not_be_synced_is_really_gone(tmp_path: Path, *, in_process: bool) -> None:
    """The commit that begins a tool is lost: it begins, and is executed, in the next life only."""
    app = CrashApp(bots.build, bots.scenario, check_lost, "losing")
    report = swept(app, point=points("sync-lost")[0], in_process=in_process, keep=str(tmp_path))

    assert report.ok, told(report)
    assert [life.ended for life in report.results[0].lives][-1] == "finished"
    assert len(report.results[0].lives) == 2

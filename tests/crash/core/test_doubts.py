"""A charge that nobody can ask about and that a kill caught: told to everybody, made by nobody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pytest

from actors.agent.history import History
from runefold.testing import CrashApp, SweepOptions, sweep
from tests.crash.core.apps import Play, build_warm, till_of
from tests.scenarios.judge import UNKNOWN
from tests.scenarios.plays import NAME, folded

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.runtime import Runtime
    from runefold.testing import Effects

TOLD: Final = "operator"
"""The file in which an operator finds what was said."""


class Notes(logging.Handler):
    """Writes down which calls an operator was warned of."""

    def __init__(self, path: Path) -> None:
        """Write into a file, which outlives the process."""
        super().__init__(logging.WARNING)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of a warning, if it is about a doubt."""
        if vars(record)["event"] == "outcome_unknown":
            told = vars(record)
            with self._path.open("a", encoding="utf-8") as notes:
                notes.write(f"{told['conversation']} {told['call']}\n")


def build(directory: Path) -> Runtime:
    """Open as usual, with an operator who listens."""
    logging.getLogger("runefold").handlers[:] = [Notes(directory / TOLD)]
    return build_warm(directory)


def check(runtime: Runtime, effects: Effects) -> None:
    """Hold that each charge was made once, and who was told of the second one."""
    till = till_of(runtime)
    made = till.entries()
    calls = [each.owner for each in runtime.log.read(NAME, kinds={"tool.call"})]
    doubts = [calls[1]] if effects.point else []
    head = runtime.log.conversation(NAME).head
    history = History.read(runtime.log, NAME, folded(runtime.log).root, head)
    results = [message for message in history.messages if message.role == "tool"]
    unknown = [each.call_id for each in results if each.status == "unknown"]
    operator = runtime.log.directory.parent / TOLD  # type: ignore[attr-defined]  # all have one
    told = operator.read_text("utf-8").splitlines() if operator.exists() else []
    never = effects.point.endswith("after-commit")

    assert made == [call for call in calls if not never or call not in doubts]
    assert [each.call_id for each in runtime.session(NAME).in_doubt()] == doubts, (
        "the app is not told"
    )
    assert unknown == doubts, "the model is not told"
    assert all(each.text.startswith(UNKNOWN) for each in results if each.status == "unknown")
    assert len(results) == len(calls)
    assert told == [f"{NAME} {call}" for call in doubts], "the operator is not told"


@pytest.mark.parametrize(
    ("moment", "in_process"),
    [("after-commit", True), ("after-effect", True), ("after-effect", False)],
)
def test_a_charge_in_doubt_is_told_to_everybody_and_not_made_again(
    moment: str, *, in_process: bool
) -> None:
    """Whether it was made or not: app, model and operator hear of it, and the others are made."""
    app = CrashApp(build, Play("blind charges"), check, "doubts")
    report = sweep(app, SweepOptions(in_process=in_process, jobs=1, sample=1))
    tools = [at for at in report.boundaries if [each.what for each in at.effects] == ["tool"]]
    report = sweep(
        app, SweepOptions(in_process=in_process, jobs=1, point=f"{tools[1].number}:{moment}")
    )

    assert report.ok, "\n".join(report.lines())
    assert [result.status for result in report.results] == ["survived"]

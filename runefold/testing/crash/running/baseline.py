"""The undisturbed run: what an app does if nothing happens to it, and where it could happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from runefold.testing.crash.instrumentation.journal import Execution, Journal
from runefold.testing.crash.plan.points import Boundary, Message
from runefold.testing.crash.running.run_once import JOURNAL, LEDGER, OUTPUT, STACKS, Order, Report
from runefold.testing.crash.running.stacks import in_order, where
from runefold.testing.crash.running.trial import TAIL, lived, read, scratch
from runefold.testing.crash.verdict.boundaries import boundaries, handled
from runefold.testing.crash.verdict.comparison import varied
from runefold.testing.crash.verdict.judge import Finding
from runefold.testing.crash.verdict.outcome import LogOutcome, encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runefold.testing.crash.instrumentation.journal import Line
    from runefold.testing.crash.running.trial import How, Scene


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The undisturbed run."""

    boundaries: list[Boundary] = []
    messages: list[Message] = []
    outcome: LogOutcome | None = None
    wrong: list[Finding] = []
    seconds: float = 0
    executions: int = 0
    varies: list[str] = []
    """In what two undisturbed runs differ: that is not compared."""
    shifts: bool = False
    """Whether the commits of another one are others: then a number does not say which is meant."""
    output: str = ""
    stacks: str = ""


def record(scene: Scene) -> Recording:
    """Run the app undisturbed and write down every boundary; then see that it can be swept at all.

    Run afresh it must come to the same, or final states cannot be compared. And a scenario that is
    played again on what it left must change nothing: that is what happens when the process dies
    right after its end.
    """
    with scratch(scene.work) as root:
        found = _undisturbed(scene, root)
        if found.wrong or found.outcome is None:
            return found
        other = _another(scene)
        wrong = other.wrong
        if other.outcome is None:
            return msgspec.structs.replace(found, wrong=wrong)
        shifts = _in_order(found) != _in_order(other)
        want, varies = varied(found.outcome, other.outcome)
        # On what it left itself, the ids are those that it drew.
        scene.baseline.write_bytes(encoded(msgspec.structs.replace(want, drawn=False)))
        again = _again(scene, root)
        scene.baseline.write_bytes(encoded(want))
    return msgspec.structs.replace(
        found,
        messages=in_both(found.messages, other.messages),
        wrong=[*again, *wrong],
        outcome=want,
        varies=varies,
        shifts=shifts,
    )


def in_both(one: Sequence[Message], other: Sequence[Message]) -> list[Message]:
    """Return the messages of one run that another had too, numbered anew.

    An actor that is told several things at once is woken for all of them: how often it is, is up to
    the threads that tell it, and what only happens now and then cannot be aimed at.
    """
    there = {(at.mark, at.occurrence) for at in other}
    common = [at for at in one if (at.mark, at.occurrence) in there]
    return [msgspec.structs.replace(at, number=number) for number, at in enumerate(common, 1)]


def _in_order(found: Recording) -> list[tuple[str, int]]:
    """Return what a run's commits are told by, in the order in which they came."""
    return [(at.mark, at.occurrence) for at in found.boundaries]


def _another(scene: Scene) -> Recording:
    """Run the app undisturbed once more, in an empty directory, without its check."""
    with scratch(scene.work) as root:
        return _undisturbed(scene, root, check=False)


def _undisturbed(scene: Scene, root: Path, *, check: bool = True) -> Recording:
    order = Order(root=str(root), life=1, patience=scene.patience, messages=True, check=check)
    how, report = lived(scene.app, order)
    lines = [*Journal(root / JOURNAL).lines(), *Journal(root / LEDGER).lines()]
    output, stacks = read(root / OUTPUT)[-TAIL:], in_order(read(root / STACKS))
    if report is None or report.outcome is None:
        wrong = _unfinished(how, report, stacks)
        return Recording(wrong=wrong, output=output, stacks=stacks)
    return Recording(
        boundaries=boundaries(lines),
        messages=handled(lines),
        outcome=report.outcome,
        wrong=[*report.wrong, *(Finding("invariant", each) for each in report.outcome.problems)],
        seconds=report.seconds,
        executions=sum(isinstance(line, Execution) for line in lines),
        output=output,
        stacks=stacks,
    )


def _again(scene: Scene, root: Path) -> list[Finding]:
    """Play the scenario once more on what it left; return what that changed."""
    order = Order(
        root=str(root),
        life=2,
        patience=scene.patience,
        baseline=str(scene.baseline),
    )
    how, report = lived(scene.app, order)
    wrong = _unfinished(how, report) if report is None else list(report.wrong)
    wrong += added(Journal(root / LEDGER).lines())
    return [not_again(each) for each in wrong]


def _unfinished(how: How, report: Report | None, stacks: str = "") -> list[Finding]:
    if report is not None and report.wrong:
        return list(report.wrong)
    if how == "hung":
        return [Finding("hang", f"it did not come to its end in time{where(stacks)}")]
    return [Finding("died", f"its process {how}")]


def added(lines: Sequence[Line]) -> Iterator[Finding]:
    """Yield what a scenario did that had been done already."""
    for line in lines:
        if isinstance(line, Execution) and line.life > 1:
            yield Finding("effect", f"{line.what} {line.name} was called once more")
            return


def not_again(finding: Finding) -> Finding:
    """Say that a scenario cannot be called again, and what to do about that."""
    text = (
        "undisturbed it is well, but called again on what it left the scenario is not: "
        f"{finding.message}\nAfter a crash the scenario is called again on the runtime that was "
        "opened again. Give every conversation a conversation_id and every message a message_id, "
        "so that doing it again finds what is there; open a conversation that is there with "
        "runtime.session(...)."
    )
    return Finding(finding.verdict, text)

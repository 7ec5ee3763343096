"""What came of a sweep, in one value: for people, for scripts, for pictures."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from runefold.testing.crash.plan.points import BY_MESSAGE, Boundary, Message, parse, spelled
from runefold.testing.crash.report.causes import Cause, causes
from runefold.testing.crash.running.trial import Result
from runefold.testing.crash.verdict.judge import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHOWN: Final = 5
"""Of so many points of a cause it is told how they are run again."""
_NAMED: Final = 20
"""So many other points are named."""

_UNMET: Final = (
    "  Nothing is known of a point that no run comes by: the app does not do the same twice.",
    "  Have it do so: with the same ids, nothing left to chance or to the clock, and nothing that",
    "  may come sooner or later beside the rest. Or say that so many may go unmet:",
    "  --allow-missed N, or crash_sweep(..., allow_missed=N).",
)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a sweep; unless more is said, of one that was not made."""

    app: str
    mode: str
    seed: int = 0
    in_process: bool = False
    order: int | None = None
    jobs: int = 0
    """How many processes there were at once,"""
    cores: int = 0
    """and on how many cores."""
    boundaries: list[Boundary] = []
    messages: list[Message] = []
    runes: int = 0
    executions: int = 0
    undisturbed: float = 0
    """Seconds that the app takes if nothing happens to it."""
    wrong: list[Finding] = []
    """What is wrong with the undisturbed run already: then nothing was swept."""
    varies: list[str] = []
    """In what two undisturbed runs differ: that was not compared."""
    shifts: bool = False
    """Whether commits come in another order each time: then a number does not say enough."""
    output: str = ""
    stacks: str = ""
    results: list[Result] = []
    agreed: tuple[int, int] | None = None
    """Of so many points that were both copied and killed, how many came to the same.

    If not all did, no copy was used.
    """
    spot: int = 0
    """Of the points that are told of from a copy, how many were killed as well, to be sure of it.

    One that fails from its copy is told of as what the kill came to, and is none of these.
    """
    notes: list[str] = []
    """What else is to be known of how it was swept."""
    swept: float = 0
    """Seconds that all points took together."""
    seconds: float = 0
    allow_missed: int = 0
    """So many points may go unmet."""
    interrupted: bool = False
    """Whether it was broken off: then these are the points that were done by then."""
    again: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything was met and survived."""
        whole = not self.interrupted and not self.too_many_missed
        return whole and not self.wrong and not self.failed

    @property
    def too_many_missed(self) -> bool:
        """Whether more points went unmet than is allowed: what they would show is unknown."""
        return len(self.missed) > self.allow_missed

    @property
    def failed(self) -> list[Result]:
        """The points that did not survive."""
        return [result for result in self.results if result.status == "failed"]

    @property
    def causes(self) -> list[Cause]:
        """What the failed points failed of, the worst first: points of one cause are together."""
        return causes(self.failed)

    @property
    def missed(self) -> list[Result]:
        """The points that no run came by."""
        return [result for result in self.results if result.status == "missed"]

    @property
    def rate(self) -> float:
        """Points per second."""
        return len(self.results) / self.swept if self.swept else 0.0

    @property
    def way(self) -> str:
        """How the points were come by: in one process, from the top, or from copies."""
        if self.in_process:
            return "in one process"
        copied = sum(result.warm for result in self.results)
        if not copied:
            return "each from the top"
        same = f" ({self.spot} of them killed as well)" if self.spot else ""
        rest = len(self.results) - copied
        return f"{copied} from copies{same}" + (f", {rest} from the top" if rest else "")

    def summary(self) -> str:
        """Say in one line what came of it."""
        counts = Counter(result.status for result in self.results)
        cores = f"{self.cores} core{'' if self.cores == 1 else 's'}"
        points = f"{len(self.results)} point{'' if len(self.results) == 1 else 's'}"
        parts = [
            f"{points} of {len(self.boundaries)} commits ({self.runes} runes)",
            f"{counts['survived']} survived",
            f"{counts['failed']} failed",
            *([f"{counts['missed']} not met"] if counts["missed"] else []),
            f"{self.swept:.1f} s on {cores}, {self.rate:.1f} points/s",
            self.way,
            f"seed {self.seed}",
        ]
        return ", ".join(parts)

    def lines(self) -> Iterator[str]:
        """Yield what a person has to know, the worst first."""
        if self.wrong:
            yield "the undisturbed run is not well, so nothing was swept:"
            yield from (f"  {finding}" for finding in self.wrong)
            if self.output:
                yield f"  it printed: {self.output}"
            if self.stacks:
                yield f"  its stacks:\n{self.stacks}"
            return
        results = {result.point: result for result in self.failed}
        for cause in self.causes:
            yield from self._cause(cause, results)
        if self.too_many_missed:
            yield from self._unmet()
        if self.varies:
            yield "two undisturbed runs differ in this, so it is not compared:"
            yield from (f"  {each}" for each in self.varies[:_SHOWN])
            if len(self.varies) > _SHOWN:
                yield f"  and in {len(self.varies) - _SHOWN} more"
        yield from self.notes
        yield self.summary()

    def _unmet(self) -> Iterator[str]:
        points = [result.point for result in self.missed]
        more = f" and {len(points) - _NAMED} more" if len(points) > _NAMED else ""
        yield f"{len(points)} not met, however often tried: {', '.join(points[:_NAMED])}{more}"
        yield from _UNMET

    def _cause(self, cause: Cause, results: Mapping[str, Result]) -> Iterator[str]:
        points = [results[point] for point in cause.points]
        first = points[0]
        yield str(cause)
        yield from (f"  and so {each}" for each in first.wrong[1:])
        yield from (f"  {note}" for note in first.notes)
        if first.stacks:
            yield "  every thread, when the time was up:"
            yield first.stacks
        for result in points[:_SHOWN]:
            yield f"  {result.point} did not survive: {self.where(result)}"
            if result.shown:
                yield f"    its log: {result.shown}"
            if again := self.rerun(result):
                yield f"    again:   {again}"
        if rest := points[_SHOWN:]:
            more = ", ".join(each.point for each in rest[:_NAMED])
            yield f"  and {len(rest)} more: {more}" + (" …" if len(rest) > _NAMED else "")

    def where(self, result: Result) -> str:
        """Say at what it was hit."""
        point = parse(result.point)
        if point.kind in BY_MESSAGE:
            return self.messages[point.number - 1].mark
        at = self.boundaries[point.number - 1]
        return f"{' + '.join(at.kinds)} in {at.conversation}"

    def rerun(self, result: Result) -> str:
        """Return the one line that runs just this point again."""
        if not self.again:
            return ""
        point = parse(result.point)
        # In which order actors handle messages is a matter of time, unless there is one thread.
        shifts = self.shifts or (point.kind in BY_MESSAGE and not self.in_process)
        if not shifts:
            return f"{self.again}={point}"
        told = spelled(point, self.boundaries, self.messages)
        return f"{self.again}={shlex.quote(told)}"

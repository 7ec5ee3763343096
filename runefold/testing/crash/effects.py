"""What was really done outside, as a ledger beside the log has it: for an app's own checks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runefold.testing.crash.instrumentation.journal import Execution, Over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runefold.testing.crash.instrumentation.journal import Line


class Done(msgspec.Struct, frozen=True):
    """One real execution of a tool, or of a model."""

    what: str
    """`tool` or `model`."""
    name: str
    call_id: str
    arguments: dict[str, Any]
    conversation: str
    life: int
    """In which process: 1 is the one that was disturbed first."""
    status: str = ""
    """How it ended; empty if the process ended first, so that how far it got is unknown."""

    @property
    def finished(self) -> bool:
        """Whether it ran to its end."""
        return bool(self.status)


class Effects:
    """The ledger: every execution that really took place, in order.

    >>> effects = Effects([])
    >>> effects.count("refund"), effects.twice()
    (0, {})
    """

    def __init__(
        self,
        lines: Sequence[Line],
        *,
        point: str = "",
        fault: str = "",
        directory: Path | None = None,
    ) -> None:
        """Read the ledger; `point` says where the app was hit, `fault` with what."""
        self.directory = Path() if directory is None else directory
        """Where the app lives: what `build` was given."""
        self.point = point
        """Where the app was hit, as on the command line; empty in the undisturbed run."""
        self.fault = fault
        """What went wrong on purpose, `provider-garbage` for instance; empty if it was a kill."""
        ends = {(line.life, line.number): line for line in lines if isinstance(line, Over)}
        self._done = [
            Done(
                line.what,
                line.name,
                line.call_id,
                line.arguments,
                line.conversation,
                line.life,
                end.status if (end := ends.get((line.life, line.number))) else "",
            )
            for line in lines
            if isinstance(line, Execution)
        ]

    def __iter__(self) -> Iterator[Done]:
        """Every execution, in order."""
        return iter(self._done)

    def __len__(self) -> int:
        """How many there were, of tools and of models."""
        return len(self._done)

    def of(self, tool: str) -> list[Done]:
        """Return the executions of one tool."""
        return [done for done in self._done if done.what == "tool" and done.name == tool]

    def count(self, tool: str) -> int:
        """Return how often a tool was really executed, whatever the log says."""
        return len(self.of(tool))

    def per_call(self, tool: str) -> dict[str, int]:
        """Return how often a tool was executed for each call id."""
        return dict(Counter(done.call_id for done in self.of(tool)))

    def twice(self) -> dict[str, int]:
        """Return the calls of tools that were executed more than once, and how often."""
        counts = Counter(done.call_id for done in self._done if done.what == "tool")
        return {call: count for call, count in counts.items() if count > 1}

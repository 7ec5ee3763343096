"""Power cuts on the stage: the whole runtime on one thread, cut off at any append."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from actors.clock import HandClock
from actors.errors import Crashed, Dead, Unanswered
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Closed, Fault
from tests.scenarios.judge import broken_promises
from tests.scenarios.plays import ALL, NAME, folded
from tests.scenarios.world import PROVIDERS, MemoryTill, tools

if TYPE_CHECKING:
    from runefold.runtime import Runtime

CUT_OFF: Final = (PowerCut, Unanswered, Dead, Crashed, Closed, Fault)
"""What an app may see of a power cut; in truth it sees nothing any more."""

WHILE: Final = 20.0
"""Seconds that recovery may take on the hand-driven clock: it pauses before it asks a model."""


class Cut(NamedTuple):
    """The power fails at the n-th append or effect: before it is on disk or done, or just after."""

    number: int
    after: bool = False
    where: Literal["append", "tool"] = "append"

    def __str__(self) -> str:
        """Say when."""
        return f"{'after' if self.after else 'before'} {self.where} {self.number}"


class Rig(Stage):
    """A stage whose power fails, also while it is getting up again."""

    def __init__(self, seed: int | None) -> None:
        """Begin with power."""
        self.till = MemoryTill()
        self.broken: list[str] = []
        """What the app was told and a power cut took back."""
        self._in_tool: Cut | None = None
        self._effects = 0
        options: dict[str, Any] = {"tools": tools(self.till, self._mishap), "providers": PROVIDERS}
        super().__init__(seed=seed, **options)

    def _mishap(self, when: str) -> None:
        cut = self._in_tool
        if cut is not None and when == ("after" if cut.after else "before"):
            self._effects += 1
            if self._effects == cut.number:
                self.crash()
                raise PowerCut

    def cut(self, cut: Cut | None) -> None:
        """Have the power fail so many appends or effects from now on."""
        self._effects = 0
        self._in_tool = cut if cut is not None and cut.where == "tool" else None
        if cut is not None and cut.where == "append":
            self.log.cut_at = self.log.appends + cut.number
            self.log.cut_after = cut.after

    def again(self, cut: Cut | None) -> Runtime:
        """Open it again, with a power cut to come while that goes on, or later."""
        self.log.mend()
        self.broken += broken_promises(self.log, self.till)
        self.cut(cut)
        # No process comes back in the very moment in which the one before it went.
        self.clock = HandClock(self.clock.now() + 1)
        self.runtime = self._open()
        return self.runtime


def recover(name: str, cut: Cut) -> list[str]:
    """Open a scenario again after a power cut and let the app do nothing; return what is left."""
    rig = Rig(None)
    with contextlib.suppress(*CUT_OFF):
        ALL[name].play(rig.again(cut), rig.till)
    rig.again(None)
    rig.advance(WHILE)
    rig.log.flush()
    if not any(each.id == NAME for each in rig.log.conversations()):
        return []
    state = folded(rig.log)
    left = [*state.running, *state.waiting, *rig.log.open_work()]
    return [f"{name}, cut {cut}: there is still {left}"] if left else []


def points(name: str) -> list[Cut]:
    """Return every moment at which the power can fail in a scenario."""
    rig = Rig(None)
    ALL[name].play(rig.runtime, rig.till)
    rig.log.flush()
    appends, effects = rig.log.appends, len(rig.till.entries())
    found = [Cut(n, after) for n in range(1, appends + 1) for after in (False, True)]
    inside = [Cut(n, after, "tool") for n in range(1, effects + 1) for after in (False, True)]
    return [*found, *inside]

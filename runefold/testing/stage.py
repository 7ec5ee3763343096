"""A runtime on one thread: the clock stands until it is moved, chance comes from a seed.

The same actors, laws and supervisors as in production, with a log in memory. Nothing sleeps, and
the same seed gives the same run. `crash` ends it as a power cut would, at once and everywhere;
`reopen` opens it again on what was committed.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Any

from actors.catalogue import CODEC
from actors.clock import ManualClock
from actors.manual_scheduler import ManualScheduler
from runefold.runtime import Runtime
from runelog.memory import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runelog.rune import Appended, Change


class PowerCut(BaseException):
    """The process is gone: nothing that follows happens."""


class FragileLog(MemoryLog):
    """A log in memory that can be cut off before or after its n-th append."""

    def __init__(self, now: Callable[[], int]) -> None:
        """Begin whole, at the time that `now` gives."""
        super().__init__(CODEC, now, hold=True)
        self.appends = 0
        self.cut_at: int | None = None
        """The append at which the power fails."""
        self.cut_after = False
        """Whether that append still gets to disk."""
        self.is_cut = False
        self._unsaved = False
        """Whether something was appended that nobody has waited for yet."""

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append, unless the power fails just then."""
        self._check_power()
        self.appends += 1
        if self.appends == self.cut_at and not self.cut_after:
            self._cut()
        appended = super().append(conversation, changes, durable=durable, timeout=timeout)
        self._unsaved = not durable
        if self.appends == self.cut_at:
            self.commit_pending()
            self._cut()
        return appended

    def flush(self, conversation: str | None = None) -> None:
        """Commit everything, while there is power."""
        self._check_power()
        super().flush(conversation)
        self._unsaved = False

    def save(self) -> bool:
        """Commit what nobody waits for, as a log does by itself; tell whether there was any."""
        if self.is_cut or not self._unsaved:
            return False
        self._unsaved = False
        self.commit_pending()
        return True

    def _check_power(self) -> None:
        if self.is_cut:
            raise PowerCut

    def _cut(self) -> None:
        self.is_cut = True
        raise PowerCut

    def mend(self) -> None:
        """Have power again; what was not committed is gone."""
        self.is_cut = False
        self.cut_at = None
        self._unsaved = False
        self.lose_pending()


class StageScheduler(ManualScheduler):
    """By hand, beside a log: time enough to wait is time enough for it to write."""

    log: FragileLog

    def at_rest(self) -> bool:
        """Have on disk what was appended and nobody waits for; tell whether there was any."""
        return self.log.save()


class SeededChance:
    """Ids that count, and numbers from a seed."""

    def __init__(self, seed: int) -> None:
        """Begin with a seed."""
        self._count = itertools.count(1)
        self._random = Random(seed)  # noqa: S311 -- nothing is to be kept secret here

    def id(self, prefix: str) -> str:
        """Return the next id."""
        return f"{prefix}_{next(self._count):016x}"

    def between(self, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        return self._random.uniform(low, high)


class Stage:
    """A runtime that is driven by hand.

    >>> from actors.model.providers.scripted import Scripted
    >>> from runefold import AgentSpec
    >>> stage = Stage(providers={"demo": Scripted(["Hello!"])})
    >>> session = stage.runtime.create_session(AgentSpec(role="helper", model="demo"))
    >>> session.send("Hi").result(timeout=10).output
    'Hello!'
    """

    def __init__(self, *, seed: int | None = None, **options: Any) -> None:  # noqa: ANN401 -- those of Runtime
        """Open a runtime with these options; with a `seed`, who runs next is left to chance."""
        self.clock = ManualClock()
        self.log = FragileLog(self._now)
        self._seed = seed
        self._chance = SeededChance(seed or 0)
        self._options = options
        self.runtime = self._open()

    def _open(self) -> Runtime:
        choice = None if self._seed is None else Random(self._seed)  # noqa: S311 -- as above
        self.scheduler = StageScheduler(self.clock, choice, lambda: self.log.is_cut)
        self.scheduler.log = self.log
        return Runtime(
            self.log,
            clock=self.clock,
            chance=self._chance,
            scheduler=self.scheduler,
            **self._options,
        )

    def _now(self) -> int:
        # The log outlives the clock: each open begins a new one.
        return self.clock.now()

    def run(self) -> None:
        """Go on until nothing is left to do at this time."""
        self.scheduler.run()

    def run_until(self, done: Callable[[], bool]) -> bool:
        """Go on until `done`, moving the clock when nothing else is left; tell whether it is."""
        return self.scheduler.run_until(done)

    def advance(self, seconds: float) -> None:
        """Let time pass, and whatever happens in it happen."""
        end = self.clock.now() + round(seconds * 1e9)
        self.run()
        while (when := self.clock.next_alarm) is not None and when <= end:
            self._write()
            self.clock.move_to(when)
            self.run()
        self._write()
        self.clock.move_to(end)
        self.run()

    def _write(self) -> None:
        """Have on disk what was appended: it takes no longer than a moment."""
        if not self.log.is_cut:
            self.log.flush()

    def crash(self) -> None:
        """End it as a power cut would."""
        self.log.is_cut = True

    def change(self, **options: Any) -> None:  # noqa: ANN401 -- those of Runtime
        """Have the next open take other options: an app that was changed meanwhile."""
        self._options = {**self._options, **options}

    def reopen(self) -> Runtime:
        """Open the runtime again on what was committed."""
        self.log.mend()
        self.clock = ManualClock(self.clock.now())
        self.runtime = self._open()
        return self.runtime

"""A runtime on one thread: the clock stands until it is moved, chance comes from a seed.

The same actors, laws and supervisors as in production, with a log in memory; only the ports are
others. Nothing sleeps, and the same seed gives the same run. `Stage` is for tests of one runtime:
`crash` ends it as a power cut would, at once and everywhere, and `reopen` opens it again on what
was committed. `Ports` is what `Stage` and the crash kit have in common.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actors.catalogue import CODEC
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from runefold.open_hook import known_kinds
from runefold.runtime import Runtime
from runelog.memory import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.kind import Kind
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
        """Whether something was appended that was not flushed yet."""

    def learn(self, kinds: Iterable[Kind]) -> None:
        """Read the runes of an app's kinds too, as a log that `Runtime.open` opens does."""
        self.codec = known_kinds(kinds).codec.with_blobs(self.blobs)

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

    def flush(self, conversation: str | None = None) -> int:
        """Commit everything, while there is power."""
        self._check_power()
        head = super().flush(conversation)
        self._unsaved = False
        return head

    def save(self) -> bool:
        """Commit what is pending, as a log does by itself; return True if there was any."""
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
    """A manual scheduler beside a log: when nothing else is left to do, the log writes."""

    log: FragileLog

    def at_rest(self) -> bool:
        """Commit what is pending; return True if there was any."""
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


L = TypeVar("L", bound=FragileLog)
S = TypeVar("S", bound=StageScheduler)


class Ports(Generic[L, S]):
    """The ports of a runtime on one thread; log, time and chance outlive its crashes."""

    def __init__(self, log: type[L], scheduler: type[S], seed: int | None) -> None:
        """Begin with an empty log; with a `seed`, chance decides what runs next."""
        self.clock = ManualClock()
        # It outlives the clock: each open begins a new one.
        self.log = log(lambda: self.clock.now())  # noqa: PLW0108 -- see above
        self.scheduler: S
        self.runtime: Runtime | None = None
        self._scheduler_type = scheduler
        self._seed = seed
        self._chance = SeededChance(seed or 0)

    def ports(self) -> dict[str, Any]:
        """Return the ports of the next runtime, with a scheduler of its own."""
        choice = None if self._seed is None else Random(self._seed)  # noqa: S311 -- to be repeated
        self.scheduler = self._scheduler_type(self.clock, choice, lambda: self.log.is_cut)
        self.scheduler.log = self.log
        return {"clock": self.clock, "chance": self._chance, "scheduler": self.scheduler}

    def restart(self, pause: int = 0) -> None:
        """End a power cut; the next runtime begins `pause` nanoseconds later."""
        if self.runtime is not None:
            # Files are no part of the log in memory: no process has ended that would let them go.
            self.runtime.views.drop()
        self.log.mend()
        self.clock = ManualClock(self.clock.now() + pause)


class Stage(Ports[FragileLog, StageScheduler]):
    """A runtime that is driven step by step.

    >>> from actors.model.providers.scripted import Scripted
    >>> from runefold import AgentSpec
    >>> stage = Stage(providers={"demo": Scripted(["Hello!"])})
    >>> session = stage.runtime.create_session(AgentSpec(role="helper", model="demo"))
    >>> session.send("Hi").result(timeout=10).output
    'Hello!'
    """

    def __init__(self, *, seed: int | None = None, **options: Any) -> None:  # noqa: ANN401 -- those of Runtime
        """Open a runtime with these options; with a `seed`, chance decides what runs next."""
        super().__init__(FragileLog, StageScheduler, seed)
        self._options = options
        self.log.learn(options.get("kinds", ()))
        self.runtime: Runtime = Runtime(self.log, **self.ports(), **options)

    def run(self) -> None:
        """Take steps until nothing is left to do at this time, and what was decided is on disk."""
        self.scheduler.run()
        while self.scheduler.at_rest():
            self.scheduler.run()

    def run_until(self, done: Callable[[], bool]) -> bool:
        """Go on until `done`, moving the clock when nothing else is left; return `done()`."""
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
        """Commit what is pending: that takes no longer than a moment."""
        if not self.log.is_cut:
            self.log.flush()

    def crash(self) -> None:
        """End it as a power cut would."""
        self.log.is_cut = True

    def change(self, **options: Any) -> None:  # noqa: ANN401 -- those of Runtime
        """Give the next open other options, as an app does that was changed meanwhile."""
        self._options = {**self._options, **options}

    def reopen(self) -> Runtime:
        """Open the runtime again on what was committed."""
        self.restart()
        self.log.learn(self._options.get("kinds", ()))
        self.runtime = Runtime(self.log, **self.ports(), **self._options)
        return self.runtime

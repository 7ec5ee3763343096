"""Small actors and helpers for the tests of the supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from actors.process.process import Exit, Process
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from supervisors.child_spec import ChildSpec, Flags
from supervisors.supervisor import Supervisor

if TYPE_CHECKING:
    from actors.ports import Lane
    from actors.process.process import Ref


class Boom(Exception):
    """What a worker dies of when told to."""


class Worker(Process):
    """Dies as it is told to, and answers everything else with its own ref."""

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Die, or not."""
        if isinstance(message, Exit):
            self.finish(message)
        if message == "crash":
            raise Boom
        return self.ref


class Stubborn(Worker):
    """Does not end when it is asked to."""

    def stop(self, how: Exit | None = None) -> None:
        """Do nothing."""


class Fails(Worker):
    """Does not start."""

    def on_start(self) -> NoReturn:
        """Fail."""
        raise Boom


class Fixed:
    """Chance that always takes the same part of the way, and notes what it was asked."""

    def __init__(self, part: float) -> None:
        """Begin with nothing asked."""
        self.part = part
        self.asked: list[tuple[float, float]] = []

    def id(self, prefix: str) -> str:
        """Return no id: nobody asks for one."""
        raise NotImplementedError(prefix)

    def between(self, low: float, high: float) -> float:
        """Return the number at that part of the way."""
        self.asked.append((low, high))
        return low + (high - low) * self.part


class Manual:
    """A supervisor on one lane with its workers, driven by manual."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.lane: Lane = self.scheduler.lane("all")
        self.made: dict[str, list[Process]] = {}

    def spec(self, id_: str, *kinds: type[Process], **options: Any) -> ChildSpec:  # noqa: ANN401 -- see ChildSpec
        """Describe a worker: of which kind it is at each start; the last one repeats."""

        def start(key: str = id_, *_args: object) -> Process:
            them = self.made.setdefault(key, [])
            kind = kinds[min(len(them), len(kinds) - 1)] if kinds else Worker
            them.append(kind(key, self.lane))
            return them[-1]

        return ChildSpec(id_, start, **options)

    def supervisor(
        self,
        *children: ChildSpec,
        name: str = "top",
        flags: Flags | None = None,
        **options: Any,  # noqa: ANN401 -- see Supervisor
    ) -> Supervisor:
        """Make a supervisor that is not launched yet."""
        return Supervisor(name, self.lane, self.clock, children, flags, **options)

    def now(self, id_: str) -> Ref:
        """Return the one of this id that was made last."""
        return self.made[id_][-1].ref

    def tell(self, id_: str, message: object) -> None:
        """Tell a worker something, and run until all is quiet."""
        self.now(id_).tell(message)
        self.scheduler.run()

    def ask(self, ref: Ref, message: object) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask somebody, without moving the clock."""
        answer = ref.ask_later(message)
        self.scheduler.run()
        return answer.result()

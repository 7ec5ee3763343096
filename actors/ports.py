"""What actors need from outside, as protocols: time, ids, chance, and who runs when.

Real ones run the product; hand-driven ones run the same code on one thread, from a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

    from actors.kind import Kinds
    from actors.redaction.redactor import Redactor
    from actors.scheduling.group_commit import Member
    from runelog.log import Log

    Steps = Generator[int | None, None, Callable[[], None] | None]
    """Work that may block, step by step. One that yields a time pauses until then; what is returned
    at the end, if anything, is called as the last thing: to say what came of it, for instance."""


T = TypeVar("T")


class Timer(Protocol):
    """Something that will happen at its time."""

    def cancel(self) -> None:
        """Have it not happen; does nothing if it has."""
        ...


class Clock(Protocol):
    """Time, and what is to happen when."""

    def now(self) -> int:
        """Return nanoseconds since 1970, UTC."""
        ...

    def at(self, when: int, call: Callable[[], None]) -> Timer:
        """Call `call` once it is `when`; at once if that is past. It must be quick."""
        ...


class Chance(Protocol):
    """Ids and randomness."""

    def id(self, prefix: str) -> str:
        """Return a new id: the prefix, an underscore and 16 hex digits."""
        ...

    def between(self, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        ...


class Lane(Protocol):
    """Runs jobs one after the other, in the order they came; never two at once."""

    def run(self, job: Callable[[], None]) -> None:
        """Run a job after those that came before it."""
        ...


class Job(Protocol):
    """Work that is under way."""

    def wake(self) -> None:
        """End the pause that it takes now, if it takes one."""
        ...


class Awaited(Protocol):
    """Something that a caller outside of the actors waits for."""

    def is_there(self) -> bool:
        """Return True if it has come."""
        ...

    def wait(self, timeout: float | None) -> bool:
        """Wait until it has come; return True if it has."""
        ...


class Poller(Protocol):
    """Passes on what a log has to those who wait for it in event loops."""

    def poll(self, *, wait: bool) -> bool:
        """Pass on what there is, or what comes within a moment; return False if none waits."""
        ...

    def fail(self, failure: Exception) -> None:
        """Raise this in all that wait."""
        ...


class Scheduler(Protocol):
    """Decides who runs when."""

    @property
    def goes_on(self) -> bool:
        """Whether it goes on by itself; otherwise only while something waits with `wait`."""
        ...

    @property
    def backlog(self) -> int:
        """How many messages wait to be handled."""
        ...

    def lane(self, name: str) -> Lane:
        """Begin a lane."""
        ...

    def commit_soon(self, member: Member) -> None:
        """Have what `member` has appended committed, with all that others have by then.

        That is once no lane has anything left to do, or a little sooner; called on a lane.
        """
        ...

    def work(self, name: str, steps: Steps | Iterator[int | None], *, blocks: bool = True) -> Job:
        """Run something step by step, beside all lanes; between them if it never `blocks`."""
        ...

    def begin_async(self, name: str, run: Coroutine[Any, Any, None]) -> Job:
        """Run a coroutine on the one event loop of the runtime; to wake the job is to cancel it."""
        ...

    def check_may_block(self, instead: str) -> None:
        """Raise `Refused` on the thread of the event loop, and name what to write `instead`."""
        ...

    def check_may_wait(self) -> None:
        """Raise if the calling thread must not wait: it would wait for itself."""
        ...

    def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Wait at the edge for what an actor will answer; return True if it came in time."""
        ...

    def keep_polling(self, poller: Poller) -> None:
        """Poll until that returns False, beside all lanes; called within an event loop."""
        ...


class Edge(Protocol):
    """How a caller outside of the actors waits: with its thread, or as a task of an event loop.

    What is asked at the edge is written once, as coroutines. Where the caller waits with its
    thread, they never pause.
    """

    def check(self) -> None:
        """Raise if the caller must not wait here: it would wait for itself."""
        ...

    async def wait(self, awaited: Awaited, timeout: float | None) -> bool:
        """Wait for what an actor will answer; return True if it came in time."""
        ...

    async def read(self, call: Callable[[], T]) -> T:
        """Read from the log, which may take a while; return what `call` returns."""
        ...


class CommandRuntime(Protocol):
    """The runtime that has the log open, as far as public commands need it."""

    @property
    def log(self) -> Log:
        """The log."""
        ...

    @property
    def redactor(self) -> Redactor:
        """What keeps secrets out of the log."""
        ...

    @property
    def kinds(self) -> Kinds:
        """The machines that it runs."""
        ...

    def new_id(self, prefix: str) -> str:
        """Return a new id."""
        ...

    async def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ...,
        before: Callable[[], object] | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask the root of a conversation, awake or not, unless `before` has the answer."""
        ...

    async def wait_for(self, conversation: str, kind: str, timeout: float | None) -> None:
        """Wait until the log has a rune of this kind in a conversation."""
        ...

    async def archive(self, conversation: str) -> None:
        """Move a conversation that has ended to cold storage."""
        ...

"""Starting children, stopping them, and starting them again: what a supervisor does, as plans.

A *plan* is a generator that yields the children whose end it waits for. It never blocks its lane:
the children may run on the same one. `supervisor` carries plans out, one at a time. What need not
wait for any child is done at once, without a plan: that is the usual case of short-lived children.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from actors.operator_log import log
from actors.process.process import MAILBOX, SHUTDOWN, Down, Exit, Process, Reason, Ref
from actors.units import SECOND
from supervisors.child import Child
from supervisors.child_spec import Flags, Shutdown, check_child, check_children
from supervisors.errors import BadSpec, ChildNotStarted
from supervisors.intensity import Intensity
from supervisors.links import Links, Promise
from supervisors.messages import State
from supervisors.strategy import Strategy, Verdict, concerned, ends_too, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.ports import Chance, Clock, Lane, Timer
    from supervisors.child_spec import ChildSpec

T = TypeVar("T")
Plan: TypeAlias = Generator[set[Ref], None, T]
"""What is done in several steps; each yields those whose end it waits for."""


class TryAgain(NamedTuple):
    """A child could not be started again."""

    child: Child


class PauseOver(NamedTuple):
    """A child has waited long enough for its restart."""

    child: Child


class NotStarted(NamedTuple):
    """A child that could not be started."""

    error: Exception
    remnant: Ref | None
    """What lives on until the children that it did start have ended."""


class ChildManager(Process):
    """Starts, stops and restarts children."""

    def __init__(
        self,
        name: str,
        lane: Lane,
        clock: Clock,
        children: Iterable[ChildSpec] = (),
        flags: Flags | None = None,
        *,
        chance: Chance | None = None,
        on_restart: Callable[[str, Exit, int], None] | None = None,
        mailbox: int = MAILBOX,
    ) -> None:
        """Begin before its start; `BadSpec` if the children do not make sense.

        `on_restart` is told of each restart that is counted: which child, how it ended or what its
        start failed of, and how often that has been. `chance` is needed if a child's restarts have
        pauses.
        """
        super().__init__(name, lane, mailbox=mailbox)
        specs = tuple(children)
        self.flags = flags if flags is not None else Flags()
        self._chance = chance
        check_children(specs, self.flags)
        for spec in specs:
            self._check(spec)
        self._dynamic = self.flags.strategy == Strategy.SIMPLE_ONE_FOR_ONE
        self._specs = specs
        """The specs of the children it begins with; of a dynamic supervisor, the template."""
        self._children: dict[str, Child] = {}
        """By id, or by key, in the order of their start."""
        self._living: dict[Ref, Child] = {}
        self._clock = clock
        self._on_restart = on_restart
        self._intensity = Intensity(self.flags.intensity, round(self.flags.period * SECOND))
        self._plan: Plan[None] | None = None
        """The plan that is being carried out."""
        self._awaited: set[Ref] = set()
        """The children whose end the plan waits for."""
        self._later: deque[tuple[object, Promise | None]] = deque()
        """Messages that wait until the plan is done."""
        self._starting = True
        self.failed: ChildNotStarted | None = None
        """Why its start failed. It lives on until the children that did start have ended."""
        self._links = Links()
        self.watch(self._links.end)

    def _check(self, spec: ChildSpec) -> None:
        check_child(spec, self.flags)
        if spec.backoff is not None and self._chance is None:
            why = "leaves its pauses to chance: give the supervisor one"
            raise BadSpec.of_child(spec.id, "backoff", "invalid_backoff", why)

    def _start_all(self) -> Plan[None]:
        """Start the children it begins with; if one fails, stop the others and end."""
        if not self._dynamic:
            self._children = {spec.id: Child(spec.id, spec) for spec in self._specs}
        for child in [*self._children.values()]:
            error = yield from self._start(child)
            if error is not None:
                yield from self._leave_all(Exit(Reason.SHUTDOWN, self.failed))

    def _leave_all(self, how: Exit) -> Plan[None]:
        """Stop all children, last started first, and end. Dynamic ones owe each other nothing."""
        children = [*reversed(self._children.values())]
        if self._dynamic:
            yield from self._stop_them(children)
        else:
            for child in children:
                yield from self._stop_them([child])
        self.finish(how)

    # -- children that end --------------------------------------------------------------------

    def _ended(self, down: Down) -> Plan[None] | None:
        """Do what follows from the end of a child, or return what is to be done in steps."""
        child = self._living.get(down.ref)
        if child is None:
            return None  # it was stopped, or never got started
        child.last = down.exit
        if verdict(child.spec.restart, down.exit.reason) is Verdict.RESTART:
            return self._restart(child)
        self._part(child)
        if child.spec.significant and self._ends_with_it():
            log.info("auto_shutdown", supervisor=self.name, child=child.id)
            return self._leave_all(SHUTDOWN)
        return None

    def _ends_with_it(self) -> bool:
        others = any(other.spec.significant and other.counts for other in self._children.values())
        return ends_too(self.flags.auto_shutdown, others=others)

    def _restart(self, child: Child) -> Plan[None]:
        """Start a child again, and those that go with it, unless it has been too often."""
        assert child.last is not None
        now = self._clock.now()
        self._intensity = self._intensity.counting(now)
        if self._intensity.exceeded:
            log.error(
                "too_many_restarts", supervisor=self.name, child=child.id, exit=str(child.last)
            )
            self._part(child)
            # As in OTP it ends in order; the error is for those that watch it.
            yield from self._leave_all(Exit(Reason.SHUTDOWN, child.last.error))
            return
        self._count(child, now)
        members = [
            self._children[id_]
            for id_ in concerned(self.flags.strategy, [*self._children], child.id)
        ]
        if child.ref is not None:
            self._living.pop(child.ref, None)
        child.state = State.RESTARTING
        for member in reversed(members):
            if member is not child:
                yield from self._stop_them([member])
        if child.spec.backoff is None or self._chance is None:
            yield from self._start_group(child)
            return
        longest = child.spec.backoff.pause(child.in_a_row)
        shortest = longest * (1 - child.spec.backoff.jitter)
        until = self._clock.now() + round(self._chance.between(shortest, longest) * SECOND)
        child.pause = self._clock.at(until, lambda: self.ref.notify(PauseOver(child)))

    def _count(self, child: Child, now: int) -> None:
        calm = child.spec.backoff.calm if child.spec.backoff is not None else 0
        if child.state is State.RUNNING and now - child.since >= calm * SECOND:
            child.in_a_row = 0
        child.in_a_row += 1
        child.restarts += 1
        assert child.last is not None
        log.warning(
            "child_restarts",
            supervisor=self.name,
            child=child.id,
            exit=str(child.last),
            restarts=child.restarts,
        )
        if self._on_restart is not None:
            try:
                self._on_restart(child.id, child.last, child.restarts)
            except Exception:  # noqa: BLE001 -- an error in the callback does not stop a restart
                log.exception("restart_not_noted", supervisor=self.name, child=child.id)

    def _start_group(self, failed: Child) -> Plan[None]:
        """Start those again that go with a child, in order; what fails is tried again."""
        for id_ in concerned(self.flags.strategy, [*self._children], failed.id):
            member = self._children[id_]
            if member.state is State.RUNNING:
                continue  # it was added while the others waited
            error = yield from self._start(member)
            if error is not None:
                member.state = State.RESTARTING
                member.last = Exit(Reason.CRASH, error)
                # After the messages that wait: one may ask to stop this child, or this supervisor.
                self.ref.notify(TryAgain(member))
                return

    # -- starting and stopping ----------------------------------------------------------------

    def _start(self, child: Child) -> Plan[Exception | None]:
        """Start a child; return what it failed of, once nothing of it is left."""
        failed = self._begin(child)
        if failed is None:
            return None
        if failed.remnant is not None:
            yield {failed.remnant}
        return failed.error

    def _begin(self, child: Child) -> NotStarted | None:
        """Start a child here and now; return what it failed of."""
        if child.pause is not None:
            child.end_pause()
        process: Process | None = None
        try:
            process = child.spec.start(*child.args)
            if process is None:
                self._part(child)
                return None
            self._attach(process)
            process.launch()
        except Exception as error:  # noqa: BLE001 -- whatever a start fails of is the same to us
            log.warning("start_failed", supervisor=self.name, child=child.id, error=str(error))
            if self._starting:
                self.failed = ChildNotStarted(child.id, error)
            lives_on = isinstance(process, ChildManager) and process.failed and process.exit is None
            return NotStarted(error, process.ref if process is not None and lives_on else None)
        child.state, child.ref, child.since = State.RUNNING, process.ref, self._clock.now()
        child.asks = isinstance(process, ChildManager)
        self._living[process.ref] = child
        return None

    def _attach(self, process: Process) -> None:
        """Watch a child, and link its end to the supervisor's."""
        self._links.add_child(process.ref)
        process.watch(self._told)

    def _told(self, down: Down) -> None:
        self._links.remove_child(down.ref)
        self.ref.notify(down)

    def _stop_them(self, children: Sequence[Child]) -> Plan[None]:
        """Stop children and wait for their end, each no longer than it may take."""
        awaited: set[Ref] = set()
        timers: list[Timer] = []
        for child in children:
            if child.state is State.RUNNING and child.ref is not None and child.ref.is_alive():
                child.state = State.STOPPING
                awaited.add(child.ref)
                patience = child.spec.patience
                if patience == Shutdown.BRUTAL_KILL:
                    child.ref.kill()
                    continue
                child.ref.stop(SHUTDOWN)
                if not isinstance(patience, str):
                    until = self._clock.now() + round(patience * SECOND)
                    timers.append(self._clock.at(until, child.ref.kill))
        if awaited:
            yield awaited
        for timer in timers:
            timer.cancel()
        for child in children:
            self._part(child)

    def _part(self, child: Child) -> None:
        """Record that a child does not run; forget it if it is dynamic or temporary."""
        if child.pause is not None:
            child.end_pause()
        child.state = State.STOPPED
        if child.ref is not None:
            self._living.pop(child.ref, None)
            child.ref = None
        if not child.is_kept and self._children.get(child.id) is child:
            del self._children[child.id]

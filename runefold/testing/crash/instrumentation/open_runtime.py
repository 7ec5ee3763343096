"""Opens an app's runtime so that all of it is watched; the app's own code knows nothing of it."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from actors.process.process import ASK_TIMEOUT
from actors.scheduling.clock import SystemClock
from actors.scheduling.loop import Loop
from actors.session import lifecycle as ask
from actors.session.messages import Await, Ended, Send
from actors.shell.shell import Shell
from runefold import open_hook
from runefold.core import LocalCore
from runefold.testing.crash.instrumentation.clock import SkewedClock
from runefold.testing.crash.instrumentation.journal import Told
from runefold.testing.crash.instrumentation.logs import DiskLog
from runefold.testing.crash.instrumentation.tools_and_models import Ledger
from runefold.testing.crash.plan.faults import ActorKilled, Faults
from runefold.testing.crash.plan.points import (
    ACTOR_AFTER,
    ACTOR_BEFORE,
    ACTOR_EFFECT,
    AFTER,
    FAULTS,
)
from runefold.testing.stage import StageScheduler
from runefold.turns import outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from actors.ports import Clock, Job, Lane, Steps
    from actors.process.process import Answer
    from actors.scheduling.manual_scheduler import ManualJob
    from runefold.runtime import Runtime
    from runefold.testing.crash.instrumentation.journal import Journal
    from runefold.testing.crash.instrumentation.watch import Watch
    from runelog.log import Log


class NotingCore(LocalCore):
    """The inside of a runtime that notes what the app is told."""

    watch_of_kit: ClassVar[Watch]

    async def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask a session, and note the answer before the app has it."""
        answer = await super().ask(conversation, message, timeout, before, promised)
        watch, name = self.watch_of_kit, conversation
        match message, answer:
            case ask.Create(), _:
                watch.journal.note(Told(watch.life, name, "created"))
            case Send(message_id=message_id), _:
                watch.journal.note(Told(watch.life, name, "accepted", message_id))
            case Await(message_id=message_id), Ended(turn_id, rune):
                status = outcome(turn_id, rune).status
                watch.journal.note(Told(watch.life, name, status, message_id))
            case _:
                pass
        return answer


def noting(kind: type[Runtime], watch: Watch) -> type[Runtime]:
    """Return the same kind of runtime; what it tells its app is noted."""
    core = type(NotingCore.__name__, (NotingCore,), {"watch_of_kit": watch})
    return type(kind.__name__, (kind,), {"_core_type": core})


class InstrumentedLane:
    """A lane under which actors may die of a message."""

    def __init__(self, inner: Lane, watch: Watch) -> None:
        """Run everything on the lane within."""
        self._inner = inner
        self._watch = watch

    def run(self, job: Callable[[], None]) -> None:
        """Run a job; if it is an actor's, see what it receives."""
        actor = getattr(job, "__self__", None)
        if isinstance(actor, Shell) and "on_receive" not in vars(actor):
            vars(actor)["on_receive"] = _Receiving(actor, self._watch)
        self._inner.run(job)


class _Receiving:
    """Stands between an actor and its messages."""

    def __init__(self, actor: Shell, watch: Watch) -> None:
        self._receive = actor.on_receive
        self._name = actor.name
        self._kind = actor.kind.name
        self._watch = watch

    def __call__(self, message: object) -> object:
        """Have the actor handle a message, unless it is to die before."""
        death = self._watch.receives(self._name, self._kind, message)
        if death == ACTOR_BEFORE:
            msg = f"{self._name} is killed before it handles {type(message).__name__}"
            raise ActorKilled(msg)
        answer = self._receive(message)
        if death == ACTOR_AFTER:
            msg = f"{self._name} is killed after it has handled {type(message).__name__}"
            raise ActorKilled(msg)
        return answer


class InstrumentedLoop(Loop):
    """A scheduler under which one actor may die."""

    def __init__(self, clock: Clock, watch: Watch) -> None:
        """Begin without any thread."""
        super().__init__(clock)
        self._watch = watch

    def lane(self, name: str) -> InstrumentedLane:  # type: ignore[override]  # a lane is all that is asked for
        """Begin a lane."""
        return InstrumentedLane(super().lane(name), self._watch)

    def work(self, name: str, steps: Steps | Iterator[int | None], *, blocks: bool = True) -> Job:
        """Run something, unless the actor that asks for it is to die first."""
        _die(self._watch, name)
        return super().work(name, steps, blocks=blocks)

    def begin_async(self, name: str, run: Coroutine[Any, Any, None]) -> Job:
        """Run a coroutine, unless whoever asks for it is to die first."""
        _die(self._watch, name, run)
        return super().begin_async(name, run)


class InstrumentedManual(StageScheduler):
    """The same, by hand."""

    watch: Watch

    def lane(self, name: str) -> InstrumentedLane:  # type: ignore[override]  # as above
        """Begin a lane."""
        return InstrumentedLane(super().lane(name), self.watch)

    def work(
        self, name: str, steps: Steps | Iterator[int | None], *, blocks: bool = True
    ) -> ManualJob:
        """Run something, unless the actor that asks for it is to die first."""
        _die(self.watch, name)
        return super().work(name, steps, blocks=blocks)

    def begin_async(self, name: str, run: Coroutine[Any, Any, None]) -> Job:
        """Run a coroutine, unless whoever asks for it is to die first."""
        _die(self.watch, name, run)
        return super().begin_async(name, run)


def _die(watch: Watch, name: str, run: Coroutine[Any, Any, None] | None = None) -> None:
    """Raise in an actor that is to die before the effect it is about to begin."""
    conversation, _, entity = name.partition("/")
    if watch.fault_of(conversation, entity, [ACTOR_EFFECT]):
        if run is not None:
            run.close()
        msg = f"{name} is killed before its effect begins"
        raise ActorKilled(msg)


class Kill:
    """What is done to a process when the moment has come: SIGKILL, or a fault."""

    def __init__(self, faults: Faults, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill with SIGKILL; SIGSTOP halts it, so that what it would leave can be looked at."""
        self._faults = faults
        self._signal = number

    def __call__(self, kind: str, log: Log) -> None:
        """Kill the process, or make the fault happen."""
        if kind in FAULTS:
            self._faults.of_log(kind, log)
            return
        if kind == AFTER:
            log.flush()
        if self._signal is signal.SIGKILL:
            os.kill(os.getpid(), self._signal)
            return
        assert isinstance(log, DiskLog)
        with log.still():
            # To this thread, and with it to all: so this one stands still exactly here.
            signal.pthread_kill(threading.get_ident(), self._signal)


class DiskRig:
    """Opens runtimes on disk, with everything watched."""

    def __init__(
        self, watch: Watch, ledger: Journal, faults: Faults, clock: SkewedClock | None
    ) -> None:
        """Watch with `watch`; note executions in `ledger`."""
        self._watch = watch
        self._ledger = Ledger(ledger, watch, faults)
        self._clock = clock
        self.runtime: Runtime | None = None

    def __call__(self, kind: type[Runtime], directory: Path, options: dict[str, Any]) -> Runtime:
        """Open a runtime as the app asked for it."""
        kinds = open_hook.known_kinds(options.get("kinds", ()))
        log = DiskLog.open(directory, kinds.codec)
        assert isinstance(log, DiskLog)
        log.watch = self._watch
        try:
            self._watch.opened(log, kinds)
            self.runtime = noting(kind, self._watch)(log, **self._dressed(options))
        except BaseException:
            log.close()
            raise
        return self.runtime

    def _dressed(self, options: dict[str, Any]) -> dict[str, Any]:
        found = dressed(options, self._ledger)
        own = options.get("clock")
        if isinstance(own, SkewedClock):
            self._ledger.faults.time = own
        elif self._clock is not None:
            found["clock"] = self._clock
        if "scheduler" not in found:
            clock = found.setdefault("clock", SystemClock())
            found["scheduler"] = InstrumentedLoop(clock, self._watch)
        return found


def dressed(options: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Return an app's options with its tools and models watched."""
    return {
        **options,
        "tools": ledger.tools(options.get("tools") or ()),
        "providers": ledger.models(options.get("providers") or {}),
    }

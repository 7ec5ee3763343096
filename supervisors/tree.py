"""The one tree we run: what is alive, and who keeps it so.

    runtime ── sessions ─┬─ conv_1     a conversation: see `supervisors.conversation_supervisor`
                         └─ conv_2

A conversation is woken when somebody has something for it, or when its deadline comes; it goes to
sleep when nothing has happened in it for a while. Asleep it costs nothing but its place in the log,
and a thread for each agent in it that has asked another one which waits for a human.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actors.clock import SECOND
from actors.conversation import ConversationContext, Services
from actors.errors import Crashed, Dead, Unanswered
from actors.operator_log import log as operator
from actors.process import ASK_TIMEOUT
from actors.write_buffer import Overtaken
from runelog.errors import Closed, LogFull, Refused, UnknownConversation, WrongVersion
from supervisors.child_spec import ChildSpec, Flags, Kind, Shutdown
from supervisors.conversation_supervisor import ConversationSupervisor, Gone
from supervisors.errors import NotDone, Why
from supervisors.messages import StartDynamic
from supervisors.passivation import IDLE_AFTER, Passivator
from supervisors.registry import Registry
from supervisors.strategy import Restart, Strategy
from supervisors.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.kind import Kinds
    from actors.process import Answer, Down, Process, Ref
    from runelog.log import Log


class Tree:
    """Everything that is alive in one runtime."""

    def __init__(
        self,
        log: Log,
        services: Services,
        kinds: Kinds,
        on_failure: Callable[[str, BaseException | None], None],
        idle_after: float = IDLE_AFTER,
    ) -> None:
        """Begin with nobody alive; `on_failure` is told of a conversation that cannot be kept so.

        A conversation in which nothing happened for `idle_after` seconds goes to sleep.
        """
        self.log = log
        self.services = services
        self.kinds = kinds
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self.woke = threading.Condition(self._lock)
        """Told whenever a conversation wakes, and when all is over."""
        self._running: dict[str, ConversationSupervisor] = {}
        self._first_messages: dict[str, object] = {}
        """What a session is to read before it does anything, by conversation."""
        self._closed = False
        self._passivator = Passivator(log, services, kinds, idle_after, self._wake_soon)
        self.registry = Registry()
        scheduler, clock = services.scheduler, services.clock
        self._sessions = Supervisor(
            "sessions",
            scheduler.lane("sessions"),
            clock,
            [
                ChildSpec(
                    "session",
                    self._make_supervisor,
                    restart=Restart.TEMPORARY,
                    type=Kind.SUPERVISOR,
                )
            ],
            Flags(strategy=Strategy.SIMPLE_ONE_FOR_ONE),
        )
        self.top = Supervisor(
            "runtime",
            scheduler.lane("runtime"),
            clock,
            [
                ChildSpec(
                    "sessions",
                    lambda: self._sessions,
                    restart=Restart.TEMPORARY,
                    type=Kind.SUPERVISOR,
                    shutdown=Shutdown.INFINITY,
                )
            ],
        )
        self._over = Gone(self.top)
        self.top.launch()

    def _make_supervisor(self, conversation: str) -> Process:
        lane = self.services.scheduler.lane(conversation)
        ctx = ConversationContext(conversation, self.log, lane, self.services, self.kinds)
        running = ConversationSupervisor(ctx)
        supervisor = running.supervise()
        with self._lock:
            self._running[conversation] = running
            self.woke.notify_all()
            first_message = self._first_messages.pop(conversation, None)
        if first_message is not None:
            ctx.awaited.add(running.root)
            ctx.tell(running.root, first_message)
        supervisor.watch(lambda down: self._down(conversation, running, down))
        self._passivator.woken(running)
        return supervisor

    def _wake_soon(self, conversation: str) -> None:
        """Have a conversation wake, without waiting for it."""
        if not self._closed and self.running(conversation) is None:
            self._sessions.ref.notify(StartDynamic(conversation))

    def _wake_later(self, conversation: str) -> None:
        clock = self.services.clock
        clock.at(clock.now() + RETRY, lambda: self._wake_soon(conversation))

    def _down(self, conversation: str, running: ConversationSupervisor, down: Down) -> None:
        with self._lock:
            if self._running.get(conversation) is running:
                del self._running[conversation]
        buffer = running.ctx.buffer
        try:
            # What was decided last. Nobody is left who could decide more, or hear that it is lost.
            (buffer.flush if self._closed else buffer.sync)()
        except Exception as error:  # noqa: BLE001 -- as if it had been killed a moment before
            operator.warning("not_kept", conversation=conversation, reason=str(error))
        running.ended(down)
        if self._closed:
            return
        self.log.rest(conversation)
        broken = running.ctx.broken
        if running.stopping:
            self._passivator.asleep(conversation)
            missed = running.wrote_after_stop if broken is None else isinstance(broken, LogFull)
            if missed and self._has_work(conversation):
                # A deadline came as it fell asleep, or there was no room for what it had decided:
                # whoever has to hear of that was gone.
                self._wake_later(conversation)
            return
        reason = str(down.exit if broken is None else broken)
        operator.error("session_fell", conversation=conversation, reason=reason)
        if isinstance(broken, LogFull | WrongVersion | Overtaken):
            # Nothing is wrong with it. It goes on as soon as there is room; or somebody else wrote
            # to it, and it begins anew from what is there. Not at once: its supervisor has yet to
            # hear of its end. Whoever asks for it meanwhile waits for that, and wakes it.
            self._wake_later(conversation)
        elif broken is None or isinstance(broken, Refused):
            self._on_failure(conversation, broken or down.exit.error)

    def _has_work(self, conversation: str) -> bool:
        """Tell whether the log says that something is left to do in a conversation."""
        try:
            return any(True for _ in self.log.open_work(conversation))
        except UnknownConversation:
            return False

    # -- reaching a conversation ----------------------------------------------------------------

    def awake(self) -> list[str]:
        """Name the conversations that are awake."""
        with self._lock:
            return sorted(self._running)

    def running(self, conversation: str) -> ConversationSupervisor | None:
        """Return the conversation of a conversation that is awake."""
        with self._lock:
            return self._running.get(conversation)

    def is_awake_or_closed(self, conversation: str) -> bool:
        """Tell, to whoever holds `woke`, whether a conversation is awake, or all is over."""
        running = self._running.get(conversation)
        return self._closed or (running is not None and not running.stopping)

    def wake(self, conversation: str, first_message: object = None) -> ConversationSupervisor:
        """Return the conversation of a conversation; start it if it sleeps. For the edge: it may wait.

        A session that is started reads the `first_message` before it does anything.
        """
        if self._closed:
            msg = "this runtime has been closed: open it again"
            raise Closed(msg)
        running = self.running(conversation)
        if running is not None and running.stopping:
            self.services.scheduler.wait(running.gone, ASK_TIMEOUT)
        elif running is not None and running.supervisor.is_alive():
            return running
        if first_message is not None:
            with self._lock:
                self._first_messages[conversation] = first_message
        for _ in range(_TRIES):
            self.registry.ensure(conversation, lambda: self._start(conversation))
            found = self.running(conversation)
            if found is not None:
                return found
            # Gone to sleep again already: on a busy machine it may take us long to get here.
        msg = f"{conversation} ended as soon as it was started, {_TRIES} times in a row"
        raise Dead(msg)

    def _start(self, conversation: str) -> Ref:
        for _ in range(_LOOKS):
            try:
                ref: Ref = self._sessions.ref.ask(
                    StartDynamic(conversation), self.services.scheduler
                )
            except NotDone as refusal:
                if refusal.why is Why.START_FAILED:
                    raise
                running = self.running(conversation)
                if running is None or running.gone.is_there():
                    # It is gone, and its supervisor has yet to hear of that.
                    self.services.scheduler.wait(self._over, _PAUSE)
                elif running.stopping:
                    self.services.scheduler.wait(running.gone, ASK_TIMEOUT)
                else:
                    # Its alarm rang meanwhile.
                    return running.supervisor
                continue
            return ref
        msg = f"{conversation} can neither be started nor found"
        raise Dead(msg)

    def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
        *,
        wake: bool = True,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask the session of a conversation, awake or not. For the edge: it waits.

        If the session ends before it answers, it is asked again, unless `before` has the answer.
        However often it sleeps meanwhile, `timeout` is for all of it. If it has `promised` to
        answer, it is not asked as long as it lives. Unless it is to `wake` it, one that has gone
        to sleep meanwhile is asked again when somebody else has woken it.
        """
        clock, scheduler = self.services.clock, self.services.scheduler
        until = None if timeout is None else clock.now() + round(timeout * SECOND)
        crashes, left = 0, timeout
        while True:
            asked: tuple[ConversationSupervisor, Ref] | None = None
            if promised is None:
                running = self.wake(conversation)
                asked = running, running.session
                promised = running.session.ask_later(message)
            if not scheduler.wait(promised, left):
                msg = (
                    f"{conversation} gave no answer to {type(message).__name__} within {timeout} s;"
                    " it may still be handled"
                )
                raise Unanswered(msg)
            try:
                return promised.result()
            except (Dead, Crashed) as error:
                # Gone to sleep, as it may; or crashed and about to be started again.
                promised = None
                if asked is not None:
                    running, session = asked
                    crashes += not running.stopping
                    if crashes == _TRIES:
                        if isinstance(full := running.ctx.broken, LogFull):
                            msg = f"{conversation} was asked {_TRIES} times in vain: {full}"
                            raise LogFull(msg) from error
                        raise
                    running.replaced(session, scheduler)
            if before is not None and (found := before()) is not None:
                return found
            if until is not None:
                left = max(until - clock.now(), 0) / SECOND
            if not wake and asked is not None and asked[0].stopping:
                scheduler.wait(_Awake(self, conversation), left)
                left = None if until is None else max(until - clock.now(), 0) / SECOND

    # -- the end --------------------------------------------------------------------------------

    def put_to_sleep(self, conversation: str) -> None:
        """Have the actors of a conversation stop, and wait until they have."""
        running = self.running(conversation)
        if running is not None:
            running.stop()
            self.services.scheduler.wait(running.gone, ASK_TIMEOUT)

    def close(self, timeout: float | None = ASK_TIMEOUT) -> None:
        """Have everybody stop."""
        self._closed = True
        with self._lock:
            self.woke.notify_all()
            all_running = [*self._running.values()]
        for running in all_running:
            running.stopping = True
        self.top.ref.stop()
        self.services.scheduler.wait(self._over, timeout)


class _Awake:
    """That a conversation which sleeps is awake again, to wait for; or that all is over."""

    def __init__(self, tree: Tree, conversation: str) -> None:
        self._tree = tree
        self._conversation = conversation

    def is_there(self) -> bool:
        """Tell whether it is."""
        with self._tree.woke:
            return self._tree.is_awake_or_closed(self._conversation)

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is; tell whether it is."""
        with self._tree.woke:
            return self._tree.woke.wait_for(
                lambda: self._tree.is_awake_or_closed(self._conversation), timeout
            )


_TRIES = 10
_PAUSE = 0.02
_LOOKS = round(ASK_TIMEOUT / _PAUSE)
RETRY = 5 * SECOND
"""How long to wait before a conversation is woken that found no room, or was overtaken."""

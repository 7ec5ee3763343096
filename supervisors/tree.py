"""The supervision tree of a runtime, with all conversations that are awake.

    runtime ── sessions ─┬─ conv_1     see `supervisors.conversation_supervisor`
                         └─ conv_2

A conversation is woken when a message is sent to it, or when its deadline comes; it is passivated
after a while without activity. Passivated, it costs nothing but its place in the log, and a thread
for each agent in it that has asked another agent which waits for a human.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actors.errors import Crashed, Dead, Overloaded, Unanswered
from actors.operator_log import log as operator
from actors.process.process import ASK_TIMEOUT, MAILBOX, Answer
from actors.scheduling.edge import BlockingEdge, run
from actors.shell.conversation import ConversationContext, Services
from actors.shell.write_buffer import Overtaken
from actors.units import SECOND
from runelog.errors import Closed, LogFull, Refused, UnknownConversation, WrongVersion
from supervisors.child_spec import ChildSpec, ChildType, Flags, Shutdown
from supervisors.conversation_supervisor import ConversationSupervisor, end_of
from supervisors.errors import NotDone, Why
from supervisors.messages import StartDynamic
from supervisors.passivation import IDLE_AFTER, Passivator
from supervisors.strategy import Restart, Strategy
from supervisors.supervisor import Supervisor
from supervisors.waking import Waking

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.kind import Kinds
    from actors.ports import Edge
    from actors.process.process import Down, Process, Ref
    from actors.shell.mail import Reply
    from runelog.log import Log


class Tree:
    """All live actors of one runtime."""

    def __init__(
        self,
        log: Log,
        services: Services,
        kinds: Kinds,
        on_failure: Callable[[str, BaseException | None], None],
        idle_after: float = IDLE_AFTER,
    ) -> None:
        """Begin without conversations; `on_failure` is called for one whose actors keep crashing.

        A conversation without activity for `idle_after` seconds is passivated.
        """
        self.log = log
        self.services = services
        self.kinds = kinds
        self._on_failure = on_failure
        self._edge = BlockingEdge(services.scheduler)
        self._lock = threading.Lock()
        self.woke = threading.Condition(self._lock)
        """Notified whenever a conversation wakes, and when the tree is closed."""
        self._running: dict[str, ConversationSupervisor] = {}
        self._first_messages: dict[str, list[tuple[object, Reply | None]]] = {}
        """The first messages for the root of a conversation that is about to be woken."""
        self._closed = False
        services.mail.carried_by(self.post)
        self._passivator = Passivator(log, services, kinds, idle_after, self._wake_soon)
        self._waking = Waking(log, services, kinds)
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
                    type=ChildType.SUPERVISOR,
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
                    type=ChildType.SUPERVISOR,
                    shutdown=Shutdown.INFINITY,
                )
            ],
        )
        self._over = end_of(self.top)
        self.top.launch()

    def _make_supervisor(self, conversation: str) -> Process:
        lane = self.services.scheduler.lane(conversation)
        ctx = ConversationContext(conversation, self.log, lane, self.services, self.kinds)
        ctx.read_ahead = self._waking.take(conversation)
        running = ConversationSupervisor(ctx)
        supervisor = running.supervise()
        with self._lock:
            self._running[conversation] = running
            self.woke.notify_all()
            first_messages = self._first_messages.pop(conversation, ())
        for message, reply_to in first_messages:
            ctx.awaited.add(running.root)
            ctx.tell(running.root, message, reply_to)
        supervisor.watch(lambda down: self._down(conversation, running, down))
        self._passivator.woken(running)
        return supervisor

    def _wake_soon(self, conversation: str) -> None:
        """Wake a conversation, without waiting until it is awake."""
        if not self._closed and self.running(conversation) is None:
            start = StartDynamic(conversation)
            self._waking.when_read(conversation, lambda: self._sessions.ref.notify(start))

    def _wake_later(self, conversation: str) -> None:
        clock = self.services.clock
        clock.at(clock.now() + RETRY, lambda: self._wake_soon(conversation))

    def _down(self, conversation: str, running: ConversationSupervisor, down: Down) -> None:
        with self._lock:
            if self._running.get(conversation) is running:
                del self._running[conversation]
        buffer = running.ctx.buffer
        try:
            # The last decisions: no actor is left that could decide more, or react to a failure.
            (buffer.flush if self._closed else buffer.sync)()
        except Exception as error:  # noqa: BLE001 -- the same as if it had been killed just before
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
                # A deadline came while it stopped, or the disk was full: the actors that should
                # have reacted were gone.
                self._wake_later(conversation)
            return
        reason = str(down.exit if broken is None else broken)
        operator.error("session_fell", conversation=conversation, reason=reason)
        if isinstance(broken, LogFull | WrongVersion | Overtaken):
            # Nothing is wrong with it: the disk was full, or another writer appended to it and it
            # restarts from the log. Not at once: its supervisor has yet to hear of its end. A
            # caller that asks for it meanwhile waits for that, and wakes it.
            self._wake_later(conversation)
        elif broken is None or isinstance(broken, Refused):
            self._on_failure(conversation, broken or down.exit.error)

    def _has_work(self, conversation: str) -> bool:
        """Return True if the log's index says that a conversation has work left."""
        try:
            return any(True for _ in self.log.open_work(conversation))
        except UnknownConversation:
            return False

    # -- reaching a conversation ----------------------------------------------------------------

    def awake(self) -> list[str]:
        """Return the ids of the conversations that are awake."""
        with self._lock:
            return sorted(self._running)

    def running(self, conversation: str) -> ConversationSupervisor | None:
        """Return the supervisor of a conversation that is awake; None for any other."""
        with self._lock:
            return self._running.get(conversation)

    def post(self, conversation: str, message: object, reply: Reply) -> None:
        """Send a message to the root of a conversation, awake or not. It does not block.

        What is not taken is answered with an error, so that the sender repeats it.
        """
        with self._lock:
            running = self._running.get(conversation)
            if running is None and not self._closed:
                self._first_messages.setdefault(conversation, []).append((message, reply))
        if self._closed or (running is not None and running.stopping):
            reply.fail(Dead(f"{conversation} is being stopped"))
        elif running is None:
            self._wake_soon(conversation)
        else:
            running.ctx.lane.run(lambda: _deliver(running, message, reply))

    def is_awake_or_closed(self, conversation: str) -> bool:
        """Return True if a conversation is awake, or the tree is closed. Call it holding `woke`."""
        running = self._running.get(conversation)
        return self._closed or (running is not None and not running.stopping)

    def wake(self, conversation: str, first_message: object = None) -> ConversationSupervisor:
        """Return a conversation's supervisor; start it if needed. Not for actors: it may block.

        If the session's actor is started, it handles `first_message` before anything else.
        """
        return run(self._woken(self._edge, conversation, first_message))

    async def _woken(
        self, edge: Edge, conversation: str, first_message: object = None
    ) -> ConversationSupervisor:
        if self._closed:
            msg = "this runtime has been closed: open it again"
            raise Closed(msg)
        running = self.running(conversation)
        if running is not None and running.stopping:
            await edge.wait(running.gone, ASK_TIMEOUT)
        elif running is not None and running.supervisor.is_alive():
            return running
        if first_message is not None:
            with self._lock:
                self._first_messages.setdefault(conversation, []).append((first_message, None))
        for _ in range(_TRIES):
            await self._start(edge, conversation)
            found = self.running(conversation)
            if found is not None:
                return found
            # Passivated again already: on a busy machine this thread may be that late.
        msg = f"{conversation} ended as soon as it was started, {_TRIES} times in a row"
        raise Dead(msg)

    async def _start(self, edge: Edge, conversation: str) -> Ref:
        read = Answer()
        await edge.read(lambda: self._waking.when_read(conversation, read.set))
        await edge.wait(read, ASK_TIMEOUT)
        for _ in range(_LOOKS):
            started = self._sessions.ref.ask_later(StartDynamic(conversation))
            if not await edge.wait(started, ASK_TIMEOUT):
                msg = f"{conversation} was not started within {ASK_TIMEOUT} s; it may still be"
                raise Unanswered(msg)
            try:
                ref: Ref = started.result()
            except NotDone as refusal:
                if refusal.why is Why.START_FAILED:
                    raise
                running = self.running(conversation)
                if running is None or running.gone.is_there():
                    # It has ended, and its supervisor has yet to hear of that.
                    await edge.wait(self._over, _PAUSE)
                elif running.stopping:
                    await edge.wait(running.gone, ASK_TIMEOUT)
                else:
                    # It was woken by its deadline meanwhile.
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
        """Ask as `asked` does, and wait with this thread. Not for actors: it blocks."""
        return run(
            self.asked(self._edge, conversation, message, timeout, before, promised, wake=wake)
        )

    async def asked(
        self,
        edge: Edge,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
        *,
        wake: bool = True,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask the session of a conversation, awake or not, and wait at this edge for the answer.

        If the session ends before it answers, it is asked again, unless `before` has the answer.
        However often it sleeps meanwhile, `timeout` is for all of it. If it has `promised` to
        answer, it is not asked as long as it lives. Unless it is to `wake` it, one that has gone
        to sleep meanwhile is asked again when another caller has woken it.
        """
        clock, scheduler = self.services.clock, self.services.scheduler
        edge.check()
        if promised is None and scheduler.backlog > MAILBOX:
            msg = (
                f"{scheduler.backlog:,} messages wait to be handled here: send "
                f"{type(message).__name__} later; nothing was delivered"
            )
            raise Overloaded(msg)
        until = None if timeout is None else clock.now() + round(timeout * SECOND)
        crashes, left = 0, timeout
        while True:
            asked: tuple[ConversationSupervisor, Ref] | None = None
            if promised is None:
                running = await self._woken(edge, conversation)
                asked = running, running.session
                promised = running.session.ask_later(message)
            if not await edge.wait(promised, left):
                msg = (
                    f"{conversation} gave no answer to {type(message).__name__} within {timeout} s;"
                    " it may still be handled"
                )
                raise Unanswered(msg)
            try:
                return promised.result()
            except (Dead, Crashed) as error:
                # It was passivated, or it crashed and is about to be restarted.
                promised = None
                if asked is not None:
                    running, session = asked
                    crashes += not running.stopping
                    if crashes == _TRIES:
                        if isinstance(full := running.ctx.broken, LogFull):
                            msg = f"{conversation} was asked {_TRIES} times in vain: {full}"
                            raise LogFull(msg) from error
                        raise
                    await running.replaced(session, edge)
            if before is not None and (found := await edge.read(before)) is not None:
                return found
            if until is not None:
                left = max(until - clock.now(), 0) / SECOND
            if not wake and asked is not None and asked[0].stopping:
                await edge.wait(_Awake(self, conversation), left)
                left = None if until is None else max(until - clock.now(), 0) / SECOND

    # -- the end --------------------------------------------------------------------------------

    def put_to_sleep(self, conversation: str) -> None:
        """Stop the actors of a conversation, and wait with this thread until they have ended."""
        run(self.sleep(self._edge, conversation))

    async def sleep(self, edge: Edge, conversation: str) -> None:
        """Stop the actors of a conversation, and wait at this edge until they have ended."""
        running = self.running(conversation)
        if running is not None:
            running.stop()
            await edge.wait(running.gone, ASK_TIMEOUT)

    def close(self, timeout: float | None = ASK_TIMEOUT) -> None:
        """Stop all actors."""
        self._closed = True
        with self._lock:
            self.woke.notify_all()
            all_running = [*self._running.values()]
        for running in all_running:
            running.stopping = True
        self.top.ref.stop()
        self.services.scheduler.wait(self._over, timeout)


def _deliver(running: ConversationSupervisor, message: object, reply: Reply) -> None:
    """Tell the root of a conversation, on its lane."""
    if not running.ctx.tell(running.root, message, reply):
        reply.fail(Dead(f"{running.ctx.conversation} is being stopped"))


class _Awake:
    """Waits until a conversation is awake again, or the tree is closed."""

    def __init__(self, tree: Tree, conversation: str) -> None:
        self._tree = tree
        self._conversation = conversation

    def is_there(self) -> bool:
        """Return True if it is awake, or the tree is closed."""
        with self._tree.woke:
            return self._tree.is_awake_or_closed(self._conversation)

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is; return False if the time is over before."""
        with self._tree.woke:
            return self._tree.woke.wait_for(
                lambda: self._tree.is_awake_or_closed(self._conversation), timeout
            )


_TRIES = 10
_PAUSE = 0.02
_LOOKS = round(ASK_TIMEOUT / _PAUSE)
RETRY = 5 * SECOND
"""How long to wait before a conversation is woken that found no room, or was overtaken."""

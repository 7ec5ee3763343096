"""A pykka actor with OTP manners. Only this module imports pykka.

What pykka lacks is added here, once: a start that fails where it was asked for, a crash that stays
where it happened, mailboxes with an end, a stop that goes before queued work, an answer or an error
to every question, and monitors. Actors have no thread of their own: each message is a job of the
lane they run on. Pykka's references, futures and registry of all actors are left out.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pykka

from actors.errors import Crashed, Overloaded, StartFailed
from actors.operator_log import log
from actors.process.answer import Answer
from actors.process.exits import KILLED, NORMAL, SHUTDOWN, Down, Exit, Exiting, Reason
from actors.process.ref import ASK_TIMEOUT, Ref, dead_letter, tell_watcher
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Lane

__all__ = [
    "ASK_TIMEOUT",
    "KILLED",
    "MAILBOX",
    "NORMAL",
    "SHUTDOWN",
    "Answer",
    "Down",
    "Exit",
    "Exiting",
    "Process",
    "Reason",
    "Ref",
]

MAILBOX: Final = 10_000
"""How many messages may wait before the sender is told `Overloaded`."""


class Process(pykka.Actor):
    """An actor on a lane. Subclasses handle messages in `on_receive`."""

    # What every actor has is not in its dictionary: Python looks up quickly only what is in a small
    # one, and those of most actors would not be.
    __slots__ = (
        "_guard",
        "_handled",
        "_in_hand",
        "_is_asked",
        "_launched",
        "_limit",
        "_mail",
        "_started",
        "_stopping",
        "_watchers",
        "exit",
        "lane",
        "name",
        "ref",
    )

    def __init__(self, name: str, lane: Lane, *, mailbox: int = MAILBOX) -> None:
        """Begin before its start; `launch` starts it."""
        # Not pykka's own: for each actor it draws a uuid and makes an event, an inbox and a
        # reference, which is most of what a short-lived one costs.
        self.name = name
        self.lane = lane
        self.exit: Exit | None = None
        self.ref = Ref(self)
        self._limit = mailbox
        self._guard = threading.Lock()
        self._stopping: Exit | None = None
        self._mail: deque[tuple[Any, Answer | None]] = deque()
        self._handled: type | None = None
        """What kind of message it handled last."""
        self._in_hand: tuple[Any, Answer | None] | None = None
        """The message that is being handled."""
        self._is_asked = False
        """Whether a caller waits for the answer to the present message."""
        self._watchers: list[Callable[[Down], None]] = []
        self._launched = False
        self._started = False

    # What pykka would start an actor with: `launch` does that, on the actor's lane.

    @staticmethod
    def _create_actor_inbox() -> NoReturn:
        raise NotImplementedError

    @staticmethod
    def _create_future() -> NoReturn:
        raise NotImplementedError

    def _start_actor_loop(self) -> NoReturn:
        raise NotImplementedError

    def __str__(self) -> str:
        """Go by its name."""
        return self.name

    @property
    def has_started(self) -> bool:
        """Whether its start is behind it, however that went on."""
        return self._started

    @property
    def handled(self) -> str:
        """What kind of message it handled last, for operators."""
        return "" if self._handled is None else self._handled.__name__

    @property
    def waiting(self) -> int:
        """How many messages wait in the mailbox."""
        return len(self._mail)

    # -- beginning and ending -----------------------------------------------------------------

    def launch(self) -> Ref:
        """Start here, on its lane or before that is used; a start that fails raises here."""
        with self._guard:
            assert not self._launched, f"{self.name} was launched before"
            self._launched = True
        cause: BaseException | None = None
        try:
            if self.exit is None:
                self.on_start()
        except BaseException as error:  # noqa: BLE001 -- nothing escapes one actor into another
            cause = error
            if isinstance(error, Exiting):
                self._leave(error.exit)
            else:
                self._crash(error)
        with self._guard:
            how = self.exit
            # In this order: a message that comes in between has a job too many, and none too few.
            self._started = True
            jobs = len(self._mail) if self._stopping is None else 1
        if how is not None:
            msg = f"{self.name} could not start: {how}"
            raise StartFailed(msg) from cause
        for _ in range(jobs):
            self.lane.run(self._step)
        return self.ref

    def finish(self, how: Exit = NORMAL) -> NoReturn:
        """End, from within."""
        raise Exiting(how)

    def stop(self, how: Exit = SHUTDOWN) -> None:
        """Ask it to end before it handles anything else; the first to ask says how."""
        with self._guard:
            if self.exit is not None or self._stopping is not None:
                return
            self._stopping = how
            started = self._started
        if started:
            self.lane.run(self._step)

    def kill(self) -> None:
        """End it without asking: what it is doing now is not waited for, and no hook is called."""
        self._end(KILLED)

    def watch(self, told: Callable[[Down], None]) -> None:
        """Call `told` once it has ended; at once if it has."""
        with self._guard:
            how = self.exit
            if how is None:
                self._watchers.append(told)
        if how is not None:
            tell_watcher(told, Down(self.name, self.ref, how))

    def _end(self, how: Exit) -> None:
        with self._guard:
            if self.exit is not None:
                return
            # In this order: one who puts a message and finds an exit returns it, and all others.
            self.exit = how
            in_hand = self._in_hand if how.reason is Reason.KILLED else None
            watchers, self._watchers = self._watchers, []
        if how.reason is Reason.CRASH:
            log.error("actor_crashed", actor=self.name, exc_info=how.error)
        if in_hand is not None:
            self._fail(*in_hand, how)
        self._return_mail()
        down = Down(self.name, self.ref, how)
        for told in watchers:
            tell_watcher(told, down)
        self.ref.let_go(how)

    # -- messages -----------------------------------------------------------------------------

    def deliver(
        self, message: object, reply_to: Answer | None = None, *, limited: bool = True
    ) -> None:
        """Put a message into the mailbox."""
        # Without a lock: the order in which `launch` and `_end` look and change is what counts.
        mail = self._mail
        if limited and len(mail) >= self._limit and self.exit is None:
            msg = f"{self.name} has {self._limit:,} messages waiting: send less, or later"
            raise Overloaded(msg)
        mail.append((message, reply_to))
        if self.exit is not None:
            self._return_mail()
        elif self._started:
            self.lane.run(self._step)

    def _return_mail(self) -> None:
        """Say of each message that waits that the actor has ended; each only once."""
        with suppress(IndexError):
            while True:
                dead_letter(self.name, *self._mail.popleft())

    def _step(self) -> None:
        """Handle one message, or stop if that was asked. Each message has at least one such job."""
        if self.exit is not None:
            return
        if self._stopping is not None:
            self._leave(self._stopping)
            return
        try:
            in_hand = self._in_hand = self._mail.popleft()
        except IndexError:
            return
        message, reply_to = in_hand
        self._handled = type(message)
        self._is_asked = is_asked = reply_to is not None
        try:
            answer = self.on_receive(message)
            if is_asked or answer is not None:
                self._reply(reply_to, answer)
        except Exiting as leaving:
            self._leave(leaving.exit)
            if self.exit is not None and self.exit.reason is Reason.CRASH:
                self._fail(message, reply_to, self.exit)
            else:
                self._reply(reply_to, None)
        except BaseException as error:  # noqa: BLE001 -- nothing escapes one actor into another
            self._crash(error)
            self._fail(message, reply_to, Exit(Reason.CRASH, error))
        self._in_hand = None
        self._is_asked = False

    def _reply(self, reply_to: Answer | None, answer: object) -> None:
        """Give the caller the answer; a refusal is raised at the caller's side.

        Without a caller there is an answer only if it says more than that it was done.
        """
        if reply_to is not None:
            if isinstance(answer, Refused):
                reply_to.fail(answer)
            else:
                reply_to.set(answer)

    def _fail(self, message: object, reply_to: Answer | None, how: Exit) -> None:
        """Tell the caller that the actor ended while it handled the message."""
        if reply_to is not None:
            crashed = Crashed(f"{self.name} ended at {type(message).__name__}: {how}")
            crashed.__cause__ = how.error
            reply_to.fail(crashed)

    def _leave(self, how: Exit) -> None:
        if self.exit is not None:
            return
        try:
            self.on_stop()
        except Exiting as leaving:
            how = leaving.exit
        except BaseException as error:  # noqa: BLE001 -- as above
            how = Exit(Reason.CRASH, error)
        self._end(how)

    def _crash(self, error: BaseException) -> None:
        if self.exit is not None:
            log.warning("failed_after_its_end", actor=self.name, exc_info=error)
            return
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except BaseException as worse:  # noqa: BLE001 -- as above
            log.exception("crash_handler_failed", actor=self.name, exc_info=worse)
        self._end(Exit(Reason.CRASH, error))
